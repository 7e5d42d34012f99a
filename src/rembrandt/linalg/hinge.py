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

Inner loops convert indices to unsigned integers. numba counts a negative index from the end, and to
look at the sign of each one takes more than half of the time of such a loop.
"""

from typing import Any

import numpy as np

from rembrandt.kernels import inner_kernel, kernel
from rembrandt.linalg import Array, Arrays

# CSR arrays, CSC arrays, sums of the columns times the costs, and the costs of the examples.
Pool = tuple[Arrays, Arrays, Array, Array]

# Types of CSR arrays and of a pool, as they are declared.
_CSR = "Tuple((int64[::1], int32[::1], float32[::1]))"
_POOL = f"Tuple(({_CSR}, {_CSR}, float32[::1], float32[::1]))"

# Active rows up to this number fit in the cache and are visited one by one; more in runs.
CACHED_ROWS = 2048

# Rows of a run: long enough that the jump to the next run costs little.
RUN_ROWS = 512

# Share of the tolerance: the gradient at which an example becomes active.
ACTIVE_SHARE = np.float32(0.5)

# Share of the tolerance: an active example with a smaller gradient is skipped until the next round.
SETTLED_SHARE = np.float32(0.1)

# Entries of the first arrays for weights, which grow.
INITIAL_ENTRIES = 1024

# Columns of the state of an active row.
SIGN = 0
HALF_INVERSE_COST = 1  # 1 / 2C
INVERSE_CURVATURE = 2
MULTIPLIER = 3


def n_rounds(passes: int, passes_per_round: int) -> int:
    """Return how often the margins of all examples are computed, at most."""
    return -(-passes // passes_per_round)


def compact_pool(X: Arrays, rows: Array, costs: Array, position: Array) -> tuple[Pool, Array]:
    """Copy the ``rows`` of X over the features that they have; return the pool and those features.

    A pool has CSR arrays, CSC arrays, sums of the columns times ``costs`` with the sum of the costs
    at the end, and the costs. ``position`` is work space, a -1 for each feature, and is restored.
    """
    indptr, indices, data = X
    X = (indptr.astype(np.int64, copy=False), indices, data)
    rows = rows.astype(np.int32, copy=False)
    starts = np.append(0, np.cumsum(X[0][rows + 1] - X[0][rows]))
    size = int(starts[-1])
    max_width = min(size, len(position))
    by_rows = (starts, np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32))
    features = np.empty(max_width, dtype=np.int32)
    tops = np.zeros(max_width + 1, dtype=np.int64)
    free = np.empty(max_width, dtype=np.int64)
    by_columns = (tops, np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32))
    sums = np.zeros(max_width + 1, dtype=np.float32)
    width = _compact(X, rows, costs, position, features, by_rows, by_columns, free, sums)
    _, members, entries = by_columns
    by_columns = (tops[: width + 1], members, entries)
    return (by_rows, by_columns, sums[: width + 1], costs), features[:width].copy()


@kernel(
    f"({_CSR}, int32[::1], float32[::1], int32[::1], int32[::1], {_CSR}, {_CSR}, int64[::1], "
    "float32[::1])",
    error_model="numpy",
)
def _compact(
    X: Arrays,
    rows: Array,
    costs: Array,
    position: Array,
    features: Array,
    by_rows: Arrays,
    by_columns: Arrays,
    free: Array,
    sums: Array,
) -> int:
    """Fill the arrays of a pool, and return its number of features.

    ``free`` is work space: where the next entry of each column goes.
    """
    indptr, indices, data = X
    starts, columns, values = by_rows
    tops, members, entries = by_columns
    m = rows.shape[0]

    # Rows, with features numbered in the order of their first occurrence.
    width = 0
    fill = 0
    for r in range(m):
        for at in range(np.uint64(indptr[rows[r]]), np.uint64(indptr[rows[r] + 1])):
            feature = np.uint32(indices[at])
            f = position[feature]
            if f < 0:
                f = width
                features[width] = feature
                position[feature] = f
                width += 1
            columns[fill] = f
            values[fill] = data[at]
            fill += 1

    # The same entries by columns.
    for at in range(fill):
        tops[columns[at] + 1] += 1
    for f in range(width):
        position[features[f]] = -1
        tops[f + 1] += tops[f]
        free[f] = tops[f]
    for r in range(m):
        sums[width] += costs[r]
        for at in range(np.uint64(starts[r]), np.uint64(starts[r + 1])):
            f = np.uint32(columns[at])
            place = np.uint64(free[f])
            members[place] = r
            entries[place] = values[at]
            sums[f] += costs[r] * values[at]
            free[f] += 1
    return width


def squared_hinge(
    pool: Pool,
    positives: Arrays,
    passes: int,
    passes_per_round: int,
    tolerance: float,
    threshold: float,
) -> tuple[Array, Array, Array, Array]:
    """Fit the labels of a pool.

    ``positives`` are the starts and rows of every label in the pool. Descent ends after ``passes``,
    or when all gradients lie within ``tolerance``. After ``passes_per_round`` more examples may
    become active. Weights below ``threshold`` are dropped.

    Return where the weights of each label end, their features, which are those of the pool, their
    values, and the biases.
    """
    label_starts, label_rows = positives
    positives = (label_starts.astype(np.int64, copy=False), label_rows)
    n_labels = len(label_starts) - 1
    d = len(pool[2]) - 1
    ends = np.zeros(n_labels, dtype=np.int64)
    bias = np.zeros(n_labels, dtype=np.float32)
    features = np.empty(INITIAL_ENTRIES + d, dtype=np.int32)
    values = np.empty(INITIAL_ENTRIES + d, dtype=np.float32)
    limits = (passes, passes_per_round, float(tolerance), float(threshold))
    space = _work_space(pool)
    label = 0
    n_kept = 0
    while label < n_labels:
        results = (ends, features, values, bias)
        label, n_kept = _fit_labels(pool, positives, limits, space, results, label, n_kept)
        if label < n_labels:
            n_more = len(features) + d
            features = np.concatenate([features, np.empty(n_more, dtype=np.int32)])
            values = np.concatenate([values, np.empty(n_more, dtype=np.float32)])
    return ends, features[:n_kept].copy(), values[:n_kept].copy(), bias


def _work_space(pool: Pool) -> tuple[Array, ...]:
    """Return arrays that all labels of a pool share."""
    m = len(pool[3])
    d = len(pool[2]) - 1
    n_entries = len(pool[0][1])
    return (
        np.full(m, -1, dtype=np.float32),  # signs
        np.full(d, -1, dtype=np.int32),  # position of each feature among those of a label
        np.empty(d, dtype=np.int32),  # features of a label
        np.empty((m, 4), dtype=np.float32),  # states of active rows
        np.empty((3, m), dtype=np.int32),  # orders of rows and runs
        np.zeros((m, 2), dtype=np.int64),  # bounds of active rows
        np.empty(m, dtype=np.float32),  # margins
        np.empty(m, dtype=np.bool_),  # rows that are not active
        np.empty((3, d + 1), dtype=np.float32),  # sums of the positives and negatives, and weights
        # Features of active rows, as positions in the weights, and their values. Pages that are not
        # written take no memory.
        np.empty(n_entries, dtype=np.int32),
        np.empty(n_entries, dtype=np.float32),
    )


@kernel(
    f"({_POOL}, Tuple((int64[::1], int32[::1])), Tuple((int64, int64, float64, float64)), "
    "Tuple((float32[::1], int32[::1], int32[::1], float32[:,::1], int32[:,::1], int64[:,::1], "
    "float32[::1], boolean[::1], float32[:,::1], int32[::1], float32[::1])), "
    "Tuple((int64[::1], int32[::1], float32[::1], float32[::1])), int64, int64)",
    error_model="numpy",
)
def _fit_labels(
    pool: Pool,
    positives: Arrays,
    limits: Any,
    space: Any,
    results: Arrays,
    label: int,
    n_kept: int,
) -> tuple[int, int]:
    """Fit the labels from ``label`` on until there is no room for the weights of another one.

    Return the next label, and how many weights there are.
    """
    starts, columns, _ = pool[0]
    label_starts, label_rows = positives
    passes, passes_per_round, tolerance, threshold = limits
    descent_limits = (passes, passes_per_round, tolerance)
    ends, features, values, bias = results
    sign, position, label_features, state, lists, bounds, margin, waiting, sums, local, shares = (
        space
    )
    d = pool[2].shape[0] - 1
    rows_space = (state, lists[0], lists[1], lists[2], bounds, margin, waiting, local, shares)
    while label < label_starts.shape[0] - 1 and n_kept + d <= features.shape[0]:
        rows = label_rows[label_starts[label] : label_starts[label + 1]]
        width = 0
        for i in rows:
            sign[i] = 1
            for at in range(starts[i], starts[i + 1]):
                f = columns[at]
                if position[f] < 0:
                    position[f] = width
                    label_features[width] = f
                    width += 1
        weighted = (label_features[:width], position)
        w = sums[2, : width + 1]
        _solve(pool, rows, sign, weighted, descent_limits, rows_space, sums, w)
        for i in rows:
            sign[i] = -1
        for f in range(width):
            position[label_features[f]] = -1
            if abs(w[f]) > threshold:
                features[n_kept] = label_features[f]
                values[n_kept] = w[f]
                n_kept += 1
        ends[label] = n_kept
        bias[label] = w[width]
        label += 1
    return label, n_kept


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _solve(
    pool: Pool,
    positives: Array,
    sign: Array,
    weighted: Any,
    descent_limits: Any,
    space: Any,
    sums_space: Array,
    w: Array,
) -> None:
    """Write the weights of one label into ``w``, the last one the bias: the weight of a constant
    feature.

    ``weighted`` are the features that have weights, and the position of each feature of the pool
    among them.
    """
    by_rows, by_columns, sums, costs = pool
    starts, columns, values = by_rows
    state, order, next_order, runs, bounds, margin, waiting, local, shares = space
    features, position = weighted
    passes, passes_per_round, tolerance = descent_limits
    m = starts.shape[0] - 1
    width = features.shape[0]

    # Sums of the costs times the rows, of the positives and of the negatives; the constant last.
    positive_sum = sums_space[0, : width + 1]
    negative_sum = sums_space[1, : width + 1]
    for f in range(width + 1):
        positive_sum[f] = 0
    for i in positives:
        positive_sum[width] += costs[i]
        for at in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            place = np.uint32(position[np.uint32(columns[at])])
            positive_sum[place] += costs[i] * values[at]
    for f in range(width):
        negative_sum[f] = sums[features[f]] - positive_sum[f]
    negative_sum[width] = sums[sums.shape[0] - 1] - positive_sum[width]
    t, u = two_multipliers(positive_sum, negative_sum)
    for f in range(width + 1):
        w[f] = u * positive_sum[f] - t * negative_sum[f]
    waiting_sum = negative_sum  # from here on without the negatives that became active

    for i in range(m):
        waiting[i] = True
    # Number of rows that are or were active. It begins with zero, but not as a literal: numba would
    # compile what it is passed to for that as well.
    size = starts[0]
    n_passes = 0
    random = np.uint64(0x9E3779B97F4A7C15)
    converged = False
    while n_passes < passes:
        _margins(by_columns, features, w, margin)
        size_before = size
        limits = (t, u, tolerance)
        rows = (state, bounds, margin, waiting)
        size = _activate(pool, sign, weighted, limits, rows, size, (local, shares), waiting_sum)
        if converged and size == size_before:
            break
        converged = False
        curvature = np.float32(0.5) * waiting_sum[width]
        for f in range(width + 1):
            curvature += waiting_sum[f] * waiting_sum[f]
        n_active = size
        for s in range(size):
            order[s] = s
        for number in range(min(passes_per_round, passes - n_passes)):
            n_passes += 1
            run = 1 if n_active <= CACHED_ROWS else RUN_ROWS
            random = shuffle(runs, (n_active + run - 1) // run, random)
            active_rows = (state, bounds, local, shares)
            n_unsettled, spread = _sweep(
                w, active_rows, runs, run, order, n_active, next_order, tolerance
            )
            if waiting_sum[width] > 0:  # a step for all waiting rows together
                gradient = (np.float32(0.5) * t - np.float32(1)) * waiting_sum[width]
                for f in range(width + 1):
                    gradient -= waiting_sum[f] * w[f]
                new_t = max(t - gradient / curvature, np.float32(0))
                for f in range(width + 1):
                    w[f] += (t - new_t) * waiting_sum[f]
                t = new_t
            order, next_order = next_order, order
            n_active = n_unsettled
            if spread <= tolerance:
                converged = number == 0
                break


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _margins(by_columns: Arrays, features: Array, w: Array, margin: Array) -> None:
    """Write the margins of all rows into ``margin``."""
    tops, members, entries = by_columns
    width = features.shape[0]
    for i in range(margin.shape[0]):
        margin[i] = w[width]
    for f in range(width):
        weight = w[f]
        column = features[f]
        for at in range(np.uint64(tops[column]), np.uint64(tops[column + 1])):
            margin[np.uint32(members[at])] += weight * entries[at]


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _activate(
    pool: Pool,
    sign: Array,
    weighted: Any,
    limits: Any,
    rows: Any,
    size: int,
    copies: Any,
    waiting_sum: Array,
) -> int:
    """Give waiting rows with large gradients multipliers of their own.

    Return how many active rows there are. Their entries are appended to ``copies``. The costs times
    the rows that are no longer waiting are subtracted from ``waiting_sum``.
    """
    by_rows, _, _, costs = pool
    starts, columns, values = by_rows
    t, u, tolerance = limits
    state, bounds, margin, waiting = rows
    local, shares = copies
    _, position = weighted
    width = waiting_sum.shape[0] - 1
    for i in range(starts.shape[0] - 1):
        if not waiting[i]:
            continue
        multiplier = t
        if sign[i] > 0:
            multiplier = u
        else:
            gradient = np.float32(0.5) * t - np.float32(1) - margin[i]
            if abs(gradient) <= ACTIVE_SHARE * tolerance or (t == 0 and gradient > 0):
                continue
        waiting[i] = False
        # Copy the entries that the label has weights for.
        first = bounds[size - 1, 1] if size else 0
        last = first
        for at in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            f = position[np.uint32(columns[at])]
            local[last] = f
            shares[last] = values[at]
            last += f >= 0  # without a branch, which would often be mispredicted
        squared_length = np.float32(1)
        cost = costs[i] if sign[i] < 0 else np.float32(0)
        waiting_sum[width] -= cost
        for at in range(np.uint64(first), np.uint64(last)):
            squared_length += shares[at] * shares[at]
            waiting_sum[np.uint32(local[at])] -= cost * shares[at]
        state[size, SIGN] = sign[i]
        state[size, HALF_INVERSE_COST] = np.float32(0.5) / costs[i]
        state[size, MULTIPLIER] = multiplier * costs[i]
        state[size, INVERSE_CURVATURE] = 1 / (squared_length + state[size, HALF_INVERSE_COST])
        bounds[size, 0] = first
        bounds[size, 1] = last
        size += 1
    return size


@inner_kernel(error_model="numpy")
def shuffle(order: Array, n: int, random: Any) -> Any:
    """Put ``0…n-1`` in random order, and return the new state of the random generator.

    Fisher-Yates with a step of xorshift for each draw.
    """
    for q in range(n):
        random ^= random << np.uint64(13)
        random ^= random >> np.uint64(7)
        random ^= random << np.uint64(17)
        r = np.int64((random >> np.uint64(32)) * np.uint64(q + 1) >> np.uint64(32))
        order[q] = order[r]
        order[r] = q
    return random


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _sweep(
    w: Array,
    active_rows: Any,
    runs: Array,
    run: int,
    order: Array,
    n_active: int,
    next_order: Array,
    tolerance: float,
) -> tuple[int, Any]:
    """Go once through the active rows, in the order of ``runs`` of ``run`` neighbours.

    Return how many rows are left for the next pass, which ``next_order`` lists, and the spread of
    the gradients.
    """
    state, bounds, local, shares = active_rows
    highest = np.float32(-np.inf)
    lowest = np.float32(np.inf)
    n_unsettled = 0
    b = w[-1]
    for q in range((n_active + run - 1) // run):
        for s in range(runs[q] * run, min(n_active, (runs[q] + 1) * run)):
            i = order[s]
            first = np.uint64(bounds[i, 0])
            last = np.uint64(bounds[i, 1])
            dot = b
            for at in range(first, last):
                dot += shares[at] * w[np.uint32(local[at])]
            y = state[i, SIGN]
            a = state[i, MULTIPLIER]
            gradient = y * dot - np.float32(1) + a * state[i, HALF_INVERSE_COST]
            if a == 0:
                gradient = min(gradient, np.float32(0))
            highest = max(highest, gradient)
            lowest = min(lowest, gradient)
            if abs(gradient) > SETTLED_SHARE * tolerance:
                next_order[n_unsettled] = i
                n_unsettled += 1
                new_a = max(a - gradient * state[i, INVERSE_CURVATURE], np.float32(0))
                step = (new_a - a) * y
                state[i, MULTIPLIER] = new_a
                b += step
                for at in range(first, last):
                    w[np.uint32(local[at])] += step * shares[at]
    w[-1] = b
    return n_unsettled, highest - lowest


@inner_kernel(error_model="numpy")
def two_multipliers(positive_sum: Array, negative_sum: Array) -> tuple[Any, Any]:
    """The best t and u of ``αᵢ = t Cᵢ`` for negatives and ``αᵢ = u Cᵢ`` for positives.

    The arguments are the sums of ``Cᵢxᵢ`` of the positives and of the negatives.
    """
    nn = 0.0
    pp = 0.0
    pn = 0.0
    for f in range(positive_sum.shape[0]):
        nn += np.float64(negative_sum[f]) * negative_sum[f]
        pp += np.float64(positive_sum[f]) * positive_sum[f]
        pn += np.float64(negative_sum[f]) * positive_sum[f]
    n = np.float64(negative_sum[-1])  # sum of the costs
    p = np.float64(positive_sum[-1])
    a = nn + n / 2
    c = pp + p / 2
    determinant = a * c - pn * pn
    if determinant > 1e-12 * a * c:
        t = (c * n + pn * p) / determinant
        u = (a * p + pn * n) / determinant
        if t >= 0 and u >= 0:
            return np.float32(t), np.float32(u)
    if p > 0:  # a valid start, if not the best
        return np.float32(0), np.float32(p / c)
    if n > 0:
        return np.float32(n / a), np.float32(0)
    return np.float32(0), np.float32(0)
