"""Generated sparse problems of a known rank."""

import numpy as np
import scipy.sparse as sp

from rembrandt.data.arrays import csr_rows, label_rows
from rembrandt.data.generated import zipf


def sparse_problem(
    n: int,
    d: int,
    c: int,
    rank: int,
    seed: int = 0,
    *,
    features_each: int = 30,
    labels_each: int = 3,
) -> tuple[sp.csr_array, sp.csr_array]:
    """Generate features X (n × d, word counts) and labels Y (n × c) whose expected product ``YᵀX``
    has this rank.

    A row belongs to one of ``rank`` groups. Seven of ten of its features are drawn from those of
    the group, the others from all, with Zipf frequencies; its labels are drawn from those of the
    group.
    """
    if not 1 <= rank <= min(d, c):
        raise ValueError(
            f"rank is {rank}; give one between 1 and the smaller of {d} features and {c} labels"
        )
    rng = np.random.default_rng(seed)
    group = rng.integers(rank, size=n)
    row = np.repeat(group, features_each)
    own = row + rank * zipf(
        rng, d // rank, row.size
    )  # group g has the ids g, g + rank, g + 2 rank, ...
    features = np.where(rng.random(row.size) < 0.7, own, zipf(rng, d, row.size))
    X, _ = csr_rows(np.full(n, features_each), features, np.ones(row.size, np.float32), d)
    row = np.repeat(group, labels_each)
    Y, _ = label_rows(np.full(n, labels_each), row + rank * zipf(rng, c // rank, row.size), c)
    return X, Y
