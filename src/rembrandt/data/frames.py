"""Tables in memory: data frames of pandas and polars, tables of Arrow, data sets of Hugging Face.

They are told apart by their methods, so none of these packages is imported.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rembrandt.data.arrays import is_missing, lazy_values
from rembrandt.data.cells import Cell, Cells
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

_BATCH_ROWS = 10_000  # few enough that the cells of a batch take little memory


def is_frame(source: Any) -> bool:
    """Whether this is a table in memory with named columns."""
    if isinstance(source, dict):
        return _splits(source) is not None
    has_names = hasattr(source, "column_names") or hasattr(source, "columns")
    return has_names and hasattr(source, "__getitem__") and hasattr(source, "__len__")


def _splits(source: Any) -> list[str] | None:
    """The names of the parts of a `DatasetDict` of Hugging Face; None for anything else."""
    if not isinstance(source, dict) or not hasattr(source, "column_names"):
        return None
    return list(source)


class FrameTable:
    """A table in memory as `Table` presents a file."""

    def __init__(self, frame: Any) -> None:
        splits = _splits(frame)
        if splits is not None:
            raise DataError(
                f"this data set has the parts {', '.join(splits)}; give one of them, for instance "
                f"data[{splits[0]!r}]"
            )
        self.path = None
        self._frame = frame

    def columns(self) -> list[str]:
        """The names of the columns."""
        names = getattr(self._frame, "column_names", None)
        if names is None:
            names = self._frame.columns
        return [str(name) for name in names]

    def batches(self, wanted: list[str], report: Report = silent) -> Iterator[Cells]:
        """The wanted columns of batches of rows."""
        columns = self.columns()
        for name in wanted:
            if name not in columns:
                raise DataError(f"there is no column {name!r}; the columns are {_listed(columns)}")
            if columns.count(name) > 1:
                raise DataError(f"two columns are called {name!r}; rename one of them")
        n = len(self._frame)
        for start in range(0, n, _BATCH_ROWS):
            rows = slice(start, min(n, start + _BATCH_ROWS))
            report("Reading the table", rows.stop, n)
            yield {name: self._cells(name, rows) for name in wanted}

    def _cells(self, name: str, rows: slice) -> list[Cell]:
        names = _class_names(self._frame, name)
        values = _values(self._frame, name, rows)
        if names is not None:
            values = [_named(value, names) for value in values]
        return [as_cell(value, name) for value in values]


def _values(frame: Any, name: str, rows: slice) -> list[Any]:
    """The values of a column in some rows."""
    if hasattr(frame, "iloc"):  # pandas
        return list(frame[name].iloc[rows].tolist())
    if hasattr(frame, "slice") and hasattr(frame, "columns"):  # polars, Arrow
        n_rows = rows.stop - rows.start
        block = frame.slice(rows.start, n_rows)
        return lazy_values(block[name])
    return list(frame[rows][name])  # Hugging Face


def _class_names(frame: Any, name: str) -> Sequence[str] | None:
    """The names of the classes of a column that Hugging Face keeps as numbers."""
    features = getattr(frame, "features", None)
    if features is None:
        return None
    feature = features.get(name)
    feature = getattr(feature, "feature", feature)  # of the entries of lists
    if not hasattr(feature, "int2str"):
        return None
    names: Sequence[str] = getattr(feature, "names", ())
    return names


def _named(value: Any, names: Sequence[str]) -> Any:
    """Numbers of classes as their names; a negative one is missing."""
    if isinstance(value, list):
        return [_named(item, names) for item in value]
    if value is None or value < 0:
        return None
    return names[value]


def as_cell(value: Any, name: str) -> Cell:
    """A value as text, or as a list of texts."""
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        present = [item for item in value if not is_missing(item)]
        return [_as_text(item, name) for item in present]
    if is_missing(value):
        return None
    return _as_text(value, name)


def _as_text(value: Any, name: str) -> str:
    if isinstance(value, dict | list | tuple | np.ndarray):
        raise DataError(
            f"column {name!r} holds a structure; expected a text, a number or a list of them"
        )
    is_float = isinstance(value, float | np.floating)
    if is_float and float(value).is_integer():
        return str(int(value))  # a column of integers with missing ones
    return str(value)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
