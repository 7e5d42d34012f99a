"""``rembrandt data``: the data sets that are known by name."""

from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.describing import command
from rembrandt.cli.screen import Screen

app = typer.Typer(help="List and get the data sets that are known by name.", no_args_is_help=True)


@app.command("list")
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


@app.command("get")
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
