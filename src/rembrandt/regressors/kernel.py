"""Kernel ridge regression by random Fourier features of the rows themselves."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from rembrandt import memory
from rembrandt.checks import check_among, check_number, check_whole
from rembrandt.errors import MemoryEstimateError
from rembrandt.features.fourier import KERNELS, FourierMap, Kernel, draw
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, matmul
from rembrandt.storage.arrays import Arrays

Array = NDArray[Any]

WIDE = 4096  # features: sparse rows with more stay sparse beside their random features
SAMPLE = 1 << 25  # entries of the dense rows that the bandwidth is found from
BLOCK = 4096  # rows mapped at a time


class KernelFeatures(BaseEstimator):
    """Random features of a kernel over the rows, for ``regressor=``; the ridge is the embedding's own.

    Parameters
    ----------
    kernel : "gaussian", "laplacian", "matern3" or "matern5"
    n_features : int
        More is nearer to the kernel, and slower.
    scale : float
        Bandwidth, in units of the median distance between rows.
    """

    def __init__(self, kernel: Kernel = "gaussian", n_features: int = 2000, scale: float = 1.0) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.scale = scale

    def check(self) -> None:
        """Refuse settings that are none."""
        check_among("kernel", self.kernel, KERNELS)
        check_whole("n_features", self.n_features, 1)
        check_number("scale", self.scale, 0.0, above=True)

    def lift(self, X: Matrix, seed: int) -> "FourierLift":
        """The map for rows like those of ``X``."""
        self.check()
        n, d = X.shape
        needed = X.dtype.itemsize * self.n_features * (n + d) * (3 if is_sparse(X) and d > WIDE else 1)
        if needed > memory.available():
            raise MemoryEstimateError(
                f"{self.n_features:,} random features of {n:,} rows take {needed / 2**30:.1f} GiB and "
                f"{memory.available() / 2**30:.1f} GiB is free; use fewer n_features, or regressor=None"
            )
        rows = np.sort(np.random.default_rng(seed).permutation(n)[: max(2, SAMPLE // max(1, d))])
        sample = X[rows].toarray() if is_sparse(X) else X[rows]
        return FourierLift(draw(self.kernel, sample, self.n_features, self.scale, seed))


@dataclass(frozen=True)
class FourierLift:
    """Rows to ``[cos(xΩ + b), s·x]``: dense, or sparse where rows are sparse and wide."""

    kind: ClassVar[str] = "fourier"

    map: FourierMap

    @property
    def n_features(self) -> int:
        """How many go in."""
        return int(self.map.frequencies.shape[0])

    def __call__(self, X: Matrix) -> Matrix:
        if not is_sparse(X):
            out = np.empty((len(X), self.map.size), dtype=X.dtype)
            for rows in spans(len(X), BLOCK):
                out[rows] = self.map(X[rows])
            return out
        waves = np.cos(matmul(X, self.map.frequencies) + self.map.offsets)
        if self.n_features <= WIDE:
            return np.hstack([waves, self.map.linear * X.toarray()]).astype(X.dtype, copy=False)
        parts: Any = [sparse.csr_array(waves), X * X.dtype.type(self.map.linear)]
        return as_csr(sparse.hstack(parts, format="csr"), X.dtype)

    def packed(self) -> Arrays:
        """As named arrays, to be written to a file."""
        return {
            "frequencies": self.map.frequencies,
            "offsets": self.map.offsets,
            "linear": np.array([self.map.linear]),
        }

    @classmethod
    def unpacked(cls, arrays: Arrays) -> "FourierLift":
        """What `packed` packed."""
        return cls(FourierMap(arrays["frequencies"], arrays["offsets"], float(arrays["linear"][0])))
