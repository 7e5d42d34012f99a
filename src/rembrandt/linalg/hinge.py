"""One linear classifier for each label by dual coordinate descent, each with its own examples and features.

The squared hinge loss with an L2 penalty, as in Hsieh et al. (2008): ``min ½‖w‖² + Σ Cᵢ max(0, 1 − yᵢ wᵀxᵢ)²``. A label
has weights only for features of its positive examples. Its examples are copied with those features alone, so that an
example costs the few non-zeros that it shares. Every pass visits the examples in a new random order: one by one when
they fit in the cache, otherwise in runs of neighbours, because a row that follows in memory costs a tenth of one that
does not. Neighbours should be unrelated, so rows are expected in random order.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = tuple[Array, ...]

IN_CACHE = 4096  # rows that are visited one by one; more are visited in runs
RUN = 16
ASIDE = np.float32(0.2)  # a row this far beyond its margin is skipped until the end, whatever the other rows' margins


@njit(nogil=True, cache=True, error_model="numpy")
def squared_hinge(
    X: Arrays, costs: Array, positives: Arrays, pools: Arrays, pool_of: Array, labels: Array,
    passes: int, tolerance: float, threshold: float, position: Array,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """Fit ``labels``; return where the weights of each end, their features, their values, and the biases.

    ``X`` are the row starts, columns and values of the examples; ``positives`` the starts and rows of every label, and
    ``pools`` the starts and rows of every pool. A label learns from all rows of its pool, which include its positives.
    ``costs`` are the Cᵢ of the rows. Weights below ``threshold`` are dropped. ``position`` is work space, a -1 for each
    feature, and is restored.
    """
    indptr, indices = X[:2]
    n = indptr.shape[0] - 1
    ends, bias = np.zeros(labels.shape[0], np.int64), np.zeros(labels.shape[0], np.float32)
    features, values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    kept = 0
    mark = np.zeros(n, np.bool_)
    own = np.empty(position.shape[0], np.int32)
    for number, label in enumerate(labels):
        mine = positives[1][positives[0][label] : positives[0][label + 1]]
        pool = pools[1][pools[0][pool_of[label]] : pools[0][pool_of[label] + 1]]
        mark[mine] = True
        width = 0
        for i in mine:
            for at in range(indptr[i], indptr[i + 1]):
                if position[indices[at]] < 0:
                    position[indices[at]] = width
                    own[width] = indices[at]
                    width += 1
        rows, lengths = _restricted(X, pool, position)
        w, b = _solve(rows, lengths, mark[pool], costs[pool], width, passes, tolerance)
        mark[mine] = False
        for f in range(width):
            position[own[f]] = -1
            if abs(w[f]) > threshold:
                if kept == features.shape[0]:
                    features = np.concatenate((features, np.empty(kept, np.int32)))
                    values = np.concatenate((values, np.empty(kept, np.float32)))
                features[kept], values[kept] = own[f], w[f]
                kept += 1
        ends[number], bias[number] = kept, b
    return ends, features[:kept].copy(), values[:kept].copy(), bias


@njit(nogil=True, cache=True, error_model="numpy")
def _restricted(X: Arrays, pool: Array, position: Array) -> tuple[tuple[Array, Array, Array], Array]:
    """The rows of ``pool`` with the features that have a ``position``, as CSR arrays, and ``1 + xᵀx`` of each."""
    indptr, indices, data = X
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
            f = position[indices[at]]
            if f >= 0:
                local[fill], shares[fill] = f, data[at]
                total += data[at] * data[at]
                fill += 1
        starts[r + 1], lengths[r] = fill, total
    return (starts, local, shares), lengths


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _solve(
    rows: Arrays, lengths: Array, positive: Array, costs: Array, width: int, passes: int, tolerance: float
) -> tuple[Array, Any]:
    """Weights and bias of one label; the bias is the weight of a constant feature."""
    starts, local, shares = rows
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
            # Fisher-Yates with a step of xorshift for each draw.
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
                    if gradient > highest:  # far beyond its margin: skipped until the end
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
