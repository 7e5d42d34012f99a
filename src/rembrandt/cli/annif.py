"""``rembrandt annif``: the command line of Annif with the backend rembrandt."""

import typer

from rembrandt.errors import RembrandtError


def annif(context: typer.Context) -> None:
    """Run a command of Annif (train, suggest, eval, learn, ...) with the backend rembrandt: rembrandt annif --help."""
    from rembrandt.annif import register

    try:
        register()
        from annif.cli import cli
    except ModuleNotFoundError as missing:
        raise RembrandtError(
            f"{missing.name} is not installed; this needs: pip install 'rembrandt[annif]'"
        ) from missing
    cli(args=context.args, prog_name="rembrandt annif")
