"""A model's labels as callers name and look for them."""

import re
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.explore.neighbors import nearest_rows, scaled_vectors

_HITS = 2000  # matches that are looked at, the most frequent labels first
_END = "\n"


class Labels:
    """Names, titles and counts of a classifier's labels, by column."""

    def __init__(self, classifier: Any) -> None:
        self._classifier = classifier
        self.ids = [str(label) for label in classifier.classes_.tolist()]
        titles = classifier.label_titles_
        self.names = [str(titles.get(label, label)) for label in self.ids] if titles else self.ids
        self.counts = np.asarray(classifier.label_counts_)
        self._by_id = {label: column for column, label in enumerate(self.ids)}
        self._by_name = {name.casefold(): column for column, name in enumerate(self.names)}

    def find(self, label: str) -> int | None:
        """The column of the label with this name or title."""
        return self._by_id.get(label, self._by_name.get(label.casefold()))

    def search(self, query: str, limit: int) -> list[int]:
        """Labels whose name or title contains ``query``: those that begin with it first, then by their frequency."""
        query = " ".join(query.casefold().split())
        if not query:
            return self.by_frequency[:limit].tolist()
        text, ends = self._text
        hits = []
        for found in re.finditer(re.escape(query), text):
            hits.append(found.start())
            if len(hits) == _HITS:
                break
        places = np.unique(np.searchsorted(ends, hits, side="right"))
        columns = self.by_frequency[places].tolist()
        return sorted(columns, key=lambda column: self._closeness(query, column))[:limit]

    def neighbors(self, column: int, k: int, min_count: int) -> list[tuple[int, float]]:
        """The labels nearest in the embedding that occurred ``min_count`` times in training, with the cosines."""
        vectors, lengths = self._vectors
        return nearest_rows(vectors, column, self.counts >= min_count, k, lengths)

    def _closeness(self, query: str, column: int) -> tuple[int, int, int]:
        spelled = {_folded(self.ids[column]), _folded(self.names[column])}
        if query in spelled:
            rank = 0
        elif any(name.startswith(query) for name in spelled):
            rank = 1
        else:
            rank = 2 if any(f" {query}" in name for name in spelled) else 3
        return rank, -int(self.counts[column]), column

    @cached_property
    def by_frequency(self) -> NDArray[np.int64]:
        return np.argsort(-self.counts, kind="stable")

    @cached_property
    def _text(self) -> tuple[str, NDArray[np.int64]]:
        """All names in one string, the most frequent labels first, and where each ends in it."""
        pieces = [
            _folded(self.ids[column])
            + ("" if self.ids[column] == self.names[column] else _END + _folded(self.names[column]))
            + _END
            for column in self.by_frequency.tolist()
        ]
        return "".join(pieces), np.cumsum([len(piece) for piece in pieces])

    @cached_property
    def _vectors(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Label vectors and their lengths."""
        vectors = scaled_vectors(self._classifier)
        return vectors, np.sqrt(np.einsum("ij,ij->i", vectors, vectors))


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())
