"""The verbs, put together."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rembrandt import __version__
from rembrandt.cli import (
    annif,
    confusions,
    data,
    demo,
    embed,
    evaluate,
    explain,
    fit,
    map,
    neighbors,
    predict,
    report,
    reproduce,
    serve,
    siblings,
    spectrum,
    tune,
    update,
)
from rembrandt.cli.failure import explained


class Verbs(TyperGroup):
    """Verbs whose failures are said in one sentence."""

    def invoke(self, ctx: Any) -> Any:
        with explained():
            return super().invoke(ctx)


app = typer.Typer(
    cls=Verbs,
    help="Extreme classification through label embeddings: thousands to millions of labels on one machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rembrandt {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and leave.")
    ] = False,
) -> None: ...


for verb in (
    demo.demo,
    fit.fit,
    tune.tune,
    update.update,
    predict.predict,
    evaluate.evaluate,
    embed.embed,
    explain.explain,
    confusions.confusions,
    neighbors.neighbors,
    siblings.siblings,
    spectrum.spectrum,
    map.map,
    report.report,
    serve.serve,
    reproduce.reproduce,
):
    app.command()(verb)
app.add_typer(data.app, name="data")
# What follows is Annif's to read, its --help too.
app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)(annif.annif)
