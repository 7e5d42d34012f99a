"""Sparse times dense on a device."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.forks import cached_property
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
        index_type: type[np.signedinteger[Any]] = np.int64
        if max(A.nnz, n, d) < 2**31:
            index_type = np.int32
        starts = A.indptr.astype(index_type, copy=False)
        columns = A.indices.astype(index_type, copy=False)
        return cls(
            starts=tensor(starts, device),
            columns=tensor(columns, device),
            values=tensor(A.data, device).to(dtype),
            shape=(int(n), int(d)),
        )

    @property
    def device(self) -> torch.device:
        """Where the matrix is."""
        return self.values.device

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
        n_rows = self.shape[0]
        n_entries = len(self.columns)
        rows = torch.arange(n_rows, device=self.device, dtype=self.columns.dtype)
        counts = torch.diff(self.starts)
        return torch.repeat_interleave(rows, counts, output_size=n_entries)

    @cached_property
    def T(self) -> "Csr":
        """The transpose as CSR, with the entries of a column in the order of their rows."""
        n, d = self.shape
        order = torch.argsort(self.columns, stable=True)
        counts = torch.bincount(self.columns, minlength=d)
        starts = torch.zeros(d + 1, dtype=self.starts.dtype, device=self.device)
        starts[1:] = torch.cumsum(counts, 0)
        return Csr(
            starts=starts,
            columns=self.row_of_entry()[order],
            values=self.values[order],
            shape=(d, n),
        )

    def with_constant(self) -> "Csr":
        """``[A, 1]``."""
        n, d = self.shape
        device = self.device
        n_entries = len(self.columns)
        size = n_entries + n
        # Each row before an entry has one more entry, its constant.
        rows_before = torch.arange(n + 1, dtype=self.starts.dtype, device=device)
        at = torch.arange(n_entries, device=device)
        at += self.row_of_entry().long()
        columns = torch.full((size,), d, dtype=self.columns.dtype, device=device)
        columns[at] = self.columns
        values = torch.ones(size, dtype=self.values.dtype, device=device)
        values[at] = self.values
        return Csr(
            starts=self.starts + rows_before,
            columns=columns,
            values=values,
            shape=(n, d + 1),
        )

    @cached_property
    def split(self) -> Any:
        """The matrix cut into pieces for `triton_spmm`, which is faster than the vendor's
        product.
        """
        from rembrandt.engines.triton_spmm import SplitCsr

        n_columns = self.shape[1]
        return SplitCsr(self.starts, self.columns, self.values, n_columns)

    def __getitem__(self, span: slice) -> "Csr":
        starts = self.starts[span.start : span.stop + 1]
        # Both at once, because each copy from a device waits for it.
        first, last = starts[[0, -1]].tolist()
        n_rows = span.stop - span.start
        return Csr(
            starts=starts - first,
            columns=self.columns[first:last],
            values=self.values[first:last],
            shape=(n_rows, self.shape[1]),
        )

    def dense(self, dtype: torch.dtype) -> Tensor:
        """Return the matrix as a dense one."""
        out = torch.zeros(self.shape, dtype=dtype, device=self.device)
        rows = self.row_of_entry().long()
        columns = self.columns.long()
        out[rows, columns] = self.values.to(dtype)
        return out

    def column_sums(self, weights: Tensor | None, squared: bool = False) -> Tensor:
        """``Σ w a`` of each column, or ``Σ w a²``, in float64."""
        entries = self.values.double()
        if squared:
            entries = entries * entries
        if weights is not None:
            rows = self.row_of_entry().long()
            entries = entries * weights[rows]
        n_columns = self.shape[1]
        return torch.bincount(self.columns, entries, minlength=n_columns)

    def __matmul__(self, Z: Tensor) -> Tensor:
        """``A Z`` in the precision of ``Z``."""
        shape = (self.shape[0], Z.shape[1])
        if self.values.numel() == 0 or Z.shape[1] == 0:
            return torch.zeros(shape, dtype=Z.dtype, device=Z.device)
        is_single = self.values.dtype == torch.float32 and Z.dtype == torch.float32
        if Z.is_cuda and is_single and has_triton():
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
