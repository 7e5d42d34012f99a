"""The command ``rembrandt``."""

import sys
from collections.abc import Sequence

from rembrandt import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; it ends in ``SystemExit`` as every program does."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:  # answered before anything slow is imported
        print(f"rembrandt {__version__}")
        return
    try:
        from rembrandt.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    app(given, prog_name="rembrandt")


if __name__ == "__main__":
    main()
