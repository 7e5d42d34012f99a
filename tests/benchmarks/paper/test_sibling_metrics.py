"""Nearest neighbours that are siblings: by hand, against a direct computation, and on planted
hierarchies.
"""

import math

import numpy as np
import pytest
from benchmarks.paper.sibling_metrics import (
    most_fraternal,
    nearest_labels,
    prediction_vectors,
    sibling_counts,
    sibling_fraction,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt.errors import DataError

TWO_PAIRS = sparse.csr_array([[1, 0], [1, 0], [0, 1], [0, 1]])


@st.composite
def problems(draw, max_labels=12):
    """Small whole numbers as vectors, so that ties are many and exact, some zero; any graph of
    parents.
    """
    c, k, p = draw(st.integers(0, max_labels)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    vectors = rng.integers(-2, 3, (c, k)).astype(draw(st.sampled_from([np.float32, np.float64])))
    parents = rng.random((c, p)) < draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))
    return vectors, sparse.csr_array(parents.astype(np.int8))


def direct(vectors, parents):
    """The measure computed label by label, in exact integer arithmetic."""
    above = [set(np.flatnonzero(row)) for row in parents.toarray()]
    counted = [i for i in range(len(vectors)) if above[i] and vectors[i].any()]
    hits, related = 0, []
    for i in counted:
        u = [int(x) for x in vectors[i]]
        best = None
        for j in counted:
            v = [int(x) for x in vectors[j]]
            dot = sum(a * b for a, b in zip(u, v, strict=True))
            squared = math.copysign(dot * dot, dot) / sum(
                b * b for b in v
            )  # in the order of the cosine
            if j != i and (best is None or squared > best[0] + 1e-9):
                best = (squared, j)
        hits += best is not None and bool(above[i] & above[best[1]])
        related.append(sum(bool(above[i] & above[j]) for j in counted if j != i))
    n = len(counted)
    return {
        "n_labels": n,
        "fraction": hits / n if n else math.nan,
        "most_fraternal": max(related) / n if n else math.nan,
        "chance": sum(related) / n / max(1, n - 1) if n else math.nan,
        "without_sibling": related.count(0),
        "without_parent": sum(not each for each in above),
        "without_vector": sum(bool(above[i]) and not vectors[i].any() for i in range(len(vectors))),
    }


def test_by_hand():
    found = sibling_fraction([[1, 0], [1, 0.1], [0, 1], [1, 1]], TWO_PAIRS)
    # the nearest are 1, 0, 3 and 1: at 45° the third is nearer to (1, 0.1) than to (0, 1)
    assert found == {
        "fraction": 0.75,
        "n_labels": 4,
        "without_parent": 0,
        "without_vector": 0,
        "without_sibling": 0,
        "most_fraternal": 0.25,
        "most_fraternal_label": 0,
        "chance": pytest.approx(1 / 3),
    }


def test_labels_without_vector_or_parent_are_excluded():
    vectors = [[1, 0], [0, 0], [1, 0], [0.9, 0.5]]
    parents = [[1, 1], [1, 0], [0, 0], [0, 1]]
    found = sibling_fraction(vectors, sparse.csr_array(parents))
    assert (found["n_labels"], found["without_vector"], found["without_parent"]) == (2, 1, 1)
    assert found["fraction"] == 1.0 and found["chance"] == 1.0 and found["most_fraternal"] == 0.5


def test_stored_zeros_and_repeated_entries_are_no_parents():
    entries = ([1, 0, 1, 1], ([0, 1, 1, 1], [0, 0, 1, 1]))
    assert_array_equal(sibling_counts(sparse.coo_array(entries, shape=(2, 2))), [0, 0])


def test_ties_go_to_the_lower_index():
    assert_array_equal(nearest_labels(np.ones((4, 3))), [1, 0, 0, 0])
    rng = np.random.default_rng(0)
    same = np.tile(rng.normal(size=100), (3000, 1)) * rng.uniform(
        0.1, 10, (3000, 1)
    )  # one direction, many lengths
    for dtype in (np.float32, np.float64):
        assert_array_equal(nearest_labels(same.astype(dtype)), [1, *[0] * 2999])


def test_no_label_and_one_label():
    assert math.isnan(sibling_fraction(np.empty((0, 3)), sparse.csr_array((0, 2)))["fraction"])
    assert math.isnan(sibling_fraction(np.ones((2, 3)), sparse.csr_array((2, 0)))["chance"])
    alone = sibling_fraction([[1.0]], sparse.csr_array([[1]]))
    assert (alone["fraction"], alone["chance"], alone["without_sibling"]) == (0.0, 0.0, 1)
    assert_array_equal(nearest_labels([[1.0]]), [-1])
    index, fraction = most_fraternal(sparse.csr_array((3, 2)))
    assert index is None and math.isnan(fraction)


