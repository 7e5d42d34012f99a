"""Checks for inputs that are nearly right; the errors say what to give instead."""

from collections.abc import Iterator, Mapping, Set
from typing import Any

from rembrandt.data.arrays import is_lazy_column, is_missing, lazy_values, unchanging
from rembrandt.errors import DataError, kind_of
from rembrandt.features.text import is_text
from rembrandt.linalg.sparse import is_sparse

_KINDS_OF_NUMBERS = "biuf"


def as_input(X: Any) -> Any:
    """Return examples in a form that can be read: columns of Hugging Face, Arrow and polars become
    lists. What has no order or can be read only once is refused.
    """
    if isinstance(X, tuple) and not any(isinstance(block, str) for block in X):
        return tuple(as_input(block) for block in X) if any(map(_is_block, X)) else X
    if is_sparse(X):
        return X  # some are mappings
    if X is None or isinstance(X, Mapping | Set | Iterator | int | float):
        raise DataError(
            f"X is {kind_of(X)}; give a list of texts or a matrix of features, with one row for "
            "each example"
        )
    if is_lazy_column(X):
        return lazy_values(X)
    names = getattr(X, "column_names", None)
    if names is not None and not hasattr(X, "columns"):
        raise DataError(
            f"X is a data set with the columns {', '.join(names)}; give the column with the texts, "
            f"such as X[{names[0]!r}], or read it: read(X, text=..., labels=...)"
        )
    return X


def _is_block(block: Any) -> bool:
    if is_sparse(block):
        return False
    return is_lazy_column(block) or isinstance(block, Mapping | Set | Iterator)


def read_once(X: Any) -> Any:
    """Return rows that do not change while they are read, however often that is.

    Inputs that would otherwise fail with an error about numbers are refused.
    """
    X = as_input(X)
    if isinstance(X, tuple):
        X = tuple(unchanging(block, "a block of X") for block in unchanging(X, "X"))
    else:
        X = unchanging(X, "X")
    _check(X)
    return X


def _check(X: Any) -> None:
    if isinstance(X, str) or is_sparse(X):
        return
    if isinstance(X, list | tuple):
        _check_list(X)
    elif hasattr(X, "columns") and hasattr(X, "dtypes"):
        _check_frame(X)
    elif _is_table_of_texts(X):
        raise DataError(
            f"X is an array of texts of shape {X.shape}; give one dimension, such as X[:, 0]"
        )
    elif getattr(X, "ndim", 0) == 1 and getattr(getattr(X, "dtype", None), "kind", "O") in "OTU":
        _check_texts(X)


def _is_table_of_texts(X: Any) -> bool:
    if getattr(X, "ndim", 0) != 2 or len(X) == 0:
        return False
    return X.dtype.kind in "OTU" and any(isinstance(value, str) for value in X[0])


def _check_list(X: Any) -> None:
    if len(X) == 0:
        raise DataError("X is empty; give at least one example")
    if isinstance(X, list) and len(X) > 1 and any(getattr(x, "ndim", 0) == 2 for x in X):
        if any(not isinstance(x, str) and is_text(x) for x in X):
            raise DataError(
                "X is a list of blocks of features; give them as a tuple: (texts, vectors)"
            )
    elif any(isinstance(x, str) for x in X):
        _check_texts(X)


def _check_frame(X: Any) -> None:
    texts = [str(name) for name, kind in zip(X.columns, X.dtypes, strict=True) if _holds_text(kind)]
    if texts:
        remedy = (
            f"give that column, X[{texts[0]!r}]"
            if len(texts) == 1
            else "join them into one text for each row"
        )
        raise DataError(f"X is a data frame with texts in {', '.join(map(repr, texts))}; {remedy}")


def _holds_text(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") not in _KINDS_OF_NUMBERS and str(dtype) != "category"


def _check_texts(X: Any) -> None:
    """Refuse texts of which some are missing; other values are refused when they are read."""
    wrong = next(((row, x) for row, x in enumerate(X) if is_missing(x)), None)
    if wrong is not None and any(isinstance(x, str) for x in X):
        fill = "X.fillna('')" if hasattr(X, "fillna") else "''"
        raise DataError(
            f"row {wrong[0]} of X is {wrong[1]}, not text; replace missing texts by {fill}"
        )
    other = next((row for row, x in enumerate(X) if not isinstance(x, str)), None)
    if other is not None and any(isinstance(x, str) for x in X):
        raise DataError(
            f"row {other} of X is {type(list(X)[other]).__name__}, not text; convert it to str"
        )


def index_of(X: Any) -> Any:
    """Return the index of a pandas data frame or series, else None."""
    index = getattr(X, "index", None)
    return index if hasattr(X, "iloc") else None
