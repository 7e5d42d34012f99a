"""One linear classifier for each label of a pool of examples, by dual coordinate descent.

The squared hinge loss with an L2 penalty, as in Hsieh et al. (2008): ``min ½‖w‖² + Σ Cᵢ max(0, 1 −
yᵢ wᵀxᵢ)²``. A label has weights only for features of its positive examples, so an example costs the
few non-zeros that it shares.

Almost all negatives end just inside their margin with nearly the same multiplier. So descent starts
from one multiplier for all negatives, ``αᵢ = t Cᵢ``, and one for all positives, the best two in
closed form from sums over the pool. The margins of all examples follow from the columns of the
label's features. Only the examples whose gradient is then large become *active*, with multipliers
of their own; the others stay one coordinate, ``t``. After a few passes over the active examples the
margins are computed again, and more may become active.

Every pass visits the examples in a new random order: one by one when they fit in the cache,
otherwise in runs of neighbours, because a row that follows in memory costs a tenth of one that does
not. Neighbours should be unrelated, so rows are expected in random order.
"""

from typing import Any

import numpy as np
from numba import njit

from rembrandt.linalg import Array, Arrays

Pool = tuple[Arrays, Arrays, Array, Array]

IN_CACHE = 2048  # rows that are visited one by one; more are visited in runs
RUN = 512
ROUND = 6  # passes over the active examples before the margins of all are computed again
ACTIVE = np.float32(0.5)  # of the tolerance: the gradient at which an example becomes active
SETTLED = np.float32(
    0.1
)  # of the tolerance: the gradient of an active example that is skipped until the next round


@njit(nogil=True, cache=True, error_model="numpy")
def compact_pool(X: Arrays, rows: Array, costs: Array, position: Array) -> tuple[Pool, Array]:
    """Copy the ``rows`` of X over the features that they have; return the pool and those features.

    A pool has CSR arrays, CSC arrays, sums of the columns times ``costs`` with the sum of the costs
    at the end, and the costs. ``position`` is work space, a -1 for each feature, and is restored.
    """
    indptr, indices, data = X
    m = rows.shape[0]
    starts = np.zeros(m + 1, np.int64)
    for r in range(m):
        starts[r + 1] = starts[r] + indptr[rows[r] + 1] - indptr[rows[r]]
    size = starts[m]
    columns, values = np.empty(size, np.int32), np.empty(size, np.float32)
    own = np.empty(min(size, position.shape[0]), np.int32)
    width = fill = 0
    for r in range(m):
        for at in range(indptr[rows[r]], indptr[rows[r] + 1]):
            f = position[indices[at]]
            if f < 0:
                f, own[width] = width, indices[at]
                position[indices[at]] = f
                width += 1
            columns[fill], values[fill] = f, data[at]
            fill += 1
    tops = np.zeros(width + 1, np.int64)
    for at in range(size):
        tops[columns[at] + 1] += 1
    for f in range(width):
        position[own[f]] = -1
        tops[f + 1] += tops[f]
    members, entries = np.empty(size, np.int32), np.empty(size, np.float32)
    sums, next_ = np.zeros(width + 1, np.float32), tops[:-1].copy()
    for r in range(m):
        sums[width] += costs[r]
        for at in range(starts[r], starts[r + 1]):
            f = columns[at]
            members[next_[f]], entries[next_[f]] = r, values[at]
            sums[f] += costs[r] * values[at]
            next_[f] += 1
    return ((starts, columns, values), (tops, members, entries), sums, costs), own[:width].copy()


