"""``rembrandt annif``: the command line of Annif with the backend rembrandt."""

import typer

from rembrandt.cli.failure import needs


def annif(context: typer.Context) -> None:
    """Run a command of Annif (train, suggest, eval, learn, ...) with the backend rembrandt:
    rembrandt annif --help.
    """
    from rembrandt.annif import register

    with needs("annif"):
        register()
        from annif.cli import cli
    cli(args=context.args, prog_name="rembrandt annif")
