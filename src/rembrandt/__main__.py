"""The command ``rembrandt``."""

import atexit
import gc
import io
import sys
from collections.abc import Sequence

from rembrandt import __version__
from rembrandt.cli.streams import open_closed_streams, output_errors

# New objects after which unreachable ones are looked for: 700 by default.
GARBAGE_THRESHOLD = 100_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; it ends with ``SystemExit``."""
    if arguments is None:
        arguments = sys.argv[1:]
    open_closed_streams()
    with output_errors():
        _run(list(arguments))


def _run(arguments: list[str]) -> None:
    if arguments == ["--version"]:  # answered before slow imports
        print(f"rembrandt {__version__}")
        return
    # Importing makes many objects and no garbage. Looking for some among them, now and again at the
    # end, would take a third of the time of a short command.
    gc.set_threshold(GARBAGE_THRESHOLD)
    atexit.register(gc.freeze)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters that a terminal cannot show are escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from rembrandt.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    app(arguments, prog_name="rembrandt")


if __name__ == "__main__":
    main()
