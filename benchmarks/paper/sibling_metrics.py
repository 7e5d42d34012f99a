"""How often the nearest neighbour of a label is its sibling in a hierarchy that the embedding was
not given.

Mineiro & Karampatziakis, "Fast label embeddings via randomized linear algebra", ECML 2015, table of
siblings.

A hierarchy is a sparse 0/1 matrix of c labels × p parents; a label may have several parents. The
rules:

* The neighbour of a label is the other label with the largest cosine. It is a hit if the two share a parent.
* Cosines are between the labels' own vectors, or between what is predicted for a label's examples and the vectors of
  the other labels (`prediction_vectors`), which is also meaningful for random embeddings.
* Cosines that are equal up to rounding are ties; the lower index wins.
* A label with a zero vector or without a parent is excluded, and counted.
* A label without siblings stays in the mean as a miss.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.linalg.blocks import spans
from rembrandt.metrics.hits import as_truth
from rembrandt.progress import Report, silent

BLOCK = 1 << 24  # entries of the largest block of cosines, or of a product of parents


def sibling_fraction(
    vectors: ArrayLike,
    parents: Any,
    report: Report = silent,
    queries: ArrayLike | None = None,
    block: int = BLOCK,
) -> dict[str, Any]:
    """Return how often the nearest neighbour of a label is a sibling, with two baselines.

    Parameters
    ----------
    vectors : array, c × k
        A vector for each label; see `rembrandt.explore.neighbors.scaled_vectors`.
    parents : sparse matrix, c × p
        Non-zero where a column is a parent of a label, as `Hierarchy.matrix`.
    queries : array, c × k, optional
        The vectors to compare with the other labels' ``vectors``, if they are not the labels' own.

    Returns
    -------
    dict
        ``fraction``, the mean over ``n_labels`` labels; ``without_parent`` and ``without_vector``,
        the numbers of labels excluded for lack of a parent, and of a vector although they have a
        parent; ``without_sibling``, the included labels that have no sibling; ``most_fraternal``
        and ``most_fraternal_label``, the fraction of the constant prediction of the label with the
        most siblings, and the index of that label; ``chance``, the expected fraction of a random
        prediction. Fractions are NaN if no label is included.

    Examples
    --------
    >>> parents = sparse.csr_array([[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> sibling_fraction([[1, 0], [1, 0.1], [0, 1], [1, 1]], parents)["fraction"]
    0.75
    """
    P = as_truth(parents)
    V = as_vectors(vectors, P.shape[0])
    U = V if queries is None else as_vectors(queries, P.shape[0])
    has_parent = np.diff(P.indptr) > 0
    has_vector = V.any(axis=1) & U.any(axis=1) if V.size else np.zeros(len(V), bool)
    rows = np.flatnonzero(has_parent & has_vector)
    P = P[rows]
    counts = sibling_counts(P, block)
    nearest = nearest_labels(V[rows], report, None if queries is None else U[rows], block)
    hits = _share_a_column(P, nearest) if len(rows) > 1 else np.zeros(len(rows), bool)
    label, fraction = _most_fraternal(counts)
    return {
        "fraction": float(hits.mean()) if len(rows) else float("nan"),
        "n_labels": len(rows),
        "without_parent": int((~has_parent).sum()),
        "without_vector": int((has_parent & ~has_vector).sum()),
        "without_sibling": int((counts == 0).sum()),
        "most_fraternal": fraction,
        "most_fraternal_label": None if label is None else int(rows[label]),
        "chance": float(counts.sum() / len(rows) / max(1, len(rows) - 1))
        if len(rows)
        else float("nan"),
    }


def most_fraternal(parents: Any) -> tuple[int | None, float]:
    """Return the label with the most siblings, and the fraction of labels with a parent that are
    its siblings.

    That fraction is the baseline of a constant prediction. Without any parent, return None and NaN.
    """
    P = as_truth(parents)
    rows = np.flatnonzero(np.diff(P.indptr))
    label, fraction = _most_fraternal(sibling_counts(P[rows]))
    return None if label is None else int(rows[label]), fraction


def sibling_counts(parents: Any, block: int = BLOCK) -> NDArray[np.int64]:
    """Return the number of siblings of each label.

    Labels with the same parents have the same siblings, so the product of parents is only formed
    between distinct sets of parents, and in blocks. Large families therefore cost no more than
    small ones.
    """
    P = as_truth(parents)
    c, p = P.shape
    if P.nnz == 0:
        return np.zeros(c, np.int64)
    # A set of parents is identified by the sum of random 64-bit numbers of its members.
    numbers = np.random.default_rng(0).integers(np.iinfo(np.int64).max, size=p)
    ones = sparse.csr_array((np.ones(P.nnz, np.int64), P.indices, P.indptr), shape=P.shape)
    sums = np.asarray(ones @ numbers)
    _, first, group, size = np.unique(
        sums, return_index=True, return_inverse=True, return_counts=True
    )
    sets = ones[first]
    transposed = sets.T.tocsr()
    work = np.cumsum(sets @ np.diff(transposed.indptr))  # terms of the product up to each row
    related = np.zeros(len(first), np.int64)
    start = 0
    while start < len(first):
        before = work[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(work, before + block, side="right")))
        shared = sparse.csr_array(sets[start:stop] @ transposed)
        shared.data[:] = 1
        related[start:stop] = np.asarray(shared @ size)
        start = stop
    return np.where(np.diff(P.indptr) > 0, related[group] - 1, 0)


def prediction_vectors(
    H: ArrayLike, Y: Any, vectors: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return queries and vectors whose cosines compare labels by what is predicted for their
    examples.

    An embedding scores label j for an example by the inner product of the example's projection, a
    row of ``H``, and the vector of the label. The cosine of the query of label l and the vector of
    label j is, up to a factor that depends on l only, the correlation over the examples of label l
    and the score of label j. It does not depend on the basis of the embedding.
    """
    truth, V = as_truth(Y), as_vectors(vectors, Y.shape[1])
    projected = np.array(H, dtype=np.float64)
    projected -= projected.mean(axis=0)
    counts = np.diff(truth.tocsc().indptr)
    means = np.asarray(truth.T @ projected) / np.maximum(counts, 1)[:, None]
    variances, basis = np.linalg.eigh(projected.T @ projected / max(1, len(projected)))
    kept = variances > 1e-10 * variances.max(initial=0.0)
    roots = np.sqrt(variances[kept])
    queries, keys = means @ (basis[:, kept] / roots), V @ (basis[:, kept] * roots)
    return queries.astype(V.dtype), keys.astype(V.dtype)


def nearest_labels(
    vectors: ArrayLike,
    report: Report = silent,
    queries: ArrayLike | None = None,
    block: int = BLOCK,
) -> NDArray[np.int64]:
    """Return for each row the other row with the largest cosine, -1 if there is only one row.

    The lowest index wins ties. The cosine with a row of zeros is 0. Blocks of rows bound the
    memory.
    """
    V = as_vectors(vectors)
    n = len(V)
    if n < 2:
        return np.full(n, -1, np.int64)
    unit = _unit_rows(V)
    query = unit if queries is None else _unit_rows(as_vectors(queries, n))
    rounding = 32 * np.finfo(unit.dtype).eps
    best = np.empty(n, np.int64)
    for rows in spans(n, max(1, block // n)):
        report("comparing labels", rows.start, n)
        cosines = query[rows] @ unit.T
        cosines[np.arange(len(cosines)), np.arange(rows.start, rows.stop)] = -np.inf
        best[rows] = (cosines >= cosines.max(axis=1, keepdims=True) - rounding).argmax(axis=1)
    report("comparing labels", n, n)
    return best


def _unit_rows(V: NDArray[Any]) -> NDArray[Any]:
    """Scale rows to unit length, except rows of zeros."""
    peak = np.abs(V).max(axis=1, keepdims=True, initial=0.0)
    unit = np.divide(
        V, peak, out=np.zeros_like(V), where=peak > 0
    )  # so that squares neither overflow nor vanish
    length = np.linalg.norm(unit, axis=1, keepdims=True)
    return np.divide(unit, length, out=unit, where=length > 0)


def as_vectors(vectors: ArrayLike, n: int | None = None) -> NDArray[Any]:
    """Check label vectors: a 2-D array of finite numbers, float32 or float64."""
    V = np.asarray(vectors)
    if V.ndim != 2 or (n is not None and len(V) != n):
        rows = "each label" if n is None else f"each of the {n:,} labels of the hierarchy"
        raise DataError(f"the vectors have shape {V.shape}; expected one row for {rows}")
    try:
        V = V.astype(V.dtype if V.dtype in (np.float32, np.float64) else np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"the vectors are {V.dtype}, not numbers") from error
    finite = np.isfinite(V).all(axis=1)
    if not finite.all():
        raise DataError(
            f"the vector of label {int(finite.argmin())} is not finite; fit the embedding again"
        )
    return V


def _share_a_column(P: sparse.csr_array, other: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each row has a column in common with the row at ``other``."""
    return np.diff(sparse.csr_array(P.multiply(P[other])).indptr) > 0


def _most_fraternal(counts: NDArray[np.int64]) -> tuple[int | None, float]:
    if not len(counts):
        return None, float("nan")
    index = int(counts.argmax())
    return index, float(counts[index] / len(counts))
