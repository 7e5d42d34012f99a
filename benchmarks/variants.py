"""Problems made from the named data sets, to check constants and presets on.

half         half of the training rows
part         one in eight labels, and the rows that have one
words        the same with words instead of n-grams of characters
rare         the labels with fewer than five training examples, and the rows that have one
time         rows up to 2015 against later ones, instead of a random split
titles       titles of articles without their abstracts
characters   n-grams of characters instead of words

A variant is named like "gutenberg, half".
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data import Dataset, catalogue
from rembrandt.data.reader import read

KINDS = {
    "bibtex": ("half",),
    "cooking": ("characters",),
    "delicious": ("half",),
    "gutenberg": ("rare", "half", "characters"),
    "mesh": ("part", "words"),
    "pubmed-mesh": ("titles", "half"),
    "nvd-products": ("rare", "half", "time"),
}
# In the order of their cost.
VARIANTS = (
    "bibtex, half",
    "delicious, half",
    "cooking, characters",
    "gutenberg, rare",
    "gutenberg, half",
    "pubmed-mesh, titles",
    "nvd-products, rare",
    "mesh, words",
    "mesh, part",
    "pubmed-mesh, half",
    "nvd-products, half",
    "gutenberg, characters",
    "nvd-products, time",
)
PART = 8  # one in as many labels
RARE = 5  # training examples, from which a label is not rare
LAST_YEAR = 2015  # of the training rows of a split by time


def parts_of(name: str) -> tuple[str, str]:
    """Return the set and the kind of a variant; the kind is empty for a set itself."""
    base, comma, kind = name.partition(", ")
    if base not in catalogue.DATA_SETS or (comma and kind not in KINDS.get(base, ())):
        raise ValueError(
            f"there is no problem {name!r}; choose a set or one of {'; '.join(VARIANTS)}"
        )
    return base, kind


def load(name: str, folder: str | Path | None = None) -> tuple[Dataset, Dataset]:
    """Return the training and test part of a set or a variant; their labels are not aligned."""
    base, kind = parts_of(name)
    entry = catalogue.DATA_SETS[base]
    options = {"text": ["title"]} if kind == "titles" else {}
    root = catalogue.require_folder(entry, folder)
    train, test = (
        read(root / part, **{**entry.options, **options}) for part in (entry.train, entry.test)
    )
    if kind == "half":
        return half(train), test
    if kind in ("part", "words"):
        return with_labels(train, test, train.label_ids[::PART])
    if kind == "rare":
        return rare(train, test)
    if kind == "time":
        columns = entry.options | {"labels": "published", "label_separator": None}
        return split_by_year(
            train,
            test,
            *(years(read(root / part, **columns)) for part in (entry.train, entry.test)),
        )
    return train, test


def half(train: Dataset, seed: int = 0) -> Dataset:
    """Return half of the rows, with the labels that they have."""
    n = train.n_examples
    return with_seen_labels(
        train.rows(np.sort(np.random.default_rng(seed).permutation(n)[: n // 2]))
    )


def rare(train: Dataset, test: Dataset) -> tuple[Dataset, Dataset]:
    """Keep labels with fewer than `RARE` training examples, and the rows of both parts that have
    one.
    """
    counts = np.bincount(train.Y.indices, minlength=train.n_labels)
    return with_labels(
        train,
        test,
        [train.label_ids[i] for i in np.flatnonzero((counts > 0) & (counts < RARE)).tolist()],
    )


def with_labels(train: Dataset, test: Dataset, names: Sequence[str]) -> tuple[Dataset, Dataset]:
    """Keep labels, and the rows of both parts that have one."""
    # Labels that are not part of the problem are not missing from it.
    parts = [replace(part.align_labels(names), dropped_labels=None) for part in (train, test)]
    train, test = (part.rows(np.diff(part.Y.indptr) > 0) for part in parts)
    return train, test


def years(dated: Dataset) -> Any:
    """Return the year of each row of a set whose labels are dates."""
    if (np.diff(dated.Y.indptr) != 1).any():
        raise ValueError("a row has no date, or several")
    return np.array([int(name[:4]) for name in dated.label_ids])[dated.Y.indices]


def split_by_year(
    train: Dataset, test: Dataset, train_years: Any, test_years: Any
) -> tuple[Dataset, Dataset]:
    """Divide the rows of both parts again, at the end of `LAST_YEAR`."""
    names = sorted({*train.label_ids, *test.label_ids})
    whole = [part.align_labels(names) for part in (train, test)]
    Y = sparse.csr_array(sparse.vstack([part.Y for part in whole], format="csr"))
    texts = [text for part in whole for text in part.texts or ()]
    both = Dataset.build(Y, texts=texts, label_ids=names, task=train.task)
    early = np.concatenate([train_years, test_years]) <= LAST_YEAR
    return with_seen_labels(both.rows(early)), both.rows(~early)


def with_seen_labels(data: Dataset) -> Dataset:
    """Drop the labels without examples."""
    seen = np.unique(data.Y.indices)
    names = [data.label_ids[i] for i in seen.tolist()]
    return replace(data, Y=sparse.csr_array(data.Y[:, seen]), label_ids=names)
