"""Dense products by rows: those of NumPy, with bits that do not depend on the other rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.linalg.dense import PRODUCT_BLOCK_ROWS, PRODUCT_TILE_COLUMNS, row_products

from .strategies import DTYPES


def factors(n, k, m, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, k)).astype(dtype), rng.standard_normal((k, m)).astype(dtype)


def assert_product(product, A, B):
    """Compare with the product in double precision, as far as sums of ``k`` terms are exact."""
    assert product.dtype == np.result_type(A, B)
    assert product.shape == (A.shape[0], B.shape[1])
    exact = A.astype(np.float64) @ B.astype(np.float64)
    bound = np.abs(A).astype(np.float64) @ np.abs(B).astype(np.float64)
    error = 2 * (A.shape[1] + 1) * np.finfo(product.dtype).eps
    assert (np.abs(product - exact) <= error * bound).all()


@settings(deadline=None)
@given(
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from(DTYPES),
    st.sampled_from(DTYPES),
)
def test_the_product_is_numpys(n, k, m, left, right):
    A, B = factors(n, k, m)
    assert_product(row_products(A.astype(left), B.astype(right)), A.astype(left), B.astype(right))


@pytest.mark.parametrize("dtype", DTYPES)
def test_more_rows_and_columns_than_a_tile(dtype):
    A, B = factors(2 * PRODUCT_BLOCK_ROWS + 3, 31, 2 * PRODUCT_TILE_COLUMNS + 5, dtype)
    assert_product(row_products(A, B), A, B)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 2, 40, 41])
@pytest.mark.parametrize("m", [3, 97, PRODUCT_TILE_COLUMNS + 9])
def test_a_row_has_the_same_bits_in_any_block(dtype, k, m):
    n = 2 * PRODUCT_BLOCK_ROWS + 5
    A, B = factors(n, k, m, dtype)
    whole = row_products(A, B)
    for size in (1, 2, 3, 7, PRODUCT_BLOCK_ROWS, PRODUCT_BLOCK_ROWS + 1):
        parts = [row_products(A[i : i + size], B) for i in range(0, n, size)]
        assert_array_equal(np.vstack(parts), whole, strict=True)
    order = np.random.default_rng(1).permutation(n)
    assert_array_equal(row_products(A[order], B), whole[order], strict=True)


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    A, B = factors(200, 50, 1200)
    products = []
    for threads in ("1", "4", "3"):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", threads)
        products.append(row_products(A, B))
    assert_array_equal(products[0], products[1], strict=True)
    assert_array_equal(products[0], products[2], strict=True)


def test_arrays_that_are_not_contiguous():
    A, B = factors(20, 12, 30)
    expected = row_products(A, B)
    assert_array_equal(row_products(np.asfortranarray(A), np.asfortranarray(B)), expected)
    wide = np.repeat(A, 2, axis=1)
    assert_array_equal(row_products(wide[:, ::2], B), expected)
    assert_allclose(row_products(A[::2], B), A[::2] @ B, rtol=1e-4, atol=1e-5)


def test_the_factors_are_left_as_they_were():
    A, B = factors(5, 4, 3)
    copies = A.copy(), B.copy()
    row_products(A, B)
    assert_array_equal(A, copies[0])
    assert_array_equal(B, copies[1])
