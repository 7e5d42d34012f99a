"""Ranked labels of examples as tables: a row for each label, or for each example."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.labels import LabelIndex, as_labels


@dataclass(frozen=True)
class Predictions:
    """Labels of each example, best first and -1 after them, with their probabilities (both n ×
    k).
    """

    ids: Any  # what identifies each example
    labels: NDArray[np.int64]
    probabilities: NDArray[Any]
    index: LabelIndex

    def long(self) -> dict[str, Any]:
        """The columns of a table with a row for each example and label."""
        rows, ranks = np.nonzero(self.labels >= 0)
        texts = {name: values[self.labels[rows, ranks]] for name, values in self._texts().items()}
        return {
            "id": as_labels(self.ids)[rows],
            **texts,
            "probability": self.probabilities[rows, ranks],
            "rank": ranks + 1,
        }

    def wide(self) -> dict[str, Any]:
        """The columns of a table with a row for each example; a cell is None where there is no
        label.
        """
        columns: dict[str, Any] = {"id": as_labels(self.ids)}
        texts = self._texts()
        nothing = np.array(None, dtype=object)
        for number in range(self.labels.shape[1]):
            labels = self.labels[:, number]
            is_label = labels >= 0
            rank = number + 1
            for name, values in texts.items():
                columns[f"{name}_{rank}"] = np.where(is_label, values[labels], nothing)
            probabilities = self.probabilities[:, number]
            columns[f"probability_{rank}"] = np.where(is_label, probabilities, np.nan)
        return columns

    def documents(self) -> Iterator[dict[str, Any]]:
        """A JSON object for each example."""
        rows = zip(
            as_labels(self.ids).tolist(),
            self.labels.tolist(),
            self.probabilities.tolist(),
            strict=True,
        )
        for identifier, labels, probabilities in rows:
            ranked = []
            for number, column in enumerate(labels):
                if column >= 0:
                    entry = {"probability": probabilities[number], "rank": number + 1}
                    ranked.append(self.index.named(column) | entry)
            yield {"id": identifier, "labels": ranked}

    def _texts(self) -> dict[str, NDArray[np.object_]]:
        """Return identifiers and names of all labels."""
        columns = range(len(self.index))
        labels = [self.index.spelled(i) for i in columns]
        names = [self.index.title(i) for i in columns]
        return {
            "label": np.array(labels, dtype=object),
            "name": np.array(names, dtype=object),
        }
