"""The engine of one machine: X and Y in this process, products on its threads."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.linalg.blocks import gram64, spans
from rembrandt.linalg.eigen import gaussian
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, matmul, scale_rows
from rembrandt.linalg.transposed import Transposed

Array = NDArray[Any]

SMALL_CROSS = 1 << 25  # entries: up to here XᵀY is formed once (256 MB) and every product with it is a small one
BLOCK_BYTES = 1 << 29  # the largest n × width intermediate that a product makes at a time


class NumpyBlocks:
    """What engines whose blocks are NumPy arrays have in common."""

    dtype: Any

    def gaussian(self, size: int, width: int, seed: int) -> Array:
        return self.asarray(gaussian(size, width, seed))

    def asarray(self, x: Array) -> Array:
        return np.asarray(x, dtype=self.dtype)

    def to_numpy(self, block: Array) -> Array:
        return block


class CpuEngine(NumpyBlocks):
    """Holds X and Y in this process; what is sparse a second time, laid out by columns."""

    def __init__(
        self,
        X: Matrix,
        Y: sparse.csr_array | None = None,
        weights: Array | None = None,
        center_features: bool = False,
        center_labels: bool = False,
    ) -> None:
        self.n, self.d = X.shape
        self.X = _Operand(X, weights, center_features)
        self.Y = None if Y is None else _Operand(Y, weights, center_labels)
        self.c = 0 if Y is None else Y.shape[1]
        self.dtype = X.dtype
        self._cross: Array | None = None

    def gram(self, Z: Array) -> Array:
        return self._through(self.X, self.X, Z)

    def cross(self, Q: Array) -> Array:
        cross = self._small_cross()
        return self._through(self.X, self._labels(), Q) if cross is None else _product(cross, Q)

    def cross_t(self, Z: Array) -> Array:
        cross = self._small_cross()
        return self._through(self._labels(), self.X, Z) if cross is None else _product(cross.T, Z)

    def label_gram(self, Q: Array) -> Array:
        return self._through(self._labels(), self._labels(), Q)

    def feature_norms(self) -> NDArray[np.float64]:
        return self.X.column_norms()

    def label_norms(self) -> NDArray[np.float64]:
        return self._labels().column_norms()

    def feature_means(self) -> Array:
        return self.X.mean

    def label_means(self) -> Array:
        return self._labels().mean

    def gram_matrix(self) -> NDArray[np.float64]:
        return self.X.gram_matrix()

    def cross_matrix(self) -> NDArray[np.float64]:
        """``XᵀY`` itself, in float64, for few features and labels."""
        return self._labels().dense_cross(self.X)

    def project(self, Z: Array) -> Iterator[tuple[slice, Array]]:
        for rows in spans(self.n, _width(Z.shape[1], Z.itemsize)):
            yield rows, matmul(self.X.A[rows], Z) - self.X.mean @ Z

    def _labels(self) -> "_Operand":
        if self.Y is None:
            raise ValueError("this engine holds no labels: give it Y")
        return self.Y

    def _through(self, left: "_Operand", right: "_Operand", Q: Array) -> Array:
        """``leftᵀ D (right Q)``, by columns so that the n × width block between them stays bounded."""
        step = _width(self.n, Q.itemsize)
        parts = [left.weighted_t(right.times(Q[:, columns])) for columns in spans(Q.shape[1], step)]
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def _small_cross(self) -> Array | None:
        """``XᵀY`` where it is small enough to keep: an embedding is then a few small dense products."""
        if self._cross is None and self.d * self.c <= SMALL_CROSS:
            self._cross = self.cross_matrix()
        return self._cross


class _Operand:
    """One of the two data matrices with the example weights and its mean."""

    def __init__(self, A: Matrix, weights: Array | None, center: bool) -> None:
        self.A: Matrix = as_csr(A) if is_sparse(A) else np.asarray(A)
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self._t: Any = None if is_sparse(self.A) else self.A.T
        total = self.A.shape[0] if self.weights is None else float(self.weights.sum())
        self.total = total
        self.mean = np.zeros(self.A.shape[1], dtype=self.A.dtype)
        if center and total > 0:
            self.mean = (_column_sums(self.A, self.weights) / total).astype(self.A.dtype)
        self.centered = center

    @property
    def t(self) -> Any:
        if self._t is None:
            self._t = Transposed.of(self.A)
        return self._t

    def times(self, Z: Array) -> Array:
        """``(A − 1μᵀ) Z``."""
        out = matmul(self.A, Z)
        return out - self.mean.astype(out.dtype) @ Z if self.centered else out

    def weighted_t(self, U: Array) -> Array:
        """``(A − 1μᵀ)ᵀ D U``."""
        if self.weights is not None:
            U = U * self.weights[:, None].astype(U.dtype)
        out = self.t @ U
        if self.centered:
            out -= np.outer(self.mean, U.sum(axis=0, dtype=np.float64)).astype(out.dtype)
        return out

    def column_norms(self) -> NDArray[np.float64]:
        squared = self.A.multiply(self.A).tocsr() if is_sparse(self.A) else self.A.astype(np.float64) ** 2
        # With μ the weighted mean, Σ w (a − μ)² = Σ w a² − (Σ w) μ².
        return _column_sums(squared, self.weights) - self.total * self.mean.astype(np.float64) ** 2

    def gram_matrix(self) -> NDArray[np.float64]:
        """``AᵀDA`` in float64, by dense row blocks unless the rows are very sparse."""
        A: Matrix = self.A if self.weights is None else scale_rows(self.A, np.sqrt(self.weights))
        n, d = A.shape
        if is_sparse(A) and A.nnz < 0.03 * n * d:
            wide = A.astype(np.float64)
            G = np.asarray((wide.T @ wide).todense())
        else:
            G = np.zeros((d, d))
            for rows in spans(n, max(1, BLOCK_BYTES // (16 * d))):
                G += gram64(A[rows].toarray() if is_sparse(A) else A[rows])
        mean = self.mean.astype(np.float64)
        return G - self.total * np.outer(mean, mean)

    def dense_cross(self, X: "_Operand") -> NDArray[np.float64]:
        """``XᵀDY`` for this Y, dense and in float64."""
        Y: Matrix = (self.A if self.weights is None else scale_rows(self.A, self.weights)).astype(np.float64)
        if is_sparse(X.A):
            C = np.asarray((X.A.T.astype(np.float64) @ Y).todense())
        else:
            C = np.zeros((X.A.shape[1], Y.shape[1]))
            for rows in spans(Y.shape[0], max(1, BLOCK_BYTES // (8 * X.A.shape[1]))):
                C += (Transposed.of(Y[rows]) @ X.A[rows].astype(np.float64)).T
        # (X − 1μᵀ)ᵀ D (Y − 1νᵀ) = XᵀDY − (Σ w) μ νᵀ when at least one side is centred by its weighted mean.
        if X.centered or self.centered:
            mu = _column_sums(X.A, X.weights) / X.total
            nu = _column_sums(self.A, self.weights) / self.total
            C -= self.total * np.outer(mu, nu)
        return C


def _column_sums(A: Matrix, weights: Array | None) -> NDArray[np.float64]:
    w = np.ones(A.shape[0]) if weights is None else weights
    return np.asarray(A.T @ w, dtype=np.float64).ravel()


def _product(A: Array, Z: Array) -> Array:
    return (A @ Z.astype(np.float64)).astype(Z.dtype)


def _width(size: int, itemsize: int) -> int:
    return max(1, BLOCK_BYTES // max(1, size * itemsize))
