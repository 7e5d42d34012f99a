"""All commands in one application."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from rembrandt import __version__
from rembrandt.cli import (
    annif,
    compiling,
    data,
    demo,
    embed,
    evaluate,
    explore,
    fit,
    info,
    labels,
    predict,
    serve,
    sharing,
    suggest,
    tune,
    update,
)
from rembrandt.cli.examples import epilog
from rembrandt.cli.failure import Verb, Verbs
from rembrandt.cli.options import grouped

# In the order of the help.
VERBS: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "fit": fit.fit,
    "tune": tune.tune,
    "update": update.update,
    "predict": predict.predict,
    "suggest": suggest.suggest,
    "evaluate": evaluate.evaluate,
    "embed": embed.embed,
    "explain": explore.explain,
    "labels": labels.labels,
    "confusions": explore.confusions,
    "neighbors": explore.neighbors,
    "spectrum": explore.spectrum,
    "info": info.info,
    "map": explore.map_labels,
    "report": explore.write_report,
    "serve": serve.serve,
    "push": sharing.push,
    "pull": sharing.pull,
    "compile": compiling.compile_now,
}
DATA_VERBS: dict[str, Callable[..., None]] = {
    "list": data.list_sets,
    "get": data.get,
    "convert": data.convert,
    "split": data.split,
}
_HELP: dict[str, Any] = {
    "no_args_is_help": True,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

app = typer.Typer(
    cls=Verbs,
    help=(
        "Extreme classification through label embeddings: "
        "thousands to millions of labels on one machine."
    ),
    add_completion=False,
    pretty_exceptions_enable=False,
    **_HELP,
)
data_app = typer.Typer(
    cls=Verbs, help="List and download data sets; split files; convert them to stores.", **_HELP
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rembrandt {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_version, help="Show the version and exit."
        ),
    ] = False,
) -> None: ...


# Of the verbs with many options, those that people need, which the help shows first.
FIRST = {
    "fit": (
        "output",
        "text",
        "labels",
        "label_separator",
        "label_names",
        "vectors",
        "preset",
        "budget",
        "device",
        "force",
    ),
    "tune": ("budget", "text", "labels", "label_separator", "preset", "output", "force"),
}

for group, prefix, verbs in ((app, "", VERBS), (data_app, "data ", DATA_VERBS)):
    for name, verb in verbs.items():
        register = group.command(name, cls=Verb, epilog=epilog(f"{prefix}{name}"))
        register(grouped(verb, FIRST.get(name, ())))
app.add_typer(data_app, name="data")
# Annif parses the rest of the line, including --help.
app.command(
    cls=Verb,
    add_help_option=False,
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    },
)(annif.annif)
