"""``rembrandt data``: the data sets that are known by name, and files split or converted to
stores.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import command
from rembrandt.cli.options import flag, option
from rembrandt.cli.output import check_free, decimal, folder_size
from rembrandt.cli.reading import Reading
from rembrandt.cli.settings import TextSettings
from rembrandt.errors import DataError, SettingsError, counted

if TYPE_CHECKING:
    from rembrandt.features.text import TextFeatures


def list_sets(console: Console) -> None:
    """List the data sets that are known by name and whether their files are present."""
    from rembrandt.data import catalogue

    listings = catalogue.available()
    rows = []
    for listing in listings:
        presence = "present" if listing.present else "-"
        rows.append([listing.name, presence, listing.what, listing.source])
    console.table(["name", "", "contents", "source"], rows, left=range(4))
    if not all(listing.present for listing in listings):
        console.say("", f"Set {catalogue.VARIABLE} to the folder that contains the others.")
    console.result([vars(listing) for listing in listings])


def get(
    name: Annotated[str, options.argument("NAME", "Name of a data set.")], console: Console
) -> None:
    """Download a data set, if that is possible, and print its folder."""
    from rembrandt.data import catalogue

    with console.progress() as report:
        folder = catalogue.get(name, report)
    console.say(
        f"{name} is in {folder}.",
        f"Fit a model: {command('fit', name, '--output', f'{name}-model')}",
    )
    console.result({"name": name, "folder": str(folder)})


def convert(
    files: Annotated[list[str], options.argument("FILE...", "Files of examples in any format.")],
    output: Annotated[Path, options.output_option("STORE", "Folder to write the store to.")],
    *,
    reading: Reading,
    texts: TextSettings,
    append: Annotated[bool, flag("--append", "Add the files to an existing store.")] = False,
    like: Annotated[
        Path | None,
        option(
            "Use the text features of this store or model.", options.TEXT, metavar="STORE|MODEL"
        ),
    ] = None,
    rows: Annotated[int, option("Examples per shard.", options.ADVANCED, min=1)] = 200_000,
    console: Console,
) -> None:
    """Convert files to a store, for data larger than memory.

    Every command takes a store in place of a file. Texts are read twice, unless features are
    hashed. The same command resumes an interrupted conversion.
    """
    from rembrandt.data.convert import convert as converted

    if reading.vectors is not None:
        raise typer.BadParameter("a store has no vectors; fit to the file", param_hint="--vectors")
    features = _text_features(texts, like)
    with console.progress() as report:
        store = converted(
            files,
            output,
            rows=rows,
            text_features=features,
            append=append,
            report=report,
            **reading.arguments(),
        )
    size = folder_size(output)
    notes = store.manifest.notes.sentences()
    n_shards = len(store.shards)
    counts = (
        f"{counted(store.n, 'example')} of {counted(store.d, 'feature')} "
        f"and {counted(store.c, 'label')} in {counted(n_shards, 'shard')}"
    )
    console.say(f"{output} contains {counts} ({decimal(size)}).", *notes)
    console.say(f"Fit a model: {command('fit', output, '--output', 'MODEL')}")
    document = {
        "store": str(output),
        "bytes": size,
        "task": store.manifest.task,
        "notes": notes,
        "n_examples": store.n,
        "n_features": store.d,
        "n_labels": store.c,
        "n_shards": n_shards,
    }
    console.result(document)


def split(
    file: Annotated[str, options.argument("FILE", "Labelled examples: a table, or fastText.")],
    output: Annotated[Path, options.output_option("FOLDER", "Folder for the two parts.")],
    *,
    reading: Reading,
    fraction: Annotated[
        float, option("Approximate share of the examples in the test part.", metavar="R")
    ] = 0.2,
    groups: Annotated[
        str | None,
        option("Rows with the same value of this column stay together.", metavar="COLUMN"),
    ] = None,
    time: Annotated[
        str | None,
        option("Column of dates or numbers: the latest rows are the test part.", metavar="COLUMN"),
    ] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    console: Console,
) -> None:
    """Split a file into a training and a test part, with all columns of its rows.

    Every label has about the same share of its examples in both parts. With --groups, rows that
    belong together stay together; with --time, the test part is what comes later. Parts of JSON are
    JSON lines, those of Excel are CSV.
    """
    from rembrandt.data.detect import ReadOptions
    from rembrandt.data.splitting import part_paths, split_file

    if groups is not None and time is not None:
        raise SettingsError(
            "--groups and --time both say how to split; give one of them", ("groups", "time")
        )
    if reading.vectors is not None:
        raise typer.BadParameter("a part has no vectors", param_hint="--vectors")
    read_options = ReadOptions(**reading.arguments())
    for target in part_paths(Path(file), output, read_options):
        check_free(target, force)
    with console.progress() as report:
        parts = split_file(Path(file), output, read_options, fraction, groups, time, seed, report)
    for path, n_rows in parts.values():
        console.say(f"Wrote {counted(n_rows, 'example')} to {path}.")
    train_path, _ = parts["train"]
    fit = command("fit", train_path, *_reading_words(reading), "--output", "MODEL")
    console.say(f"Fit a model: {fit}")
    document = {
        name: {"file": str(path), "n_examples": n_rows} for name, (path, n_rows) in parts.items()
    }
    console.result({"source": file, **document})


def _text_features(texts: TextSettings, like: Path | None) -> "TextFeatures | None":
    """Return text features with the given settings, or those of a store or model."""
    from rembrandt.data.store import Store, is_store
    from rembrandt.estimators import load

    if like is None:
        if not texts.parameters():
            return None
        return texts.features()
    if texts.parameters():
        raise typer.BadParameter(
            "cannot be combined with options of text features", param_hint="--like"
        )
    features = Store(like).text if is_store(like) else load(like).text_
    if features is None:
        raise DataError("it has no text features; leave out --like", like)
    return features


def _reading_words(reading: Reading) -> list[str]:
    """Return the options that say how to read the parts of a file as the file was read."""
    words = []
    if reading.text is not None:
        words += ["--text", ",".join(reading.text)]
    for name in ("delimiter", "encoding", "labels", "label_separator"):
        value = getattr(reading, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", value]
    if reading.verbatim_labels:
        words.append("--verbatim-labels")
    return words
