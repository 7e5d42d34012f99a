"""Both ridge solvers against a dense solve."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.linalg.eigen import gaussian
from rembrandt.linalg.ridge import CholeskyRidge, ConjugateGradientRidge, SpectralPreconditioner

from .operators import with_spectrum

SIZE = 60
STRENGTH = 0.05
SPECTRUM = np.concatenate([[50.0, 20.0, 10.0], np.linspace(1, 0.01, SIZE - 3)])  # a few strong directions, a flat rest


def conjugate(A, tol=1e-10, max_iter=200, strength=STRENGTH, preconditioned=True):
    def gram(Z):
        return A @ Z

    precondition = SpectralPreconditioner.of(gram, strength, gaussian(len(A), 20, 0).astype(A.dtype))
    if not preconditioned:
        precondition = SpectralPreconditioner.nothing(SIZE, A.dtype)
    return ConjugateGradientRidge(gram, strength, precondition, tol=tol, max_iter=max_iter)


def dense(A, B, strength=STRENGTH):
    return np.linalg.solve(A.astype(np.float64) + strength * np.eye(len(A)), B.astype(np.float64))


def true_residuals(A, B, Z):
    left = B.astype(np.float64) - (A.astype(np.float64) + STRENGTH * np.eye(len(A))) @ Z.astype(np.float64)
    return np.linalg.norm(left, axis=0) / np.linalg.norm(B, axis=0)


@settings(max_examples=15)
@given(st.integers(0, 2**20), st.integers(1, 7), st.sampled_from([np.float32, np.float64]))
def test_both_solvers_agree_with_a_dense_solve(seed, width, dtype):
    A, _ = with_spectrum(SPECTRUM, seed, dtype)
    B = np.random.default_rng(seed).standard_normal((SIZE, width)).astype(dtype)
    expected = dense(A, B)
    exact = CholeskyRidge(A, STRENGTH)
    assert exact.residual == 0
    assert exact.solve(B).dtype == dtype
    tolerance = 1e-3 if dtype == np.float32 else 1e-8
    assert_allclose(exact.solve(B), expected, rtol=0, atol=tolerance * np.abs(expected).max())
    found = conjugate(A, tol=1e-5 if dtype == np.float32 else 1e-10).solve(B)
    assert found.dtype == dtype
    assert_allclose(found, expected, rtol=0, atol=2 * tolerance * np.abs(expected).max())


def test_the_right_hand_side_is_left_as_it_was():
    A, _ = with_spectrum(SPECTRUM)
    B = np.random.default_rng(0).standard_normal((SIZE, 4))
    before = B.copy()
    for solver in (CholeskyRidge(A, STRENGTH), conjugate(A), conjugate(A, preconditioned=False)):
        solver.solve(B)
        assert_array_equal(B, before)


def test_zero_columns_and_columns_solved_at_once():
    """An eigenvector is solved by one step, zero by none; the others go on."""
    A, U = with_spectrum(SPECTRUM)
    B = np.random.default_rng(0).standard_normal((SIZE, 8))
    B[:, [1, 4]] = 0
    B[:, 2] = U[:, 30]
    solver = conjugate(A, preconditioned=False)
    found = solver.solve(B)
    assert (found[:, [1, 4]] == 0).all()
    assert_allclose(found, dense(A, B), atol=1e-7)
    assert solver.residual <= solver.tol
    assert (conjugate(A).solve(np.zeros((SIZE, 3))) == 0).all()


def test_columns_stop_on_their_own():
    """Work shrinks with the columns that are done, and a hard column is solved as well as if it were alone."""
    A, U = with_spectrum(SPECTRUM)
    widths = []

    def gram(Z):
        widths.append(Z.shape[1])
        return A @ Z

    B = np.hstack([U[:, 5:14], np.random.default_rng(0).standard_normal((SIZE, 1))])
    found = ConjugateGradientRidge(
        gram, STRENGTH, SpectralPreconditioner.nothing(SIZE, np.float64), tol=1e-8, max_iter=200
    ).solve(B)
    assert widths[0] == 10
    assert widths[-1] == 1
    alone = ConjugateGradientRidge(
        lambda Z: A @ Z, STRENGTH, SpectralPreconditioner.nothing(SIZE, np.float64), tol=1e-8, max_iter=200
    ).solve(B[:, 9:])
    assert_allclose(found[:, 9:], alone, rtol=1e-7, atol=1e-8)
    assert true_residuals(A, B, found).max() <= 1.1e-8


@settings(max_examples=25)
@given(st.integers(0, 2**20), st.integers(1, 12), st.booleans(), st.sampled_from([1e-1, 1e-2, 1e-4]))
def test_the_residual_reported_is_the_residual_left(seed, max_iter, preconditioned, tol):
    A, U = with_spectrum(SPECTRUM, seed)
    rng = np.random.default_rng(seed)
    B = np.hstack([U[:, 10:18] + 0.01 * rng.standard_normal((SIZE, 8)), rng.standard_normal((SIZE, 2))])
    solver = conjugate(A, tol=tol, max_iter=max_iter, preconditioned=preconditioned)
    worst = true_residuals(A, B, solver.solve(B)).max()
    assert_allclose(solver.residual, worst, rtol=1e-4, atol=1e-12)


def test_the_worst_residual_of_all_solves_is_kept():
    A, U = with_spectrum(SPECTRUM)
    solver = conjugate(A, tol=1e-12, max_iter=3, preconditioned=False)
    solver.solve(np.random.default_rng(0).standard_normal((SIZE, 2)))
    poor = solver.residual
    assert poor > 1e-3
    solver.solve(U[:, :1].copy())
    assert solver.residual == poor


def test_preconditioning_saves_iterations():
    A, _ = with_spectrum(SPECTRUM)
    B = np.random.default_rng(0).standard_normal((SIZE, 5))
    plain = conjugate(A, tol=1e-10, max_iter=8, preconditioned=False)
    better = conjugate(A, tol=1e-10, max_iter=8)
    plain.solve(B)
    better.solve(B)
    assert better.residual < 0.3 * plain.residual


@pytest.mark.parametrize("strength", [1e-3, 0.1, 10.0])
def test_degrees_of_freedom(strength):
    A, _ = with_spectrum(SPECTRUM)
    expected = np.trace(np.linalg.solve(A + strength * np.eye(SIZE), A))
    signs = np.sign(np.random.default_rng(0).standard_normal((SIZE, 400)))
    assert CholeskyRidge(A, strength).degrees_of_freedom(signs) == pytest.approx(expected, rel=1e-9)
    assert conjugate(A, strength=strength).degrees_of_freedom(signs) == pytest.approx(expected, rel=0.05, abs=0.5)
