"""``rembrandt embed``: label vectors in a file, of a saved model or of labelled examples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.output import atomic_file, check_file_target
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.saved import open_model
from rembrandt.cli.settings import TextSettings
from rembrandt.errors import counted, printable
from rembrandt.explore.cells import harmless_cell


def embed(
    source: Annotated[
        str, options.argument("MODEL|TRAIN", "Folder of a model, or labelled examples to embed.")
    ],
    output: options.NewFile,
    *,
    reading: Reading,
    texts: TextSettings,
    n_components: options.Components = 50,
    method: options.Method = "rembrandt",
    ridge: Annotated[
        float, options.option("Ridge penalty of the regression.", options.MODEL, min=0.0)
    ] = 1.0,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    n_iter: options.PowerIterations = 1,
    scheduler: options.Scheduler = None,
    verbatim_cells: options.VerbatimCells = False,
    force: options.Force = False,
    console: Console,
) -> None:
    """Write the vectors of all labels to a file.

    The options of data, model and text are for labelled examples; the vectors of a model are
    written unchanged. A .npz file has the arrays names, vectors and singular_values; a .tsv file
    has one line per label, and a ' before names that a spreadsheet would run. For distances between
    labels, multiply the vectors by the square roots of the singular values.
    """
    check_file_target(output, force, (".npz", ".tsv"))
    from rembrandt.data.store import is_store
    from rembrandt.estimators import LabelEmbedder

    if Path(source).is_dir() and not is_store(source):
        saved = open_model(Path(source))
        fitted: Any = saved.classifier
        names = [str(name) for name in saved.labels.names]
    else:
        device = options.checked_device(device, scheduler, source)
        with console.progress() as report:
            data, _ = read_training(source, reading, report)
            X = data.X
            if X is None:
                X = texts.features().fit_transform(data.texts or [])
        fitted = LabelEmbedder(
            n_components,
            method=method,
            ridge=ridge,
            n_iter=n_iter,
            random_state=seed,
            device=device,
            verbose=int(not console.quiet),
        )
        fitted.fit(X, data.Y, data.weights)
        names = data.label_ids
    vectors = fitted.embedding_
    values = fitted.singular_values_
    with atomic_file(output) as file:
        if output.suffix == ".npz":
            _write_npz(file, names, vectors, values)
        else:
            _write_tsv(file, names, vectors, verbatim_cells)
    n, k = vectors.shape
    console.say(f"Wrote {counted(n, 'label vector')} of {counted(k, 'dimension')} to {output}.")
    console.result(
        {"output": str(output), "n_labels": n, "n_components": k, "singular_values": values}
    )


def _write_npz(file: BinaryIO, names: Sequence[str], vectors: Any, values: Any) -> None:
    import numpy as np

    name_array = np.array(names, dtype=str)
    np.savez(file, names=name_array, vectors=vectors, singular_values=values)


def _write_tsv(file: BinaryIO, names: Sequence[str], vectors: Any, verbatim_cells: bool) -> None:
    """Write one line per label; control characters are always escaped, as lines have no quotes."""
    cell = harmless_cell
    if verbatim_cells:
        cell = printable
    for name, vector in zip(names, vectors, strict=True):
        numbers = [f"{value:.7g}" for value in vector]
        line = "\t".join([cell(name), *numbers])
        file.write(f"{line}\n".encode())
