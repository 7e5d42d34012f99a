"""The threaded sparse product against SciPy's, and the small functions over rows."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.linalg import sparse as module
from rembrandt.linalg.sparse import (
    append_constant,
    as_csr,
    csr_matmul,
    matmul,
    normalize_rows,
    row_sums_of_squares,
    scale_rows,
    sort_rows,
)

from .strategies import DTYPES, assert_product, csr_matrices


@given(csr_matrices(), st.integers(0, 5), st.sampled_from(DTYPES), st.integers(1, 9))
def test_product_is_scipys_however_the_nonzeros_are_cut(A, width, dtype, piece):
    Z = np.random.default_rng(0).standard_normal((A.shape[1], width)).astype(dtype)
    with mock.patch.object(module, "PIECE_NONZEROS", piece):
        assert_product(csr_matmul(A, Z), A, Z)


def head_word(dtype=np.float32):
    """One row far longer than a piece between short and empty ones."""
    rng = np.random.default_rng(1)
    d = 3 * module.PIECE_NONZEROS + 17
    long = sparse.csr_array(rng.standard_normal((1, d)).astype(dtype))
    short = sparse.random_array((40, d), density=1e-3, rng=rng, dtype=dtype).tocsr()
    return sparse.vstack([short, sparse.csr_array((2, d), dtype=dtype), long, short], format="csr")


def test_long_rows_alone_are_cut_and_from_their_start(monkeypatch):
    monkeypatch.setattr(module, "PIECE_NONZEROS", 4)
    lengths = [3, 10, 1, 2, 4, 5]
    indptr = np.append(0, np.cumsum(lengths))
    cuts = module._piece_cuts(indptr).tolist()
    assert set(cuts) >= {0, 3, 7, 11, 13, 20, 24, 25}
    # Where a row that is no longer than a piece begins, or one that is longer is cut.
    assert set(cuts) <= {*indptr.tolist(), 7, 11, 24}


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_longer_than_a_piece(dtype):
    A = as_csr(head_word(dtype))
    Z = np.random.default_rng(2).standard_normal((A.shape[1], 3)).astype(dtype)
    assert_product(csr_matmul(A, Z), A, Z)


@pytest.mark.parametrize("piece", [1, 5, module.PIECE_NONZEROS])
def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch, piece):
    A = as_csr(head_word())[:, :5000] if piece < 100 else as_csr(head_word())
    Z = np.random.default_rng(3).standard_normal((A.shape[1], 4), dtype=np.float32)
    monkeypatch.setattr(module, "PIECE_NONZEROS", piece)
    results = []
    for threads in ("1", "4", "3"):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", threads)
        results.append(csr_matmul(A, Z))
    assert_array_equal(results[0], results[1], strict=True)
    assert_array_equal(results[0], results[2], strict=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("piece", [1, 5, module.PIECE_NONZEROS])
def test_a_row_has_the_same_bits_in_any_block(monkeypatch, piece, dtype):
    """Rows that are longer than a piece are cut at the same places, wherever they begin."""
    A = as_csr(head_word(dtype))
    if piece < 100:
        A = as_csr(A[:, :5000])
    Z = np.random.default_rng(3).standard_normal((A.shape[1], 4)).astype(dtype)
    monkeypatch.setattr(module, "PIECE_NONZEROS", piece)
    whole = csr_matmul(A, Z)
    for size in (1, 7, 42, 43):
        parts = [csr_matmul(A[i : i + size], Z) for i in range(0, A.shape[0], size)]
        assert_array_equal(np.vstack(parts), whole, strict=True)
    order = np.random.default_rng(4).permutation(A.shape[0])
    assert_array_equal(csr_matmul(A[order], Z), whole[order], strict=True)


@given(csr_matrices(), st.integers(1, 9), st.integers(1, 4))
def test_small_blocks_have_the_bits_of_the_whole(A, piece, size):
    Z = np.random.default_rng(0).standard_normal((A.shape[1], 3)).astype(A.dtype)
    with mock.patch.object(module, "PIECE_NONZEROS", piece):
        parts = [csr_matmul(A[i : i + size], Z) for i in range(0, A.shape[0], size)]
        assert_array_equal(np.vstack([np.empty((0, 3), A.dtype), *parts]), csr_matmul(A, Z))


@pytest.mark.parametrize("d", [30, 3000, 20_001])
def test_sums_of_squares_have_the_same_bits_in_any_block(d):
    A = np.random.default_rng(5).standard_normal((23, d), dtype=np.float32)
    for X in (A, sparse.csr_array(A)):
        parts = [row_sums_of_squares(X[i : i + 5]) for i in range(0, 23, 5)]
        assert_array_equal(np.concatenate(parts), row_sums_of_squares(X), strict=True)


def test_a_block_that_is_not_contiguous():
    A = as_csr(sparse.random_array((30, 20), density=0.3, rng=np.random.default_rng(4)))
    wide = np.random.default_rng(5).standard_normal((5, 20))
    for Z in (wide.T, wide.T[:, ::2]):
        assert_product(csr_matmul(A, Z), A, Z)


def test_dense_and_sparse_products_agree():
    rng = np.random.default_rng(6)
    A = sparse.random_array((30, 20), density=0.3, rng=rng)
    Z = rng.standard_normal((20, 4))
    assert_allclose(matmul(as_csr(A), Z), matmul(A.toarray(), Z), rtol=1e-12, atol=1e-13)


def test_as_csr_sums_and_sorts_a_copy():
    untidy = sparse.csr_array(
        (np.float32([1, 2, 3, 4]), np.array([3, 0, 3, 1], dtype=np.int64), np.array([0, 3, 4])),
        shape=(2, 4),
    )
    result = as_csr(untidy)
    assert_array_equal(result.toarray(), [[2, 0, 0, 4], [0, 4, 0, 0]])
    assert result.has_canonical_format
    assert result.indices.dtype == np.int32
    assert untidy.nnz == 4, "the caller's matrix is left as it was"


@given(csr_matrices())
def test_constant_is_the_last_column(A):
    for X in (A, A.toarray()):
        result = append_constant(X)
        assert result.dtype == X.dtype
        assert sparse.issparse(result) == sparse.issparse(X)
        dense = result.toarray() if sparse.issparse(result) else result
        assert_array_equal(dense, np.hstack([A.toarray(), np.ones((A.shape[0], 1))]))


@given(csr_matrices())
def test_rows_are_scaled(A):
    factors = np.random.default_rng(0).random(A.shape[0])
    before = A.copy()
    expected = np.diag(factors) @ A.toarray()
    for X in (A, A.toarray()):
        result = scale_rows(X, factors)
        assert result.dtype == X.dtype
        assert_allclose(
            result.toarray() if sparse.issparse(result) else result, expected, rtol=1e-6
        )
    assert_array_equal(A.data, before.data)


@given(csr_matrices())
def test_rows_get_length_one_and_empty_rows_stay_empty(A):
    lengths = np.linalg.norm(A.toarray().astype(np.float64), axis=1)
    for X in (A, A.toarray()):
        result = normalize_rows(X)
        result = result.toarray() if sparse.issparse(result) else result
        assert_allclose(np.linalg.norm(result, axis=1), (lengths > 0).astype(float), atol=1e-6)
        assert_allclose(result * lengths[:, None], A.toarray(), rtol=1e-5, atol=1e-6)


@settings(max_examples=30)
@given(st.lists(st.integers(-12, 12), min_size=2, max_size=8))
def test_a_row_is_normalized_whatever_the_size_of_the_others(exponents):
    rows = np.float32([[3 * 10.0**e, 4 * 10.0**e] for e in exponents])
    expected = np.tile(np.float32([[0.6, 0.8]]), (len(rows), 1))
    assert_allclose(normalize_rows(rows), expected, rtol=1e-5)
    assert_allclose(normalize_rows(sparse.csr_array(rows)).toarray(), expected, rtol=1e-5)
    assert_allclose(
        row_sums_of_squares(sparse.csr_array(rows)), row_sums_of_squares(rows), rtol=1e-6
    )


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_rows_are_sorted_in_place(monkeypatch, index_type):
    monkeypatch.setattr(module, "SORTED_ROWS", 3)
    sorted_rows = sparse.random_array((10, 40), density=0.3, rng=np.random.default_rng(0)).tocsr()
    rows = np.repeat(np.arange(10), np.diff(sorted_rows.indptr))
    order = np.lexsort((np.random.default_rng(1).random(len(rows)), rows))
    indptr = sorted_rows.indptr.astype(np.int64)
    A = sparse.csr_array(sorted_rows.shape)
    A.data = sorted_rows.data[order]
    A.indices = sorted_rows.indices[order].astype(index_type)
    A.indptr = indptr
    assert not np.array_equal(A.indices, sorted_rows.indices)
    sort_rows(A)
    assert A.has_sorted_indices
    assert A.indices.dtype == index_type
    assert_array_equal(A.indices, sorted_rows.indices)
    assert_array_equal(A.data, sorted_rows.data)
