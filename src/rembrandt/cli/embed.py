"""``rembrandt embed``: label vectors in a file, of a saved model or straight from labelled examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.output import check_file_target
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.screen import Screen
from rembrandt.storage.atomic import atomic_file

if TYPE_CHECKING:
    from rembrandt.data import Dataset

SUFFIXES = (".npz", ".tsv")


@dataclass(frozen=True)
class Vectors:
    """A vector for each label, and the strength of each direction."""

    names: Sequence[str]
    vectors: Any
    singular_values: Any


def embed(
    source: Annotated[
        str, typer.Argument(metavar="MODEL|TRAIN", help="A model's folder, or labelled examples to embed.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="A .npz or .tsv file to write.")],
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    analyzer: options.AnalyzerOption = None,
    ngrams: options.NGrams = None,
    hashed: options.Hashed = False,
    n_components: options.Components = "50",
    method: options.MethodOption = options.Method.rembrandt,
    ridge: options.Ridge = 1.0,
    n_iter: options.PowerIterations = 1,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    scheduler: options.Scheduler = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the vectors of all labels to a file.

    The options that say how to read and embed are for labelled examples; a model's vectors are written as they are.
    A .npz file holds the arrays names, vectors and singular_values; a .tsv file a line for each label. For distances
    between labels scale the vectors by the square roots of the singular values.
    """
    if output.suffix not in SUFFIXES:
        raise typer.BadParameter(f"{output.name!r} ends neither in .npz nor in .tsv", param_hint="--output")
    settings: dict[str, Any] = {
        "n_components": options.whole_or_auto(n_components, "--n-components"),
        "method": method.value,
        "ridge": ridge,
        "n_iter": n_iter,
        "random_state": seed,
        "device": device,
    }
    vectorizer = options.text_settings(analyzer, ngrams, hashed)
    check_file_target(output, force)
    screen = Screen(json, quiet)
    from rembrandt.data.store import is_store

    if Path(source).is_dir() and not is_store(source):
        opened = open_model(Path(source))
        found = Vectors(opened.names, opened.classifier.embedding_, opened.classifier.singular_values_)
    else:
        settings["device"] = options.checked_device(device, scheduler, source)
        with screen.progress() as report:
            data, _ = read_training(source, Reading.given(format, text, labels, label_separator), report)
        found = _embedded(data, settings, vectorizer, not quiet)
    _write(output, found)
    n, k = found.vectors.shape
    screen.say(f"Wrote the vectors of {n:,} labels, {k:,} numbers each, to {output}.")
    screen.result({"output": str(output), "n_labels": n, "n_components": k, "singular_values": found.singular_values})


def _embedded(data: Dataset, settings: dict[str, Any], vectorizer: dict[str, Any], verbose: bool) -> Vectors:
    from rembrandt.estimators import LabelEmbedder
    from rembrandt.features.text import TextFeatures

    X = TextFeatures(**vectorizer).fit_transform(data.texts or []) if data.X is None else data.X
    embedder = LabelEmbedder(**settings, verbose=int(verbose)).fit(X, data.Y, data.weights)
    return Vectors(data.label_names, embedder.embedding_, embedder.singular_values_)


def _write(output: Path, found: Vectors) -> None:
    import numpy as np

    with atomic_file(output) as file:
        if output.suffix == ".npz":
            names = np.array(found.names, dtype=str)
            np.savez(file, names=names, vectors=found.vectors, singular_values=found.singular_values)
            return
        for name, vector in zip(found.names, found.vectors.tolist(), strict=True):
            file.write(("\t".join([name, *(f"{value:.7g}" for value in vector)]) + "\n").encode())
