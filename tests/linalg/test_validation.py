"""Matrices of users are checked before they are used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.linalg import validation
from rembrandt.linalg.sparse import as_csr
from rembrandt.linalg.validation import MIN_VALUE, bounded_values, check_sparse

from .broken import BROKEN, sound
from .strategies import csr_matrices


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_ordinary_values_are_returned_as_they_are(make, dtype):
    for scale in (1e-30, 1.0, 1e15):
        X = make((np.array([[1, 0, -1], [0.5, 0, 0]]) * scale).astype(dtype))
        assert bounded_values(X) is X
    empty = make(np.zeros((0, 3), dtype=dtype))
    assert bounded_values(empty) is empty


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_denormal_values_count_as_zero(make, monkeypatch):
    monkeypatch.setattr(validation, "COMPARED_VALUES", 4)
    for dtype in (np.float32, np.float64):
        X = np.array([[1, 0, -1e-40], [1e-38, 2, 3], [-1e-45, 0, 0], [MIN_VALUE, 0, -4]])
        X = X.astype(dtype)
        expected = np.where(np.abs(X) < MIN_VALUE, 0, X)
        matrix = make(X)
        result = bounded_values(matrix)
        if make is sparse.csr_array:
            assert result.nnz == 5 and matrix.nnz == 8
            result, matrix = result.toarray(), matrix.toarray()
        assert_array_equal(result, expected)
        assert_array_equal(matrix, X)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_values_that_cannot_be_squared_are_refused(make):
    X = np.ones((4, 3), dtype=np.float32)
    X[2, 1] = -1e16
    with pytest.raises(DataError, match=r"X has -1e\+16 at row 2, column 1; .* or give float64"):
        bounded_values(make(X))
    X[2, 1] = 1e37
    with pytest.raises(DataError, match=r"divide by a constant$"):
        bounded_values(make(X))
    X = X.astype(np.float64)
    X[2, 1] = 1e300
    with pytest.raises(DataError, match=r"X has 1e\+300 at row 2, column 1; .*up to 1e\+30"):
        bounded_values(make(X))
    with pytest.raises(DataError, match=r"the weights has 1e\+300 at row 1;"):
        bounded_values(np.array([1, 1e300]), "the weights")


@pytest.mark.parametrize("name", BROKEN)
def test_a_matrix_that_is_not_sound_is_refused(name):
    matrix, message = BROKEN[name]
    with pytest.raises(DataError, match=f"the matrix is not a sound .*{message}.*; make it again"):
        check_sparse(matrix, "the matrix")


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("shape", [(6, 4), (0, 4), (6, 0), (0, 0)])
def test_sound_matrices_of_every_format_pass(format, shape):
    if 0 in shape and format == "bsr":
        pytest.skip("blocks cannot be empty")
    matrix = sound(format) if shape == (6, 4) else sparse.coo_array(shape).asformat(format)
    check_sparse(matrix)
    check_sparse(getattr(sparse, f"{format}_matrix")(matrix))


@given(csr_matrices(), st.data())
def test_what_passes_the_check_can_be_multiplied(A, data):
    """Whatever is changed in the arrays, the check or SciPy's dense matrix is the judge."""
    A = sparse.csr_array(A)
    name = data.draw(st.sampled_from(["indptr", "indices"]))
    array = getattr(A, name).copy()
    if array.size:
        position = data.draw(st.integers(0, array.size - 1))
        array[position] = data.draw(st.integers(-2, 12) | st.sampled_from([2**31 - 1, -(2**31)]))
        setattr(A, name, array)
    try:
        check_sparse(A)
    except DataError:
        return
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    dense = np.zeros(A.shape)
    n_entries = int(A.indptr[-1])
    np.add.at(dense, (rows, A.indices[:n_entries]), A.data[:n_entries])
    assert_allclose(as_csr(A).toarray(), dense, rtol=1e-5, atol=1e-5)


def test_entries_in_any_order_are_sorted_and_summed_whatever_the_flags_say():
    A = sparse.csr_array(
        (np.arange(1.0, 7.0), np.array([3, 0, 3, 2, 1, 1]), np.array([0, 3, 6])), shape=(2, 4)
    )
    expected = A.toarray()
    A.has_canonical_format = True  # stale, as after a change of the indices
    check_sparse(A)
    result = as_csr(A)
    assert result.has_canonical_format and result.nnz == 4
    assert_array_equal(result.toarray(), expected)
    assert A.nnz == 6


def test_room_for_more_entries_is_left_out():
    A = sound()
    A.data = np.append(A.data, np.float32([7, 7]))
    A.indices = np.append(A.indices, np.int32([0, 0]))
    check_sparse(A)
    assert len(as_csr(A).data) == A.nnz == 9 and len(A.data) == 11
    assert_array_equal(as_csr(A).toarray(), sound().toarray())
