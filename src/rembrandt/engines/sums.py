"""The engine without data: XᵀX, XᵀY and YᵀY themselves, for few features. More examples are more to add.

An embedding sees the data through products alone, so these sums stand for the examples they were taken over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.engines.cpu import CpuEngine, NumpyBlocks
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import Matrix, append_constant, used_columns
from rembrandt.storage.arrays import Arrays, pack_csr, unpack_csr

Array = NDArray[Any]
ROWS = 65_536  # examples added at a time


@dataclass(frozen=True)
class Sums:
    """Over weighted examples, in float64; the constant feature comes last, so its row has the plain sums."""

    n: int  # examples
    features: Array  # XᵀX, (d + 1) × (d + 1)
    cross: Array  # XᵀY, (d + 1) × c
    labels: sparse.csr_array  # YᵀY, c × c
    used: Array  # which features some example has an entry in, the constant left out

    @classmethod
    def of(cls, X: Matrix, Y: sparse.csr_array, weights: Array | None = None) -> "Sums":
        d, c = X.shape[1], Y.shape[1]
        none: Any = sparse.csr_array((c, c), dtype=np.float64)
        total = cls(0, np.zeros((d + 1, d + 1)), np.zeros((d + 1, c)), none, np.zeros(d, dtype=bool))
        for rows in spans(X.shape[0], ROWS):
            part, w = X[rows], None if weights is None else weights[rows]
            engine = CpuEngine(append_constant(part), Y[rows], w)
            wide: Any = Y[rows].astype(np.float64)
            weighted: Any = wide if w is None else sparse.diags_array(w) @ wide
            used = np.isin(np.arange(d), used_columns(part))
            labels = sparse.csr_array(wide.T @ weighted)
            total = total.plus(cls(engine.n, engine.gram_matrix(), engine.cross_matrix(), labels, used))
        return total

    def plus(self, other: "Sums") -> "Sums":
        """Those over both; labels of ``other`` beyond these are new, and so are their columns."""
        wide = self._with_labels(other.cross.shape[1])
        labels: Any = wide.labels + other.labels
        features, cross = wide.features + other.features, wide.cross + other.cross
        return Sums(self.n + other.n, features, cross, labels, self.used | other.used)

    def _with_labels(self, c: int) -> "Sums":
        more = c - self.cross.shape[1]
        labels: Any = self.labels.copy()
        labels.resize((c, c))
        return replace(self, cross=np.pad(self.cross, ((0, 0), (0, more))), labels=labels) if more else self

    @property
    def total(self) -> float:
        """The weight of all examples."""
        return float(self.features[-1, -1])

    def of_used(self) -> "Sums":
        """The same without features that no example has: a fit passes over them too."""
        kept = np.append(self.used, True)
        return replace(
            self, features=self.features[np.ix_(kept, kept)], cross=self.cross[kept], used=self.used[self.used]
        )

    def packed(self) -> Arrays:
        """As named arrays, to be written to a file; of a symmetric matrix one half."""
        half = self.features[np.triu_indices(len(self.features))]
        arrays = {"sums.n": np.array([self.n]), "sums.features": half, "sums.cross": self.cross, "sums.used": self.used}
        return arrays | pack_csr("sums.labels", self.labels)

    @classmethod
    def unpacked(cls, arrays: Mapping[str, Array]) -> "Sums | None":
        """What `packed` packed, if it did."""
        if "sums.n" not in arrays:
            return None
        cross = arrays["sums.cross"]
        half = np.zeros((len(cross), len(cross)))
        half[np.triu_indices(len(cross))] = arrays["sums.features"]
        features = half + np.triu(half, 1).T
        return cls(int(arrays["sums.n"][0]), features, cross, unpack_csr("sums.labels", arrays), arrays["sums.used"])


class SumsEngine(NumpyBlocks):
    """The products of an engine out of sums; ``constant`` says that the constant is a feature like the others."""

    def __init__(
        self,
        sums: Sums,
        center_features: bool = False,
        center_labels: bool = False,
        constant: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        self.n, self.c = sums.n, sums.cross.shape[1]
        self.dtype = dtype
        kept = slice(None) if constant else slice(-1)
        total = sums.total
        self._mu = sums.features[-1, kept] / total * center_features
        self._nu = sums.cross[-1] / total * center_labels
        self._total = total
        self._features = sums.features[kept, kept] - total * np.outer(self._mu, self._mu)
        self.d = len(self._features)
        self._cross = sums.cross[kept].copy()
        if center_features or center_labels:
            self._cross -= np.outer(sums.features[-1, kept], sums.cross[-1]) / total
        self._labels = sums.labels

    def gram(self, Z: Array) -> Array:
        return (self._features @ Z.astype(np.float64)).astype(Z.dtype)

    def cross(self, Q: Array) -> Array:
        return (self._cross @ Q.astype(np.float64)).astype(Q.dtype)

    def cross_t(self, Z: Array) -> Array:
        return (self._cross.T @ Z.astype(np.float64)).astype(Z.dtype)

    def label_gram(self, Q: Array) -> Array:
        wide = Q.astype(np.float64)
        return (self._labels @ wide - self._total * np.outer(self._nu, self._nu @ wide)).astype(Q.dtype)

    def feature_norms(self) -> NDArray[np.float64]:
        return np.diag(self._features).copy()

    def label_norms(self) -> NDArray[np.float64]:
        return np.asarray(self._labels.diagonal() - self._total * self._nu**2)

    def feature_means(self) -> Array:
        return self._mu.astype(self.dtype)

    def label_means(self) -> Array:
        return self._nu.astype(self.dtype)

    def gram_matrix(self) -> NDArray[np.float64]:
        return self._features
