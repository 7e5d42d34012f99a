"""Both ridge solvers against a dense solve."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.errors import DataError
from rembrandt.linalg.blocks import eigh
from rembrandt.linalg.eigen import gaussian
from rembrandt.linalg.ridge import (
    DIAGONAL_SHIFT,
    SOLVED_COLUMNS,
    CholeskyRidge,
    ConjugateGradientRidge,
    SpectralPreconditioner,
    scaled,
)

from .operators import with_spectrum

SIZE = 60
STRENGTH = 0.05
SPECTRUM = np.concatenate(
    [[50.0, 20.0, 10.0], np.linspace(1, 0.01, SIZE - 3)]
)  # a few strong directions, a flat rest


def identity(size, dtype):
    """A preconditioner without directions."""
    return SpectralPreconditioner(np.zeros((size, 0), dtype), np.zeros((0, 1), dtype))


def conjugate(A, tol=1e-10, max_iter=200, strength=STRENGTH, preconditioned=True):
    def gram(Z):
        return A @ Z

    precondition = SpectralPreconditioner.of(
        gram, strength, gaussian(len(A), 20, 0).astype(A.dtype)
    )
    if not preconditioned:
        precondition = identity(SIZE, A.dtype)
    return ConjugateGradientRidge(gram, strength, precondition, tol=tol, max_iter=max_iter)


def dense(A, B, strength=STRENGTH):
    return np.linalg.solve(A.astype(np.float64) + strength * np.eye(len(A)), B.astype(np.float64))


def true_residuals(A, B, Z):
    left = B.astype(np.float64) - (A.astype(np.float64) + STRENGTH * np.eye(len(A))) @ Z.astype(
        np.float64
    )
    return np.linalg.norm(left, axis=0) / np.linalg.norm(B, axis=0)


@settings(max_examples=15)
@given(st.integers(0, 2**20), st.integers(1, 7), st.sampled_from([np.float32, np.float64]))
def test_both_solvers_agree_with_a_dense_solve(seed, width, dtype):
    A, _ = with_spectrum(SPECTRUM, seed, dtype)
    B = np.random.default_rng(seed).standard_normal((SIZE, width)).astype(dtype)
    expected = dense(A, B)
    exact = CholeskyRidge(A, STRENGTH)
    assert exact.solve(B).dtype == dtype
    assert exact.residual < 1e-6
    tolerance = 1e-3 if dtype == np.float32 else 1e-8
    assert_allclose(exact.solve(B), expected, rtol=0, atol=tolerance * np.abs(expected).max())
    solution = conjugate(A, tol=1e-5 if dtype == np.float32 else 1e-10).solve(B)
    assert solution.dtype == dtype
    assert_allclose(solution, expected, rtol=0, atol=2 * tolerance * np.abs(expected).max())


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
    solution = solver.solve(B)
    assert (solution[:, [1, 4]] == 0).all()
    assert_allclose(solution, dense(A, B), atol=1e-7)
    assert solver.residual <= solver.tol
    assert (conjugate(A).solve(np.zeros((SIZE, 3))) == 0).all()


def test_columns_stop_on_their_own():
    """Work shrinks with the columns that are done, and a hard column is solved as well as if it
    were alone.
    """
    A, U = with_spectrum(SPECTRUM)
    widths = []

    def gram(Z):
        widths.append(Z.shape[1])
        return A @ Z

    B = np.hstack([U[:, 5:14], np.random.default_rng(0).standard_normal((SIZE, 1))])
    solution = ConjugateGradientRidge(
        gram, STRENGTH, identity(SIZE, np.float64), tol=1e-8, max_iter=200
    ).solve(B)
    assert widths[0] == 10
    assert widths[-1] == 1
    alone = ConjugateGradientRidge(
        lambda Z: A @ Z, STRENGTH, identity(SIZE, np.float64), tol=1e-8, max_iter=200
    ).solve(B[:, 9:])
    assert_allclose(solution[:, 9:], alone, rtol=1e-7, atol=1e-8)
    assert true_residuals(A, B, solution).max() <= 1.1e-8


@settings(max_examples=25)
@given(
    st.integers(0, 2**20), st.integers(1, 12), st.booleans(), st.sampled_from([1e-1, 1e-2, 1e-4])
)
def test_the_residual_reported_is_the_residual_left(seed, max_iter, preconditioned, tol):
    A, U = with_spectrum(SPECTRUM, seed)
    rng = np.random.default_rng(seed)
    B = np.hstack(
        [U[:, 10:18] + 0.01 * rng.standard_normal((SIZE, 8)), rng.standard_normal((SIZE, 2))]
    )
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


def test_there_are_as_many_iterations_as_allowed_and_the_most_of_all_solves_are_kept():
    A, U = with_spectrum(SPECTRUM)
    n_products = 0

    def gram(Z):
        nonlocal n_products
        n_products += 1
        return A @ Z

    solver = ConjugateGradientRidge(gram, STRENGTH, identity(SIZE, A.dtype), tol=0.0, max_iter=4)
    solver.solve(np.random.default_rng(0).standard_normal((SIZE, 2)))
    assert solver.iterations == n_products == 4
    solver.tol = 1e-3
    solver.solve(U[:, :1].copy())
    assert n_products == 5, "an eigenvector is solved by one step"
    assert solver.iterations == 4


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
    assert CholeskyRidge(A, strength).degrees_of_freedom(signs) == pytest.approx(expected, rel=1e-8)
    assert conjugate(A, strength=strength).degrees_of_freedom(signs) == pytest.approx(
        expected, rel=0.05, abs=0.5
    )


def test_columns_without_entries_are_no_degrees_of_freedom():
    A, _ = with_spectrum(SPECTRUM)
    wider = np.zeros((SIZE + 3, SIZE + 3))
    wider[:SIZE, :SIZE] = A
    probes = np.eye(SIZE + 3)
    assert CholeskyRidge(wider, 0.0).degrees_of_freedom(probes) == pytest.approx(SIZE, rel=1e-3)


def test_probes_do_not_count_in_the_residual():
    """They have entries along weak directions, which the solutions that are used need not have."""
    A, U = with_spectrum(np.logspace(0, -8, SIZE))
    solver = conjugate(A, tol=1e-3, max_iter=3, strength=1e-9)
    solver.solve(U[:, :2].copy())
    before = solver.residual, solver.iterations
    assert before[0] <= 1e-3
    probes = np.sign(np.random.default_rng(0).standard_normal((SIZE, 10)))
    assert 0 <= solver.degrees_of_freedom(probes) <= SIZE
    assert (solver.residual, solver.iterations) == before
    solver.solve(probes)
    assert solver.residual > 0.5, "as they would have counted"


def energy(A, B, Z, strength):
    """Squared error in the norm of ``A + λI``, up to a constant."""
    A, B, Z = (np.asarray(M, dtype=np.float64) for M in (A, B, Z))
    return np.einsum("ij,ij->j", Z, A @ Z + strength * Z - 2 * B)


def unequal(decades, size=SIZE, n=200, dtype=np.float32):
    """The Gram matrix of columns whose lengths go over ``decades`` orders of magnitude, and
    products with targets.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, size)) * np.logspace(-decades / 2, decades / 2, size)
    return (X.T @ X).astype(dtype), (X.T @ rng.standard_normal((n, 6))).astype(dtype)


