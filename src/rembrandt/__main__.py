"""The command ``rembrandt``."""

import io
import sys
from collections.abc import Sequence

from rembrandt import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; it ends with ``SystemExit``."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:  # answered before slow imports
        print(f"rembrandt {__version__}")
        return
    if isinstance(
        sys.stdout, io.TextIOWrapper
    ):  # characters that a terminal cannot show are escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from rembrandt.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    app(given, prog_name="rembrandt")


if __name__ == "__main__":
    main()
