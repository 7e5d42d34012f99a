"""Rungs of a search: rows to fit on, and rows to measure on that are never fitted to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.data.rows import MemoryRows
from rembrandt.selection import rungs as module
from rembrandt.selection.rungs import FEW, FEW_HELD, FOLDS, FROM_DISK, MOST_HELD, SAMPLE, rungs_of


class OnDisk(MemoryRows):
    """Rows of which few are in memory at a time."""

    def resident(self):
        return 1, 1


def rows(n, labels=50, weighted=False, kind=MemoryRows, groups=None, X=None):
    """Rows that all differ, with one label each."""
    weights = (np.arange(n) % 5 > 0).astype(float) if weighted else None
    X = sparse.csr_array(np.arange(1, n + 1, dtype=np.float32)[:, None]) if X is None else X
    Y = sparse.csr_array((np.ones(n, np.float32), (np.arange(n), np.arange(n) % labels)), shape=(n, labels))
    return Examples(kind(X), Y, np.arange(labels), True, weights, groups)


def check_splits(data, rung):
    for fit, held in zip(rung.fit, rung.held, strict=True):
        used = np.concatenate([fit, held])
        assert len(fit) > 0 and len(held) > 0
        assert len(np.unique(used)) == len(used) and used.min() >= 0 and used.max() < data.n
        assert data.weights is None or data.weights[used].all(), "rows without weight are not used"


@settings(max_examples=15, deadline=None)
@given(st.integers(100, 40_000), st.booleans(), st.booleans(), st.integers(0, 5))
def test_no_row_is_measured_that_was_fitted_to(n, weighted, short, seed):
    data = rows(n, weighted=weighted)
    found = rungs_of(data, seed, short)
    assert [rung.last for rung in found] == [False] * (len(found) - 1) + [True]
    for rung in found:
        check_splits(data, rung)
        assert np.isin(rung.fit[0], found[-1].fit[0]).all() and np.isin(rung.held[0], found[-1].held[0]).all()
    if short:
        assert len(found) == 2
    else:
        assert [rung.rows for rung in found] == sorted(rung.rows for rung in found)
    everything = n if data.weights is None else int(data.weights.sum())
    assert found[-1].rows >= everything - MOST_HELD - 1
    assert len(found[-1].fit) == (FOLDS if everything <= FEW else 1)
    again = rungs_of(data, seed, short)
    assert [rung.fit[0].tolist() for rung in again] == [rung.fit[0].tolist() for rung in found]
    assert not np.array_equal(rungs_of(data, seed + 1, short)[0].fit[0], found[0].fit[0])


def test_labels_of_a_smaller_rung_keep_their_examples():
    data = rows(60_000, labels=500)
    first, last = rungs_of(data, 0, short=True)
    assert 1 < len(first.labels) < 500 and len(first.held[0]) <= FEW_HELD
    assert SAMPLE / 2 < first.rows <= 2 * SAMPLE
    y = data.Y.indices
    assert set(y[first.fit[0]]) == set(y[first.held[0]]) == set(first.labels)
    wanted = last.fit[0][np.isin(y[last.fit[0]], first.labels)]
    assert np.array_equal(np.sort(wanted), first.fit[0]), "all examples of these labels that are not held out"
    assert str(first) == f"{first.rows:,} rows and {len(first.labels)} labels"


def test_equal_rows_are_on_one_side():
    X = sparse.csr_array(np.repeat(np.arange(1, 301, dtype=np.float32), 2)[:, None])
    data = rows(600, X=X)
    for rung in rungs_of(data, 0, short=False):
        for fit, held in zip(rung.fit, rung.held, strict=True):
            assert not set(X[fit].data) & set(X[held].data)


@pytest.mark.parametrize("kind", [MemoryRows, OnDisk])
def test_groups_are_on_one_side(kind):
    groups = np.arange(600) // 4
    for rung in rungs_of(rows(600, groups=groups, kind=kind), 0, short=True):
        for fit, held in zip(rung.fit, rung.held, strict=True):
            assert not set(groups[fit]) & set(groups[held])


def test_rows_without_labels_are_not_used():
    data = rows(400)
    Y = data.Y.tolil()
    Y[:100] = 0
    changed = Examples(data.X, sparse.csr_array(Y.tocsr()), data.classes, False)
    used = np.concatenate([part for rung in rungs_of(changed, 0, True) for part in (*rung.fit, *rung.held)])
    assert used.min() >= 100


@pytest.mark.parametrize("kind", [MemoryRows, OnDisk])
def test_of_rows_on_disk_a_part_is_used(kind, monkeypatch):
    monkeypatch.setattr(module, "FROM_DISK", 20_000)
    assert FROM_DISK > 20_000
    last = rungs_of(rows(30_000, kind=kind), 0, short=True)[-1]
    used = len(last.fit[0]) + len(last.held[0])
    assert used == (20_000 if kind is OnDisk else 30_000)
