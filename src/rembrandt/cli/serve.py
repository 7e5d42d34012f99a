"""``rembrandt serve``: models over HTTP, with a page to look at them."""

from pathlib import Path
from typing import Annotated

import typer

from rembrandt.cli.screen import Screen
from rembrandt.errors import RembrandtError


def serve(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A model's folder; it is called by the folder's name.")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME=MODEL", help="A further model under a name of its own; repeat it."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 is all of this machine's.")
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the token that callers must send; else REMBRANDT_TOKEN."),
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Listen beyond this machine without a token.")] = False,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = 8 << 20,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts in a request.")] = 256,
    max_characters: Annotated[int, typer.Option(min=1, help="Characters in a text.")] = 200_000,
    max_batch: Annotated[int, typer.Option(min=1, help="Texts in one product; 1 answers one after the other.")] = 64,
    max_queue: Annotated[int, typer.Option(min=1, help="Texts that wait; beyond that, callers get 429.")] = 1024,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds until a request is given up.")] = 30.0,
) -> None:
    """Answer for models over HTTP, and show them on a page, until interrupted.

    The page is at /, the description of the interface at /openapi.json. Without --host only this machine can connect.
    """
    screen = Screen()
    paths = _paths(model, models or [])
    try:
        from rembrandt.serve import running
        from rembrandt.serve.app import create_app
        from rembrandt.serve.limits import Limits
    except ModuleNotFoundError as missing:
        raise RembrandtError(
            f"{missing.name} is not installed; serving needs: pip install 'rembrandt[serve]'"
        ) from missing

    token = running.read_token(token_file)
    running.check_address(host, token, no_token)
    limits = Limits(
        body=max_body,
        texts=max_texts,
        characters=max_characters,
        batch=max_batch,
        queue=max_queue,
        timeout=timeout,
    )
    with screen.progress() as report:
        report("loading models", 0, None)
        app = create_app(paths, limits, token, any_host=not running.is_loopback(host))
    listening = running.listen(host, port)
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    screen.say(f"Serving {', '.join(paths)} at http://{shown}:{listening.getsockname()[1]} (Ctrl-C ends it)")
    running.run(app, listening)
    screen.say("Finished.")


def _paths(model: Path | None, further: list[str]) -> dict[str, Path]:
    """Folders by name, the default one first."""
    paths = {} if model is None else {model.resolve().name: model}
    for each in further:
        name, equals, path = each.partition("=")
        if not (name and equals and path) or "/" in name:
            raise typer.BadParameter(f"{each!r} is not NAME=MODEL, with a name without slashes", param_hint="--model")
        if name in paths:
            raise typer.BadParameter(f"there are two models called {name!r}", param_hint="--model")
        paths[name] = Path(path)
    if not paths:
        raise typer.BadParameter("give a model's folder, or --model NAME=MODEL", param_hint="MODEL")
    return paths