@given(problems(), st.sampled_from([1, 7, 1 << 24]))
def test_agrees_with_the_direct_computation(problem, block):
    vectors, parents = problem
    found = sibling_fraction(vectors, parents, block=block)
    for key, value in direct(vectors, parents).items():
        assert found[key] == pytest.approx(value, nan_ok=True), key


@given(problems())
def test_most_fraternal_has_the_most_siblings(problem):
    _, parents = problem
    dense = parents.toarray() > 0
    related = (dense[:, None] & dense[None]).any(axis=2)
    np.fill_diagonal(related, False)
    assert_array_equal(sibling_counts(parents), related.sum(axis=1))
    index, fraction = most_fraternal(parents)
    if dense.any():
        assert index == np.where(dense.any(axis=1), related.sum(axis=1), -1).argmax()
        assert fraction == pytest.approx(related[index].sum() / dense.any(axis=1).sum())


@given(st.integers(0, 2**32 - 1))
def test_rotation_length_and_order_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(40, 6))
    parents = sparse.csr_array((rng.random((40, 9)) < 0.2).astype(np.int8))
    expected = sibling_fraction(vectors, parents)
    rotation, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    order = rng.permutation(40)
    moved = (vectors @ rotation * rng.uniform(0.1, 10, (40, 1)))[order]
    found = sibling_fraction(moved, parents[order][:, rng.permutation(9)])
    for key in ("most_fraternal_label",):  # among equals the first, so the order matters
        del found[key], expected[key]
    assert found == pytest.approx(expected, nan_ok=True)


def test_a_planted_hierarchy_is_recovered():
    rng = np.random.default_rng(0)
    family = rng.integers(30, size=600)
    parents = sparse.csr_array((np.ones(600), (np.arange(600), family)), shape=(600, 30))
    centres = rng.normal(size=(30, 20))
    near = sibling_fraction(centres[family] + 0.1 * rng.normal(size=(600, 20)), parents)
    assert near["fraction"] == 1.0
    random = sibling_fraction(rng.normal(size=(600, 20)), parents)
    assert abs(random["fraction"] - random["chance"]) < 0.03 and random["chance"] == pytest.approx(
        1 / 30, rel=0.1
    )
    assert near["chance"] < near["most_fraternal"] < 0.1


def test_vectors_of_any_length():
    for length in (1e-300, 1e-30, 1e30, 1e300):
        assert (
            sibling_fraction(np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]]) * length, TWO_PAIRS)[
                "fraction"
            ]
            == 1.0
        )


def test_vectors_that_are_wrong():
    with pytest.raises(
        DataError, match=r"shape \(3, 2\); expected one row for each of the 4 labels"
    ):
        sibling_fraction(np.ones((3, 2)), TWO_PAIRS)
    with pytest.raises(DataError, match="label 1 is not finite"):
        sibling_fraction([[1.0], [np.nan], [1], [1]], TWO_PAIRS)
    with pytest.raises(DataError, match="not numbers"):
        nearest_labels([["a"], ["b"]])


def test_a_family_of_a_million_fits_in_memory():
    c = 1_000_000
    everyone = sparse.csr_array((np.ones(c), np.zeros(c, np.int32), np.arange(c + 1)), shape=(c, 1))
    assert most_fraternal(everyone) == (0, (c - 1) / c)  # one by one there would be 10¹² pairs


@pytest.mark.parametrize("seed", range(3))
def test_cosines_of_prediction_vectors_are_correlations_with_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    H, V = rng.standard_normal((60, 5)) * [9, 3, 1, 1, 0.1] + 4, rng.standard_normal((12, 5))
    Y = (rng.random((60, 12)) < 0.2).astype(float)
    scores = H @ V.T
    correlations = np.corrcoef(Y.T, scores.T)[:12, 12:]
    np.fill_diagonal(correlations, -np.inf)
    basis = rng.standard_normal((5, 5))
    for queries, vectors in (
        prediction_vectors(H, sparse.csr_array(Y), V),
        prediction_vectors(
            H @ basis, sparse.csr_array(Y), V @ np.linalg.inv(basis).T
        ),  # the same scores in another basis
    ):
        assert_array_equal(nearest_labels(vectors, queries=queries), correlations.argmax(axis=1))


def test_a_label_without_examples_is_excluded() -> None:
    Y = sparse.csr_array([[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    queries, vectors = prediction_vectors([[1.0, 0], [0, 1], [1, 0.1]], Y, np.eye(3, 2) + 0.5)
    found = sibling_fraction(vectors, sparse.csr_array(np.ones((3, 1))), queries=queries)
    assert found["without_vector"] == 1 and found["n_labels"] == 2
