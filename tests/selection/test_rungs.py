"""Rungs of a search: nested sets of rows to fit on, and rows to measure on that are never fitted to."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.data.rows import MemoryRows
from rembrandt.selection.rungs import FEW, FOLDS, FROM_DISK, GROWTH, MOST_HELD, SHORT, rungs_of


class OnDisk(MemoryRows):
    """Rows of which few are in memory at a time."""

    def resident(self):
        return 1, 1


def rows(n, weighted=False, kind=MemoryRows):
    weights = (np.arange(n) % 5 > 0).astype(float) if weighted else None
    Y = sparse.csr_array((n, 1), dtype=np.float32)
    return Examples(kind(np.empty((n, 1))), Y, np.arange(1), False, weights)


def check_splits(data, rung):
    for fit, held in zip(rung.fit, rung.held, strict=True):
        used = np.concatenate([fit, held])
        assert len(fit) > 0 and len(held) > 0
        assert len(np.unique(used)) == len(used) and used.min() >= 0 and used.max() < data.n
        assert data.weights is None or data.weights[used].all(), "rows without weight are not used"


@settings(max_examples=30, deadline=None)
@given(st.integers(100, 40_000), st.booleans(), st.integers(0, 5), st.sampled_from([50, 500, 2000]))
def test_rows_are_split_once_and_rungs_are_nested(n, weighted, seed, first):
    data = rows(n, weighted)
    found = rungs_of(data, seed, first=first)
    assert [rung.work for rung in found] == sorted(rung.work for rung in found)
    for rung in found:
        check_splits(data, rung)
    for low, high in pairwise(found):
        assert np.isin(low.fit[0], high.fit[0]).all() and np.isin(low.held[0], high.held[0]).all()
        assert high.work <= (GROWTH + 1) * low.work
        assert not np.isin(high.held[0], low.fit[0]).any()
    everything = n if data.weights is None else int(data.weights.sum())
    assert len(found[-1].fit[0]) >= everything - MOST_HELD - 1
    assert found[0].rows >= min(first, found[-1].rows)
    again = rungs_of(data, seed, first=first)
    assert [rung.fit[0].tolist() for rung in again] == [rung.fit[0].tolist() for rung in found]
    assert not np.array_equal(rungs_of(data, seed + 1)[0].fit[0], found[0].fit[0])


@settings(max_examples=30, deadline=None)
@given(st.integers(100, 40_000), st.booleans(), st.integers(0, 5))
def test_without_a_budget_there_is_one_rung(n, weighted, seed):
    data = rows(n, weighted)
    [rung] = rungs_of(data, seed, short=True)
    check_splits(data, rung)
    sample = np.concatenate([rung.fit[0], rung.held[0]])
    everything = n if data.weights is None else int(data.weights.sum())
    assert len(sample) == min(everything, SHORT)
    assert len(rung.fit) == (FOLDS if len(sample) <= FEW else 1)
    for fit, held in zip(rung.fit, rung.held, strict=True):
        assert set(fit) | set(held) == set(sample)


def test_few_rows_end_in_several_splits():
    last = rungs_of(rows(3000), 0)[-1]
    assert len(last.fit) == FOLDS and str(last) == "4 splits of 2,500 rows"
    first = rungs_of(rows(30_000), 0)[0]
    assert len(first.fit) == 1 and str(first) == "2,888 rows"


@pytest.mark.parametrize("kind", [MemoryRows, OnDisk])
def test_of_rows_on_disk_a_part_is_used(kind):
    data = rows(150_000, kind=kind)
    last = rungs_of(data, 0)[-1]
    assert last.rows == (FROM_DISK if kind is OnDisk else 150_000 - MOST_HELD)
    check_splits(replace(data, X=MemoryRows(np.empty((150_000, 1)))), last)