@pytest.mark.parametrize("decades", [4, 8, 12])
def test_no_iterate_is_worse_than_the_one_before(decades):
    """In single precision the preconditioner of such columns is wrong; with the usual step the
    iteration diverges.
    """
    A, B = unequal(decades)
    strength = 1e-6 * float(np.trace(A)) / SIZE
    errors = [
        energy(A, B, conjugate(A, tol=0, max_iter=m, strength=strength).solve(B), strength)
        for m in range(1, 12)
    ]
    assert (errors[0] < 0).all(), "better than zero"
    assert (np.diff(errors, axis=0) <= 1e-3 * np.abs(errors[0])).all()


@pytest.mark.parametrize("decades", [4, 12])
@pytest.mark.parametrize("ridge", [1e-6, 0.0])
def test_columns_of_any_length_are_solved_alike(decades, ridge):
    A, B = unequal(decades)
    wide, diagonal = A.astype(np.float64), np.diag(A).astype(np.float64)
    strength = ridge * np.trace(wide) / SIZE
    S = 1 / np.sqrt(diagonal + strength)
    exact = S[:, None] * dense(
        S[:, None] * wide * S + np.diag(strength * S**2), S[:, None] * B, 0.0
    )
    factored = CholeskyRidge(A, strength)
    assert_allclose(
        factored.solve(B) / S[:, None],
        exact / S[:, None],
        atol=1e-5 * np.abs(exact / S[:, None]).max(),
    )
    assert factored.residual < 1e-6
    scale = S[:, None].astype(np.float32)
    gram = scaled(lambda Z: A @ Z, strength, scale)
    precondition = SpectralPreconditioner.of(gram, 0.0, gaussian(SIZE, 20, 0))
    solver = ConjugateGradientRidge(
        gram, 0.0, precondition, tol=1e-4, max_iter=60, scale=scale, ridge=strength
    )
    solution = solver.solve(B)
    assert solver.residual <= 1e-4
    assert_allclose(
        solution / S[:, None], exact / S[:, None], atol=2e-3 * np.abs(exact / S[:, None]).max()
    )
    identity = np.eye(SIZE, dtype=np.float32)
    expected = np.trace(
        dense(S[:, None] * wide * S + np.diag(strength * S**2), S[:, None] * wide * S, 0.0)
    )
    assert solver.degrees_of_freedom(SIZE**0.5 * identity) == pytest.approx(expected, rel=1e-2)
    assert factored.degrees_of_freedom(identity) == pytest.approx(expected, rel=1e-6)


