"""Whether an embedding puts siblings together: labels that share a parent in a hierarchy it never saw.

Mineiro & Karampatziakis, "Fast label embeddings via randomized linear algebra", ECML 2015, table of siblings.

A hierarchy is a sparse 0/1 matrix of c labels × p parents; a label may have several parents. The rules:

* a label's answer is its nearest neighbour by cosine, itself left out; it is a hit when both have a parent in common;
* near is either between the labels' own vectors, or from what is predicted of a label's examples to the vectors of the
  others (`asking_vectors`), which makes sense of an embedding that is random too;
* cosines that are equal to rounding are equal, and the lower index is the answer;
* a label without a direction (its vector is zero) or without a parent neither asks nor answers, and is counted;
* an only child stays in the mean: no answer is right for it.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.linalg.blocks import spans
from rembrandt.metrics.hits import as_truth
from rembrandt.progress import Report, silent

BLOCK = 1 << 24  # cosines, or entries of a product of parents, held at a time


def sibling_fraction(
    vectors: ArrayLike, parents: Any, report: Report = silent, asking: ArrayLike | None = None
) -> dict[str, Any]:
    """Return how often a label's nearest neighbour is a sibling, beside two answers that look at no vectors.

    Parameters
    ----------
    vectors : array, c × k
        A vector for each label, in a geometry where angles mean something: see `explore.neighbors.scaled_vectors`.
    parents : sparse matrix, c × p
        Non-zero where a column is a parent of a label, as `Hierarchy.matrix`.
    asking : array, c × k, optional
        What each label is compared with the others' vectors by, where that is not its own vector.

    Returns
    -------
    dict
        ``fraction``; ``n_labels``, over how many it is the mean; ``without_parent`` and, of the others,
        ``without_vector``, which are left out; ``without_sibling``, the only children among the labels counted;
        ``most_fraternal`` and ``most_fraternal_label``, the fraction when every answer is the label with the most
        siblings, and that label's index; ``chance``, the expected fraction when the answer is any other label. All
        fractions are NaN when no label is left.

    Examples
    --------
    >>> parents = sparse.csr_array([[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> sibling_fraction([[1, 0], [1, 0.1], [0, 1], [1, 1]], parents)["fraction"]
    0.75
    """
    P = as_truth(parents)
    V = as_vectors(vectors, P.shape[0])
    U = V if asking is None else as_vectors(asking, P.shape[0])
    placed = np.diff(P.indptr) > 0
    directed = V.any(axis=1) & U.any(axis=1) if V.size else np.zeros(len(V), bool)
    rows = np.flatnonzero(placed & directed)
    P = P[rows]
    counts = sibling_counts(P)
    nearest = nearest_labels(V[rows], report, None if asking is None else U[rows])
    hits = _related(P, nearest) if len(rows) > 1 else np.zeros(len(rows), bool)
    fraternal, fraternity = _fraternal(counts)
    return {
        "fraction": float(hits.mean()) if len(rows) else float("nan"),
        "n_labels": len(rows),
        "without_parent": int((~placed).sum()),
        "without_vector": int((placed & ~directed).sum()),
        "without_sibling": int((counts == 0).sum()),
        "most_fraternal": fraternity,
        "most_fraternal_label": None if fraternal is None else int(rows[fraternal]),
        "chance": float(counts.sum() / len(rows) / max(1, len(rows) - 1)) if len(rows) else float("nan"),
    }


def most_fraternal(parents: Any) -> tuple[int | None, float]:
    """Return the label with the most siblings, and the fraction of labels with a parent that are siblings of it.

    That is what an embedding must beat: the answer is the same for every label. Without any parent, None and NaN.
    """
    P = as_truth(parents)
    rows = np.flatnonzero(np.diff(P.indptr))
    index, fraction = _fraternal(sibling_counts(P[rows]))
    return None if index is None else int(rows[index]), fraction


def sibling_counts(parents: Any) -> NDArray[np.int64]:
    """Return how many other labels share a parent with each.

    Labels with the same parents have the same siblings, so the product of parents is formed between distinct sets of
    parents only, and in blocks: a hierarchy where all are siblings of all costs no more than any other.
    """
    P = as_truth(parents)
    c, p = P.shape
    if P.nnz == 0:
        return np.zeros(c, np.int64)
    # A set of parents is known by the sum of random 64-bit numbers of its members.
    numbers = np.random.default_rng(0).integers(np.iinfo(np.int64).max, size=p)
    ones = sparse.csr_array((np.ones(P.nnz, np.int64), P.indices, P.indptr), shape=P.shape)
    sums = np.asarray(ones @ numbers)
    _, first, group, size = np.unique(sums, return_index=True, return_inverse=True, return_counts=True)
    sets = ones[first]
    across = sets.T.tocsr()
    work = np.cumsum(sets @ np.diff(across.indptr))  # terms of the product up to each row
    shared = np.zeros(len(first), np.int64)
    start = 0
    while start < len(first):
        before = work[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(work, before + BLOCK, side="right")))
        block = sparse.csr_array(sets[start:stop] @ across)
        block.data[:] = 1
        shared[start:stop] = np.asarray(block @ size)
        start = stop
    return np.where(np.diff(P.indptr) > 0, shared[group] - 1, 0)


def asking_vectors(H: ArrayLike, Y: Any, vectors: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what labels ask with and what they answer with, so that near means "predicted for the same examples".

    An embedding scores label j for an example by the inner product of the example's projection, a row of ``H``, and the
    label's vector. The cosine of what label l asks with and label j answers with is, up to a factor of l alone, the
    correlation of label l, over the examples, with the score of label j: whichever other label's score rises most where
    l is true is its neighbour. It does not depend on the basis that vectors and projections are written in.
    """
    truth, V = as_truth(Y), as_vectors(vectors, Y.shape[1])
    projected = np.array(H, dtype=np.float64)
    projected -= projected.mean(axis=0)
    counts = np.diff(truth.tocsc().indptr)
    means = np.asarray(truth.T @ projected) / np.maximum(counts, 1)[:, None]
    strengths, basis = np.linalg.eigh(projected.T @ projected / max(1, len(projected)))
    kept = strengths > 1e-10 * strengths.max(initial=0.0)
    roots = np.sqrt(strengths[kept])
    asking, answering = means @ (basis[:, kept] / roots), V @ (basis[:, kept] * roots)
    return asking.astype(V.dtype), answering.astype(V.dtype)


def nearest_labels(vectors: ArrayLike, report: Report = silent, asking: ArrayLike | None = None) -> NDArray[np.int64]:
    """Return each row's nearest other row by cosine, the lowest of those equal to rounding; -1 for a row alone.

    Rows of zeros are at right angles to all. Cosines are formed for blocks of rows, so memory is bounded.
    """
    V = as_vectors(vectors)
    n = len(V)
    if n < 2:
        return np.full(n, -1, np.int64)
    unit = _directions(V)
    asked = unit if asking is None else _directions(as_vectors(asking, n))
    rounding = 32 * np.finfo(unit.dtype).eps
    best = np.empty(n, np.int64)
    for rows in spans(n, max(1, BLOCK // n)):
        report("comparing labels", rows.start, n)
        cosines = asked[rows] @ unit.T
        cosines[np.arange(len(cosines)), np.arange(rows.start, rows.stop)] = -np.inf
        best[rows] = (cosines >= cosines.max(axis=1, keepdims=True) - rounding).argmax(axis=1)
    report("comparing labels", n, n)
    return best


def _directions(V: NDArray[Any]) -> NDArray[Any]:
    """Rows of length one; those of zeros stay."""
    peak = np.abs(V).max(axis=1, keepdims=True, initial=0.0)
    unit = np.divide(V, peak, out=np.zeros_like(V), where=peak > 0)  # squares neither overflow nor vanish now
    length = np.linalg.norm(unit, axis=1, keepdims=True)
    return np.divide(unit, length, out=unit, where=length > 0)


def as_vectors(vectors: ArrayLike, n: int | None = None) -> NDArray[Any]:
    """Check label vectors: a 2-D array of finite numbers, float32 or float64."""
    V = np.asarray(vectors)
    if V.ndim != 2 or (n is not None and len(V) != n):
        rows = "each label" if n is None else f"each of the {n:,} labels of the hierarchy"
        raise DataError(f"the vectors have shape {V.shape}; give one row for {rows}")
    try:
        V = V.astype(V.dtype if V.dtype in (np.float32, np.float64) else np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"the vectors are {V.dtype}, not numbers") from error
    finite = np.isfinite(V).all(axis=1)
    if not finite.all():
        raise DataError(f"the vector of label {int(finite.argmin())} is not finite; fit the embedding again")
    return V


def _related(P: sparse.csr_array, other: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each row has a column in common with the row that ``other`` names."""
    return np.diff(sparse.csr_array(P.multiply(P[other])).indptr) > 0


def _fraternal(counts: NDArray[np.int64]) -> tuple[int | None, float]:
    if not len(counts):
        return None, float("nan")
    index = int(counts.argmax())
    return index, float(counts[index] / len(counts))
