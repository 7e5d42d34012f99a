"""Linear classifiers over all features of a pool, several at a time, by dual coordinate descent.

Problem and method are those of `rembrandt.linalg.hinge`. Here a label has weights for all features,
so every example costs all its non-zeros, for every label. A *panel* of labels goes through the
examples together: the weights of a feature are neighbours in memory, and one instruction multiplies
all of them. On NVD products a node of the first level takes a third of the time that it takes
alone, where its weights lie scattered in memory.

Which examples have multipliers of their own is known for each label. A pass visits an example that
has one for any label of the panel, and changes those of the labels alone that need it.
"""

from typing import Any

import numpy as np

from rembrandt.kernels import inner_kernel, kernel
from rembrandt.linalg import Array, Arrays
from rembrandt.linalg.hinge import (
    ACTIVE_SHARE,
    CACHED_ROWS,
    INITIAL_ENTRIES,
    RUN_ROWS,
    SETTLED_SHARE,
    Pool,
    shuffle,
    two_multipliers,
)

# Labels of a panel. The weights of a feature for 16 labels fill a cache line. That loops over them
# have this length is known to the compiler.
PANEL_LABELS = 16

# States of an example and a label of the panel.
POSITIVE = 1
ACTIVE_NEGATIVE = -1
WAITING = -2
NO_LABEL = 0  # where a panel has fewer labels

# Rows of the work space for numbers of each label.
DOTS = 0
STEPS = 1
WAITING_SHARES = 2  # multipliers of waiting negatives, divided by their costs
GRADIENTS = 3
CURVATURES = 4
N_NUMBERS = 5

_CSR = "Tuple((int64[::1], int32[::1], float32[::1]))"
_POOL = f"Tuple(({_CSR}, {_CSR}, float32[::1], float32[::1]))"
_SPACE = (
    "Tuple((float32[:,::1], float32[:,::1], float32[:,::1], int8[:,::1], float32[:,::1], "
    "float32[::1], int32[:,::1], float32[:,::1]))"
)


def squared_hinge_panels(
    pool: Pool,
    positives: Arrays,
    passes: int,
    passes_per_round: int,
    tolerance: float,
    threshold: float,
) -> tuple[Array, Array, Array, Array]:
    """Fit the labels of a pool, each with weights of all features.

    Arguments and results are those of `rembrandt.linalg.hinge.squared_hinge`.
    """
    label_starts, label_rows = positives
    positives = (label_starts.astype(np.int64, copy=False), label_rows)
    n_labels = len(label_starts) - 1
    m = len(pool[3])
    d = len(pool[2]) - 1
    panel_entries = PANEL_LABELS * d
    ends = np.zeros(n_labels, dtype=np.int64)
    bias = np.zeros(n_labels, dtype=np.float32)
    features = np.empty(INITIAL_ENTRIES + panel_entries, dtype=np.int32)
    values = np.empty(INITIAL_ENTRIES + panel_entries, dtype=np.float32)
    limits = (passes, passes_per_round, float(tolerance), float(threshold))
    space = (
        np.empty((d + 1, PANEL_LABELS), dtype=np.float32),  # weights
        np.empty((d + 1, PANEL_LABELS), dtype=np.float32),  # sums of the waiting rows
        np.empty((m, PANEL_LABELS), dtype=np.float32),  # multipliers
        np.empty((m, PANEL_LABELS), dtype=np.int8),  # states
        np.empty((N_NUMBERS, PANEL_LABELS), dtype=np.float32),
        np.empty(m, dtype=np.float32),  # inverse curvatures
        np.empty((3, m), dtype=np.int32),  # orders of rows and runs
        np.empty(
            (2, d + 1), dtype=np.float32
        ),  # sums of the positive and of the other rows of a label
    )
    label = 0
    n_kept = 0
    while label < n_labels:
        results = (ends, features, values, bias)
        label, n_kept = _fit_panels(pool, positives, limits, space, results, label, n_kept)
        if label < n_labels:
            n_more = len(features) + panel_entries
            features = np.concatenate([features, np.empty(n_more, dtype=np.int32)])
            values = np.concatenate([values, np.empty(n_more, dtype=np.float32)])
    return ends, features[:n_kept].copy(), values[:n_kept].copy(), bias


