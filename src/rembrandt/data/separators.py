"""Labels that look like several labels in one, because the separator is missing or wrong."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.data.dataset import Dataset
from rembrandt.errors import DataError, RembrandtWarning

SEPARATORS = (
    ";",
    "|",
    "\t",
    ",",
)  # a comma is part of many labels that are one, so it is only warned about
_ROWS = 100  # rows; fewer may have one label each by chance
_FEWEST = 10  # labels; fewer are no evidence


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
            f"{self.before:,} different "
            f"ones, and {self.after:,} when they are split at {self.separator!r}"
        )


def unsplit_labels(names: Sequence[Any], counts: Any) -> Unsplit | None:
    """Return the separator that labels should be split at, if there is one.

    ``counts`` are the examples of each label. Splitting is right where it halves the number of
    labels and most parts occur again, or where most labels have the separator and a label then has
    more examples on average.
    """
    if len(names) < _FEWEST or not isinstance(names[0], str):
        return None
    uses = np.asarray(counts).tolist()
    for separator in SEPARATORS:
        having = [name for name in names if separator in name]
        if not having:
            continue
        parts: Counter[str] = Counter()
        for name, n in zip(names, uses, strict=True):
            for part in {part.strip() for part in name.split(separator)} - {""}:
                parts[part] += n
        after, again = len(parts), sum(n > 1 for n in parts.values())
        halved = 2 * after <= len(names) and 2 * again > after
        gain = (
            2.0 if separator == "," else 1.25
        )  # names of persons have commas, and first names recur
        denser = 2 * len(having) >= len(names) and parts.total() * len(names) >= gain * sum(
            uses
        ) * max(after, 1)
        if after and (halved or denser):
            return Unsplit(separator, len(names), after, having[0])
    return None


def check_labels(data: Dataset, path: str | Path, separator: str | None = None) -> None:
    """Refuse labels that are certainly several in one; warn about those that may be, and about an
    unused separator.
    """
    used, counts = np.unique(data.Y.indices, return_counts=True)
    found = unsplit_labels([data.label_names[i] for i in used.tolist()], counts)
    if found is None:
        if (
            separator is not None
            and len(data.texts or ()) >= _ROWS
            and np.diff(data.Y.indptr).max() <= 1
        ):
            message = f"{path}: no row has the label separator {separator!r}; is it another one?"
            warnings.warn(RembrandtWarning(message, "label_separator"), stacklevel=2)
        return
    remedy = f"set label_separator to {found.separator!r}, or verbatim_labels if each is one label"
    parameters = ("label_separator", "verbatim_labels")
    if found.separator != ",":
        raise DataError(f"{found.sentence()}; {remedy}", path, parameter=parameters)
    warnings.warn(
        RembrandtWarning(f"{path}: {found.sentence()}; {remedy}", parameters), stacklevel=2
    )
