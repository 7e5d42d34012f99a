"""Products with the transpose of a sparse matrix, however its rows and the block's columns are
cut.
"""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt.linalg import transposed as module
from rembrandt.linalg.sparse import as_csr
from rembrandt.linalg.transposed import Transposed

from .strategies import DTYPES, assert_product, csr_matrices


@given(
    csr_matrices(),
    st.integers(0, 5),
    st.sampled_from(DTYPES),
    st.integers(1, 13),
    st.integers(1, 6),
)
def test_product_is_scipys(A, width, dtype, rows, slab):
    U = np.random.default_rng(0).standard_normal((A.shape[0], width)).astype(dtype)
    with (
        mock.patch.object(module, "TRANSPOSED_BLOCK_ROWS", rows),
        mock.patch.object(module, "SLAB_COLUMNS", slab),
    ):
        assert_product(Transposed.of(A) @ U, A.T.tocsr(), U)


def word_counts(n=9001, d=300):
    """A head word in every row, others in few, some in none."""
    rng = np.random.default_rng(0)
    rest = sparse.random_array((n, d - 1), density=0.01, rng=rng, dtype=np.float32)
    head = sparse.csr_array(1 + rng.random((n, 1), dtype=np.float32))
    return as_csr(sparse.hstack([rest, head], format="csr"))


@pytest.mark.parametrize("width", [1, 130])
def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch, width):
    A = word_counts()
    U = np.random.default_rng(1).standard_normal((A.shape[0], width), dtype=np.float32)
    results = []
    for threads in ("1", "4", "7"):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", threads)
        results.append(Transposed.of(A) @ U)
    assert_product(results[0], A.T.tocsr(), U)
    assert_array_equal(results[0], results[1], strict=True)
    assert_array_equal(results[0], results[2], strict=True)


def test_a_long_sum_keeps_its_tail_in_single_precision():
    """One running sum drops what is below its rounding; sums of short sums are ten times nearer."""
    n = 300_000
    A = sparse.csr_array(np.ones((n, 1), dtype=np.float32))
    U = np.full((n, 1), 0.1, dtype=np.float32)
    exact = n * float(np.float32(0.1))
    running = float(np.cumsum(U[:, 0])[-1])
    assert abs((Transposed.of(A) @ U)[0, 0] - exact) < 0.1 * abs(running - exact)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (5, 3)])
def test_nothing_to_multiply(shape):
    A = sparse.csr_array(shape, dtype=np.float32)
    product = Transposed.of(A) @ np.ones((shape[0], 2), dtype=np.float32)
    assert_array_equal(product, np.zeros((shape[1], 2), dtype=np.float32), strict=True)
