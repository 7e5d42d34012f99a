"""Standard streams that are closed, or that cannot be written."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rembrandt.errors import RembrandtError

_FAILED = 1  # exit code


def open_closed_streams() -> None:
    """Discard what is written to streams that the caller has closed.

    A file that is opened later would get the number of such a stream, and its output.
    """
    nowhere = Path(os.devnull)
    if sys.stdin is None:
        sys.stdin = nowhere.open(encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = nowhere.open("w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = nowhere.open("w", encoding="utf-8")


@contextmanager
def output_errors() -> Iterator[None]:
    """Exit without a traceback if standard output cannot be written.

    A reader that closes it has seen enough: nothing is said about that.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        sys.exit(_FAILED)
    except OSError as error:
        if error.filename is not None:  # it is about another file
            raise
        discard_output()
        print(f"error: {RembrandtError(error.strerror or str(error))}", file=sys.stderr)
        sys.exit(_FAILED)


def discard_output() -> None:
    """Discard what is still to be written to standard output; Python writes it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