@njit(nogil=True, cache=True, error_model="numpy")
def squared_hinge(
    pool: Pool,
    positives: Arrays,
    passes: int,
    tolerance: float,
    threshold: float,
    all_features: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """Fit labels; return where the weights of each end, their features, their values, and the
    biases.

    ``positives`` are the starts and rows of every label in the pool. Descent ends after ``passes``,
    or when all gradients lie within ``tolerance``. Weights below ``threshold`` are dropped.
    Features are those of the pool. A label has weights of the features of its own examples, or of
    all.
    """
    starts, columns = pool[0][:2]
    m, d, n_labels = starts.shape[0] - 1, pool[2].shape[0] - 1, positives[0].shape[0] - 1
    ends, bias = np.zeros(n_labels, np.int64), np.zeros(n_labels, np.float32)
    features, values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    kept = 0
    sign, position, own = (
        np.full(m, -1, np.float32),
        np.full(d, -1, np.int32),
        np.empty(d, np.int32),
    )
    state, lists = np.empty((m, 4), np.float32), np.empty((3, m), np.int32)
    bounds, margin = np.zeros((m, 2), np.int64), np.empty(m, np.float32)
    if all_features:
        own[:] = position[:] = np.arange(d)
    for label in range(n_labels):
        mine = positives[1][positives[0][label] : positives[0][label + 1]]
        width = d if all_features else 0
        for i in mine:
            sign[i] = 1
            for at in range(starts[i], starts[i + 1]):
                if position[columns[at]] < 0:
                    position[columns[at]] = width
                    own[width] = columns[at]
                    width += 1
        space = (state, lists[0], lists[1], lists[2], bounds, margin)
        w = _solve(
            pool, mine, sign, (own[:width], position, all_features), passes, tolerance, space
        )
        sign[mine] = -1
        for f in range(width if len(mine) else 0):
            if not all_features:
                position[own[f]] = -1
            if abs(w[f]) > threshold:
                if kept == features.shape[0]:
                    features = np.concatenate((features, np.empty(kept, np.int32)))
                    values = np.concatenate((values, np.empty(kept, np.float32)))
                features[kept], values[kept] = own[f], w[f]
                kept += 1
        ends[label], bias[label] = kept, w[width]
    return ends, features[:kept].copy(), values[:kept].copy(), bias


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _solve(
    pool: Pool, mine: Array, sign: Array, features: Any, passes: int, tolerance: float, space: Any
) -> Array:
    """Weights of one label and its bias, the weight of a constant feature.

    ``features`` are those that have weights, the position of each feature of the pool among them,
    and whether they are all features in their order, so that rows of the pool need no copy.
    """
    (starts, columns, values), (tops, members, entries), sums, costs = pool
    state, order, rest, blocks, bounds, margin = (
        space  # state of active rows: sign, 1 / 2C, 1 / curvature, multiplier
    )
    own, position, whole = features
    m, width = starts.shape[0] - 1, own.shape[0]
    ours, others = np.zeros(width + 1, np.float32), np.empty(width + 1, np.float32)
    for i in mine:
        ours[width] += costs[i]
        for at in range(starts[i], starts[i + 1]):
            ours[position[columns[at]]] += costs[i] * values[at]
    for f in range(width):
        others[f] = sums[own[f]] - ours[f]
    others[width] = sums[-1] - ours[width]
    t, u = _two_multipliers(ours, others)
    w = u * ours - t * others
    waiting = np.ones(m, np.bool_)  # rows that are not active
    local, shares = columns, values  # of active rows, over the features `own`
    if not whole:
        local, shares = np.empty(1024, np.int32), np.empty(1024, np.float32)
    size = used = 0
    random = np.uint64(0x9E3779B97F4A7C15)
    converged = False
    while used < passes:
        margin[:] = w[width]
        for f in range(width):
            for at in range(tops[own[f]], tops[own[f] + 1]):
                margin[members[at]] += w[f] * entries[at]
        before, rows = size, (state, bounds, margin, waiting)
        local, shares, size = _activate(
            pool, sign, features, (t, u, tolerance), rows, size, (local, shares), others
        )
        if converged and size == before:
            break
        converged = False
        curvature = np.float32(0.5) * others[width]
        for f in range(width + 1):
            curvature += others[f] * others[f]
        active = size
        for s in range(size):
            order[s] = s
        for number in range(min(ROUND, passes - used)):
            used += 1
            run = 1 if active <= IN_CACHE else RUN
            random = _shuffle(blocks, (active + run - 1) // run, random)
            kept, spread = _sweep(
                w, (state, bounds, local, shares), blocks, run, order, active, rest, tolerance
            )
            if others[width] > 0:  # a step for all waiting rows together
                gradient = (np.float32(0.5) * t - np.float32(1)) * others[width]
                for f in range(width + 1):
                    gradient -= others[f] * w[f]
                new = max(t - gradient / curvature, np.float32(0))
                for f in range(width + 1):
                    w[f] += (t - new) * others[f]
                t = new
            order, rest, active = rest, order, kept
            if spread <= tolerance:
                converged = number == 0
                break
    return w


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _activate(
    pool: Pool,
    sign: Array,
    features: Any,
    limits: Any,
    rows: Any,
    size: int,
    entries: Any,
    others: Array,
) -> tuple[Array, Array, int]:
    """Give waiting rows with large gradients multipliers of their own; return their entries and how
    many there are.
    """
    (starts, columns, values), _, _, costs = pool
    (t, u, tolerance), (state, bounds, margin, waiting), (local, shares) = limits, rows, entries
    (_, position, whole), width = features, others.shape[0] - 1
    for i in range(starts.shape[0] - 1):
        if not waiting[i]:
            continue
        multiplier = t
        if sign[i] > 0:
            multiplier = u
        else:
            gradient = np.float32(0.5) * t - np.float32(1) - margin[i]
            if abs(gradient) <= ACTIVE * tolerance or (t == 0 and gradient > 0):
                continue
        waiting[i] = False
        first, last = starts[i], starts[i + 1]
        if not whole:  # copy the entries that the label has weights for
            first = last = bounds[size - 1, 1] if size else 0
            if last + starts[i + 1] - starts[i] > local.shape[0]:
                more = local.shape[0] + starts[i + 1] - starts[i]
                local = np.concatenate((local, np.empty(more, np.int32)))
                shares = np.concatenate((shares, np.empty(more, np.float32)))
            for at in range(starts[i], starts[i + 1]):
                f = position[columns[at]]
                local[last], shares[last] = f, values[at]
                last += f >= 0  # without a branch, which would often be mispredicted
        length, share = np.float32(1), costs[i] if sign[i] < 0 else np.float32(0)
        others[width] -= share
        for at in range(first, last):
            length += shares[at] * shares[at]
            others[local[at]] -= share * shares[at]
        state[size, 0], state[size, 1], state[size, 3] = (
            sign[i],
            np.float32(0.5) / costs[i],
            multiplier * costs[i],
        )
        state[size, 2] = 1 / (length + state[size, 1])
        bounds[size, 0], bounds[size, 1] = first, last
        size += 1
    return local, shares, size


@njit(nogil=True, cache=True, error_model="numpy")
def _shuffle(blocks: Array, n: int, random: Any) -> Any:
    """Put ``0…n-1`` in random order: Fisher-Yates with a step of xorshift for each draw; return the
    new state.
    """
    for q in range(n):
        random ^= random << np.uint64(13)
        random ^= random >> np.uint64(7)
        random ^= random << np.uint64(17)
        r = np.int64((random >> np.uint64(32)) * np.uint64(q + 1) >> np.uint64(32))
        blocks[q] = blocks[r]
        blocks[r] = q
    return random


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _sweep(
    w: Array,
    rows: Any,
    blocks: Array,
    run: int,
    order: Array,
    active: int,
    rest: Array,
    tolerance: float,
) -> tuple[int, Any]:
    """Go once through the active rows; return how many are left for the next pass, and the spread
    of the gradients.
    """
    state, bounds, local, shares = rows
    top, low, kept, b = np.float32(-np.inf), np.float32(np.inf), 0, w[-1]
    for q in range((active + run - 1) // run):
        for s in range(blocks[q] * run, min(active, (blocks[q] + 1) * run)):
            i = order[s]
            dot = b
            for at in range(bounds[i, 0], bounds[i, 1]):
                dot += shares[at] * w[local[at]]
            y, a = state[i, 0], state[i, 3]
            gradient = y * dot - np.float32(1) + a * state[i, 1]
            if a == 0:
                gradient = min(gradient, np.float32(0))
            top, low = max(top, gradient), min(low, gradient)
            if abs(gradient) > SETTLED * tolerance:  # others are skipped until the next round
                rest[kept] = i
                kept += 1
                new = max(a - gradient * state[i, 2], np.float32(0))
                step = (new - a) * y
                state[i, 3] = new
                b += step
                for at in range(bounds[i, 0], bounds[i, 1]):
                    w[local[at]] += step * shares[at]
    w[-1] = b
    return kept, top - low


@njit(nogil=True, cache=True, error_model="numpy")
def _two_multipliers(ours: Array, others: Array) -> tuple[Any, Any]:
    """The best t and u of ``αᵢ = t Cᵢ`` for negatives and ``αᵢ = u Cᵢ`` for positives, given both
    sums of ``Cᵢxᵢ``.
    """
    nn = pp = np_ = 0.0
    for f in range(ours.shape[0]):
        nn += np.float64(others[f]) * others[f]
        pp += np.float64(ours[f]) * ours[f]
        np_ += np.float64(others[f]) * ours[f]
    n, p = np.float64(others[-1]), np.float64(ours[-1])  # sums of costs
    a, c = nn + n / 2, pp + p / 2
    both = a * c - np_ * np_
    if both > 1e-12 * a * c:
        t, u = (c * n + np_ * p) / both, (a * p + np_ * n) / both
        if t >= 0 and u >= 0:
            return np.float32(t), np.float32(u)
    if p > 0:  # a valid start, if not the best
        return np.float32(0), np.float32(p / c)
    return np.float32(n / a if n > 0 else 0), np.float32(0)
