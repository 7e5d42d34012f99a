"""Sparse times dense on a device."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.linalg.blocks import has_triton

Tensor = torch.Tensor


def tensor(x: NDArray[Any], device: torch.device) -> Tensor:
    """Move ``x`` to a device; read-only arrays, such as mapped files, are copied because torch
    warns of them.
    """
    x = np.ascontiguousarray(x)
    return torch.from_numpy(x if x.flags.writeable else x.copy()).to(device)


@dataclass(frozen=True)
class Csr:
    """A CSR matrix on a device."""

    starts: Tensor  # of the rows, and the end
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, A: sparse.csr_array, device: torch.device, dtype: torch.dtype) -> "Csr":
        index = np.int32 if max(A.nnz, A.shape[0], A.shape[1]) < 2**31 else np.int64
        starts, columns = (
            tensor(x.astype(index, copy=False), device) for x in (A.indptr, A.indices)
        )
        return cls(
            starts, columns, tensor(A.data, device).to(dtype), (int(A.shape[0]), int(A.shape[1]))
        )

    def to(self, device: torch.device) -> "Csr":
        return Csr(
            self.starts.to(device), self.columns.to(device), self.values.to(device), self.shape
        )

    def row_of_entry(self) -> Tensor:
        rows = torch.arange(self.shape[0], device=self.starts.device, dtype=self.columns.dtype)
        return torch.repeat_interleave(rows, torch.diff(self.starts), output_size=len(self.columns))

    @cached_property
    def T(self) -> "Csr":
        """The transpose as CSR, with the entries of a column in the order of their rows."""
        order = torch.argsort(self.columns, stable=True)
        counts = torch.bincount(self.columns, minlength=self.shape[1])
        starts = torch.zeros(self.shape[1] + 1, dtype=self.starts.dtype, device=self.starts.device)
        starts[1:] = torch.cumsum(counts, 0)
        n, d = self.shape
        return Csr(starts, self.row_of_entry()[order], self.values[order], (d, n))

    def with_constant(self) -> "Csr":
        """``[A, 1]``."""
        n, d = self.shape
        rows, device = self.row_of_entry().long(), self.columns.device
        at = torch.arange(len(self.columns), device=device) + rows
        columns = torch.full((len(self.columns) + n,), d, dtype=self.columns.dtype, device=device)
        values = torch.ones(len(columns), dtype=self.values.dtype, device=device)
        columns[at], values[at] = self.columns, self.values
        starts = self.starts + torch.arange(n + 1, dtype=self.starts.dtype, device=device)
        return Csr(starts, columns, values, (n, d + 1))

    @cached_property
    def split(self) -> Any:
        """The matrix cut into pieces for `triton_spmm`, which is faster than the vendor's
        product.
        """
        from rembrandt.engines.triton_spmm import SplitCsr

        return SplitCsr(self.starts, self.columns, self.values, self.shape[1])

    def __getitem__(self, span: slice) -> "Csr":
        starts = self.starts[span.start : span.stop + 1]
        first, last = (int(x) for x in starts[[0, -1]].tolist())
        return Csr(
            starts - first,
            self.columns[first:last],
            self.values[first:last],
            (span.stop - span.start, self.shape[1]),
        )

    def dense(self, dtype: torch.dtype) -> Tensor:
        out = torch.zeros(self.shape, dtype=dtype, device=self.values.device)
        out[self.row_of_entry().long(), self.columns.long()] = self.values.to(dtype)
        return out

    def column_sums(self, weights: Tensor | None, squared: bool = False) -> Tensor:
        """``Σ w a`` of each column, or ``Σ w a²``, in float64."""
        entries = self.values.double()
        entries = entries * entries if squared else entries
        if weights is not None:
            entries = entries * weights[self.row_of_entry().long()]
        return torch.bincount(self.columns, entries, minlength=self.shape[1])

    def __matmul__(self, Z: Tensor) -> Tensor:
        """``A Z`` in the precision of ``Z``."""
        if self.values.numel() == 0 or Z.shape[1] == 0:
            return torch.zeros((self.shape[0], Z.shape[1]), dtype=Z.dtype, device=Z.device)
        if (
            Z.is_cuda
            and Z.dtype == torch.float32
            and self.values.dtype == torch.float32
            and has_triton()
        ):
            found: Tensor = self.split @ Z
            return found
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            warnings.filterwarnings("ignore", "Sparse invariant checks are implicitly disabled")
            matrix = torch.sparse_csr_tensor(
                self.starts,
                self.columns,
                self.values.to(Z.dtype),
                size=self.shape,
                check_invariants=False,
            )
        return matrix @ Z
