"""k-means of many rows: centres from a sample of them, then every row to the nearest."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.blocks import spans
from rembrandt.progress import Report, silent

Array = NDArray[Any]

SAMPLE = 16  # rows for each centre that it is found from
ROUNDS = 4  # the last ones move next to nothing
BLOCK = 1024  # rows compared with all centres at a time


def kmeans(A: Array, n_clusters: int, seed: int = 0, report: Report = silent) -> NDArray[np.int64]:
    """The cluster of every row of ``A``; some may be empty. The same rows and seed give the same clusters."""
    rng = np.random.default_rng(seed)
    sample = A
    if len(A) > SAMPLE * n_clusters:
        sample = A[np.sort(rng.choice(len(A), SAMPLE * n_clusters, replace=False))]
    centres = sample[np.sort(rng.choice(len(sample), n_clusters, replace=False))]
    rounds = ROUNDS * len(sample) + len(A)
    for number in range(ROUNDS):
        report("clustering labels", number * len(sample), rounds)
        nearest = _nearest(sample, centres)
        empty = np.bincount(nearest, minlength=n_clusters) == 0
        centres = cluster_means(sample, nearest, n_clusters)
        centres[empty] = sample[rng.choice(len(sample), int(empty.sum()))]
    report("clustering labels", ROUNDS * len(sample), rounds)
    found = _nearest(A, centres)
    report("clustering labels", rounds, rounds)
    return found


def cluster_means(A: Array, clusters: Array, n_clusters: int | None = None) -> Array:
    """The mean of each cluster's rows, zero for one without any."""
    sizes = np.bincount(clusters, minlength=n_clusters or 0)
    means = np.zeros((len(sizes), A.shape[1]), dtype=A.dtype)
    order = np.argsort(clusters, kind="stable")
    filled = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[filled]
    if len(starts):
        means[filled] = np.add.reduceat(A[order], starts, axis=0)
    return means / np.maximum(sizes, 1)[:, None].astype(A.dtype)


def _nearest(A: Array, centres: Array) -> NDArray[np.int64]:
    half = 0.5 * np.einsum("ij,ij->i", centres, centres)
    found = np.empty(len(A), dtype=np.int64)
    for rows in spans(len(A), BLOCK):
        found[rows] = np.argmax(A[rows] @ centres.T - half, axis=1)
    return found
