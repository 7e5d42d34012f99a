"""A fitted model as a value: arrays and what they mean. Prediction is a function of it.

``scores(x) = φ(x̂ W) Q + b``, with ``x̂`` the row, scaled to length one where the model says so, and a constant appended.
Rows and labels are scored in blocks, so memory stays bounded however many there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.greedy import pursue
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, normalize_rows, project
from rembrandt.metrics import rank, top_k
from rembrandt.progress import Report, silent

Array = NDArray[Any]

SCORES = 1 << 24  # entries of the largest block of scores: 64 MB
LABELS = 1 << 16  # labels scored at a time
ROWS = 4096  # examples scored at a time, at most


@dataclass(frozen=True)
class Model:
    """Everything that prediction needs."""

    classes: Array  # what each column is called: strings or integers
    multiclass: bool
    normalize: bool  # rows are scaled to length one first
    projection: Array  # W, (d + 1) × k; the last row belongs to the constant feature
    decoder: Decoder
    embedding: Array  # V, c × k
    singular_values: Array
    label_counts: Array  # of the training data, for propensities and baselines
    n_train: int
    settings: dict[str, Any] = field(default_factory=dict)  # how it was made, for people

    @property
    def n_labels(self) -> int:
        return len(self.classes)

    @property
    def n_features(self) -> int:
        return int(self.projection.shape[0]) - 1

    def rows(self, X: Matrix) -> Matrix:
        """``x̂``: rows as the model takes them, the constant left out."""
        dtype = self.projection.dtype
        X = as_csr(X, dtype) if is_sparse(X) else np.asarray(X, dtype=dtype)
        return normalize_rows(X) if self.normalize else X

    def project(self, X: Matrix) -> Array:
        """``H``: rows in the embedding."""
        return project(self.rows(X), self.projection)

    def scores(self, X: Matrix, labels: Any = slice(None)) -> Array:
        """Scores of ``labels`` (all by default) for the rows of ``X``: a dense block, so keep one side small."""
        return self.decoder.scores(self.project(X), labels)

    def top_k(
        self, X: Matrix, k: int, allowed: Array | None = None, report: Report = silent
    ) -> tuple[NDArray[np.int64], Array]:
        """The ``k`` best labels of each row and their scores, best first; equal scores by label index.

        ``allowed`` limits the answer to these label indices. Where fewer than ``k`` labels exist the rest is -1.
        """
        n = X.shape[0]
        best = np.full((n, k), -1, dtype=np.int64)
        scores = np.full((n, k), -np.inf, dtype=self.projection.dtype)
        for rows in self._row_blocks(n):
            report("predicting", rows.start, n)
            best[rows], scores[rows] = self._top_k_block(self.project(X[rows]), k, allowed)
        report("predicting", n, n)
        return best, scores

    def probabilities(self, X: Matrix) -> Array:
        """Probabilities of all labels, n × c; for one label per example they sum to one."""
        out = np.empty((X.shape[0], self.n_labels), dtype=self.projection.dtype)
        for rows in self._row_blocks(X.shape[0]):
            P = self.decoder.probabilities(self.scores(X[rows]))
            if self.multiclass:
                total = P.sum(axis=1, keepdims=True)
                P = np.divide(P, total, out=np.full_like(P, 1 / self.n_labels), where=total > 0)
            out[rows] = P
        return out

    def label_sets(self, X: Matrix, threshold: float = 0.5) -> sparse.csr_array:
        """The labels of each row whose probability reaches ``threshold``, as a 0/1 matrix."""
        parts: list[Any] = []
        for rows in self._row_blocks(X.shape[0]):
            chosen = self.decoder.probabilities(self.scores(X[rows])) >= threshold
            parts.append(sparse.csr_array(chosen, dtype=np.int8))
        empty: Any = sparse.csr_array((0, self.n_labels), dtype=np.int8)
        return sparse.vstack([empty, *parts], format="csr")

    def _row_blocks(self, n: int) -> Iterator[slice]:
        return spans(n, max(1, min(ROWS, SCORES // min(self.n_labels, LABELS))))

    def _top_k_block(self, H: Array, k: int, allowed: Array | None) -> tuple[Array, Array]:
        if self.decoder.greedy:
            candidates = np.arange(self.n_labels) if allowed is None else allowed
            found, scores = pursue(H, self.decoder.weights.T[candidates], k)
            return _padded(candidates[found], scores, k)
        Phi = self.decoder.features(H)
        wanted = self.n_labels if allowed is None else len(allowed)
        best, scores = np.empty((len(H), 0), dtype=np.int64), np.empty((len(H), 0), dtype=H.dtype)
        for span in spans(wanted, LABELS):
            labels: Any = span if allowed is None else allowed[span]
            block = Phi @ self.decoder.weights[:, labels] + self.decoder.bias[labels]
            found, values = top_k(block, min(k, block.shape[1]))
            found = np.where(found < 0, -1, found + span.start if allowed is None else labels[found])
            best, scores = rank(np.hstack([best, found]), np.hstack([scores, values]))
            best, scores = best[:, :k], scores[:, :k]
        return _padded(best, scores, k)


def _padded(labels: Array, scores: Array, k: int) -> tuple[Array, Array]:
    short = k - labels.shape[1]
    if short <= 0:
        return labels, scores
    return np.pad(labels, ((0, 0), (0, short)), constant_values=-1), np.pad(
        scores, ((0, 0), (0, short)), constant_values=-np.inf
    )
