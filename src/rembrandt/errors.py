"""Exceptions and warnings. Messages say what was found, where, what was expected, and what to
do.
"""

import re
from collections.abc import Iterable
from pathlib import Path

_LONGEST = 2_000  # characters of a message, which may quote its input
# Characters that terminals act on, and those that change the direction of the text around them.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return text with control characters escaped, as in ``\\x1b``."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def bounded(message: str) -> str:
    """Return a message as one printable line; a long one keeps its beginning and its end, which has
    the remedy.
    """
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST * 2 // 3]} … {message[-_LONGEST // 3 :]}"
    return printable(message)


class RembrandtError(Exception):
    """Base class of all errors raised on purpose.

    ``parameters`` are the names of the parameters that the message is about, for example
    ``("n_components",)``. The command line shows them as options.
    """

    def __init__(self, message: str = "", parameter: str | Iterable[str] = ()) -> None:
        super().__init__(bounded(message))
        self.parameters = (parameter,) if isinstance(parameter, str) else tuple(parameter)


class DataError(RembrandtError, ValueError):
    """Input that cannot be read, or that does not match the model."""

    def __init__(
        self,
        message: str = "",
        path: str | Path | None = None,
        line: int | None = None,
        parameter: str | Iterable[str] = (),
    ) -> None:
        where = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(where + message, parameter)


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
    """A result that is poor, or a setting that was changed; ``parameters`` as in
    `RembrandtError`.
    """

    def __init__(self, message: str = "", parameter: str | Iterable[str] = ()) -> None:
        super().__init__(bounded(message))
        self.parameters = (parameter,) if isinstance(parameter, str) else tuple(parameter)
