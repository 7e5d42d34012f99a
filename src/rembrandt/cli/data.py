"""``rembrandt data``: the data sets that are known by name, and files turned into stores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.describing import command
from rembrandt.cli.failure import Verb, Verbs
from rembrandt.cli.output import folder_size
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen, in_bytes
from rembrandt.errors import DataError

if TYPE_CHECKING:
    from rembrandt.features.text import TextFeatures

app = typer.Typer(
    cls=Verbs, help="List and get the data sets that are known by name; convert files to stores.", no_args_is_help=True
)


@app.command("list", cls=Verb)
def list_sets(json: options.Json = False) -> None:
    """List the data sets and say which are here."""
    from rembrandt.data import catalogue

    screen = Screen(json)
    listings = catalogue.available()
    rows = ([one.name, "here" if one.present else "-", one.what, one.source] for one in listings)
    screen.table(["name", "", "what", "from"], rows, left=4)
    if not all(one.present for one in listings):
        screen.say("", f"Name the folder that holds the others in {catalogue.VARIABLE}.")
    screen.result([vars(one) for one in listings])


@app.command("get", cls=Verb)
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As the list has it.")],
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fetch a data set where that can be done, and print its folder."""
    from rembrandt.data import catalogue

    screen = Screen(json, quiet)
    with screen.progress() as report:
        folder = catalogue.get(name, report)
    screen.say(f"{name} is in {folder}.", f"Fit it: {command('fit', name, '--output', f'{name}-model')}")
    screen.result({"name": name, "folder": str(folder)})


@app.command("convert", cls=Verb)
def convert(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of examples, in any readable format.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="STORE", help="The folder to write the store to.")],
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    analyzer: options.AnalyzerOption = None,
    ngrams: options.NGrams = None,
    hashed: options.Hashed = False,
    like: Annotated[
        Path | None,
        typer.Option(metavar="STORE|MODEL", help="Make features of texts as this store or model does, for test data."),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, help="Examples in a shard; one or two are in memory at a time.")
    ] = 200_000,
    append: Annotated[bool, typer.Option("--append", help="Add the files to the store that is there.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Turn files into a store, for data larger than memory.

    Every verb takes a store where it takes a file. Texts are read twice, once for their words, unless hashed. A
    conversion that was stopped goes on when its command is given again.
    """
    from rembrandt.data.convert import convert as converted

    screen = Screen(json, quiet)
    reading = Reading.given(format, text, labels, label_separator)
    with screen.progress() as report:
        store = converted(
            files,
            output,
            rows=rows,
            text_features=_text_features(options.text_settings(analyzer, ngrams, hashed), like),
            append=append,
            report=report,
            format=reading.format or "auto",
            text=reading.text,
            labels=reading.labels,
            label_separator=reading.label_separator,
        )
    size = folder_size(output)
    screen.say(
        f"{output} holds {store.n:,} examples of {store.d:,} features and {store.c:,} labels in "
        f"{len(store.shards):,} shards ({in_bytes(size)}).",
        *store.manifest.notes.sentences(),
        f"Fit it: {command('fit', output, '--output', 'MODEL')}",
    )
    screen.result(
        {
            "store": str(output),
            "bytes": size,
            "n_examples": store.n,
            "n_features": store.d,
            "n_labels": store.c,
            "n_shards": len(store.shards),
            "task": store.manifest.task,
            "notes": store.manifest.notes.sentences(),
        }
    )


def _text_features(settings: dict[str, Any], like: Path | None) -> "TextFeatures | None":
    """As the options say, or those of a store or model, which have learned their words."""
    from rembrandt.data.store import Store, is_store
    from rembrandt.features.text import TextFeatures

    if like is None:
        return TextFeatures(**settings) if settings else None
    if settings:
        raise typer.BadParameter("goes without --analyzer, --ngrams and --hashed", param_hint="--like")
    if is_store(like):
        found = Store(like).text
    else:
        from rembrandt.estimators import load

        found = load(like).text_
    if found is None:
        raise DataError("it was made of features, so there is nothing to learn from it; leave --like out", like)
    return found
