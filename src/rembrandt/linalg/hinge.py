"""One linear classifier for each label, by dual coordinate descent, each on examples and features of its own.

The squared hinge with an L2 penalty, as in Hsieh et al. (2008): ``min ½‖w‖² + Σ Cᵢ max(0, 1 − yᵢ wᵀxᵢ)²``. A label has
weights only for features that one of its positive examples has. Its examples are copied with those features alone, so
that the many passes over them stay in the cache, and an example costs the few non-zeros that it shares.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
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
    first_label: int,
    last_label: int,
    passes: int,
    tolerance: float,
    threshold: float,
    seed: int,
    place: Array,
) -> tuple[Array, Array, Array, Array]:
    """Fit a range of labels; returns where each one's weights end, their features, their values, and the biases.

    ``positives`` are the rows of each label and ``pools`` lists of rows, both cut by ``*_at``; a label's negatives are
    the rows of its pool that are not positive. ``costs`` are the rows' Cᵢ. Weights below ``threshold``
    are dropped. ``place`` is work space, a -1 for each feature, and is left so.
    """
    n = indptr.shape[0] - 1
    size = last_label - first_label
    ends, bias = np.zeros(size, np.int64), np.zeros(size, np.float32)
    features, values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    kept = 0
    mark = np.zeros(n, np.bool_)
    own = np.empty(place.shape[0], np.int32)
    for label in range(first_label, last_label):
        mine = positives[positives_at[label] : positives_at[label + 1]]
        pool = pools[pools_at[pool_of[label]] : pools_at[pool_of[label] + 1]]
        mark[mine] = True
        others = pool[~mark[pool]]
        mark[mine] = False
        width = 0
        for i in mine:
            for at in range(indptr[i], indptr[i + 1]):
                if place[indices[at]] < 0:
                    place[indices[at]] = width
                    own[width] = indices[at]
                    width += 1
        starts, local, shares = _restricted(indptr, indices, data, mine, others, place)
        inverse = np.float32(0.5) / np.concatenate((costs[mine], costs[others]))
        w, b = _solve(starts, local, shares, inverse, mine.shape[0], width, passes, tolerance, seed + label)
        for f in range(width):
            place[own[f]] = -1
            if abs(w[f]) >= threshold:
                if kept == features.shape[0]:
                    features = np.concatenate((features, np.empty(kept, np.int32)))
                    values = np.concatenate((values, np.empty(kept, np.float32)))
                features[kept], values[kept] = own[f], w[f]
                kept += 1
        ends[label - first_label], bias[label - first_label] = kept, b
    return ends, features[:kept].copy(), values[:kept].copy(), bias


@njit(nogil=True, cache=True, error_model="numpy")
def _restricted(
    indptr: Array, indices: Array, data: Array, mine: Array, others: Array, place: Array
) -> tuple[Array, Array, Array]:
    """The rows ``mine`` and ``others`` with the features that have a ``place``, as CSR arrays."""
    m = mine.shape[0] + others.shape[0]
    starts = np.zeros(m + 1, np.int64)
    room = 0
    for r in range(m):
        i = mine[r] if r < mine.shape[0] else others[r - mine.shape[0]]
        room += indptr[i + 1] - indptr[i]
    local, shares = np.empty(room, np.int32), np.empty(room, np.float32)
    fill = 0
    for r in range(m):
        i = mine[r] if r < mine.shape[0] else others[r - mine.shape[0]]
        for at in range(indptr[i], indptr[i + 1]):
            f = place[indices[at]]
            if f >= 0:
                local[fill], shares[fill] = f, data[at]
                fill += 1
        starts[r + 1] = fill
    return starts, local, shares


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _solve(
    starts: Array,
    local: Array,
    shares: Array,
    inverse: Array,
    n_positive: int,
    width: int,
    passes: int,
    tolerance: float,
    seed: int,
) -> tuple[Array, Any]:
    """Weights and bias of one label; the first ``n_positive`` rows are its own."""
    m = starts.shape[0] - 1
    w, b = np.zeros(width, np.float32), np.float32(0)
    alpha, lengths, order = np.zeros(m, np.float32), np.empty(m, np.float32), np.arange(m)
    for i in range(m):
        total = np.float32(1)
        for at in range(starts[i], starts[i + 1]):
            total += shares[at] * shares[at]
        lengths[i] = total
    active, highest = m, np.float32(np.inf)
    state = np.uint64(seed * 2 + 1) * np.uint64(0x9E3779B97F4A7C15)
    for _ in range(passes):
        for s in range(active - 1):
            # A step of xorshift draws which comes next.
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            r = s + np.int64((state >> np.uint64(11)) % np.uint64(active - s))
            order[s], order[r] = order[r], order[s]
        top, low = np.float32(-np.inf), np.float32(np.inf)
        s = 0
        while s < active:
            i = order[s]
            y = np.float32(1) if i < n_positive else np.float32(-1)
            dot = b
            for at in range(starts[i], starts[i + 1]):
                dot += shares[at] * w[local[at]]
            a = alpha[i]
            gradient = y * dot - np.float32(1) + a * inverse[i]
            projected = gradient
            if a == 0:
                if gradient > highest:  # far on the right side of its margin: left aside until the end
                    active -= 1
                    order[s], order[active] = order[active], order[s]
                    continue
                projected = min(gradient, np.float32(0))
            top, low = max(top, projected), min(low, projected)
            if abs(projected) > np.float32(1e-6):
                new = max(a - gradient / (lengths[i] + inverse[i]), np.float32(0))
                step = (new - a) * y
                alpha[i] = new
                b += step
                for at in range(starts[i], starts[i + 1]):
                    w[local[at]] += step * shares[at]
            s += 1
        if top - low <= tolerance:
            if active == m:
                break
            active, highest = m, np.float32(np.inf)
        else:
            highest = top if top > 0 else np.float32(np.inf)
    return w, b
