"""Penalised logistic regression with few features, by Newton's method."""

from typing import NamedTuple

import numpy as np

from rembrandt.linalg import Array
from rembrandt.linalg.threads import own_threads

PENALTY = 1.0  # on the square of a weight, for features of order one
MAX_STEPS = 50
TOLERANCE = 1e-8  # relative decrease of the loss at which Newton's method stops
SMALLEST_STEP = 1e-6  # relative to that of Newton
CONSTANT_PENALTY = 1e-6  # keeps the Hessian positive
LARGEST_EXPONENT = 60.0


def logistic(log_odds: Array) -> Array:
    """Return the probability that has these log-odds."""
    bounded = np.clip(log_odds, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    return np.asarray(1 / (1 + np.exp(-bounded)))


def newton(
    design: Array,
    y: Array,
    sizes: Array | None = None,
    importance: Array | None = None,
    start: Array | None = None,
) -> Array:
    """Minimise a penalised logistic loss by Newton steps with halving; the last column, a constant,
    is not penalised.

    With ``sizes``, rows of the design belong to groups of these sizes, and the members of a group
    compete with each other and with "none of them": a conditional logit.
    """
    with own_threads():  # the products are small
        return _newton(design, y, sizes, importance, start)


def _newton(
    design: Array, y: Array, sizes: Array | None, importance: Array | None, start: Array | None
) -> Array:
    n_columns = design.shape[1]
    penalty = np.full(n_columns, PENALTY)
    penalty[-1] = CONSTANT_PENALTY

    def terms_at(w: Array) -> Terms:
        z = design @ w
        if sizes is None:
            terms = _independent_terms(design, y, importance, z)
        else:
            terms = _competing_terms(design, y, sizes, z)
        return Terms(
            loss=terms.loss + 0.5 * float(penalty @ w**2),
            slope=terms.slope + penalty * w,
            curvature=terms.curvature + np.diag(penalty),
        )

    w = start
    if w is None:
        base_rate = np.average(y, weights=importance)
        rate = np.clip(base_rate, 1e-6, 1 - 1e-6)
        w = np.zeros(n_columns)
        w[-1] = np.log(rate) - np.log1p(-rate)
    here = terms_at(w)
    for _ in range(MAX_STEPS):
        step = np.linalg.solve(here.curvature, here.slope)
        size = 1.0
        there = terms_at(w - step)
        # A loss that is no number is not smaller either.
        while not there.loss <= here.loss and size > SMALLEST_STEP:
            size /= 2
            there = terms_at(w - size * step)
        if not there.loss <= here.loss:
            break
        gain = here.loss - there.loss
        w = w - size * step
        here = there
        if gain <= TOLERANCE * abs(here.loss):
            break
    return w


class Terms(NamedTuple):
    """A loss with its gradient and its Hessian."""

    loss: float
    slope: Array
    curvature: Array


def _independent_terms(design: Array, y: Array, importance: Array | None, z: Array) -> Terms:
    """Return the loss of single labels with the log-odds ``z``."""
    p = logistic(z)
    losses = np.logaddexp(0, z) - z * y
    residual = p - y
    variance = p * (1 - p)
    if importance is not None:
        losses = losses * importance
        residual = residual * importance
        variance = variance * importance
    return Terms(
        loss=float(losses.sum()),
        slope=design.T @ residual,
        curvature=(design * variance[:, None]).T @ design,
    )


def _competing_terms(design: Array, y: Array, sizes: Array, z: Array) -> Terms:
    """Return the loss of choices among the members of groups."""
    p, log_totals = conditional(z, sizes)
    groups = _groups(sizes)
    # A group with several true members counts as that many choices, one with none as a choice
    # of none of them.
    n_true = np.bincount(groups, y, minlength=len(sizes))
    choices = np.maximum(n_true, 1.0)
    expected = p * choices[groups]
    means = np.add.reduceat(design * p[:, None], _first_members(sizes), axis=0)
    weighted_means = means * choices[sizes > 0][:, None]
    curvature = (design * expected[:, None]).T @ design
    curvature -= weighted_means.T @ means
    return Terms(
        loss=float(choices @ log_totals - z @ y),
        slope=design.T @ (expected - y),
        curvature=curvature,
    )


def conditional(z: Array, sizes: Array) -> tuple[Array, Array]:
    """Return the probabilities of the members of groups, and the log-normalizer of each group."""
    n_groups = len(sizes)
    largest = np.zeros(n_groups)
    largest_members = np.maximum.reduceat(z, _first_members(sizes))
    largest[sizes > 0] = np.maximum(0, largest_members)
    groups = _groups(sizes)
    shares = np.exp(z - largest[groups])
    totals = np.exp(-largest) + np.bincount(groups, shares, minlength=n_groups)
    return shares / totals[groups], np.log(totals) + largest


def _groups(sizes: Array) -> Array:
    """Return the group of each member."""
    return np.repeat(np.arange(len(sizes)), sizes)


def _first_members(sizes: Array) -> Array:
    """Return where the groups start that have members."""
    starts = np.cumsum(sizes) - sizes
    return starts[sizes > 0]
