"""The engine of one machine: X and Y in memory, products on the threads of this process."""

from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.engines.protocol import Engine
from rembrandt.linalg import Array, Floats
from rembrandt.linalg.blocks import gram64, spans
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, matmul, scale_rows
from rembrandt.linalg.transposed import Transposed

# Largest n × width intermediate of a product.
BLOCK_BYTES = 1 << 29
# Density below which a sparse product forms a Gram matrix faster than a dense one.
SPARSE_GRAM_DENSITY = 0.06
# Operations of a dense factor, d³, that take as long as the iterations over one entry of X.
FACTOR_FLOPS_PER_ENTRY = 1.6e5


class CpuEngine(Engine):
    """Holds X and Y in memory; sparse matrices a second time, laid out by columns."""

    def __init__(
        self,
        X: Matrix,
        Y: sparse.csr_array,
        weights: Array | None = None,
    ) -> None:
        self.n, self.d = X.shape
        self.c = Y.shape[1]
        self.dtype = X.dtype
        self.weights = None
        if weights is not None:
            self.weights = np.asarray(weights, dtype=np.float64)
        features: Matrix
        if is_sparse(X):
            features = as_csr(X)
            n_entries = features.nnz
        else:
            features = np.asarray(X)
            n_entries = X.size
        self._matrices: dict[str, Matrix] = {"X": features, "Y": as_csr(Y)}
        self._transposes: dict[str, Any] = {}
        affordable_columns = int((FACTOR_FLOPS_PER_ENTRY * n_entries) ** (1 / 3))
        self.exact_columns = min(self.exact_columns, affordable_columns)

    def full_product(self, left: str, right: str, Q: Array) -> Array:
        """``leftᵀ D (right Q)``, some columns at a time to bound the n × width block in between."""
        left_t = self._transpose(left)
        column_bytes = max(1, self.n * Q.itemsize)
        step = max(1, BLOCK_BYTES // column_bytes)
        blocks = []
        for columns in spans(Q.shape[1], step):
            U = matmul(self._matrices[right], Q[:, columns])
            if self.weights is not None:
                weights = self.weights[:, None]
                U = U * weights.astype(U.dtype)
            blocks.append(left_t @ U)
        if len(blocks) == 1:
            return blocks[0]
        return np.hstack(blocks)

    def column_sums(self, name: str, squared: bool) -> Floats:
        A = self._matrices[name]
        if squared and is_sparse(A):
            A = A.multiply(A).tocsr()
        elif squared:
            A = A.astype(np.float64) ** 2
        weights = self.weights
        if weights is None:
            weights = np.ones(self.n)
        sums = np.asarray(A.T @ weights, dtype=np.float64)
        return sums.ravel()

    def gram_matrix(self) -> Floats:
        A: Matrix = self._matrices["X"]
        if self.weights is not None:
            A = scale_rows(A, np.sqrt(self.weights))
        n_entries = self.n * self.d
        if is_sparse(A) and A.nnz < SPARSE_GRAM_DENSITY * n_entries:
            A64 = A.astype(np.float64)
            sparse_gram = A64.T @ A64
            return np.asarray(sparse_gram.todense())
        G = np.zeros((self.d, self.d))
        # A block is dense in its own precision and once more in float64: at most 16 bytes an entry.
        block_rows = max(1, BLOCK_BYTES // (16 * self.d))
        for rows in spans(self.n, block_rows):
            block = A[rows]
            if is_sparse(A):
                block = block.toarray()
            G += gram64(block)
        return G

    def cross_matrix(self) -> Floats:
        X = self._matrices["X"]
        Y = self._matrices["Y"]
        if self.weights is not None:
            Y = scale_rows(Y, self.weights)
        Y = Y.astype(np.float64)
        if is_sparse(X):
            sparse_product = X.T.astype(np.float64) @ Y
            return np.asarray(sparse_product.todense())
        C = np.zeros((self.d, self.c))
        block_rows = max(1, BLOCK_BYTES // (8 * self.d))
        for rows in spans(self.n, block_rows):
            X_block = X[rows].astype(np.float64)
            C += (Transposed.of(Y[rows]) @ X_block).T
        return C

    def _transpose(self, name: str) -> Any:
        """Return the transpose of X or Y; that of a sparse matrix is laid out on first use."""
        if name not in self._transposes:
            A = self._matrices[name]
            if is_sparse(A):
                self._transposes[name] = Transposed.of(A)
            else:
                self._transposes[name] = A.T
        return self._transposes[name]
