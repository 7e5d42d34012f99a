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
        ranked = {"probability": self.probabilities[rows, ranks], "rank": ranks + 1}
        return {"id": as_labels(self.ids)[rows], **texts, **ranked}

    def wide(self) -> dict[str, Any]:
        """The columns of a table with a row for each example; a cell is None where there is no
        label.
        """
        found, texts = {"id": as_labels(self.ids)}, self._texts()
        nothing = np.array(None, dtype=object)
        for rank in range(self.labels.shape[1]):
            has, column = self.labels[:, rank] >= 0, self.labels[:, rank]
            found |= {
                f"{name}_{rank + 1}": np.where(has, values[column], nothing)
                for name, values in texts.items()
            }
            found[f"probability_{rank + 1}"] = np.where(has, self.probabilities[:, rank], np.nan)
        return found

    def documents(self) -> Iterator[dict[str, Any]]:
        """A JSON object for each example."""
        for identifier, labels, values in zip(
            as_labels(self.ids).tolist(),
            self.labels.tolist(),
            self.probabilities.tolist(),
            strict=True,
        ):
            ranked = enumerate(zip(labels, values, strict=True), 1)
            found = [
                self.index.named(i) | {"probability": p, "rank": rank}
                for rank, (i, p) in ranked
                if i >= 0
            ]
            yield {"id": identifier, "labels": found}

    def _texts(self) -> dict[str, NDArray[np.object_]]:
        columns, index = range(len(self.index)), self.index
        texts = {
            "label": [index.spelled(i) for i in columns],
            "name": [index.title(i) for i in columns],
        }
        return {name: np.array(values, dtype=object) for name, values in texts.items()}
