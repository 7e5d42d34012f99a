"""Probabilities of choices and the terms of their loss, against plain computations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, logsumexp

from rembrandt.linalg.logistic import PENALTY, Terms, conditional, logistic, newton
from rembrandt.linalg.logistic import _competing_terms as competing_terms
from rembrandt.linalg.logistic import _independent_terms as independent_terms

SIZES = np.array([3, 0, 1, 4])


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_members_of_a_group_compete_with_none_of_them(scale):
    """Also where the exponentials of the scores overflow."""
    z = scale * np.random.default_rng(0).standard_normal(SIZES.sum())
    probabilities, log_totals = conditional(z, SIZES)
    start = 0
    for group, size in enumerate(SIZES):
        members = slice(start, start + size)
        total = logsumexp(np.append(z[members], 0.0))
        assert_allclose(log_totals[group], total, rtol=1e-12, atol=1e-12)
        assert_allclose(probabilities[members], np.exp(z[members] - total), rtol=1e-9)
        start += size
    assert np.isfinite(probabilities).all()


def test_probabilities_of_log_odds():
    z = np.array([-1000.0, -3.0, 0.0, 2.0, 1000.0])
    assert_allclose(logistic(z), expit(z), atol=1e-20)


def problem(seed=0, n_groups=40, n_features=3):
    """A design with a constant, labels, and the sizes of groups of which some have no member."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 5, n_groups)
    n = int(sizes.sum())
    design = np.column_stack([rng.standard_normal((n, n_features)), np.ones(n)])
    y = (rng.random(n) < expit(design @ np.array([1.0, -0.5, 0.0, -1.0]))).astype(float)
    importance = rng.uniform(0.5, 2.0, n)
    return design, y, sizes, importance


def dense_loss(design, y, sizes, importance, w):
    """The loss without the penalty, example by example."""
    z = design @ w
    if sizes is None:
        losses = np.log1p(np.exp(z)) - z * y
        return float(losses @ (np.ones(len(y)) if importance is None else importance))
    total = 0.0
    start = 0
    for size in sizes:
        members = slice(start, start + size)
        normalizer = logsumexp(np.append(z[members], 0.0))
        total += max(1.0, y[members].sum()) * normalizer - z[members] @ y[members]
        start += size
    return total


KINDS = ["independent", "weighted", "competing"]


def arguments(kind):
    design, y, sizes, importance = problem()
    if kind != "competing":
        sizes = None
    if kind != "weighted":
        importance = None
    return design, y, sizes, importance


@pytest.mark.parametrize("kind", KINDS)
def test_slope_and_curvature_are_derivatives_of_the_loss(kind):
    design, y, sizes, importance = arguments(kind)

    def terms(w) -> Terms:
        if sizes is None:
            return independent_terms(design, y, importance, design @ w)
        return competing_terms(design, y, sizes, design @ w)

    w = np.array([0.3, -0.2, 0.5, 0.1])
    assert terms(w).loss == pytest.approx(dense_loss(design, y, sizes, importance, w))
    slope = approx_fprime(w, lambda w: terms(w).loss, 1e-6)
    assert_allclose(terms(w).slope, slope, rtol=1e-4, atol=1e-4)
    curvature = approx_fprime(w, lambda w: terms(w).slope, 1e-6)
    assert_allclose(terms(w).curvature, curvature, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_newton_finds_the_minimum_of_the_penalised_loss(kind):
    design, y, sizes, importance = arguments(kind)

    def loss(w):
        return dense_loss(design, y, sizes, importance, w) + PENALTY / 2 * (w[:-1] @ w[:-1])

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-6})
    for start in (None, np.array([5.0, 5.0, -5.0, 3.0])):
        w = newton(design, y, sizes, importance, start)
        assert_allclose(w, best.x, atol=2e-3)
