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
from rembrandt.cli.settings import Preset
from rembrandt.errors import DataError
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.evaluation import Measured

_SHOWN = 4  # articles
_LONG = 300  # characters; shorter articles have no abstract


def demo(
    output: options.NewModel,
    *,
    preset: Annotated[Preset, option("Trade training time for accuracy.")] = "balanced",
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
    if why_generated:
        console.say(f"No real data: {why_generated}.", "Generated documents are used instead.", "")
    name = "generated documents" if why_generated else "PubMed-MeSH"
    console.say(*data_lines(train, f"{name}, training part"))
    with console.progress() as report:
        start = time.perf_counter()
        classifier = RembrandtClassifier(preset=preset, random_state=0).fit_dataset(train, report)
        seconds = time.perf_counter() - start
        measured = measure(classifier, test, report)
    console.say(*choice_lines(classifier), "", f"On {test.n_examples:,} other examples:", "")
    show_measures(console, measured)
    saved = SavedModel(output, classifier, reading)
    texts = _show_examples(console, saved, measured)
    facts = fit_facts(reading, seconds) | {"metrics": measured.model, "examples": texts}
    classifier.save(output, force=force, extra=facts)
    steps = [
        f"echo {shlex.quote(' '.join(texts[0].split()[:12]))} | {command('predict', output, '-')}"
    ]
    steps.append(command("neighbors", output, saved.labels.title(measured.labels[0, 0])))
    steps += [] if why_generated else [command("evaluate", output, "pubmed-mesh")]
    steps.append(command("spectrum", output))
    console.say("", saved_line(output, seconds), "", "Next:", *(f"  {step}" for step in steps))
    facts = {
        "model": str(output),
        "data": name,
        "generated": why_generated is not None,
        "seconds": seconds,
    }
    console.result(facts | {"settings": classifier.settings_} | measured.document())


def _articles(n_generated: int, report: Report) -> tuple[Dataset, Dataset, Reading, str | None]:
    """Return PubMed articles for training and test, or generated documents and the reason for
    them.
    """
    from rembrandt.data import catalogue, generated, pubmed

    try:
        pubmed.get(report)
        train, test = (
            catalogue.load("pubmed-mesh", part, report=report) for part in ("train", "test")
        )
        return train, test, data_set_reading("pubmed-mesh"), None
    except (DataError, OSError) as error:
        return *generated.labelled_documents(n_generated), Reading(), str(error).rstrip(".")


def _show_examples(console: Console, saved: SavedModel, measured: Measured) -> list[str]:
    """Print a few examples with their predicted labels; return their texts."""
    texts, Y = measured.data.texts or [], measured.data.Y
    long = [row for row, text in enumerate(texts) if len(text) > _LONG] or range(len(texts))
    shown = long[:: max(1, len(long) // _SHOWN)][:_SHOWN]
    console.say("", "Some of them with their predicted labels (* is correct):")
    for row in shown:
        true = set(Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist())
        found = [
            f"    {'*' if i in true else ' '} {saved.labels.shown(i)}"
            for i in measured.labels[row].tolist()
            if i >= 0
        ]
        console.say("", f"  {texts[row][:110]}{'...' if len(texts[row]) > 110 else ''}", *found)
    return [texts[row] for row in shown]
