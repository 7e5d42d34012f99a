"""``rembrandt embed``: label vectors in a file, of a saved model or of labelled examples."""

from pathlib import Path
from typing import Annotated, Any

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.output import atomic_file, check_file_target
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.saved import open_model
from rembrandt.cli.settings import TextSettings


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
    force: options.Force = False,
    console: Console,
) -> None:
    """Write the vectors of all labels to a file.

    The options of data, model and text are for labelled examples; the vectors of a model are
    written unchanged. A .npz file has the arrays names, vectors and singular_values; a .tsv file
    has one line per label. For distances between labels, multiply the vectors by the square roots
    of the singular values.
    """
    check_file_target(output, force, (".npz", ".tsv"))
    import numpy as np

    from rembrandt.data.store import is_store
    from rembrandt.estimators import LabelEmbedder

    if Path(source).is_dir() and not is_store(source):
        saved = open_model(Path(source))
        names, embedded = list(map(str, saved.labels.names)), saved.classifier
    else:
        device = options.checked_device(device, scheduler, source)
        with console.progress() as report:
            data, _ = read_training(source, reading, report)
            X = (
                texts.features(reading.encoder).fit_transform(data.texts or [])
                if data.X is None
                else data.X
            )
        given: dict[str, Any] = {
            "method": method,
            "ridge": ridge,
            "n_iter": n_iter,
            "random_state": seed,
        }
        embedder = LabelEmbedder(
            n_components, **given, device=device, verbose=int(not console.quiet)
        )
        names, embedded = data.label_names, embedder.fit(X, data.Y, data.weights)
    vectors, values = embedded.embedding_, embedded.singular_values_
    with atomic_file(output) as file:
        if output.suffix == ".npz":
            np.savez(
                file, names=np.array(names, dtype=str), vectors=vectors, singular_values=values
            )
        else:
            lines = (
                "\t".join([name, *(f"{x:.7g}" for x in row)])
                for name, row in zip(names, vectors, strict=True)
            )
            file.writelines(f"{line}\n".encode() for line in lines)
    n, k = vectors.shape
    console.say(f"Wrote {n:,} label vectors of {k:,} dimensions to {output}.")
    console.result(
        {"output": str(output), "n_labels": n, "n_components": k, "singular_values": values}
    )
