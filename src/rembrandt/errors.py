"""Exceptions and warnings.

Messages say what was found, where, what was expected, and what to do.
"""

import re
from collections.abc import Iterable
from pathlib import Path

# Characters of a message, which may quote its input.
_MAX_MESSAGE_LENGTH = 2_000

# Characters that terminals act on, and those that change the direction of the text around them.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return text with control characters escaped, as in ``\\x1b``."""
    return CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    quoted = ascii(match[0])
    return quoted[1:-1]


def bounded(message: str) -> str:
    """Return a message as one printable line.

    A long message keeps its beginning and its end, which has the remedy.
    """
    if len(message) > _MAX_MESSAGE_LENGTH:
        beginning = message[: _MAX_MESSAGE_LENGTH * 2 // 3]
        end = message[-_MAX_MESSAGE_LENGTH // 3 :]
        message = f"{beginning} … {end}"
    return printable(message)


def _names(parameter: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of one parameter or of several."""
    if isinstance(parameter, str):
        return (parameter,)
    return tuple(parameter)


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the singular or plural.

    >>> counted(1, "label"), counted(0, "label"), counted(1200, "entry", "entries")
    ('1 label', '0 labels', '1,200 entries')
    """
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {plural or noun + 's'}"


def kind_of(value: object) -> str:
    """Return what a value is, for a message.

    >>> kind_of(3), kind_of({}), kind_of(None)
    ('an int', 'a dict', 'None')
    """
    if value is None:
        return "None"
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeio" else "a"
    return f"{article} {name}"


class RembrandtError(Exception):
    """Base class of all errors raised on purpose.

    ``parameters`` are the names of the parameters that the message is about, for example
    ``("n_components",)``. The command line shows them as options.
    """

    def __init__(self, message: str = "", parameter: str | Iterable[str] = ()) -> None:
        super().__init__(bounded(message))
        self.parameters = _names(parameter)


class DataError(RembrandtError, ValueError):
    """Input that cannot be read, or that does not match the model."""

    def __init__(
        self,
        message: str = "",
        path: str | Path | None = None,
        line: int | None = None,
        parameter: str | Iterable[str] = (),
    ) -> None:
        if path is not None and line is not None:
            message = f"{path}, line {line}: {message}"
        elif path is not None:
            message = f"{path}: {message}"
        super().__init__(message, parameter)


class DataTypeError(DataError, TypeError):
    """Input of a type that cannot be used."""


class SettingsError(RembrandtError, ValueError):
    """A parameter with an invalid value, or parameters that cannot be combined."""


class StorageError(RembrandtError):
    """A file or folder that is damaged, in use by another process, or cannot be written."""


class ModelError(RembrandtError, ValueError):
    """A model folder that is missing, damaged, or from a newer version."""


class OutputExistsError(RembrandtError, FileExistsError):
    """An output that already exists and was not to be overwritten."""


class EngineError(RembrandtError, RuntimeError):
    """Workers or devices that cannot be reached or stopped responding."""


class MemoryEstimateError(RembrandtError, MemoryError):
    """Work that would not fit in memory, refused before it starts."""


class RembrandtWarning(UserWarning):
    """A result that is poor, or a setting that was changed.

    ``parameters`` are those of `RembrandtError`.
    """

    def __init__(self, message: str = "", parameter: str | Iterable[str] = ()) -> None:
        super().__init__(bounded(message))
        self.parameters = _names(parameter)
