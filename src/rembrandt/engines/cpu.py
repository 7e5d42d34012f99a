"""The engine of one machine: X and Y in memory, products on the threads of this process."""

from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.engines.protocol import Engine
from rembrandt.linalg import Array, Floats
from rembrandt.linalg.blocks import gram64, spans
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, matmul, scale_rows
from rembrandt.linalg.transposed import Transposed

BLOCK_BYTES = 1 << 29  # largest n × width intermediate of a product
VERY_SPARSE = 0.06  # density below which a Gram matrix is a sparse product
# Operations of a dense factor, d³, that take as long as the iterations over one entry of X
EXACT = 1.6e5


class CpuEngine(Engine):
    """Holds X and Y in memory; sparse matrices a second time, laid out by columns."""

    def __init__(self, X: Matrix, Y: sparse.csr_array, weights: Array | None = None) -> None:
        (self.n, self.d), self.c = X.shape, Y.shape[1]
        self.dtype = X.dtype
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self._matrices: dict[str, Matrix] = {
            "X": as_csr(X) if is_sparse(X) else np.asarray(X),
            "Y": as_csr(Y),
        }
        self._transposes: dict[str, Any] = {}
        entries = self._matrices["X"].nnz if is_sparse(X) else X.size
        self.exact_columns = min(self.exact_columns, int((EXACT * entries) ** (1 / 3)))

    def full_product(self, left: str, right: str, Q: Array) -> Array:
        """``leftᵀ D (right Q)``, some columns at a time to bound the n × width block in between."""
        if left not in self._transposes:
            A = self._matrices[left]
            self._transposes[left] = Transposed.of(A) if is_sparse(A) else A.T
        At, B = self._transposes[left], self._matrices[right]
        step = max(1, BLOCK_BYTES // max(1, self.n * Q.itemsize))
        parts = [
            At @ self._weighted(matmul(B, Q[:, columns])) for columns in spans(Q.shape[1], step)
        ]
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def column_sums(self, name: str, squared: bool) -> Floats:
        A = self._matrices[name]
        if squared:
            A = A.multiply(A).tocsr() if is_sparse(A) else A.astype(np.float64) ** 2
        w = np.ones(self.n) if self.weights is None else self.weights
        return np.asarray(A.T @ w, dtype=np.float64).ravel()

    def gram_matrix(self) -> Floats:
        X = self._matrices["X"]
        A: Matrix = X if self.weights is None else scale_rows(X, np.sqrt(self.weights))
        if is_sparse(A) and A.nnz < VERY_SPARSE * self.n * self.d:
            wide = A.astype(np.float64)
            return np.asarray((wide.T @ wide).todense())
        G = np.zeros((self.d, self.d))
        for rows in spans(self.n, max(1, BLOCK_BYTES // (16 * self.d))):
            G += gram64(A[rows].toarray() if is_sparse(A) else A[rows])
        return G

    def cross_matrix(self) -> Floats:
        X, Y = self._matrices["X"], self._matrices["Y"]
        Y = (Y if self.weights is None else scale_rows(Y, self.weights)).astype(np.float64)
        if is_sparse(X):
            return np.asarray((X.T.astype(np.float64) @ Y).todense())
        C = np.zeros((self.d, self.c))
        for rows in spans(self.n, max(1, BLOCK_BYTES // (8 * self.d))):
            C += (Transposed.of(Y[rows]) @ X[rows].astype(np.float64)).T
        return C

    def _weighted(self, U: Array) -> Array:
        return U if self.weights is None else U * self.weights[:, None].astype(U.dtype)