def test_repeated_columns_without_a_ridge():
    """The solution of least length: repeated columns share it."""
    X = np.random.default_rng(0).standard_normal((100, 5))
    y = X @ np.arange(1.0, 6.0)[:, None]
    twice = np.hstack([X, X])
    solver = CholeskyRidge(twice.T @ twice, 0.0)
    solution = solver.solve(twice.T @ y)
    assert_allclose(solution[:5], solution[5:], rtol=1e-4)
    assert_allclose(twice @ solution, y, rtol=1e-6)
    assert solver.residual < 1e-4


@pytest.mark.parametrize("apart", [1e-5, 1e-6])
def test_what_the_floor_hides_is_reported(apart):
    """Two columns differ by less than the floor lets through, and that difference is what predicts
    the target.
    """
    rng = np.random.default_rng(0)
    common, difference = rng.standard_normal((2, 500))
    X = np.stack([common, common + apart * difference], axis=1)
    B = X.T @ difference[:, None]
    solver = CholeskyRidge(X.T @ X, 0.0)
    predicted = X @ solver.solve(B)[:, 0]
    wrong = np.linalg.norm(predicted - difference) / np.linalg.norm(difference)
    assert wrong > 0.3 and apart**2 < DIAGONAL_SHIFT * 10
    assert solver.residual > solver.poor
    firm = CholeskyRidge(X.T @ X, 1.0)
    firm.solve(B)
    assert firm.residual < 1e-6


@pytest.mark.parametrize("strength", [0.0, 1e-18])
def test_a_matrix_that_rounding_made_indefinite_is_solved(strength):
    """The Gram matrix of centred rows that are nearly equal has negative eigenvalues."""
    rng = np.random.default_rng(0)
    rows = 1 + 1e-9 * rng.standard_normal((50, 30))
    gram = rows.T @ rows - 50 * np.outer(rows.mean(axis=0), rows.mean(axis=0))
    gram[3, 3] = -1e-14
    assert np.linalg.eigvalsh(gram)[0] < 0
    solver = CholeskyRidge(gram, strength)
    assert np.isfinite(solver.solve(rng.standard_normal((30, 2)))).all()
    assert solver.residual > solver.poor  # so that a warning is given


def test_products_that_overflowed_are_refused_in_words():
    for value in (np.inf, np.nan):
        gram = np.eye(3)
        gram[0, 1] = gram[1, 0] = value
        with pytest.raises(DataError, match="too large for floating point; divide"):
            CholeskyRidge(gram, 0.0)
        with pytest.raises(DataError, match="too large for floating point; divide"):
            eigh(gram)


@pytest.mark.parametrize("n_threads", ["1", "3"])
def test_many_right_hand_sides_are_solved_like_few(monkeypatch, n_threads):
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", n_threads)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 600))
    B = rng.standard_normal((600, SOLVED_COLUMNS + 70))
    solver = CholeskyRidge(X.T @ X, 0.1)
    Z = solver.solve(B)
    assert_allclose((X.T @ X + 0.1 * np.eye(600)) @ Z, B, atol=1e-7)
    few = solver.solve(B[:, :70])
    assert_allclose(Z[:, :70], few, rtol=1e-9, atol=1e-12)
    assert solver.residual < 1e-8


def test_the_bits_of_many_solutions_do_not_depend_on_threads(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 600))
    B = rng.standard_normal((600, 3 * SOLVED_COLUMNS))
    solutions = []
    for n_threads in ("1", "2", "5"):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", n_threads)
        solutions.append(CholeskyRidge(X.T @ X, 0.1).solve(B))
    assert_array_equal(solutions[0], solutions[1])
    assert_array_equal(solutions[0], solutions[2])
