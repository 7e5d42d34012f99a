"""One linear classifier for each label, by dual coordinate descent, each on examples and features of its own.

The squared hinge with an L2 penalty, as in Hsieh et al. (2008): ``min ½‖w‖² + Σ Cᵢ max(0, 1 − yᵢ wᵀxᵢ)²``. A label has
weights only for features that one of its positive examples has. Its examples are copied with those features alone, so
that an example costs the few non-zeros that it shares. Rows are expected in random order, and every pass goes through
them in that order: from memory a row that comes next costs a tenth of one that is drawn.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

IN_CACHE = 4096  # rows that may be drawn in any order; of more, runs of neighbours are
RUN = 16
ASIDE = np.float32(0.2)  # beyond its margin a row is left aside at once, however far others are from theirs


@njit(nogil=True, cache=True, error_model="numpy")
def squared_hinge(
    indptr: Array,
    indices: Array,
    data: Array,
    costs: Array,
    positives_at: Array,
    positives: Array,
    pools_at: Array,
    pools: Array,
    pool_of: Array,
    labels: Array,
    passes: int,
    tolerance: float,
    threshold: float,
    place: Array,
) -> tuple[Array, Array, Array, Array]:
    """Fit ``labels``; returns where each one's weights end, their features, their values, and the biases.

    ``positives`` are the rows of each label and ``pools`` lists of rows, both cut by ``*_at``; a label learns from all
    rows of its pool, its positives among them. ``costs`` are the rows' Cᵢ. Weights below ``threshold`` are dropped.
    ``place`` is work space, a -1 for each feature, and is left so.
    """
    n = indptr.shape[0] - 1
    ends, bias = np.zeros(labels.shape[0], np.int64), np.zeros(labels.shape[0], np.float32)
    features, values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    kept = 0
    mark = np.zeros(n, np.bool_)
    own = np.empty(place.shape[0], np.int32)
    for number, label in enumerate(labels):
        mine = positives[positives_at[label] : positives_at[label + 1]]
        pool = pools[pools_at[pool_of[label]] : pools_at[pool_of[label] + 1]]
        mark[mine] = True
        width = 0
        for i in mine:
            for at in range(indptr[i], indptr[i + 1]):
                if place[indices[at]] < 0:
                    place[indices[at]] = width
                    own[width] = indices[at]
                    width += 1
        starts, local, shares, lengths = _restricted(indptr, indices, data, pool, place)
        w, b = _solve(starts, local, shares, lengths, mark[pool], costs[pool], width, passes, tolerance)
        mark[mine] = False
        for f in range(width):
            place[own[f]] = -1
            if abs(w[f]) > threshold:
                if kept == features.shape[0]:
                    features = np.concatenate((features, np.empty(kept, np.int32)))
                    values = np.concatenate((values, np.empty(kept, np.float32)))
                features[kept], values[kept] = own[f], w[f]
                kept += 1
        ends[number], bias[number] = kept, b
    return ends, features[:kept].copy(), values[:kept].copy(), bias


@njit(nogil=True, cache=True, error_model="numpy")
def _restricted(
    indptr: Array, indices: Array, data: Array, pool: Array, place: Array
) -> tuple[Array, Array, Array, Array]:
    """The rows of ``pool`` with the features that have a ``place``, as CSR arrays, and ``1 + xᵀx`` of each."""
    m = pool.shape[0]
    starts, lengths = np.zeros(m + 1, np.int64), np.empty(m, np.float32)
    room = 0
    for i in pool:
        room += indptr[i + 1] - indptr[i]
    local, shares = np.empty(room, np.int32), np.empty(room, np.float32)
    fill = 0
    for r in range(m):
        total = np.float32(1)
        for at in range(indptr[pool[r]], indptr[pool[r] + 1]):
            f = place[indices[at]]
            if f >= 0:
                local[fill], shares[fill] = f, data[at]
                total += data[at] * data[at]
                fill += 1
        starts[r + 1], lengths[r] = fill, total
    return starts, local, shares, lengths


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _solve(
    starts: Array,
    local: Array,
    shares: Array,
    lengths: Array,
    positive: Array,
    costs: Array,
    width: int,
    passes: int,
    tolerance: float,
) -> tuple[Array, Any]:
    """Weights and bias of one label; the bias is the weight of a constant that every row has."""
    m = starts.shape[0] - 1
    w, b = np.zeros(width, np.float32), np.float32(0)
    alpha, order, rest = np.zeros(m, np.float32), np.arange(m, dtype=np.int32), np.empty(m, np.int32)
    blocks = np.empty(m, np.int32)
    active, highest = m, np.float32(np.inf)
    state = np.uint64(0x9E3779B97F4A7C15)
    for _ in range(passes):
        run = 1 if active <= IN_CACHE else RUN
        n_blocks = (active + run - 1) // run
        for q in range(n_blocks):
            # A step of xorshift draws where the next block goes.
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            r = np.int64((state >> np.uint64(32)) * np.uint64(q + 1) >> np.uint64(32))
            blocks[q] = blocks[r]
            blocks[r] = q
        top, low = np.float32(-np.inf), np.float32(np.inf)
        kept = 0
        for q in range(n_blocks):
            for s in range(blocks[q] * run, min(active, (blocks[q] + 1) * run)):
                i = order[s]
                y = np.float32(1) if positive[i] else np.float32(-1)
                dot = b
                for at in range(starts[i], starts[i + 1]):
                    dot += shares[at] * w[local[at]]
                a, inverse = alpha[i], np.float32(0.5) / costs[i]
                gradient = y * dot - np.float32(1) + a * inverse
                projected = gradient
                if a == 0:
                    if gradient > highest:  # far on the right side of its margin: left aside until the end
                        continue
                    projected = min(gradient, np.float32(0))
                rest[kept] = i
                kept += 1
                top, low = max(top, projected), min(low, projected)
                if abs(projected) > np.float32(1e-6):
                    new = max(a - gradient / (lengths[i] + inverse), np.float32(0))
                    step = (new - a) * y
                    alpha[i] = new
                    b += step
                    for at in range(starts[i], starts[i + 1]):
                        w[local[at]] += step * shares[at]
        order, rest = rest, order
        active = kept
        if top - low <= tolerance:
            if active == m:
                break
            active, highest = m, np.float32(np.inf)
            order[:] = np.arange(m)
        else:
            highest = min(top, ASIDE) if top > 0 else np.float32(np.inf)
    return w, b