@kernel(
    f"({_POOL}, Tuple((int64[::1], int32[::1])), Tuple((int64, int64, float64, float64)), "
    f"{_SPACE}, Tuple((int64[::1], int32[::1], float32[::1], float32[::1])), int64, int64)",
    error_model="numpy",
)
def _fit_panels(
    pool: Pool,
    positives: Arrays,
    limits: tuple[int, int, float, float],
    space: Any,
    results: Arrays,
    label: int,
    n_kept: int,
) -> tuple[int, int]:
    """Fit panels of labels from ``label`` on until there is no room for the weights of another.

    Return the next label, and how many weights there are.
    """
    label_starts, label_rows = positives
    passes, passes_per_round, tolerance, threshold = limits
    descent_limits = (passes, passes_per_round, np.float32(tolerance))
    ends, features, values, bias = results
    weights = space[0]
    d = weights.shape[0] - 1
    n_labels = label_starts.shape[0] - 1
    while label < n_labels and n_kept + PANEL_LABELS * d <= features.shape[0]:
        n_in_panel = min(PANEL_LABELS, n_labels - label)
        starts_of_panel = label_starts[label : label + n_in_panel + 1]
        _start(pool, starts_of_panel, label_rows, space)
        _descend(pool, descent_limits, space)
        for lane in range(n_in_panel):
            # A label without examples has a bias alone.
            n_features = d if starts_of_panel[lane] < starts_of_panel[lane + 1] else 0
            for f in range(n_features):
                weight = weights[f, lane]
                if abs(weight) > threshold:
                    features[n_kept] = f
                    values[n_kept] = weight
                    n_kept += 1
            ends[label + lane] = n_kept
            bias[label + lane] = weights[d, lane]
        label += n_in_panel
    return label, n_kept


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _start(pool: Pool, label_starts: Array, label_rows: Array, space: Any) -> None:
    """Write the states, and the multipliers and weights that descent starts from."""
    (starts, columns, values), _, sums, costs = pool
    weights, waiting_sums, multipliers, states, numbers, inverse_curvatures, _, label_sums = space
    n_in_panel = label_starts.shape[0] - 1
    d = weights.shape[0] - 1
    n_lanes = np.uint64(PANEL_LABELS)
    _clear(states, weights, numbers, n_in_panel)
    positive_sums = weights
    for lane in range(n_in_panel):
        for number in range(label_starts[lane], label_starts[lane + 1]):
            i = label_rows[number]
            states[i, lane] = POSITIVE
            positive_sums[d, lane] += costs[i]
            for at in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                positive_sums[np.uint32(columns[at]), lane] += costs[i] * values[at]

    waiting_shares = numbers[WAITING_SHARES]
    positive_shares = numbers[GRADIENTS]
    positive_sum = label_sums[0]
    negative_sum = label_sums[1]
    for lane in range(n_in_panel):
        for f in range(d + 1):
            positive_sum[f] = positive_sums[f, lane]
            negative_sum[f] = sums[f] - positive_sums[f, lane]
        t, u = two_multipliers(positive_sum, negative_sum)
        waiting_shares[lane] = t
        positive_shares[lane] = u
    for f in range(d + 1):
        for lane in range(n_lanes):
            positive = positive_sums[f, lane]
            negative = sums[f] - positive
            waiting_sums[f, lane] = negative
            weights[f, lane] = positive_shares[lane] * positive - waiting_shares[lane] * negative

    for i in range(costs.shape[0]):
        squared_length = np.float32(1)
        for at in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            squared_length += values[at] * values[at]
        inverse_curvatures[i] = 1 / (squared_length + np.float32(0.5) / costs[i])
        for lane in range(n_lanes):
            is_positive = states[i, lane] == POSITIVE
            multipliers[i, lane] = positive_shares[lane] * costs[i] if is_positive else 0


