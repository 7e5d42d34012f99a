"""k-means of many rows: centres from a sample, then every row is assigned to the nearest."""

import numpy as np

from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import row_sums_of_squares
from rembrandt.progress import Report, silent

SAMPLE = 16  # sampled rows per centre
ROUNDS = 4  # the last ones change little
EVEN = 0.01  # part of the sampling probability that is the same for all rows
BLOCK = 1024  # rows compared with all centres at a time


def kmeans(A: Array, n_clusters: int, seed: int = 0, report: Report = silent) -> Indices:
    """Return the cluster of every row of ``A``; clusters may be empty.

    Rows far from the mean are sampled more often: most rows may lie close together, and uniform
    samples would give all centres to them.
    """
    rng = np.random.default_rng(seed)
    sample = A
    if len(A) > SAMPLE * n_clusters:
        apart = row_sums_of_squares(A - A.mean(axis=0, dtype=np.float64).astype(A.dtype))
        chance = apart + EVEN * apart.mean() + 1e-300
        sample = A[
            np.sort(rng.choice(len(A), SAMPLE * n_clusters, replace=False, p=chance / chance.sum()))
        ]
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
    """Return the mean of each cluster's rows, zero for an empty one."""
    sizes = np.bincount(clusters, minlength=n_clusters or 0)
    means = np.zeros((len(sizes), A.shape[1]), dtype=A.dtype)
    order = np.argsort(clusters, kind="stable")
    filled = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[filled]
    if len(starts):
        means[filled] = np.add.reduceat(A[order], starts, axis=0)
    return means / np.maximum(sizes, 1)[:, None].astype(A.dtype)


def _nearest(A: Array, centres: Array) -> Indices:
    half = (0.5 * row_sums_of_squares(centres)).astype(A.dtype)
    found = np.empty(len(A), dtype=np.int64)
    for rows in spans(len(A), BLOCK):
        found[rows] = np.argmax(A[rows] @ centres.T - half, axis=1)
    return found
