"""Labels that lie near each other in an embedding."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


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


def nearest_rows(vectors: NDArray[Any], index: int, allowed: NDArray[Any], k: int) -> list[tuple[int, float]]:
    """The ``allowed`` rows at the smallest angle to one, with the cosines; a row of zeros has no direction."""
    lengths = np.linalg.norm(vectors, axis=1)
    others = allowed & (lengths > 0)
    others[index] = False
    rows = np.flatnonzero(others) if lengths[index] > 0 else np.empty(0, int)
    cosines = vectors[rows] @ vectors[index] / (lengths[rows] * lengths[index])
    best = np.argsort(-cosines, kind="stable")[:k]
    return list(zip(rows[best].tolist(), cosines[best].tolist(), strict=True))
