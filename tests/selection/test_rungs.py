"""Rungs of a search: rows to fit on, and rows to measure on that are never fitted to."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt.data.examples import Examples, duplicate_groups
from rembrandt.data.rows import MemoryRows
from rembrandt.selection.rungs import (
    ENOUGH_HELD,
    FEW_HELD,
    FIRST,
    FROM_DISK,
    GROWTH,
    MOST_HELD,
    MOST_SPLITS,
    SAMPLE,
    rungs_of,
)


class OnDisk(MemoryRows):
    """Rows of which few are in memory at a time."""

    def resident(self):
        return 1, 1


def rows(n, weighted=False, kind=MemoryRows, labels=50, seed=0):
    """Rows with one of the labels each, in some order."""
    rng = np.random.default_rng(seed)
    weights = (np.arange(n) % 5 > 0).astype(float) if weighted else None
    Y = sparse.csr_array(
        (np.ones(n, np.float32), rng.integers(0, labels, n), np.arange(n + 1)), shape=(n, labels)
    )
    return Examples(
        kind(np.arange(n, dtype=np.float64)[:, None]), Y, np.arange(labels), False, weights
    )


def check_splits(data, rung):
    for fit, held in zip(rung.fit, rung.held, strict=True):
        used = np.concatenate([fit, held])
        assert len(fit) > 0 and len(held) > 0
        assert len(np.unique(used)) == len(used) and used.min() >= 0 and used.max() < data.n
        assert data.weights is None or data.weights[used].all(), "rows without weight are not used"


def same(first, second):
    pairs = zip(first, second, strict=True)
    return all(
        np.array_equal(a, b) for one, two in pairs for a, b in zip(one.fit, two.fit, strict=True)
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(100, 40_000), st.booleans(), st.integers(0, 5), st.booleans())
def test_rows_are_split_once_and_rungs_are_nested(n, weighted, seed, short):
    data = rows(n, weighted)
    found = rungs_of(data, seed, short)
    last = found[-1]
    everything = n if data.weights is None else int(data.weights.sum())
    assert [rung.last for rung in found] == [False] * (len(found) - 1) + [True]
    assert last.rows + len(last.held[0]) == everything and last.labels is None
    assert len(last.held[0]) == min(MOST_HELD, round(everything / 6))
    assert len(last.fit) == min(MOST_SPLITS, -(-ENOUGH_HELD // (everything / 6)))
    for rung in found:
        check_splits(data, rung)
        assert rung.last or len(rung.held[0]) <= FEW_HELD
        assert np.isin(rung.fit[0], last.fit[0]).all()
        assert np.isin(rung.held[0], last.held[0] if rung.labels is None else last.fit[0]).all()
    if short:
        assert len(found) == 2 and (found[0].labels is None) == (last.rows <= 2 * SAMPLE)
    else:
        assert found[0].rows >= min(last.rows, FIRST / GROWTH)
        assert [rung.work for rung in found] == sorted(rung.work for rung in found)
    assert same(rungs_of(data, seed, short), found)
    assert not same(rungs_of(data, seed + 1, short), found)


@settings(max_examples=10, deadline=None)
@given(st.integers(20_000, 60_000), st.integers(50, 20_000), st.integers(0, 5), st.booleans())
def test_a_sampled_rung_keeps_the_examples_of_its_labels(n, labels, seed, short):
    data = rows(n, labels=labels, seed=seed)
    *sampled, last = rungs_of(data, seed, short)
    assert sampled
    for rung in sampled:
        chosen = data.Y[np.concatenate([rung.fit[0], rung.held[0]])][:, rung.labels]
        assert (np.diff(chosen.indptr) > 0).all(), "every row has one of the labels"
        assert len(rung.held[0]) >= min(FEW_HELD, rung.rows // 4), "enough to tell candidates apart"
        assert len(rung.held[0]) <= rung.rows / 2
        before = np.bincount(data.Y[last.fit[0]].indices, minlength=labels)[rung.labels]
        after = np.asarray(chosen.sum(axis=0)).ravel()
        assert (after == before).all(), "no example of the labels is left out"


@pytest.mark.parametrize(("per_row", "has_labels"), [(1, True), (3, True), (10, False)])
def test_rows_with_many_labels_keep_all_of_them(per_row, has_labels):
    n, labels = 60_000, 6000
    indices = np.sort(
        np.random.default_rng(0).integers(0, labels // per_row, (n, per_row)) * per_row, axis=1
    )
    indices += np.arange(per_row)  # different labels
    Y = sparse.csr_array(
        (np.ones(n * per_row, np.float32), indices.ravel(), per_row * np.arange(n + 1)), (n, labels)
    )
    first, last = rungs_of(replace(rows(n), Y=Y, classes=np.arange(labels)), 0, short=True)
    assert (first.labels is not None) == has_labels
    assert first.rows <= 2 * SAMPLE < last.rows


def test_common_labels_do_not_make_a_rung_long():
    n = 60_000
    data = rows(n)
    Y = sparse.csr_array(np.ones((n, 2), dtype=np.float32))
    first = rungs_of(replace(data, Y=Y, classes=np.arange(2)), 0, short=True)[0]
    assert first.rows == 2 * SAMPLE and len(first.held[0]) == FEW_HELD


def test_labels_that_few_rows_have_are_no_sample():
    """One label has nearly all rows: without it, nothing is left to fit on or to measure on."""
    n = 30_000
    column = np.zeros(n, dtype=int)
    column[:100] = np.arange(1, 101)
    Y = sparse.csr_array((np.ones(n, np.float32), column, np.arange(n + 1)), shape=(n, 101))
    for seed in range(6):
        data = replace(rows(n), Y=Y, classes=np.arange(101))
        for rung in rungs_of(data, seed, short=True):
            check_splits(data, rung)
            assert rung.rows >= SAMPLE / 2 and len(rung.held[0]) >= 100


@pytest.mark.parametrize("multiclass", [False, True])
def test_rows_without_labels_are_used_where_rows_may_have_several(multiclass):
    """With one label a row, such a row is one whose label is unknown."""
    data = replace(rows(1000), multiclass=multiclass)
    few = replace(
        data,
        Y=sparse.csr_array(
            sparse.diags_array((np.arange(1000) % 3 > 0).astype(np.float32)) @ data.Y
        ),
    )
    few.Y.eliminate_zeros()
    for rung in rungs_of(few, 0, short=True):
        has_label = np.concatenate([*rung.fit, *rung.held]) % 3 > 0
        if multiclass:
            assert has_label.all()
        else:
            assert_allclose(has_label.mean(), 2 / 3, atol=0.01)
            assert_allclose((rung.held[0] % 3 > 0).mean(), 2 / 3, atol=0.1)


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("kind", ["equal rows", "groups"])
@pytest.mark.parametrize("n", [600, 30_000])
def test_related_rows_stay_on_one_side(n, kind, short):
    which = np.random.default_rng(0).integers(0, n // 4, n)
    data = rows(n)
    if kind == "groups":
        data = replace(data, groups=which)
    else:
        data = replace(data, X=MemoryRows(sparse.csr_array(np.sin(which)[:, None])))
    for rung in rungs_of(data, 0, short):
        check_splits(data, rung)
        for fit, held in zip(rung.fit, rung.held, strict=True):
            assert not np.isin(which[fit], which[held]).any()


def test_few_rows_end_in_several_splits():
    first, last = rungs_of(rows(3000), 0, short=True)
    assert len(last.fit) == 2 and str(last) == "2 splits of 2,500 rows"
    assert str(first) == "2,500 rows" and last.work == 5000
    first = rungs_of(rows(30_000), 0, short=True)[0]
    assert str(first).endswith(" labels")


@pytest.mark.parametrize(
    ("n", "held"), [(3000, 500), (15_000, 2500), (30_000, 3000), (60_000, MOST_HELD)]
)
def test_without_effort_fewer_of_many_rows_are_held_out(n, held):
    data = rows(n)
    assert len(rungs_of(data, 0, True, 0)[-1].held[0]) == pytest.approx(held, rel=0.02)
    assert len(rungs_of(data, 0, True, 1)[-1].held[0]) == pytest.approx(
        min(MOST_HELD, n / 6), rel=0.02
    )


@pytest.mark.parametrize("kind", [MemoryRows, OnDisk])
def test_of_rows_on_disk_a_part_is_used(kind):
    data = rows(150_000, kind=kind)
    last = rungs_of(data, 0, short=True)[-1]
    assert last.rows == (FROM_DISK if kind is OnDisk else 150_000) - MOST_HELD
    check_splits(data, last)


@pytest.mark.parametrize("short", [True, False])
def test_the_latest_rows_are_held_out(short):
    times = np.random.default_rng(3).permutation(9000) // 2
    data = replace(rows(9000), times=times)
    for rung in rungs_of(data, 0, short):
        assert len(rung.fit) == 1 and times[rung.fit[0]].max() < times[rung.held[0]].min()


def test_equal_rows_connect_groups():
    X = sparse.csr_array(np.array([[1.0], [1.0], [2.0], [3.0], [3.0]]))
    assert duplicate_groups(X, np.array([0, 1, 1, 2, 3])).tolist() == [0, 0, 0, 1, 1]


def test_labels_whose_examples_are_all_equal_are_not_held_out_whole():
    which = np.arange(600) % 60
    Y = sparse.csr_array((np.ones(600, np.float32), which, np.arange(601)), shape=(600, 60))
    data = Examples(
        MemoryRows(sparse.csr_array(np.eye(60)[which])), Y, np.arange(60), multiclass=True
    )
    for rung in rungs_of(data, 0, short=True):
        assert np.isin(which[rung.held[0]], which[rung.fit[0]]).all()
