"""What a user sees when something goes wrong: one sentence on standard error, and an exit code that says which kind.

1 is anything refused, 2 a command that makes no sense (typer's own), 130 an interruption.
"""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from rembrandt.errors import RembrandtError, RembrandtWarning

REFUSED, INTERRUPTED = 1, 130

_ARGUMENT = re.compile(
    r"\b(text|labels|label_separator|format|analyzer|ngrams|n_components|method|ridge|decoder|kernel|kernel_scale|"
    r"decoder_ridge|normalize|n_random_features|n_iter|device|preset|budget)= ?(?:'?(None|[a-z](?:\w|[:,](?=\w))*)'?)?"
)
_SWITCH = re.compile(r"\b(growable|sparse|calibrate)=(True|False)")


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors into sentences and warnings into notes. Errors that nobody foresaw keep their traceback."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", RembrandtWarning)
        warnings.showwarning = _show(warnings.showwarning)
        try:
            yield
            sys.stdout.flush()
        except RembrandtError as error:
            raise _exit(f"error: {as_options(str(error))}", REFUSED) from error
        except KeyboardInterrupt as error:
            raise _exit("interrupted; nothing is left half written", INTERRUPTED) from error
        except BrokenPipeError as error:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(REFUSED) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise _exit(f"error: {where}{error.strerror or error}", REFUSED) from error


def as_options(sentence: str) -> str:
    """The library's sentence with its arguments spelled as the options that they are here."""
    sentence = _SWITCH.sub(lambda found: f"--{'' if found[2] == 'True' else 'no-'}{found[1]}", sentence)
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {(found[2] or '').lower()}", sentence)


def _exit(sentence: str, code: int) -> typer.Exit:
    typer.echo(sentence, err=True)
    return typer.Exit(code)


def _show(otherwise: Any) -> Any:
    """A hook for `warnings` that prints our own as one line."""

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, RembrandtWarning):
            typer.echo(f"note: {as_options(str(message))}", err=True)
        else:
            otherwise(message, category, *rest, **more)

    return show
