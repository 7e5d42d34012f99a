"""``rembrandt serve``: models over HTTP, with a page to explore them."""

from pathlib import Path
from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.failure import needs
from rembrandt.cli.options import ADVANCED, option


def serve(
    console: Console,
    model: Annotated[
        Path | None, options.argument("MODEL", "Folder of a model; its name is that of the folder.")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="NAME=MODEL", help="Another model under this name; may be repeated."
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine.")
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        option(
            "File with the token that clients must send; by default REMBRANDT_TOKEN has it.",
            metavar="FILE",
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Listen beyond this machine without a token.")
    ] = False,
    corrections: Annotated[
        Path | None,
        option("File that corrections are added to: .jsonl, for update and fit.", metavar="FILE"),
    ] = None,
    max_body: Annotated[int, option("Bytes per request.", ADVANCED, min=1)] = 8 << 20,
    max_requests: Annotated[
        int, option("Requests in progress; more are refused with status 429.", ADVANCED, min=1)
    ] = 1024,
    max_texts: Annotated[int, option("Texts per request.", ADVANCED, min=1)] = 256,
    max_characters: Annotated[int, option("Characters per text.", ADVANCED, min=1)] = 200_000,
    max_batch: Annotated[int, option("Texts per batch.", ADVANCED, min=1)] = 64,
    max_queue: Annotated[
        int, option("Texts that wait; more are refused with status 429.", ADVANCED, min=1)
    ] = 1024,
    timeout: Annotated[float, option("Seconds per request.", ADVANCED, min=0.001)] = 30.0,
    load_timeout: Annotated[float, option("Seconds per reload.", ADVANCED, min=0.001)] = 300.0,
) -> None:
    """Serve models over HTTP, with a page to explore them, until interrupted.

    The page is at /, the reference of the API at /docs. Without --host only this machine can
    connect.
    """
    paths = _paths(model, models or [])
    with needs("serve"):
        from rembrandt.serve import running
        from rembrandt.serve.app import create_app
        from rembrandt.serve.limits import Limits

    token = running.read_token(token_file)
    running.check_address(host, token, no_token)
    limits = Limits(
        body=max_body,
        requests=max_requests,
        texts=max_texts,
        characters=max_characters,
        batch=max_batch,
        queue=max_queue,
        timeout=timeout,
        load=load_timeout,
    )
    with console.progress() as report:
        report("loading models", 0, None)
        any_host = not running.is_loopback(host)
        app = create_app(paths, limits, token, any_host, corrections=corrections)
    listening = running.listen(host, port)
    url_host = host
    if ":" in host and not host.startswith("["):  # an IPv6 address
        url_host = f"[{host}]"
    used_port = listening.getsockname()[1]
    url = f"http://{url_host}:{used_port}"
    console.say(f"Serving {', '.join(paths)} at {url} (Ctrl-C to stop)")
    running.run(app, listening)
    console.say("Finished.")


def _paths(model: Path | None, others: list[str]) -> dict[str, Path]:
    """Return folders by name, the default first."""
    paths = {}
    if model is not None:
        paths[model.resolve().name] = model
    for argument in others:
        name, _, path = argument.partition("=")
        if not name or not path or "/" in name:
            raise typer.BadParameter(
                f"{argument!r} is not NAME=MODEL, with a name without slashes",
                param_hint="--model",
            )
        if name in paths:
            raise typer.BadParameter(f"two models have the name {name!r}", param_hint="--model")
        paths[name] = Path(path)
    if not paths:
        raise typer.BadParameter(
            "give the folder of a model, or --model NAME=MODEL", param_hint="MODEL"
        )
    return paths
