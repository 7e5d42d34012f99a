"""``rembrandt demo``: from raw articles to a saved model, on real data."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import choice_lines, command, data_lines, saved_line, show_measures
from rembrandt.cli.output import check_model_target
from rembrandt.cli.reading import Reading, data_set_reading
from rembrandt.cli.saved import FIT_SECONDS, READING, SavedModel
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
    preset: Annotated[Preset, typer.Option(help="Trade training time for accuracy.")] = "balanced",
    generated: Annotated[
        int, typer.Option(min=100, help="Documents to generate if the articles cannot be downloaded.")
    ] = 8000,
    force: options.Force = False,
    console: Console,
) -> None:
    """Fit, evaluate and save a model that assigns MeSH headings to biomedical articles.

    The articles are downloaded with pip and cached. Without a network, generated documents are used.
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
    saved = SavedModel(output, classifier, reading)
    console.say(*choice_lines(classifier), "", f"On {test.n_examples:,} other examples:", "")
    show_measures(console, measured)
    _show_examples(console, saved, measured)
    facts = {READING: reading.to_json(), FIT_SECONDS: seconds, "metrics": measured.model}
    classifier.save(output, force=force, extra=facts)
    console.say("", saved_line(output, seconds), "", "Next:", *_next_steps(saved, measured))
    console.result(
        {
            "model": str(output),
            "data": name,
            "generated": why_generated is not None,
            "seconds": seconds,
            "settings": classifier.settings_,
            **measured.document(),
        }
    )


def _articles(n_generated: int, report: Report) -> tuple[Dataset, Dataset, Reading, str | None]:
    """Return PubMed articles for training and test, or generated documents and the reason for them."""
    from rembrandt.data import catalogue, generated, pubmed

    try:
        pubmed.get(report)
        train, test = (catalogue.load("pubmed-mesh", part, report=report) for part in ("train", "test"))
        return train, test, data_set_reading("pubmed-mesh"), None
    except (DataError, OSError) as error:
        return *generated.labelled_documents(n_generated), Reading(), str(error).rstrip(".")


def _show_examples(console: Console, saved: SavedModel, measured: Measured) -> None:
    """Print a few examples with their predicted labels."""
    data = measured.data
    console.say("", "Some of them with their predicted labels (* is correct):")
    texts = data.texts or []
    long = [row for row, text in enumerate(texts) if len(text) > _LONG] or range(len(texts))
    for row in long[:: max(1, len(long) // _SHOWN)][:_SHOWN]:
        text = texts[row]
        true = set(data.Y.indices[data.Y.indptr[row] : data.Y.indptr[row + 1]].tolist())
        found = [f"{'*' if i in true else ' '} {saved.shown(i)}" for i in measured.labels[row].tolist() if i >= 0]
        console.say("", f"  {text[:110]}{'...' if len(text) > 110 else ''}", *(f"    {line}" for line in found))


def _next_steps(saved: SavedModel, measured: Measured) -> list[str]:
    """Return commands to try."""
    column = measured.labels[0, 0]
    text = next((text for text in measured.data.texts or [] if len(text) > _LONG), "")
    words = shlex.quote(" ".join(text.split()[:12]))
    steps = [f"echo {words} | {command('predict', saved.path, '-')}"]
    steps.append(command("neighbors", saved.path, saved.title(column) or saved.names[column]))
    steps += [command("evaluate", saved.path, "pubmed-mesh")] if saved.reading.text else []
    return [f"  {step}" for step in [*steps, command("spectrum", saved.path)]]
