"""The engine of one or more torch devices: X and Y in device memory by rows and by columns.

With several devices each holds the data and works on its share of a block's columns; blocks are on the first device.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.engines.protocol import Products
from rembrandt.engines.torch_memory import halving
from rembrandt.engines.torch_products import Csr, Tensor, multiply, tensor
from rembrandt.linalg.blocks import gram64, spans
from rembrandt.linalg.eigen import gaussian
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse

BLOCK_BYTES = 1 << 33  # largest n × width intermediate of a product
DENSE_BYTES = 1 << 29  # rows made dense at a time
DRAWN_BY_NUMPY = 1 << 24  # numbers: up to this size a random block is NumPy's, and the same on every engine


class TorchEngine(Products):
    """Holds X and Y on devices; blocks are tensors on the first device."""

    def __init__(
        self,
        X: Matrix,
        Y: sparse.csr_array | None = None,
        weights: NDArray[Any] | None = None,
        devices: tuple[torch.device, ...] = (torch.device("cpu"),),
        constant: bool = False,
    ) -> None:
        self.n, self.d = X.shape[0], X.shape[1] + constant
        self.c = 0 if Y is None else Y.shape[1]
        self.devices = devices
        self.dtype = torch.float64 if X.dtype == np.float64 else torch.float32
        first = devices[0]
        self.weights = None if weights is None else torch.as_tensor(weights, dtype=torch.float64, device=first)
        labels: Any = sparse.csr_array((self.n, 0), dtype=X.dtype) if Y is None else Y
        self.X = _placed(X, first, self.dtype, constant)
        self.Y = _placed(labels, first, self.dtype)
        self._operands = {
            device: {name: _Operand(A.to(device), self._weights(device)) for name, A in (("X", self.X), ("Y", self.Y))}
            for device in dict.fromkeys(devices)
        }

    def column_sums(self, name: str, squared: bool) -> NDArray[np.float64]:
        A = self.X if name == "X" else self.Y
        if isinstance(A, Csr):
            return A.column_sums(self.weights, squared).cpu().numpy()
        wide = A.double() ** 2 if squared else A.double()
        return (wide.sum(dim=0) if self.weights is None else self.weights @ wide).cpu().numpy()

    def gram_matrix(self) -> Tensor:
        root = None if self.weights is None else self.weights.sqrt()
        G = torch.zeros((self.d, self.d), dtype=torch.float64, device=self.devices[0])
        for rows in spans(self.n, max(1, DENSE_BYTES // (8 * self.d))):
            part = _dense(_rows(self.X, rows))
            G += gram64(part if root is None else part * root[rows, None])
        return G

    def cross_matrix(self) -> Tensor:
        C = torch.zeros((self.c, self.d), dtype=torch.float64, device=self.devices[0])
        for rows in spans(self.n, max(1, DENSE_BYTES // (8 * self.d))):
            part, Y = _dense(_rows(self.X, rows)), _rows(self.Y, rows)
            if self.weights is not None:
                part *= self.weights[rows, None]
            C += _times(_transposed(Y), part)
        return C.T.contiguous()

    def asarray(self, x: Any) -> Tensor:
        return torch.as_tensor(x).to(self.devices[0], self.dtype)

    def gaussian(self, size: int, width: int, seed: int) -> Tensor:
        """Draw a random block; on the device when NumPy would take longer than the search."""
        if self.devices[0].type == "cpu" or size * width <= DRAWN_BY_NUMPY:
            return self.asarray(gaussian(size, width, seed))
        generator = torch.Generator(self.devices[0]).manual_seed(seed)
        out = torch.empty((size, width), dtype=self.dtype, device=self.devices[0])
        for column in range(width):  # by columns, so that a wider block starts with a narrower one
            out[:, column] = torch.randn(size, generator=generator, device=self.devices[0], dtype=self.dtype)
        return out

    def product(self, left: str, right: str, Q: Tensor) -> Tensor:
        """``leftᵀ D (right Q)``, by columns that are shared by the devices and fit in their memory."""
        first, whole = self.devices[0], Q.shape[1]
        if len(self.devices) == 1 and whole <= self._width(Q):
            try:
                return self._operands[first][left].weighted_t(self._operands[first][right].times(Q.contiguous()))
            except torch.OutOfMemoryError:
                whole = max(1, whole // 2)  # `halving` continues from here
        rows = (self.X if left == "X" else self.Y).shape[1]
        out = torch.empty((rows, Q.shape[1]), dtype=Q.dtype, device=Q.device)
        share = max(1, -(-Q.shape[1] // len(self.devices)))

        def work(columns: slice) -> None:
            device = self.devices[min(columns.start // share, len(self.devices) - 1)]
            own = self._operands[device]
            product = own[right].times(Q[:, columns].to(device).contiguous())
            out[:, columns] = own[left].weighted_t(product).to(Q.device)

        step = min(share, whole, self._width(Q))
        for device_columns in spans(Q.shape[1], share):
            halving(work, device_columns, step, f"a product of {self.n:,} rows")
        return out

    def _weights(self, device: torch.device) -> Tensor | None:
        return None if self.weights is None else self.weights.to(device)

    def _width(self, Q: Tensor) -> int:
        return max(1, BLOCK_BYTES // max(1, self.n * Q.element_size()))


class _Operand:
    """One of the two data matrices on a device, with the example weights, and its transpose once it is needed."""

    def __init__(self, A: Csr | Tensor, weights: Tensor | None) -> None:
        self.A, self.weights = A, weights
        self._t: Csr | Tensor | None = None

    def times(self, Z: Tensor) -> Tensor:
        """``A Z``."""
        return _times(self.A, Z)

    def weighted_t(self, U: Tensor) -> Tensor:
        """``Aᵀ D U``."""
        if self._t is None:
            self._t = _transposed(self.A)
        return _times(self._t, U if self.weights is None else U * self.weights[:, None].to(U.dtype))


def _placed(A: Matrix, device: torch.device, dtype: torch.dtype, constant: bool = False) -> Csr | Tensor:
    if is_sparse(A):
        placed = Csr.of(as_csr(A), device, dtype)
        return placed.with_constant() if constant else placed
    block = tensor(A, device).to(dtype)
    return torch.cat([block, torch.ones_like(block[:, :1])], dim=1) if constant else block


def _times(A: Csr | Tensor, Z: Tensor) -> Tensor:
    return multiply(A, Z) if isinstance(A, Csr) else A.to(Z.dtype) @ Z


def _transposed(A: Csr | Tensor) -> Csr | Tensor:
    return A.transposed() if isinstance(A, Csr) else A.T


def _rows(A: Any, rows: slice) -> Any:
    return A.rows(rows) if isinstance(A, Csr) else A[rows]


def _dense(A: Csr | Tensor) -> Tensor:
    return A.dense(torch.float64) if isinstance(A, Csr) else A.double()
