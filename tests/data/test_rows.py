"""Rows in memory and rows of a store answer alike."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.data import Dataset
from rembrandt.data.convert import write_store
from rembrandt.data.rows import MemoryRows, array_digest, as_rows, label_feature_pairs
from rembrandt.data.store import Store

N, D, C = 23, 9, 4


def problem():
    X = sp.random_array((N, D), density=0.3, format="csr", dtype=np.float32, rng=0)
    X = sp.csr_array(X.multiply(np.arange(D) != 5).astype(np.float32))  # nothing in column 5
    X.eliminate_zeros()
    Y = sp.csr_array((np.arange(N)[:, None] % C == np.arange(C)).astype(np.float32))
    return X, Y


@pytest.fixture(params=["dense", "sparse", "stored"])
def rows(request, tmp_path):
    X, Y = problem()
    if request.param == "stored":
        names = [str(i) for i in range(C)]
        parts = [
            Dataset.build(Y[part], X[part], label_ids=names)
            for part in (slice(0, 7), slice(7, 8), slice(8, N))
        ]
        return as_rows(write_store(parts, tmp_path / "store").dataset().X)
    return as_rows(X.toarray() if request.param == "dense" else X)


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def test_shape_and_blocks(rows):
    X, Y = problem()
    assert rows.shape == (N, D) and rows.dtype == np.float32 and len(rows) == N
    assert as_rows(rows) is rows
    found = [(block, dense(part)) for block, part in rows.blocks(10)]
    assert [block.start for block, _ in found] == [0, 10, 20]
    assert_array_equal(np.vstack([part for _, part in found]), X.toarray())
    if sp.issparse(rows[:1]):
        assert rows.nnz == X.nnz
        assert label_feature_pairs(rows, Y) == pytest.approx((Y.T @ abs(X)).nnz, rel=0.2)
        assert rows.used_columns().tolist() == [0, 1, 2, 3, 4, 6, 7, 8]
        assert rows.n_empty in (None, int((np.diff(X.indptr) == 0).sum()))
    assert rows.resident()[0] <= N


@pytest.mark.parametrize(
    "index", [slice(3, 12), slice(20, 2, -3), slice(5, 5), [9, 1, 9, 22], np.arange(N) % 5 == 0, []]
)
def test_rows_are_those_of_the_matrix(rows, index):
    index = (
        index if isinstance(index, slice) else np.asarray(index, dtype=None if len(index) else int)
    )
    assert_array_equal(dense(rows[index]), problem()[0].toarray()[index])


@pytest.mark.parametrize("columns", [[0, 3, 4], [8, 0], [2, -1, 1, -1]])
def test_columns_are_selected_in_turn(rows, columns):
    columns = np.array(columns)
    expected = np.where(columns < 0, 0, problem()[0].toarray()[:, columns])
    selected = rows.select(columns)
    assert selected.shape == (N, len(columns))
    assert_array_equal(dense(selected[:]), expected)
    assert_array_equal(dense(selected[[4, 2]]), expected[[4, 2]])
    assert_array_equal(
        dense(selected.select(np.array([1, -1, 0]))[:]),
        np.c_[expected[:, 1], np.zeros(N), expected[:, 0]],
    )
    if sp.issparse(rows[:1]):
        assert selected.used_columns().tolist() == np.flatnonzero(expected.any(axis=0)).tolist()


def test_normalized_rows_have_unit_length(rows):
    X = problem()[0].toarray()
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    expected = np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 0)
    assert_allclose(dense(rows.normalized()[:]), expected, rtol=1e-6)
    used = rows.used_columns()
    assert_allclose(dense(rows.normalized().select(used)[:]), expected[:, used], rtol=1e-6)


def test_the_digest_depends_on_the_contents(rows):
    other = rows.select(np.arange(D)[::-1].copy())
    digests = {rows.digest(), rows.normalized().digest(), other.digest()}
    assert len(digests) == 3 and rows.digest() == as_rows(rows).digest()


def test_digests_of_arrays():
    X, _ = problem()
    arrays = [
        X,
        X.toarray(),
        X.astype(np.float64),
        np.array(["a", "b"]),
        np.array(["a", "b"], object),
        np.arange(3),
    ]
    assert len({array_digest(array) for array in arrays}) == len(arrays)
    assert array_digest(X) == array_digest(X.copy()) == MemoryRows(X).digest()


def test_a_store_knows_whether_entries_are_left_out(tmp_path):
    X, Y = problem()
    rows = as_rows(
        write_store([Dataset.build(Y, X, label_ids=list("abcd"))], tmp_path / "store").dataset().X
    )
    used = rows.used_columns()
    assert (
        rows.keeps_entries()
        and rows.select(used).keeps_entries()
        and rows.select(used[::-1]).keeps_entries()
    )
    for columns in (used[1:], np.append(used, -1)):
        assert not rows.select(columns).keeps_entries()


def test_a_dataset_of_a_store_is_aligned_without_reading_it(tmp_path):
    X, Y = problem()
    data = Dataset.build(Y, X, label_ids=list("abcd"), feature_names=list("ABCDEFGHI"))
    store = write_store([data.rows(range(10)), data.rows(range(10, N))], tmp_path / "store")
    wanted = ["C", "new", "A"]
    expected, found = (
        data.align_features(wanted),
        Store(store.path).dataset().align_features(wanted),
    )
    assert_array_equal(found.X[:].toarray(), expected.X.toarray())
    assert found.notes.unseen_features == expected.notes.unseen_features == 7
