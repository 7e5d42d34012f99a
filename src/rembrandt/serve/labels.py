"""Lookup, search and neighbours of the labels of a model."""

from operator import itemgetter
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.labels import LabelIndex
from rembrandt.explore.neighbors import nearest_labels, unit_vectors
from rembrandt.forks import cached_property

_MAX_CHILDREN = 100  # of a label, that are listed
_MAX_RANKED_HITS = 2000  # matches that are ranked, from the most frequent labels on


class Labels:
    """Names, titles, descriptions and training counts of labels, by column."""

    def __init__(self, classifier: Any) -> None:
        self._classifier = classifier
        self._one_at_a_time = Lock()
        self.index: LabelIndex = classifier.model_.labels
        titles = self.index.titles or ()
        self.n_named = sum(bool(title) for title in titles)
        self.nodes: LabelIndex = classifier.model_.nodes  # labels and groups above them
        self.counts = np.asarray(classifier.label_counts_)
        self.by_frequency = np.argsort(-self.counts, kind="stable")

    def document(self, column: int) -> dict[str, Any]:
        """Return a label with its description as JSON, and what lies above and below it."""
        document: dict[str, Any] = self.index.detailed(column)
        document["count"] = int(self.counts[column])
        hierarchy = self._classifier.model_.hierarchy
        if hierarchy is not None:
            parents = hierarchy.parents_of(column)
            children = hierarchy.children_of(column)
            listed = children[:_MAX_CHILDREN]
            document["parents"] = [self._node(node) for node in parents]
            document["children"] = [self._node(node) for node in listed]
        return document

    def _node(self, node: int) -> dict[str, Any]:
        document: dict[str, Any] = self.nodes.named(node)
        is_label = node < len(self.index)
        return document | {"is_label": is_label}

    def search(self, query: str, limit: int) -> list[int]:
        """Return labels whose name or title contains ``query``, the most frequent first.

        Labels that are equal to the query come before those that begin with it, and those before
        labels with a word that begins with it.
        """
        query = _folded(query)
        hits = []
        for text, column in self._search_texts:
            if query in text:
                rank = _match_rank(text, query)
                hits.append((rank, column))
            if len(hits) == _MAX_RANKED_HITS:
                break
        hits.sort(key=itemgetter(0))  # stable: the more frequent stay first
        return [column for _, column in hits[:limit]]

    def neighbors(self, column: int, k: int, min_count: int) -> list[tuple[int, float]]:
        """Return the nearest labels that occurred ``min_count`` times in training, with their
        cosines.
        """
        with self._one_at_a_time:  # many first requests at once would each compute the vectors
            unit = self._unit_vectors
        is_frequent = self.counts >= min_count
        all_columns, all_cosines = nearest_labels(unit, k, [column], is_frequent)
        columns = all_columns[0].tolist()
        cosines = all_cosines[0].tolist()
        neighbors = zip(columns, cosines, strict=True)
        return [(other, cosine) for other, cosine in neighbors if other >= 0]

    @cached_property
    def _search_texts(self) -> list[tuple[str, int]]:
        """Name and title of every label, each between line ends, and its column; from the most
        frequent on.
        """
        texts = []
        for column in self.by_frequency.tolist():
            name = self.index.spelled(column)
            title = self.index.title(column)
            text = f"\n{_folded(name)}\n{_folded(title)}\n"
            texts.append((text, column))
        return texts

    @cached_property
    def _unit_vectors(self) -> NDArray[Any]:
        return unit_vectors(self._classifier)


def _match_rank(text: str, query: str) -> int:
    """Return 0 if a line of the text is the query, 1 if one begins with it, 2 if a word begins with
    it and 3 otherwise.
    """
    if f"\n{query}\n" in text:
        return 0
    if f"\n{query}" in text:
        return 1
    if f" {query}" in text:
        return 2
    return 3


def _folded(name: str) -> str:
    """Return a name without case and with single spaces."""
    words = name.casefold().split()
    return " ".join(words)
