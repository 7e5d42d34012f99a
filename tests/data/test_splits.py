"""Splits of rows: each row on one side, and the rows of a group together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt.data.examples import duplicate_groups
from rembrandt.data.splits import draw_rows

GROUPS = st.integers(2, 200).flatmap(lambda n: arrays(np.int64, n, elements=st.integers(0, 12)))


def numbered(groups):
    return np.unique(groups, return_inverse=True)[1]


@given(GROUPS, st.floats(0.05, 0.5), st.integers(0, 100), st.none() | st.integers(1, 50))
def test_rows_of_a_group_stay_on_one_side(groups, fraction, seed, most):
    groups = numbered(groups)
    n = len(groups)
    rest, held = draw_rows(n, fraction, seed, most, groups)
    assert_array_equal(np.sort(np.append(rest, held)), np.arange(n))
    size = min(n if most is None else most, round(fraction * n))
    if groups.max() > 0:
        assert not np.isin(groups[held], groups[rest]).any()
        assert len(held) > 0 and len(rest) > 0
        smallest = np.bincount(groups).min()
        assert len(held) <= max(size, smallest)
    else:
        assert len(held) == size
    for found, again in zip((rest, held), draw_rows(n, fraction, seed, most, groups), strict=True):
        assert_array_equal(found, again)


@pytest.mark.parametrize("seed", range(5))
def test_a_group_that_is_too_large_takes_the_place_of_no_other(seed):
    groups = np.append(np.zeros(500, dtype=int), np.arange(1, 501))
    rest, held = draw_rows(1000, 0.1, seed, groups=groups)
    assert len(held) == 100 and (groups[held] > 0).all() and len(rest) == 900


def test_groups_of_one_row_are_no_groups():
    assert draw_rows(100, 0.2, 0, groups=np.arange(100))[1].shape == draw_rows(100, 0.2, 0)[1].shape


@pytest.mark.parametrize("d", [1, 17, 384])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_are_a_group(d, kind, dtype):
    rng = np.random.default_rng(0)
    which = np.append(np.arange(37), rng.integers(0, 37, 966))
    X = kind(rng.standard_normal((37, d)).astype(dtype)[which])
    found = duplicate_groups(X, None)
    assert found.max() == 36
    assert_array_equal(found, which)  # numbered by their first rows, in either representation


def test_groups_that_are_given_are_numbered():
    X = np.arange(10.0).reshape(5, 2)  # equal rows would join groups
    assert duplicate_groups(X, np.array([7, 3, 7, 9, 3])).tolist() == [0, 1, 0, 2, 1]
