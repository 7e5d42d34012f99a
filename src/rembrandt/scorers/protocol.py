"""What a model asks of each of its scorers."""

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.linalg.sparse import Matrix

Array = NDArray[Any]
Labels = NDArray[np.int64]

BLOCK_ROWS = 1 << 13  # scored at a time, by all threads


class Scorer(Protocol):
    """One way to score labels for rows.

    Scores of different scorers need not be comparable; the blend makes them so.
    """

    @property
    def n_labels(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    @property
    def proposes(self) -> bool:
        """Whether `top` is fast enough for every row; otherwise the scorer ranks what others
        propose.
        """
        return True

    @property
    def nbytes(self) -> int:
        """Size of the arrays."""
        return sum(array.nbytes for array in self.arrays()[0].values())

    @property
    def block_rows(self) -> int:
        """Number of rows to score at a time, so that memory stays bounded."""
        return BLOCK_ROWS

    def prepare(self, X: Matrix) -> Any:
        """Compute what `top`, `at` and `explain` share for these rows, once."""

    def top(self, rows: Any, k: int) -> tuple[Labels, Array]:
        """Return the ``k`` best labels of every row and their scores, best first; ties by label
        index.

        Where there are fewer than ``k``, the label is -1 and the score -inf.
        """

    def at(self, rows: Any, labels: Labels) -> Array:
        """Return the scores of the given labels (n × m) of every row; -inf where the label is
        -1.
        """

    def every(self, rows: Any) -> Array:
        """Return the scores of all labels of every row, n × c.

        As those of `at`, a row's scores do not depend on the rows that are scored with it.
        """

    def likelihood(self, rows: Any, labels: Labels, scores: Array) -> Array:
        """Turn the scores of the given labels (n × m) into estimates of probabilities, which the
        blend averages.

        By default scores are such estimates.
        """
        return scores

    def explain(self, row: sparse.csr_array, labels: Labels, likelihood: bool = False) -> Any:
        """Return what every stored entry of ``row`` (1 × d) adds to the scores of ``labels`` (m):
        `Contributions`.

        With ``likelihood`` to their likelihoods, which the blend averages.
        """

    def arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the scorer as named arrays and JSON."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], facts: dict[str, Any]) -> Self:
        """Rebuild what `arrays` returned."""
