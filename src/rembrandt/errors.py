"""What can go wrong, in sentences: what was found, where, what was expected, and what to do."""

from pathlib import Path


class RembrandtError(Exception):
    """Anything this package refuses to do; the message ends in what to do about it."""


class DataError(RembrandtError, ValueError):
    """Input that cannot be read as what it claims to be."""

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        where = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(where + message)


class SettingsError(RembrandtError, ValueError):
    """A setting that is out of range, or settings that do not go together.

    ``parameter`` is the name of the parameter to change, where there is one.
    """

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class StorageError(RembrandtError):
    """A file or folder that is damaged, in use by another process, or cannot be written."""


class ModelError(RembrandtError, ValueError):
    """A model folder that is missing, damaged, or from a newer version."""


class OutputExistsError(RembrandtError, FileExistsError):
    """An output that is already there and was not to be overwritten."""


class EngineError(RembrandtError, RuntimeError):
    """The machines that were to do the work are not there, or gone."""


class MemoryEstimateError(RembrandtError, MemoryError):
    """Work that would not fit in memory, refused before it began."""


class RembrandtWarning(UserWarning):
    """Something was changed or is poor; the message says what and what to do."""
