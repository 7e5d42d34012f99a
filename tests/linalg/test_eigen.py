"""The randomized eigensolver against the exact one, and its certificate against the truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh

from rembrandt.linalg.blocks import gram64, orthonormalize, spans
from rembrandt.linalg.eigen import _leading, certify, fix_signs, gaussian, randomized_eigh

from .operators import angle, with_spectrum

DTYPES = (np.float32, np.float64)
seeds = st.integers(0, 2**20)


def start(size, width, seed=0, dtype=np.float64):
    return gaussian(size, width, seed).astype(dtype)


@given(st.integers(0, 50), st.integers(1, 60))
def test_spans_cover_once_and_in_order(size, step):
    parts = list(spans(size, step))
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(size))
    assert all(0 < part.stop - part.start <= step for part in parts)


def test_a_wider_start_begins_with_the_narrower():
    assert_array_equal(gaussian(40, 9, 3)[:, :5], gaussian(40, 5, 3))
    assert not np.array_equal(gaussian(40, 5, 3), gaussian(40, 5, 4))


@settings(max_examples=25)
@given(seeds, st.integers(1, 8), st.sampled_from(DTYPES))
def test_orthonormal_basis_of_the_same_span(seed, width, dtype):
    rng = np.random.default_rng(seed)
    A = (rng.standard_normal((30, width)) * np.logspace(0, -3, width)).astype(dtype)
    Q = orthonormalize(A)
    assert Q.dtype == dtype
    assert_allclose(Q.T @ Q, np.eye(width), atol=50 * np.finfo(dtype).eps)
    remainder = A - Q @ (Q.T @ A)
    assert np.abs(remainder).max() <= 100 * np.finfo(dtype).eps * np.abs(A).max()


def test_columns_that_repeat_others_are_left_out():
    A = np.random.default_rng(0).standard_normal((30, 3))
    assert orthonormalize(np.hstack([A, A @ np.ones((3, 2))])).shape == (30, 3)


def test_orthonormal_in_another_inner_product():
    B, _ = with_spectrum(np.linspace(0.1, 3, 30))
    Q = orthonormalize(np.random.default_rng(0).standard_normal((30, 5)), lambda Z: B @ Z)
    assert_allclose(Q.T @ B @ Q, np.eye(5), atol=1e-12)


def test_gram_of_single_precision_is_summed_in_double():
    A = np.full((200_001, 1), 0.1, dtype=np.float32)
    assert_allclose(gram64(A)[0, 0], 200_001 * float(np.float32(0.1)) ** 2, rtol=1e-12)
    assert gram64(A[:0]).shape == (1, 1)


@settings(max_examples=25)
@given(seeds, st.sampled_from(DTYPES), st.floats(0.3, 0.75))
def test_top_eigenpairs(seed, dtype, decay):
    """The error falls as (next eigenvalue beyond the block / σ)^(2 n_iter + 1): here far below the
    tolerance.
    """
    values = decay ** np.arange(40)
    A, U = with_spectrum(values, seed, dtype)
    V, sigma = randomized_eigh(lambda Q: A @ Q, start(40, 16, seed, dtype), rank=6, n_iter=2)
    tolerance = 1e-5 if dtype == np.float32 else 1e-8
    assert V.shape == (40, 6)
    assert V.dtype == dtype
    assert_allclose(sigma, values[:6], rtol=1e-3 if decay > 0.5 else 1e-4, atol=tolerance)
    assert_allclose(V.T @ V, np.eye(6), atol=1e-4 if dtype == np.float32 else 1e-9)
    assert angle(U[:, :3], V[:, :3]) < 2e-2
    assert (np.diff(sigma) <= 0).all()


@settings(max_examples=15)
@given(seeds)
def test_never_above_the_exact_eigenvalues_and_nearer_with_iterations(seed):
    values = 1 / (1 + np.arange(60.0))
    A, _ = with_spectrum(values, seed)
    errors = []
    for n_iter in (0, 1, 3):
        _, sigma = randomized_eigh(lambda Q: A @ Q, start(60, 10, seed), rank=6, n_iter=n_iter)
        assert (sigma <= values[:6] * (1 + 1e-10)).all(), "Nyström's approximation is from below"
        errors.append(np.abs(sigma - values[:6]).max())
    assert errors[2] <= errors[1] <= errors[0] + 1e-12


def test_the_columns_are_nested():
    A, _ = with_spectrum(0.8 ** np.arange(50))
    V, sigma = randomized_eigh(lambda Q: A @ Q, start(50, 20), rank=10, n_iter=1)
    fewer, first = randomized_eigh(lambda Q: A @ Q, start(50, 20), rank=4, n_iter=1)
    assert_allclose(V[:, :4], fewer, atol=1e-12)
    assert_allclose(sigma[:4], first, rtol=1e-12)


def test_eigenvalues_of_zero_to_rounding_are_left_out():
    """Also where none of them is exactly zero."""
    vectors, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))
    A = vectors @ np.diag([3.0, 1.0, 1e-9, 1e-10]) @ vectors.T
    sigma, E = _leading(A, 4, 1e-7)
    assert_allclose(sigma, [3.0, 1.0])
    assert E.shape == (4, 2)
    assert_allclose(_leading(A, 4, 1e-14)[0], [3.0, 1.0, 1e-9, 1e-10], rtol=1e-4)
    assert_allclose(_leading(A, 1, 1e-7)[0], [3.0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rank_deficiency_returns_fewer_columns(dtype):
    values = np.concatenate([[3.0, 2.0, 1.0], np.zeros(27)])
    A, U = with_spectrum(values, dtype=dtype)
    V, sigma = randomized_eigh(lambda Q: A @ Q, start(30, 15, dtype=dtype), rank=10, n_iter=1)
    assert V.shape == (30, 3)
    assert_allclose(sigma, [3, 2, 1], rtol=1e-5)
    assert angle(U[:, :3], V) < 1e-3


@settings(max_examples=15)
@given(seeds)
def test_generalised_problem(seed):
    """A v = σ B v by the operator B⁻¹A, which is symmetric in the inner product of B."""
    A, _ = with_spectrum(0.5 ** np.arange(30), seed)
    B, _ = with_spectrum(np.linspace(0.5, 2, 30), seed + 1)
    V, sigma = randomized_eigh(
        lambda Q: np.linalg.solve(B, A @ Q),
        start(30, 15, seed),
        rank=5,
        n_iter=3,
        metric=lambda Q: B @ Q,
    )
    values, exact = eigh(A, B)
    assert_allclose(sigma, values[::-1][:5], rtol=1e-6)
    assert_allclose(V.T @ B @ V, np.eye(5), atol=1e-9)
    assert angle(exact[:, ::-1][:, :5], V, B) < 1e-3


def test_the_same_seed_gives_the_same_bits():
    A, _ = with_spectrum(0.8 ** np.arange(40), dtype=np.float32)

    def found(seed):
        return randomized_eigh(lambda Q: A @ Q, start(40, 12, seed, np.float32), rank=8, n_iter=0)

    (V, sigma), (again, sigma_again), (other, _) = found(7), found(7), found(8)
    assert_array_equal(V, again, strict=True)
    assert_array_equal(sigma, sigma_again, strict=True)
    assert not np.array_equal(V, other)


def test_signs_depend_on_the_subspace_alone():
    V = np.random.default_rng(0).standard_normal((20, 5))
    signs = np.array([1, -1, 1, -1, -1])
    assert_array_equal(fix_signs(V), fix_signs(V * signs))
    assert (np.take_along_axis(fix_signs(V), np.abs(V).argmax(axis=0)[None], axis=0) > 0).all()


@settings(max_examples=25)
@given(seeds, st.integers(0, 2), st.floats(0.5, 0.97))
def test_certificate_bounds_the_true_errors(seed, n_iter, decay):
    values = decay ** np.arange(50)
    A, _ = with_spectrum(values, seed)
    V, sigma = randomized_eigh(lambda Q: A @ Q, start(50, 8, seed), rank=6, n_iter=n_iter)
    certificate = certify(lambda Q: A @ Q, V, sigma, start(50, 10, seed + 1))
    nearest = np.abs(values[:, None] - sigma).min(axis=0)
    assert (nearest <= certificate.residuals + 1e-12).all()
    left_out = np.linalg.norm(A - (V * sigma) @ V.T, 2)
    assert left_out <= certificate.remainder, "fails once in 10¹⁰"
    assert certificate.remainder <= (8 * 2 * 50**0.5) ** 0.25 * left_out, (
        "no looser than it says; a probe is below 2√c"
    )
    assert certificate.confidence == pytest.approx(1 - 1e-10)


def test_certificate_tells_a_wrong_basis():
    A, U = with_spectrum(0.7 ** np.arange(40))
    probes = start(40, 5, 1)
    right = certify(lambda Q: A @ Q, U[:, :5], 0.7 ** np.arange(5), probes)
    wrong = certify(lambda Q: A @ Q, U[:, 1:6], 0.7 ** np.arange(5), probes)
    assert right.residuals.max() < 1e-12
    assert (wrong.residuals > 0.05).all()
    assert wrong.remainder > right.remainder


@pytest.mark.parametrize("dtype", DTYPES)
def test_certificate_is_tight(dtype):
    """Within a factor of 2.5 of the first eigenvalue left out, at any scale, where the spectrum
    falls.
    """
    for scale in (1e-9, 1.0, 1e9):
        values = scale * 0.97 ** np.arange(300)
        A, U = with_spectrum(values, dtype=dtype)
        exact = certify(
            lambda Q, A=A: A @ Q, U[:, :8].astype(dtype), values[:8], start(300, 10, 1, dtype)
        )
        assert values[8] <= exact.remainder <= 2.5 * values[8]


def test_certificate_of_a_whole_basis():
    A, U = with_spectrum([3.0, 2.0, 1.0])
    assert certify(lambda Q: A @ Q, U, np.array([3.0, 2.0, 1.0]), start(3, 10, 1)).remainder < 1e-12
    nothing = certify(lambda Q: 0 * Q, U[:, :0], np.zeros(0), start(3, 10, 1))
    assert nothing.remainder < 1e-25 and len(nothing.residuals) == 0
