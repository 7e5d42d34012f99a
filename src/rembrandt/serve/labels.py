"""Lookup, search and neighbours of the labels of a model."""

from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.labels import LabelIndex
from rembrandt.explore.neighbors import nearest_labels, unit_vectors

_MAX_HITS = 2000  # matches that are ranked, from the most frequent labels on


class Labels:
    """Names, titles, descriptions and training counts of labels, by column."""

    def __init__(self, classifier: Any) -> None:
        self._classifier, self._one_at_a_time = classifier, Lock()
        self.index: LabelIndex = classifier.model_.labels
        self.counts = np.asarray(classifier.label_counts_)
        self.by_frequency = np.argsort(-self.counts, kind="stable")

    def document(self, column: int) -> dict[str, Any]:
        """Return a label with its description as JSON."""
        return self.index.detailed(column) | {"count": int(self.counts[column])}

    def search(self, query: str, limit: int) -> list[int]:
        """Return labels whose name or title contains ``query``, the most frequent first.

        Labels that are equal to the query come before those that begin with it, and those before
        labels with a word that begins with it.
        """
        query = _folded(query)
        tests = (f"\n{query}\n", f"\n{query}", f" {query}", query)
        hits = islice((hit for hit in self._search_texts if query in hit[0]), _MAX_HITS)
        ranked = sorted(
            hits, key=lambda hit: next(rank for rank, test in enumerate(tests) if test in hit[0])
        )
        return [column for _, column in ranked[:limit]]

    def neighbors(self, column: int, k: int, min_count: int) -> list[tuple[int, float]]:
        """Return the nearest labels that occurred ``min_count`` times in training, with their
        cosines.
        """
        with self._one_at_a_time:  # many first requests at once would each compute the vectors
            unit = self._unit_vectors
        columns, cosines = nearest_labels(unit, k, [column], self.counts >= min_count)
        pairs = zip(columns[0].tolist(), cosines[0].tolist(), strict=True)
        return [(other, cosine) for other, cosine in pairs if other >= 0]

    @cached_property
    def _search_texts(self) -> list[tuple[str, int]]:
        """Name and title of every label, each between line ends, and its column; from the most
        frequent on.
        """
        name, title = self.index.spelled, self.index.title
        return [
            (f"\n{_folded(name(i))}\n{_folded(title(i))}\n", i) for i in self.by_frequency.tolist()
        ]

    @cached_property
    def _unit_vectors(self) -> NDArray[Any]:
        return unit_vectors(self._classifier)


def _folded(name: str) -> str:
    """Return a name without case and with single spaces."""
    return " ".join(name.casefold().split())
