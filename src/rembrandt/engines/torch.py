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

Copies = dict[str, Csr | Tensor]  # X and Y on a device

# Largest n × width intermediate of a product.
BLOCK_BYTES = 1 << 33
# Bytes of rows made dense at a time, in float64.
DENSE_BYTES = 1 << 29
# Numbers up to which a random block is drawn by NumPy, and the same on every engine.
MAX_NUMPY_DRAWS = 1 << 24


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
        self.n = X.shape[0]
        self.d = X.shape[1] + constant
        self.c = Y.shape[1]
        self.devices = devices
        self.first = devices[0]
        self.dtype = torch.float32
        if X.dtype == np.float64:
            self.dtype = torch.float64
        self.weights = None
        if weights is not None:
            self.weights = torch.as_tensor(weights, dtype=torch.float64, device=self.first)
        self.X = _placed(X, self.first, self.dtype, constant)
        self.Y = Csr.of(as_csr(Y), self.first, self.dtype)
        self._copies: dict[torch.device, Copies] = {}
        for device in dict.fromkeys(devices):
            self._copies[device] = {
                "X": self.X.to(device),
                "Y": self.Y.to(device),
            }

    def column_sums(self, name: str, squared: bool) -> NDArray[np.float64]:
        A = self.X if name == "X" else self.Y
        if isinstance(A, Csr):
            sums = A.column_sums(self.weights, squared)
            return sums.cpu().numpy()
        entries = A.double()
        if squared:
            entries = entries**2
        if self.weights is None:
            sums = entries.sum(dim=0)
        else:
            sums = self.weights @ entries
        return sums.cpu().numpy()

    def gram_matrix(self) -> Tensor:
        G = self._zeros64(self.d, self.d)
        for rows, block in self._dense_rows():
            if self.weights is not None:
                roots = self.weights[rows, None].sqrt()
                block = block * roots
            G += gram64(block)
        return G

    def cross_matrix(self) -> Tensor:
        C = self._zeros64(self.c, self.d)
        for rows, block in self._dense_rows():
            if self.weights is not None:
                weights = self.weights[rows, None]
                block = block * weights
            C += self.Y[rows].T @ block
        return C.T.contiguous()

    def _zeros64(self, n_rows: int, n_columns: int) -> Tensor:
        """Return zeros in float64."""
        return torch.zeros((n_rows, n_columns), dtype=torch.float64, device=self.first)

    def _dense_rows(self) -> Iterator[tuple[slice, Tensor]]:
        """Iterate over blocks of rows of X, dense in float64."""
        block_rows = max(1, DENSE_BYTES // (8 * self.d))
        for rows in spans(self.n, block_rows):
            block = self.X[rows]
            if isinstance(block, Csr):
                dense = block.dense(torch.float64)
            else:
                dense = block.double()
            yield rows, dense

    def asarray(self, x: Any) -> Tensor:
        return torch.as_tensor(x).to(self.first, self.dtype)

    def gaussian(self, size: int, width: int, seed: int) -> Tensor:
        """Draw a random block; on the device when NumPy would take longer than the search."""
        on_cpu = self.first.type == "cpu"
        if on_cpu or size * width <= MAX_NUMPY_DRAWS:
            return self.asarray(gaussian(size, width, seed))
        generator = torch.Generator(self.first).manual_seed(seed)
        out = torch.empty((size, width), dtype=self.dtype, device=self.first)
        # By columns, so that a wider block starts with a narrower one.
        for column in range(width):
            out[:, column] = torch.randn(
                size, generator=generator, device=self.first, dtype=self.dtype
            )
        return out

    def full_product(self, left: str, right: str, Q: Tensor) -> Tensor:
        """``leftᵀ D (right Q)``, by columns that are shared by the devices and fit in their
        memory.
        """
        width = Q.shape[1]
        n_devices = len(self.devices)
        largest_step = width
        step = self._width(Q)
        if n_devices == 1 and width <= step:
            try:
                return self._on_device(self.first, left, right, Q)
            except torch.OutOfMemoryError:
                # `halving` continues from here.
                largest_step = max(1, width // 2)
        n_rows = self.c
        if left == "X":
            n_rows = self.d
        out = torch.empty((n_rows, width), dtype=Q.dtype, device=Q.device)
        share = max(1, -(-width // n_devices))

        def work(columns: slice) -> None:
            number = min(columns.start // share, n_devices - 1)
            device = self.devices[number]
            block = Q[:, columns].to(device)
            product = self._on_device(device, left, right, block)
            out[:, columns] = product.to(Q.device)

        step = min(step, share, largest_step)
        for device_columns in spans(width, share):
            halving(work, device_columns, step, f"a product of {self.n:,} rows")
        return out

    def _on_device(self, device: torch.device, left: str, right: str, Q: Tensor) -> Tensor:
        """``leftᵀ D (right Q)``, all columns at a time."""
        matrices = self._copies[device]
        U = matrices[right] @ Q.contiguous()
        if self.weights is not None:
            weights = self.weights[:, None]
            U = U * weights.to(device, U.dtype)
        return matrices[left].T @ U

    def _width(self, Q: Tensor) -> int:
        """Return the number of columns to multiply at a time."""
        column_bytes = max(1, self.n * Q.element_size())
        return max(1, BLOCK_BYTES // column_bytes)


def _placed(
    A: Matrix,
    device: torch.device,
    dtype: torch.dtype,
    constant: bool,
) -> Csr | Tensor:
    """Move a matrix to a device, with a constant feature if asked for."""
    if is_sparse(A):
        matrix = Csr.of(as_csr(A), device, dtype)
        if not constant:
            return matrix
        return matrix.with_constant()
    block = tensor(A, device).to(dtype)
    if not constant:
        return block
    ones = torch.ones_like(block[:, :1])
    return torch.cat([block, ones], dim=1)
