"""Labels that look like several labels in one, because the separator is missing or wrong."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.data.dataset import Dataset
from rembrandt.data.label_cells import MISSING_WORDS
from rembrandt.errors import DataError, RembrandtWarning, counted

# A comma is part of many labels that are one, so it is only warned about.
SEPARATORS = (";", "|", "\t", ",")

_MIN_ROWS = 100  # fewer may have one label each by chance
_MIN_LABELS = 10  # fewer are no evidence
_MIN_GAIN = 1.25  # in examples of a label, that speaks for splitting
_MIN_COMMA_GAIN = 2.0  # names of persons have commas, and first names recur


@dataclass(frozen=True)
class Unsplit:
    """A separator within labels, and how many labels there are as they are and after splitting."""

    separator: str
    before: int
    after: int
    example: str

    def sentence(self) -> str:
        return (
            f"the labels look like several in one, such as {self.example[:60]!r}: there are "
            f"{self.before:,} different ones, and {self.after:,} when they are split at "
            f"{self.separator!r}"
        )


def unsplit_labels(names: Sequence[Any], counts: Any) -> Unsplit | None:
    """Return the separator that labels should be split at, if there is one.

    ``counts`` are the examples of each label. Splitting is right where it halves the number of
    labels and most parts occur again, or where most labels have the separator and a label then has
    more examples on average.
    """
    if len(names) < _MIN_LABELS or not isinstance(names[0], str):
        return None
    uses = np.asarray(counts).tolist()
    for separator in SEPARATORS:
        joined = [name for name in names if separator in name]
        if not joined:
            continue
        pieces = _split_uses(names, uses, separator)
        if not pieces:
            continue
        n_before = len(names)
        n_after = len(pieces)
        n_recurring = sum(n > 1 for n in pieces.values())
        is_halved = 2 * n_after <= n_before and 2 * n_recurring > n_after

        # The mean number of examples of a label, after and before, without a division.
        min_gain = _MIN_COMMA_GAIN if separator == "," else _MIN_GAIN
        has_gained = pieces.total() * n_before >= min_gain * sum(uses) * n_after
        is_denser = 2 * len(joined) >= n_before and has_gained
        if is_halved or is_denser:
            return Unsplit(separator, n_before, n_after, joined[0])
    return None


def warn_missing_words(names: Sequence[Any], counts: Any, start: str = "") -> None:
    """Warn about labels that are spelled like missing values, such as NaN."""
    uses = 0
    words = []
    for name, n in zip(names, np.asarray(counts).tolist(), strict=True):
        if isinstance(name, str) and name in MISSING_WORDS:
            uses += n
            words.append(repr(name))
    if words:
        message = (
            f"{start}{counted(uses, 'example')} with the label {' or '.join(words)}, which most "
            "programs write for a missing value: it is read as a label. Leave the cell empty where "
            "there is no label"
        )
        warnings.warn(RembrandtWarning(message), stacklevel=3)


def warn_spaces(names: Sequence[Any], counts: Any, start: str = "") -> None:
    """Warn about labels that are empty, or equal to another one up to spaces around them."""
    filled = {name for name in names if isinstance(name, str) and name.strip()}
    padded = sorted(name for name in filled if name != name.strip() and name.strip() in filled)
    if padded:
        stripped = padded[0].strip()
        differ = "differs" if len(padded) == 1 else "differ"
        message = (
            f"{start}{counted(len(padded), 'label')} {differ} from another one only by spaces, "
            f"such as {padded[0]!r} and {stripped!r}: they are read as different labels. Remove "
            "the spaces"
        )
        warnings.warn(RembrandtWarning(message), stacklevel=3)
    uses = 0
    for name, n in zip(names, np.asarray(counts).tolist(), strict=True):
        if isinstance(name, str) and not name.strip():
            uses += n
    if uses:
        message = (
            f"{start}{counted(uses, 'example')} with an empty label, which is read as a label like "
            "any other. Give an empty list where there is no label"
        )
        warnings.warn(RembrandtWarning(message), stacklevel=3)


def _split_uses(names: Sequence[str], uses: Sequence[int], separator: str) -> Counter[str]:
    """How often each label is used if names are split at a separator."""
    pieces: Counter[str] = Counter()
    for name, n in zip(names, uses, strict=True):
        distinct = {piece.strip() for piece in name.split(separator)}
        for piece in distinct - {""}:
            pieces[piece] += n
    return pieces


def check_labels(data: Dataset, path: str | Path, separator: str | None = None) -> None:
    """Refuse labels that are certainly several in one.

    Labels that may be several in one, a separator that no row has, and labels that are spelled like
    missing values cause a warning.
    """
    used, counts = np.unique(data.Y.indices, return_counts=True)
    names = [data.label_ids[column] for column in used.tolist()]
    warn_missing_words(names, counts, f"{path}: ")
    warn_spaces(names, counts, f"{path}: ")
    unsplit = unsplit_labels(names, counts)
    if unsplit is None:
        has_rows = len(data.texts or ()) >= _MIN_ROWS
        if separator is not None and has_rows and np.diff(data.Y.indptr).max() <= 1:
            message = f"{path}: no row has the label separator {separator!r}; is it another one?"
            warnings.warn(RembrandtWarning(message, "label_separator"), stacklevel=2)
        return
    parameters = ("label_separator", "verbatim_labels")
    message = (
        f"{unsplit.sentence()}; set label_separator to {unsplit.separator!r}, or verbatim_labels "
        "if each is one label"
    )
    if unsplit.separator != ",":
        raise DataError(message, path, parameter=parameters)
    warnings.warn(RembrandtWarning(f"{path}: {message}", parameters), stacklevel=2)