@inner_kernel()
def _clear(states: Array, weights: Array, numbers: Array, n_in_panel: int) -> None:
    """Let all rows wait for the labels of a panel, with weights and numbers of zero."""
    n_lanes = PANEL_LABELS
    for i in range(states.shape[0]):
        for lane in range(n_lanes):
            states[i, lane] = WAITING if lane < n_in_panel else NO_LABEL
    for f in range(weights.shape[0]):
        for lane in range(n_lanes):
            weights[f, lane] = 0
    for number in range(numbers.shape[0]):
        for lane in range(n_lanes):
            numbers[number, lane] = 0


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _descend(pool: Pool, descent_limits: Any, space: Any) -> None:
    """Make rows active and go through them, in rounds of a few passes."""
    passes, passes_per_round, tolerance = descent_limits
    lists = space[6]
    order = lists[0]
    next_order = lists[1]
    runs = lists[2]
    random = np.uint64(0x9E3779B97F4A7C15)
    n_passes = 0
    converged = False
    while n_passes < passes:
        n_active, n_new = _activate(pool, space, order, tolerance)
        if converged and n_new == 0:
            break
        converged = False
        for number in range(min(passes_per_round, passes - n_passes)):
            n_passes += 1
            run = 1 if n_active <= CACHED_ROWS else RUN_ROWS
            random = shuffle(runs, (n_active + run - 1) // run, random)
            n_unsettled, spread = _sweep(pool, space, run, order, n_active, next_order, tolerance)
            _step_waiting(space)
            order, next_order = next_order, order
            n_active = n_unsettled
            if spread <= tolerance:
                converged = number == 0
                break


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _activate(pool: Pool, space: Any, order: Array, tolerance: Any) -> tuple[int, int]:
    """Give waiting rows with large gradients multipliers of their own.

    Return how many rows are active for any label, which ``order`` lists, and how many pairs of a
    row and a label became so. Rows that are no longer waiting are subtracted from the sums.
    """
    (starts, columns, values), _, _, costs = pool
    weights, waiting_sums, multipliers, states, numbers, _, _, _ = space
    dots = numbers[DOTS]
    removed = numbers[STEPS]
    waiting_shares = numbers[WAITING_SHARES]
    n_lanes = np.uint64(PANEL_LABELS)
    d = np.uint64(weights.shape[0] - 1)
    bar = ACTIVE_SHARE * tolerance
    n_active = 0
    n_new = 0
    for i in range(costs.shape[0]):
        first = np.uint64(starts[i])
        last = np.uint64(starts[i + 1])
        _products(columns, values, weights, first, last, dots)
        cost = costs[i]
        # Loops that write one array each; the compiler makes vector instructions of them.
        largest = np.float32(0)
        for lane in range(n_lanes):
            t = waiting_shares[lane]
            gradient = np.float32(0.5) * t - np.float32(1) - dots[lane]
            is_settled = (t == 0) & (gradient > 0)
            is_new = (states[i, lane] == WAITING) & (abs(gradient) > bar) & (not is_settled)
            removed[lane] = cost if is_new else np.float32(0)
            largest = max(largest, removed[lane])
        if largest > 0:
            for lane in range(n_lanes):
                multipliers[i, lane] += removed[lane] * waiting_shares[lane]
            for lane in range(n_lanes):
                states[i, lane] = ACTIVE_NEGATIVE if removed[lane] > 0 else states[i, lane]
            for lane in range(n_lanes):
                n_new += removed[lane] > 0
            for lane in range(n_lanes):
                waiting_sums[d, lane] -= removed[lane]
            for at in range(first, last):
                f = np.uint32(columns[at])
                value = values[at]
                for lane in range(n_lanes):
                    waiting_sums[f, lane] -= value * removed[lane]
        is_active = False
        for lane in range(n_lanes):
            is_active |= (states[i, lane] == POSITIVE) | (states[i, lane] == ACTIVE_NEGATIVE)
        if is_active:
            order[n_active] = i
            n_active += 1
    return n_active, n_new


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _step_waiting(space: Any) -> None:
    """Make a step for all waiting rows of each label together."""
    weights, waiting_sums, _, _, numbers, _, _, _ = space
    waiting_shares = numbers[WAITING_SHARES]
    gradients = numbers[GRADIENTS]
    curvatures = numbers[CURVATURES]
    steps = numbers[STEPS]
    n_lanes = np.uint64(PANEL_LABELS)
    d = weights.shape[0] - 1
    for lane in range(n_lanes):
        n_waiting = waiting_sums[d, lane]
        gradients[lane] = (np.float32(0.5) * waiting_shares[lane] - np.float32(1)) * n_waiting
        curvatures[lane] = np.float32(0.5) * n_waiting
    for f in range(d + 1):
        for lane in range(n_lanes):
            gradients[lane] -= waiting_sums[f, lane] * weights[f, lane]
            curvatures[lane] += waiting_sums[f, lane] * waiting_sums[f, lane]
    for lane in range(n_lanes):
        steps[lane] = 0
        if waiting_sums[d, lane] > 0:
            t = waiting_shares[lane]
            new_t = max(t - gradients[lane] / curvatures[lane], np.float32(0))
            steps[lane] = t - new_t
            waiting_shares[lane] = new_t
    for f in range(d + 1):
        for lane in range(n_lanes):
            weights[f, lane] += steps[lane] * waiting_sums[f, lane]


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _sweep(
    pool: Pool,
    space: Any,
    run: int,
    order: Array,
    n_active: int,
    next_order: Array,
    tolerance: Any,
) -> tuple[int, Any]:
    """Go once through the first ``n_active`` rows of ``order``, in runs of ``run`` neighbours.

    Return how many rows are left for the next pass, which ``next_order`` lists, and the spread of
    the gradients of all labels.
    """
    (starts, columns, values), _, _, costs = pool
    weights, _, multipliers, states, numbers, inverse_curvatures, lists, _ = space
    runs = lists[2]
    dots = numbers[DOTS]
    steps = numbers[STEPS]
    n_lanes = np.uint64(PANEL_LABELS)
    d = np.uint64(weights.shape[0] - 1)
    settled = SETTLED_SHARE * tolerance
    n_unsettled = 0
    highest = np.float32(0)
    lowest = np.float32(0)
    for q in range((n_active + run - 1) // run):
        for s in range(runs[q] * run, min(n_active, (runs[q] + 1) * run)):
            i = order[s]
            first = np.uint64(starts[i])
            last = np.uint64(starts[i + 1])
            _products(columns, values, weights, first, last, dots)
            half_inverse_cost = np.float32(0.5) / costs[i]
            inverse_curvature = inverse_curvatures[i]
            largest = np.float32(0)
            for lane in range(n_lanes):
                state = states[i, lane]
                y = np.float32(state)
                a = multipliers[i, lane]
                gradient = y * dots[lane] - np.float32(1) + a * half_inverse_cost
                gradient = min(gradient, np.float32(0)) if a == 0 else gradient
                is_active = (state == POSITIVE) | (state == ACTIVE_NEGATIVE)
                gradient = gradient if is_active else np.float32(0)
                highest = max(highest, gradient)
                lowest = min(lowest, gradient)
                largest = max(largest, abs(gradient))
                is_unsettled = abs(gradient) > settled
                step = max(-gradient * inverse_curvature, -a)
                step = step if is_unsettled else np.float32(0)
                multipliers[i, lane] = a + step
                steps[lane] = step * y
            if largest <= settled:
                continue
            next_order[n_unsettled] = i
            n_unsettled += 1
            for lane in range(n_lanes):
                weights[d, lane] += steps[lane]
            for at in range(first, last):
                f = np.uint32(columns[at])
                value = values[at]
                for lane in range(n_lanes):
                    weights[f, lane] += value * steps[lane]
    return n_unsettled, highest - lowest


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _products(
    columns: Array, values: Array, weights: Array, first: Any, last: Any, dots: Array
) -> None:
    """Write the products of a row with the weights of each label of the panel into ``dots``.

    Four entries at a time, because the sums are read and written again for each.
    """
    n_lanes = np.uint64(PANEL_LABELS)
    d = np.uint64(weights.shape[0] - 1)
    for lane in range(n_lanes):
        dots[lane] = weights[d, lane]
    at = first
    while at + np.uint64(4) <= last:
        value = values[at]
        second_value = values[at + np.uint64(1)]
        third_value = values[at + np.uint64(2)]
        fourth_value = values[at + np.uint64(3)]
        f = np.uint32(columns[at])
        second = np.uint32(columns[at + np.uint64(1)])
        third = np.uint32(columns[at + np.uint64(2)])
        fourth = np.uint32(columns[at + np.uint64(3)])
        for lane in range(n_lanes):
            dots[lane] += (
                value * weights[f, lane]
                + second_value * weights[second, lane]
                + third_value * weights[third, lane]
                + fourth_value * weights[fourth, lane]
            )
        at += np.uint64(4)
    while at < last:
        value = values[at]
        f = np.uint32(columns[at])
        for lane in range(n_lanes):
            dots[lane] += value * weights[f, lane]
        at += np.uint64(1)
