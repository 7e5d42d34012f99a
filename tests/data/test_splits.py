"""Splits of rows: each row on one side, and the rows of a group together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt.data.content import content_groups
from rembrandt.data.splits import draw_by_key, draw_rows

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


KEYS = st.integers(2, 200).flatmap(lambda n: arrays(np.uint64, n, elements=st.integers(0, 40)))


@given(KEYS, st.integers(1, 60), st.integers(0, 100))
def test_rows_with_the_same_key_stay_on_one_side(keys, n_held, seed):
    remaining, held_out = draw_by_key(keys, n_held, seed)
    n = len(keys)
    assert_array_equal(np.sort(np.append(remaining, held_out)), np.arange(n))
    sizes = np.unique(keys, return_counts=True)[1]
    if len(sizes) == 1:
        assert len(held_out) == min(n_held, n)
        return
    assert not np.isin(keys[held_out], keys[remaining]).any()
    assert 0 < len(held_out) <= max(n_held, sizes.min())


@given(KEYS, st.integers(1, 60), st.integers(0, 100))
def test_the_order_of_the_rows_does_not_matter(keys, n_held, seed):
    order = np.random.default_rng(seed).permutation(len(keys))
    _, held_out = draw_by_key(keys, n_held, seed)
    _, shuffled = draw_by_key(keys[order], n_held, seed)
    if len(np.unique(keys)) > 1:
        assert_array_equal(np.sort(order[shuffled]), held_out)


def test_another_seed_draws_others_as_if_at_random():
    keys = np.arange(10_000, dtype=np.uint64)
    draws = [draw_by_key(keys, 1000, seed)[1] for seed in range(20)]
    assert all(len(held_out) == 1000 for held_out in draws)
    shared = [
        len(np.intersect1d(first, second))
        for number, first in enumerate(draws)
        for second in draws[:number]
    ]
    # Two random tenths of the rows share a hundredth of them, with a standard deviation of 9.
    assert min(shared) > 60
    assert max(shared) < 145
    assert np.mean(shared) == pytest.approx(100, abs=3)


@pytest.mark.parametrize("d", [1, 17, 384])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_are_a_group(d, kind, dtype):
    rng = np.random.default_rng(0)
    number = np.append(np.arange(37), rng.integers(0, 37, 966))
    distinct = rng.standard_normal((37, d)).astype(dtype)
    keys = content_groups(kind(distinct[number]), None)
    assert len(np.unique(keys)) == 37
    assert_array_equal(keys, keys[:37][number])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_the_key_of_a_row_does_not_depend_on_the_rows_around_it(kind):
    X = np.random.default_rng(0).standard_normal((500, 33))
    keys = content_groups(kind(X), None)
    order = np.random.default_rng(1).permutation(500)
    assert_array_equal(content_groups(kind(X[order]), None), keys[order])
    for few in (1, 2, 7, 64):
        assert_array_equal(content_groups(kind(X[:few]), None), keys[:few])


def test_zeros_of_either_sign_are_equal():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 0.0], [-0.0, -0.0]])
    first, second, third, fourth = content_groups(X, None)
    assert first == second != third == fourth


def test_groups_that_are_given_stay_together():
    X = np.arange(10.0).reshape(5, 2)
    first, second, third, fourth, fifth = content_groups(X, np.array([2, 1, 2, 3, 1]))
    assert first == third
    assert second == fifth
    assert len({first, second, fourth}) == 3


def test_equal_rows_join_the_groups_that_are_given():
    X = np.array([[1.0], [2.0], [2.0], [3.0], [4.0]])
    keys = content_groups(X, np.array([0, 0, 1, 1, 2]))
    assert len(set(keys[:4])) == 1
    assert keys[4] != keys[0]


def test_numbers_of_groups_do_not_matter():
    """Groups are numbered in the order of their names, which says nothing about the rows."""
    X = np.random.default_rng(0).standard_normal((60, 4))
    groups = np.arange(60) // 5
    renumbered = np.random.default_rng(1).permutation(12)[groups]
    assert_array_equal(content_groups(X, groups), content_groups(X, renumbered))
