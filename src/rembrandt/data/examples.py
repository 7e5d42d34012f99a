"""Training examples: features, labels, the names of the labels and the weights of the examples."""

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.rows import Rows, as_rows

Array = NDArray[Any]


@dataclass(frozen=True)
class Examples:
    """Features (n × d) and labels (n × c) of examples."""

    X: Rows
    Y: sparse.csr_array
    classes: Array
    multiclass: bool
    weights: Array | None = None

    @property
    def n(self) -> int:
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.Y.shape[1])

    @property
    def per_label(self) -> float:
        """Mean number of examples of a label."""
        return float(self.Y.nnz / self.Y.shape[1])

    def take(self, index: Array) -> "Examples":
        """Return the examples at these positions, in memory."""
        weights = None if self.weights is None else self.weights[index]
        return replace(self, X=as_rows(self.X[index]), Y=self.Y[index], weights=weights)
