"""The engine of one or more torch devices: X and Y in device memory by rows and by columns.

With several devices each holds the data and works on its share of a block's columns; blocks are on
the first device.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.engines.protocol import Engine
from rembrandt.engines.torch_memory import halving
from rembrandt.engines.torch_products import Csr, Tensor, tensor
from rembrandt.linalg.blocks import gram64, spans
from rembrandt.linalg.eigen import gaussian
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse

BLOCK_BYTES = 1 << 33  # largest n × width intermediate of a product
DENSE_BYTES = 1 << 29  # rows made dense at a time
DRAWN_BY_NUMPY = (
    1 << 24
)  # numbers: up to this size a random block is NumPy's, and the same on every engine


class TorchEngine(Engine):
    """Holds X and Y on devices; blocks are tensors on the first device."""

    def __init__(
        self,
        X: Matrix,
        Y: sparse.csr_array,
        weights: NDArray[Any] | None = None,
        devices: tuple[torch.device, ...] = (torch.device("cpu"),),
        constant: bool = False,
    ) -> None:
        self.n, self.d, self.c = X.shape[0], X.shape[1] + constant, Y.shape[1]
        self.devices = devices
        self.dtype = torch.float64 if X.dtype == np.float64 else torch.float32
        first = devices[0]
        self.weights = (
            None if weights is None else torch.as_tensor(weights, dtype=torch.float64, device=first)
        )
        self.X = _placed(X, first, self.dtype, constant)
        self.Y = Csr.of(as_csr(Y), first, self.dtype)
        self._copies: dict[torch.device, dict[str, Csr | Tensor]]
        self._copies = {
            one: {"X": self.X.to(one), "Y": self.Y.to(one)} for one in dict.fromkeys(devices)
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
        for rows, part in self._dense_rows():
            G += gram64(part if root is None else part * root[rows, None])
        return G

    def cross_matrix(self) -> Tensor:
        C = torch.zeros((self.c, self.d), dtype=torch.float64, device=self.devices[0])
        for rows, part in self._dense_rows():
            C += self.Y[rows].T @ (
                part if self.weights is None else part * self.weights[rows, None]
            )
        return C.T.contiguous()

    def _dense_rows(self) -> Iterator[tuple[slice, Tensor]]:
        """Iterate over blocks of rows of X, dense in float64."""
        for rows in spans(self.n, max(1, DENSE_BYTES // (8 * self.d))):
            part = self.X[rows]
            yield rows, part.dense(torch.float64) if isinstance(part, Csr) else part.double()

    def asarray(self, x: Any) -> Tensor:
        return torch.as_tensor(x).to(self.devices[0], self.dtype)

    def gaussian(self, size: int, width: int, seed: int) -> Tensor:
        """Draw a random block; on the device when NumPy would take longer than the search."""
        if self.devices[0].type == "cpu" or size * width <= DRAWN_BY_NUMPY:
            return self.asarray(gaussian(size, width, seed))
        generator = torch.Generator(self.devices[0]).manual_seed(seed)
        out = torch.empty((size, width), dtype=self.dtype, device=self.devices[0])
        for column in range(width):  # by columns, so that a wider block starts with a narrower one
            out[:, column] = torch.randn(
                size, generator=generator, device=self.devices[0], dtype=self.dtype
            )
        return out

    def full_product(self, left: str, right: str, Q: Tensor) -> Tensor:
        """``leftᵀ D (right Q)``, by columns that are shared by the devices and fit in their
        memory.
        """
        whole = Q.shape[1]
        if len(self.devices) == 1 and whole <= self._width(Q):
            try:
                return self._on_device(self.devices[0], left, right, Q)
            except torch.OutOfMemoryError:
                whole = max(1, whole // 2)  # `halving` continues from here
        rows = (self.X if left == "X" else self.Y).shape[1]
        out = torch.empty((rows, Q.shape[1]), dtype=Q.dtype, device=Q.device)
        share = max(1, -(-Q.shape[1] // len(self.devices)))

        def work(columns: slice) -> None:
            device = self.devices[min(columns.start // share, len(self.devices) - 1)]
            out[:, columns] = self._on_device(device, left, right, Q[:, columns].to(device)).to(
                Q.device
            )

        step = min(share, whole, self._width(Q))
        for device_columns in spans(Q.shape[1], share):
            halving(work, device_columns, step, f"a product of {self.n:,} rows")
        return out

    def _on_device(self, device: torch.device, left: str, right: str, Q: Tensor) -> Tensor:
        """``leftᵀ D (right Q)``, all columns at a time."""
        own = self._copies[device]
        U = own[right] @ Q.contiguous()
        if self.weights is not None:
            U = U * self.weights[:, None].to(device, U.dtype)
        return own[left].T @ U

    def _width(self, Q: Tensor) -> int:
        return max(1, BLOCK_BYTES // max(1, self.n * Q.element_size()))


def _placed(A: Matrix, device: torch.device, dtype: torch.dtype, constant: bool) -> Csr | Tensor:
    if is_sparse(A):
        placed = Csr.of(as_csr(A), device, dtype)
        return placed.with_constant() if constant else placed
    block = tensor(A, device).to(dtype)
    return torch.cat([block, torch.ones_like(block[:, :1])], dim=1) if constant else block
