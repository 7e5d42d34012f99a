"""All commands in one application."""

from importlib import import_module
from typing import Annotated, Any

import typer

from rembrandt import __version__
from rembrandt.cli import annif, data
from rembrandt.cli.failure import Verb, Verbs
from rembrandt.cli.options import grouped

# Each is a function in the module of the same name.
VERBS = (
    *("demo", "fit", "tune", "update", "predict", "evaluate", "embed", "explain"),
    *("confusions", "neighbors", "spectrum", "map", "report", "serve"),
)
_HELP: dict[str, Any] = {"no_args_is_help": True, "context_settings": {"help_option_names": ["-h", "--help"]}}

app = typer.Typer(
    cls=Verbs,
    help="Extreme classification through label embeddings: thousands to millions of labels on one machine.",
    add_completion=False,
    pretty_exceptions_enable=False,
    **_HELP,
)
data_app = typer.Typer(cls=Verbs, help="List and download data sets; convert files to stores.", **_HELP)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rembrandt {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ] = False,
) -> None: ...


for name in VERBS:
    app.command(cls=Verb)(grouped(getattr(import_module(f"rembrandt.cli.{name}"), name)))
for name, verb in (("list", data.list_sets), ("get", data.get), ("convert", data.convert)):
    data_app.command(name, cls=Verb)(grouped(verb))
app.add_typer(data_app, name="data")
# Annif parses the rest of the line, including --help.
app.command(
    cls=Verb,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)(annif.annif)
