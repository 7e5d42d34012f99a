"""k-means of many rows: centres from a sample, then every row is assigned to the nearest."""

import numpy as np

from rembrandt.linalg import Array, Floats, Indices
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import row_sums_of_squares
from rembrandt.progress import Report, silent

# Rows of the sample for each centre: all rows would take many times longer.
SAMPLED_ROWS_PER_CENTRE = 16

# Rounds of k-means on the sample; further ones change little.
N_ROUNDS = 4

# Share of the sampling probability that is the same for all rows.
UNIFORM_SHARE = 0.01

# Rows compared with all centres at a time.
ASSIGNED_BLOCK_ROWS = 1024


def kmeans(A: Array, n_clusters: int, seed: int = 0, report: Report = silent) -> Indices:
    """Return the cluster of every row of ``A``; clusters may be empty."""
    rng = np.random.default_rng(seed)
    sample_size = SAMPLED_ROWS_PER_CENTRE * n_clusters
    sample = _sample(A, sample_size, rng)
    n_sampled = len(sample)
    first_centres = rng.choice(n_sampled, n_clusters, replace=False)
    centres = sample[np.sort(first_centres)]
    n_in_rounds = N_ROUNDS * n_sampled
    total = n_in_rounds + len(A)
    for number in range(N_ROUNDS):
        report("clustering labels", number * n_sampled, total)
        nearest = _nearest(sample, centres)
        sizes = np.bincount(nearest, minlength=n_clusters)
        centres = cluster_means(sample, nearest, n_clusters)
        is_empty = sizes == 0
        n_empty = int(is_empty.sum())
        new_centres = rng.choice(n_sampled, n_empty)
        centres[is_empty] = sample[new_centres]
    report("clustering labels", n_in_rounds, total)
    clusters = _nearest(A, centres)
    report("clustering labels", total, total)
    return clusters


def _sample(A: Array, size: int, rng: np.random.Generator) -> Array:
    """Draw ``size`` rows of ``A``, or return all if there are fewer.

    Rows far from the mean are drawn more often: most rows may lie close together, and uniform
    samples would give all centres to them.
    """
    if len(A) <= size:
        return A
    n_rows = len(A)
    squared_distances = _squared_distances_from_mean(A)
    uniform = UNIFORM_SHARE * squared_distances.mean()
    weights = squared_distances + uniform + 1e-300
    probabilities = weights / weights.sum()
    drawn = rng.choice(n_rows, size, replace=False, p=probabilities)
    drawn = np.sort(drawn)
    return A[drawn]


def _squared_distances_from_mean(A: Array) -> Floats:
    """Return the squared distance of each row from the mean of all."""
    mean = A.mean(axis=0, dtype=np.float64)
    centred = A - mean.astype(A.dtype)
    return row_sums_of_squares(centred)


def cluster_means(A: Array, clusters: Array, n_clusters: int | None = None) -> Array:
    """Return the mean of each cluster's rows, zero for an empty one."""
    if n_clusters is None:
        sizes = np.bincount(clusters)
    else:
        sizes = np.bincount(clusters, minlength=n_clusters)
    order = np.argsort(clusters, kind="stable")
    sorted_rows = A[order]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    shape = (len(sizes), A.shape[1])
    sums = np.zeros(shape, dtype=A.dtype)
    filled = np.flatnonzero(sizes)
    if len(filled) > 0:
        filled_starts = starts[filled]
        sums[filled] = np.add.reduceat(sorted_rows, filled_starts, axis=0)
    divisors = np.maximum(sizes, 1)
    divisors = divisors.astype(A.dtype)
    return sums / divisors[:, None]


def _nearest(A: Array, centres: Array) -> Indices:
    """Return the centre that is nearest to each row."""
    half_squares = 0.5 * row_sums_of_squares(centres)
    half_squares = half_squares.astype(A.dtype)
    nearest = np.empty(len(A), dtype=np.int64)
    for rows in spans(len(A), ASSIGNED_BLOCK_ROWS):
        products = A[rows] @ centres.T
        nearness = products - half_squares  # (‖a‖² − ‖a − c‖²) / 2
        nearest[rows] = np.argmax(nearness, axis=1)
    return nearest
