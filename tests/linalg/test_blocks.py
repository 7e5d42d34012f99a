"""Operations on tall blocks against plain ones, at and around the limits at which blocks are cut."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.errors import DataError
from rembrandt.linalg import blocks


def block(n, k, seed=0):
    return np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)


@pytest.mark.parametrize("size", [0, 1, 4, 5, 6, 10, 11])
def test_spans_cover_everything_once(size):
    spans = list(blocks.spans(size, 5))
    assert np.concatenate([[], *[np.arange(size)[span] for span in spans]]).tolist() == [
        *range(size)
    ]
    assert all(0 < span.stop - span.start <= 5 for span in spans)
    assert len(spans) == -(-size // 5)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 30])
def test_sums_and_products_of_columns(n, monkeypatch):
    """Also where the block is square, so that a sum along the other axis has the same shape."""
    monkeypatch.setattr(blocks, "COLUMN_SUM_ROWS", 8)
    monkeypatch.setattr(blocks, "CORE_CACHE_ENTRIES", 24)
    monkeypatch.setattr(blocks, "FLOAT64_BLOCK_ROWS", 8)
    A = block(n, 8)
    B = block(n, 8, seed=1)
    exact = A.astype(np.float64)
    assert_allclose(blocks.column_sums(A), exact.sum(axis=0), rtol=1e-12)
    assert_allclose(blocks.column_dots(A, B), (exact * B).sum(axis=0), rtol=1e-5, atol=1e-6)
    assert_allclose(blocks.gram64(A), exact.T @ exact, rtol=1e-12)
    assert_allclose(blocks.gram64(A, B[:, :3]), exact.T @ B[:, :3].astype(np.float64), rtol=1e-12)


def test_rows_that_fit_in_the_cache():
    assert blocks.cache_rows(block(3, 100)) == blocks.CORE_CACHE_ENTRIES // 100
    assert blocks.cache_rows(block(3, 0)) == blocks.CORE_CACHE_ENTRIES
    wide = np.broadcast_to(np.float32(0), (1, 2 * blocks.CORE_CACHE_ENTRIES))
    assert blocks.cache_rows(wide) == 1


def test_a_product_that_is_added():
    A, B, C = block(6, 3), block(6, 4, seed=1), block(4, 3, seed=2)
    expected = A + B @ C
    assert_array_equal(blocks.plus_product(A, B, C), expected)
    assert blocks.plus_product(A, B, C, out=A) is A
    assert_array_equal(A, expected)


def test_inverses_of_factors():
    G = blocks.gram64(block(20, 5))
    factor = np.linalg.cholesky(G)
    assert_allclose(blocks.inverse_of_lower(factor) @ factor, np.eye(5), atol=1e-12)
    T = blocks.inverse_root(G, 1e-12)
    assert_allclose(T.T @ G @ T, np.eye(5), atol=1e-10)


def test_directions_that_are_rounding_errors_are_left_out():
    A = block(20, 5)
    A[:, 4] = A[:, 3]
    G = blocks.gram64(A)
    T = blocks.inverse_root(G, 1e-12)
    assert T.shape == (5, 4)
    assert_allclose(T.T @ G @ T, np.eye(4), atol=1e-9)
    assert blocks.orthonormalize(A).shape == (20, 4)
    assert blocks.inverse_root(np.zeros((0, 0)), 1e-12).shape == (0, 0)


def test_what_overflowed_is_refused():
    blocks.check_finite(np.ones(3))
    for value in (np.inf, np.nan):
        with pytest.raises(DataError, match="too large for floating point"):
            blocks.eigh(np.full((2, 2), value))


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_scaled_and_blocks_converted(monkeypatch, order):
    monkeypatch.setattr(blocks, "CONVERTED_ENTRIES", 20)
    A = np.asarray(block(5, 10), order=order)
    factors = block(5, 1, seed=1)
    assert_array_equal(blocks.scaled_rows(A, factors), factors * A, strict=True)
    converted = blocks.converted(A, np.float64)
    assert_array_equal(converted, A.astype(np.float64), strict=True)
    assert converted.flags == A.astype(np.float64).flags  # products round as in this order
    part = np.zeros((5, 12), dtype=np.float32)
    blocks.converted(converted, np.float32, out=part[:, 1:11])
    assert_array_equal(part[:, 1:11], A)
    assert not part[:, [0, 11]].any()
    expected = factors * A
    assert blocks.scaled_rows(A, factors, out=A) is A
    assert_array_equal(A, expected)


@pytest.mark.parametrize("order", ["C", "F"])
def test_pieces_are_next_to_each_other_in_memory(monkeypatch, order):
    monkeypatch.setattr(blocks, "CONVERTED_ENTRIES", 20)
    A = np.zeros((7, 9), order=order)
    pieces = blocks._pieces_in_memory(A)
    assert len(pieces) == (4 if order == "C" else 5)
    for number, piece in enumerate(pieces, 1):
        A[piece] += number
    in_memory = A.ravel(order="K")
    assert (in_memory > 0).all()
    assert (np.diff(in_memory) >= 0).all()


@pytest.mark.parametrize("d", [1, 512, 700, 1300])
def test_a_gram_matrix_is_added_in_blocks(d, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, d))
    before = rng.standard_normal((d, d))
    results = []
    for n_threads in ("1", "3"):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", n_threads)
        out = before.copy()
        blocks.add_gram(out, A)
        results.append(out)
    np.testing.assert_allclose(results[0], before + A.T @ A, atol=1e-12)
    np.testing.assert_array_equal(results[0], results[1])
    difference = results[0] - before
    np.testing.assert_allclose(difference, difference.T, atol=1e-12)
