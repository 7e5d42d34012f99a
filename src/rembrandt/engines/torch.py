"""The engine of a device, or of several: X and Y in its memory by rows and by columns, products through torch.

With several devices each holds the data and works on its share of a block's columns; blocks live on the first.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.engines.torch_memory import halving
from rembrandt.engines.torch_products import Csr, Tensor, multiply, tensor
from rembrandt.linalg.blocks import gram64, spans
from rembrandt.linalg.eigen import gaussian
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse

SMALL_CROSS = 1 << 25  # entries: up to here XᵀY is formed once and every product with it is a small one
BLOCK_BYTES = 1 << 33  # the largest n × width intermediate that a product makes at a time
DENSE_BYTES = 1 << 29  # rows made dense at a time
DRAWN_HERE = 1 << 24  # numbers: up to here a random block is NumPy's, and the same on every engine


class TorchEngine:
    """Holds X and Y on devices; blocks are tensors of the first of them."""

    def __init__(
        self,
        X: Matrix,
        Y: sparse.csr_array | None = None,
        weights: NDArray[Any] | None = None,
        center_features: bool = False,
        center_labels: bool = False,
        devices: tuple[torch.device, ...] = (torch.device("cpu"),),
        constant: bool = False,
    ) -> None:
        self.n, self.d = X.shape[0], X.shape[1] + constant
        self.devices = devices
        self.dtype = torch.float64 if X.dtype == np.float64 else torch.float32
        first = devices[0]
        w = None if weights is None else torch.as_tensor(weights, dtype=torch.float64, device=first)
        self.X = _Operand(_placed(X, first, self.dtype, constant), w, center_features)
        self.Y = None if Y is None else _Operand(_placed(Y, first, self.dtype), w, center_labels)
        self.c = 0 if Y is None else Y.shape[1]
        self._operands = {first: (self.X, self.Y)}
        for device in set(devices) - {first}:
            self._operands[device] = self.X.to(device), None if self.Y is None else self.Y.to(device)
        self._cross: Tensor | None = None

    def gram(self, Z: Tensor) -> Tensor:
        return self._through("X", "X", Z)

    def cross(self, Q: Tensor) -> Tensor:
        cross = self._small_cross()
        return self._through("X", "Y", Q) if cross is None else (cross @ Q.double()).to(Q.dtype)

    def cross_t(self, Z: Tensor) -> Tensor:
        cross = self._small_cross()
        return self._through("Y", "X", Z) if cross is None else (cross.T @ Z.double()).to(Z.dtype)

    def label_gram(self, Q: Tensor) -> Tensor:
        return self._through("Y", "Y", Q)

    def feature_norms(self) -> NDArray[np.float64]:
        return self.X.column_norms().cpu().numpy()

    def label_norms(self) -> NDArray[np.float64]:
        return self._labels().column_norms().cpu().numpy()

    def feature_means(self) -> Tensor:
        return self.X.mean

    def label_means(self) -> Tensor:
        return self._labels().mean

    def gram_matrix(self) -> Tensor:
        return self.X.gram_matrix()

    def project(self, Z: Tensor) -> Iterator[tuple[slice, Tensor]]:
        for rows in spans(self.n, _width(Z.shape[1], Z.element_size())):
            yield rows, _times(_rows(self.X.A, rows), Z) - self.X.mean @ Z

    def asarray(self, x: Any) -> Tensor:
        return torch.as_tensor(x).to(self.devices[0], self.dtype)

    def to_numpy(self, block: Tensor) -> NDArray[Any]:
        return block.cpu().numpy()

    def gaussian(self, size: int, width: int, seed: int) -> Tensor:
        """A random start, drawn on the device where NumPy would take longer than the search."""
        if self.devices[0].type == "cpu" or size * width <= DRAWN_HERE:
            return self.asarray(gaussian(size, width, seed))
        generator = torch.Generator(self.devices[0]).manual_seed(seed)
        out = torch.empty((size, width), dtype=self.dtype, device=self.devices[0])
        for column in range(width):  # column by column, so that a wider block begins with a narrower one
            out[:, column] = torch.randn(size, generator=generator, device=self.devices[0], dtype=self.dtype)
        return out

    def _labels(self) -> "_Operand":
        if self.Y is None:
            raise ValueError("this engine holds no labels: give it Y")
        return self.Y

    def _operand(self, name: str, device: torch.device) -> "_Operand":
        if name == "Y":
            self._labels()
        X, Y = self._operands[device]
        return X if name == "X" or Y is None else Y

    def _through(self, left: str, right: str, Q: Tensor) -> Tensor:
        """``leftᵀ D (right Q)``, by columns: so many that the n × width block between them fits, shared by devices."""
        first, whole = self.devices[0], Q.shape[1]
        if len(self.devices) == 1 and whole <= _width(self.n, Q.element_size()):
            try:
                return self._operand(left, first).weighted_t(self._operand(right, first).times(Q.contiguous()))
            except torch.OutOfMemoryError:
                whole = max(1, whole // 2)  # as `halving` would go on
        rows = self._operand(left, first).A.shape[1]
        out = torch.empty((rows, Q.shape[1]), dtype=Q.dtype, device=Q.device)
        share = -(-Q.shape[1] // len(self.devices))

        def work(columns: slice) -> None:
            device = self.devices[min(columns.start // max(1, share), len(self.devices) - 1)]
            part = Q[:, columns].to(device).contiguous()
            product = self._operand(right, device).times(part)
            out[:, columns] = self._operand(left, device).weighted_t(product).to(Q.device)

        step = min(max(1, share), whole, _width(self.n, Q.element_size()))
        for device_columns in spans(Q.shape[1], max(1, share)):
            halving(work, device_columns, step, f"a product of {self.n:,} rows")
        return out

    def _small_cross(self) -> Tensor | None:
        """``XᵀY`` where it is small enough to keep: an embedding is then a few small dense products."""
        if self._cross is None and self.d * self.c <= SMALL_CROSS:
            self._cross = self._labels().dense_cross(self.X)
        return self._cross


class _Operand:
    """One of the two data matrices with the example weights and its mean."""

    def __init__(self, A: Csr | Tensor, weights: Tensor | None, center: bool) -> None:
        self.A, self.weights, self.centered = A, weights, center
        self._t: Csr | Tensor | None = None
        self.total = A.shape[0] if weights is None else float(weights.sum())
        like = A.values if isinstance(A, Csr) else A
        self.mean = torch.zeros(A.shape[1], dtype=like.dtype, device=like.device)
        if center and self.total > 0:
            self.mean = (_column_sums(A, weights) / self.total).to(like.dtype)

    def to(self, device: torch.device) -> "_Operand":
        return _Operand(self.A.to(device), None if self.weights is None else self.weights.to(device), self.centered)

    @property
    def t(self) -> Csr | Tensor:
        if self._t is None:
            self._t = self.A.transposed() if isinstance(self.A, Csr) else self.A.T
        return self._t

    def times(self, Z: Tensor) -> Tensor:
        """``(A − 1μᵀ) Z``."""
        out = _times(self.A, Z)
        return out.sub_(self.mean.to(out.dtype) @ Z) if self.centered else out

    def weighted_t(self, U: Tensor) -> Tensor:
        """``(A − 1μᵀ)ᵀ D U``."""
        if self.weights is not None:
            U = U * self.weights[:, None].to(U.dtype)
        out = _times(self.t, U)
        if self.centered:
            out -= torch.outer(self.mean, U.sum(dim=0, dtype=torch.float64).to(out.dtype))
        return out

    def column_norms(self) -> Tensor:
        # With μ the weighted mean, Σ w (a − μ)² = Σ w a² − (Σ w) μ².
        return _column_sums(self.A, self.weights, squared=True) - self.total * self.mean.double() ** 2

    def gram_matrix(self) -> Tensor:
        """``AᵀDA`` in float64, by dense row blocks."""
        root = None if self.weights is None else self.weights.sqrt()
        n, d = self.A.shape
        G = torch.zeros((d, d), dtype=torch.float64, device=self.mean.device)
        for rows in spans(n, max(1, DENSE_BYTES // (8 * d))):
            part = _dense(_rows(self.A, rows))
            G += gram64(part if root is None else part * root[rows, None])
        mean = self.mean.double()
        return G - self.total * torch.outer(mean, mean)

    def dense_cross(self, X: "_Operand") -> Tensor:
        """``XᵀDY`` for this Y, dense and in float64."""
        C = torch.zeros((self.A.shape[1], X.A.shape[1]), dtype=torch.float64, device=self.mean.device)
        for rows in spans(self.A.shape[0], max(1, DENSE_BYTES // (8 * X.A.shape[1]))):
            part, Y = _dense(_rows(X.A, rows)), _rows(self.A, rows)
            if self.weights is not None:
                part *= self.weights[rows, None]
            C += _times(Y.transposed() if isinstance(Y, Csr) else Y.T.double(), part)
        # (X − 1μᵀ)ᵀ D (Y − 1νᵀ) = XᵀDY − (Σ w) μ νᵀ when at least one side is centred by its weighted mean.
        if X.centered or self.centered:
            mu = _column_sums(X.A, X.weights) / X.total
            nu = _column_sums(self.A, self.weights) / self.total
            C -= self.total * torch.outer(nu, mu)
        return C.T.contiguous()


def _placed(A: Matrix, device: torch.device, dtype: torch.dtype, constant: bool = False) -> Csr | Tensor:
    if is_sparse(A):
        placed = Csr.of(as_csr(A), device, dtype)
        return placed.with_constant() if constant else placed
    block = tensor(A, device).to(dtype)
    return torch.cat([block, torch.ones_like(block[:, :1])], dim=1) if constant else block


def _times(A: Csr | Tensor, Z: Tensor) -> Tensor:
    return multiply(A, Z) if isinstance(A, Csr) else A.to(Z.dtype) @ Z


def _rows(A: Any, rows: slice) -> Any:
    return A.rows(rows) if isinstance(A, Csr) else A[rows]


def _dense(A: Csr | Tensor) -> Tensor:
    return A.dense(torch.float64) if isinstance(A, Csr) else A.double()


def _column_sums(A: Csr | Tensor, weights: Tensor | None, squared: bool = False) -> Tensor:
    if isinstance(A, Csr):
        return A.column_sums(weights, squared)
    wide = A.double() ** 2 if squared else A.double()
    return wide.sum(dim=0) if weights is None else weights @ wide


def _width(size: int, itemsize: int) -> int:
    return max(1, BLOCK_BYTES // max(1, size * itemsize))
