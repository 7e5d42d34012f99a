"""Logistic regression with an l1 penalty on sparse columns, by Newton steps solved with coordinate
descent.

minimise over w    ‖w‖₁ + Σᵢ costᵢ · log(1 + exp(−signᵢ · w·xᵢ))

Each Newton step replaces the loss by its quadratic model and minimises the penalised model by
coordinate descent. A line search on the objective then chooses the step size. This is newGLMNET
without its shrinking heuristics.

Reference: Yuan, Ho and Lin, "An improved GLMNET for l1-regularized logistic regression", JMLR 13,
2012.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LINE_SEARCH_STEPS = 20
_INNER_PASSES = 30
_SUFFICIENT = 0.01  # fraction of the predicted decrease that a step must reach
_RIDGE = 1e-10  # keeps the curvature of a coordinate positive when all its examples are saturated


@njit(nogil=True, cache=True)
def fit(
    starts: NDArray[Any],
    rows: NDArray[Any],
    values: NDArray[Any],
    sign: Floats,
    cost: Floats,
    steps: int,
    tol: float,
    rng: Any,
) -> Floats:
    """Return the weights of the columns ``rows[starts[j]:starts[j + 1]]`` after at most ``steps``
    Newton steps.

    Stops when the optimality violation is below ``tol`` times the violation at w = 0.
    """
    n, d = len(sign), len(starts) - 1
    w, delta = np.zeros(d), np.zeros(d)
    gradient, curvature = np.zeros(d), np.zeros(d)
    scores, change = np.zeros(n), np.zeros(n)
    slope, bend = np.zeros(n), np.zeros(n)
    active = np.empty(d, np.int64)
    first_violation = 0.0
    inner_tol = np.inf
    for step in range(steps):
        for i in range(n):
            miss = 1.0 / (1.0 + np.exp(sign[i] * scores[i]))
            slope[i] = -cost[i] * sign[i] * miss
            bend[i] = cost[i] * miss * (1.0 - miss)
        violation, n_active = 0.0, 0
        for j in range(d):
            g, h = 0.0, _RIDGE
            for p in range(starts[j], starts[j + 1]):
                g += slope[rows[p]] * values[p]
                h += bend[rows[p]] * values[p] * values[p]
            gradient[j], curvature[j], delta[j] = g, h, 0.0
            violation += _violation(g, w[j])
            # A zero weight with a gradient well inside [-1, 1] stays zero in this step.
            if w[j] != 0.0 or abs(g) > 0.9:
                active[n_active] = j
                n_active += 1
        if step == 0:
            first_violation = inner_tol = violation
        if violation <= tol * first_violation:
            break
        change[:] = 0.0
        passes = _lower_model(
            starts,
            rows,
            values,
            active[:n_active],
            w,
            delta,
            gradient,
            curvature,
            bend,
            change,
            inner_tol,
            rng,
        )
        if passes == 1:
            inner_tol *= 0.25  # the tolerance was met at once: solve the next model more accurately
        if not _take_step(active[:n_active], w, delta, gradient, scores, change, sign, cost):
            break
    return w


@njit(nogil=True, cache=True)
def _violation(g: float, weight: float) -> float:
    """Return the optimality violation of one coordinate."""
    if weight > 0.0:
        return abs(g + 1.0)
    if weight < 0.0:
        return abs(g - 1.0)
    return max(abs(g) - 1.0, 0.0)


@njit(nogil=True, cache=True)
def _lower_model(
    starts: NDArray[Any],
    rows: NDArray[Any],
    values: NDArray[Any],
    active: NDArray[np.int64],
    w: Floats,
    delta: Floats,
    gradient: Floats,
    curvature: Floats,
    bend: Floats,
    change: Floats,
    tol: float,
    rng: Any,
) -> int:
    """Minimise the quadratic model plus the penalty by coordinate descent; fill ``delta`` and
    ``change`` = X·delta.
    """
    for done in range(1, _INNER_PASSES + 1):
        rng.shuffle(active)
        violation = 0.0
        for j in active:
            g = gradient[j] + _RIDGE * delta[j]
            for p in range(starts[j], starts[j + 1]):
                g += values[p] * bend[rows[p]] * change[rows[p]]
            weight, h = w[j] + delta[j], curvature[j]
            violation += _violation(g, weight)
            if g + 1.0 <= h * weight:
                z = -(g + 1.0) / h
            elif g - 1.0 >= h * weight:
                z = -(g - 1.0) / h
            else:
                z = -weight
            if abs(z) < 1e-12:
                continue
            z = min(max(z, -10.0), 10.0)
            delta[j] += z
            for p in range(starts[j], starts[j + 1]):
                change[rows[p]] += values[p] * z
        if violation <= tol:
            return done
    return _INNER_PASSES


@njit(nogil=True, cache=True)
def _take_step(
    active: NDArray[np.int64],
    w: Floats,
    delta: Floats,
    gradient: Floats,
    scores: Floats,
    change: Floats,
    sign: Floats,
    cost: Floats,
) -> bool:
    """Take the largest step along ``delta`` that decreases the objective enough; return False if
    there is none.
    """
    predicted = 0.0
    for j in active:
        predicted += gradient[j] * delta[j] + abs(w[j] + delta[j]) - abs(w[j])
    before = _loss(scores, change, 0.0, sign, cost)
    size = 1.0
    for _ in range(_LINE_SEARCH_STEPS):
        gained = _loss(scores, change, size, sign, cost) - before
        for j in active:
            gained += abs(w[j] + size * delta[j]) - abs(w[j])
        if gained <= _SUFFICIENT * size * predicted:
            for j in active:
                w[j] += size * delta[j]
            scores += size * change
            return True
        size *= 0.5
    return False


@njit(nogil=True, cache=True)
def _loss(scores: Floats, change: Floats, size: float, sign: Floats, cost: Floats) -> float:
    total = 0.0
    for i in range(len(scores)):
        margin = sign[i] * (scores[i] + size * change[i])
        # log(1 + exp(-margin)) without overflow
        total += cost[i] * (np.log1p(np.exp(-abs(margin))) + max(-margin, 0.0))
    return total
