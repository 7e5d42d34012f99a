"""Labels that lie near each other in an embedding."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.blocks import spans
from rembrandt.metrics import top_k
from rembrandt.progress import Report, silent

_COSINES = 1 << 24  # entries of the largest block of them: 64 MB


class Embedded(Protocol):
    """Whatever has embedded labels: a fitted classifier, or the embedder alone."""

    method: Any

    @property
    def embedding_(self) -> NDArray[Any]: ...

    @property
    def singular_values_(self) -> NDArray[Any]: ...


def scaled_vectors(fitted: Embedded) -> NDArray[Any]:
    """Label vectors whose inner products mean something.

    An embedding's columns are orthonormal: at full rank all labels are at right angles. Scaled by the roots of the
    eigenvalues, the inner products of two labels are those of their predictions over the training examples.
    """
    vectors = np.asarray(fitted.embedding_)
    if fitted.method in ("pca", "cs"):  # label means over the features, and random directions
        return vectors
    return vectors * np.sqrt(np.maximum(fitted.singular_values_, 0.0))


def nearest_rows(
    vectors: NDArray[Any], index: int, allowed: NDArray[Any], k: int, lengths: NDArray[Any] | None = None
) -> list[tuple[int, float]]:
    """The ``allowed`` rows at the smallest angle to one, with the cosines; a row of zeros has no direction.

    Whoever asks again and again gives the ``lengths`` of the rows; then nothing of their size is made.
    """
    lengths = np.linalg.norm(vectors, axis=1) if lengths is None else lengths
    others = allowed & (lengths > 0)
    others[index] = False
    rows = np.flatnonzero(others) if lengths[index] > 0 else np.empty(0, int)
    cosines = (vectors @ vectors[index])[rows] / (lengths[rows] * lengths[index])
    best = np.argsort(-cosines, kind="stable")[:k]
    return list(zip(rows[best].tolist(), cosines[best].tolist(), strict=True))


def nearest_of_each(vectors: NDArray[Any], k: int, report: Report = silent) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The ``k`` other rows at the smallest angle to each row, and the cosines; -1 where there are fewer.

    A row of zeros has no direction, and no neighbours.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.full_like(vectors, np.nan), where=lengths > 0)
    n = len(unit)
    nearest, cosines = np.full((n, k), -1, dtype=np.int64), np.full((n, k), -np.inf, dtype=unit.dtype)
    for rows in spans(n, max(1, _COSINES // max(1, n))):
        report("comparing labels", rows.start, n)
        block = unit[rows] @ unit.T
        block[np.arange(len(block)), np.arange(rows.start, rows.stop)] = -np.inf
        nearest[rows], cosines[rows] = top_k(block, k)
    report("comparing labels", n, n)
    return nearest, cosines
