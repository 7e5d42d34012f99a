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
    if not x.flags.writeable:
        x = x.copy()
    return torch.from_numpy(x).to(device)


@dataclass(frozen=True)
class Csr:
    """A CSR matrix on a device."""

    starts: Tensor  # of the rows, and the end
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, A: sparse.csr_array, device: torch.device, dtype: torch.dtype) -> "Csr":
        """Copy a matrix to a device, with values of type ``dtype``."""
        n, d = A.shape
        index_type = np.int32 if max(A.nnz, n, d) < 2**31 else np.int64
        return cls(
            starts=tensor(A.indptr.astype(index_type, copy=False), device),
            columns=tensor(A.indices.astype(index_type, copy=False), device),
            values=tensor(A.data, device).to(dtype),
            shape=(int(n), int(d)),
        )

    def to(self, device: torch.device) -> "Csr":
        """Return the matrix on another device."""
        return Csr(
            self.starts.to(device),
            self.columns.to(device),
            self.values.to(device),
            self.shape,
        )

    def row_of_entry(self) -> Tensor:
        """Return the row of each entry."""
        rows = torch.arange(self.shape[0], device=self.starts.device, dtype=self.columns.dtype)
        counts = torch.diff(self.starts)
        return torch.repeat_interleave(rows, counts, output_size=len(self.columns))

    @cached_property
    def T(self) -> "Csr":
        """The transpose as CSR, with the entries of a column in the order of their rows."""
        order = torch.argsort(self.columns, stable=True)
        counts = torch.bincount(self.columns, minlength=self.shape[1])
        starts = torch.zeros(self.shape[1] + 1, dtype=self.starts.dtype, device=self.starts.device)
        starts[1:] = torch.cumsum(counts, 0)
        rows = self.row_of_entry()[order]
        n, d = self.shape
        return Csr(starts, rows, self.values[order], (d, n))

    def with_constant(self) -> "Csr":
        """``[A, 1]``."""
        n, d = self.shape
        device = self.columns.device
        n_entries = len(self.columns)
        # Each row before an entry has one more entry, its constant.
        at = torch.arange(n_entries, device=device) + self.row_of_entry().long()
        columns = torch.full((n_entries + n,), d, dtype=self.columns.dtype, device=device)
        columns[at] = self.columns
        values = torch.ones(n_entries + n, dtype=self.values.dtype, device=device)
        values[at] = self.values
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
        # Both at once, because each copy from a device waits for it.
        first, last = starts[[0, -1]].tolist()
        return Csr(
            starts=starts - first,
            columns=self.columns[first:last],
            values=self.values[first:last],
            shape=(span.stop - span.start, self.shape[1]),
        )

    def dense(self, dtype: torch.dtype) -> Tensor:
        """Return the matrix as a dense one."""
        out = torch.zeros(self.shape, dtype=dtype, device=self.values.device)
        rows = self.row_of_entry().long()
        out[rows, self.columns.long()] = self.values.to(dtype)
        return out

    def column_sums(self, weights: Tensor | None, squared: bool = False) -> Tensor:
        """``Σ w a`` of each column, or ``Σ w a²``, in float64."""
        entries = self.values.double()
        if squared:
            entries = entries * entries
        if weights is not None:
            entries = entries * weights[self.row_of_entry().long()]
        return torch.bincount(self.columns, entries, minlength=self.shape[1])

    def __matmul__(self, Z: Tensor) -> Tensor:
        """``A Z`` in the precision of ``Z``."""
        if self.values.numel() == 0 or Z.shape[1] == 0:
            return torch.zeros((self.shape[0], Z.shape[1]), dtype=Z.dtype, device=Z.device)
        single = Z.dtype == torch.float32 and self.values.dtype == torch.float32
        if Z.is_cuda and single and has_triton():
            product: Tensor = self.split @ Z
            return product
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
