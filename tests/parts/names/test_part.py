"""What the part returns for matched labels, against a dense matrix of all labels."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rembrandt.errors import StorageError
from rembrandt.parts.names.index import FIRST_WEIGHTS
from rembrandt.parts.names.label_texts import LabelTexts
from rembrandt.parts.names.part import MatchedTexts, Names

from .texts import Counted

N_LABELS = 7
FLOOR = 0.01


@pytest.fixture(scope="module")
def part():
    names = [f"name{label}" for label in range(N_LABELS)]
    texts = LabelTexts(names, np.arange(N_LABELS), [""] * N_LABELS)
    return Names(texts, Counted(names).frequencies, FIRST_WEIGHTS, FLOOR, N_LABELS)


@pytest.fixture(scope="module")
def dense():
    """Likelihoods of all labels; rows with none, one and all matched, the first and last alone."""
    rng = np.random.default_rng(0)
    is_matched = rng.random((30, N_LABELS)) < 0.4
    is_matched[0] = False
    is_matched[1] = True
    is_matched[2] = np.arange(N_LABELS) == 0
    is_matched[3] = np.arange(N_LABELS) == N_LABELS - 1
    # Some are equal.
    likelihoods = rng.integers(2, 12, is_matched.shape) / 16
    return np.where(is_matched, likelihoods, FLOOR).astype(np.float32)


@pytest.fixture(scope="module")
def rows(dense):
    labels = np.full(dense.shape, -1)
    likelihoods = np.zeros(dense.shape, dtype=np.float32)
    for row, values in enumerate(dense):
        matched = np.flatnonzero(values > FLOOR + 1e-6)
        labels[row, : len(matched)] = matched
        likelihoods[row, : len(matched)] = values[matched]
    return MatchedTexts(labels, likelihoods)


def ranked(values):
    """Return labels by falling likelihood; of equal ones the smaller label first."""
    return np.lexsort([np.arange(len(values)), -values])


def test_every_label_and_some_labels(part, rows, dense):
    assert_array_equal(part.every(rows), dense)
    wanted = np.random.default_rng(1).integers(-1, N_LABELS, (len(dense), 12))
    expected = np.where(wanted < 0, -np.inf, np.take_along_axis(dense, wanted % N_LABELS, axis=1))
    assert_array_equal(part.at(rows, wanted), expected)
    # Rows with as many places as they have labels.
    one = MatchedTexts(rows.labels[2:3, :1], rows.likelihoods[2:3, :1])
    assert_array_equal(part.at(one, np.arange(N_LABELS)[None]), dense[2:3])


@pytest.mark.parametrize("k", [1, 3, N_LABELS, N_LABELS + 2])
def test_the_best_labels(part, rows, dense, k):
    labels, scores = part.top(rows, k)
    assert labels.shape == scores.shape == (len(dense), k)
    for row, values in enumerate(dense):
        best = ranked(values)[:k]
        n = len(best)
        assert labels[row].tolist() == best.tolist() + [-1] * (k - n)
        assert_array_equal(scores[row, :n], values[best])
        assert (scores[row, n:] == -np.inf).all()


def test_labels_of_the_next_row_are_no_matches_of_this_one(part):
    """The rows are as wide as their matches, and the second begins where the first one ends."""
    labels = np.array([[0, 1], [2, 3]])
    rows = MatchedTexts(labels, np.full((2, 2), 0.5, dtype=np.float32))
    best, scores = part.top(rows, 4)
    assert best.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]
    assert (scores == np.float32([0.5, 0.5, FLOOR, FLOOR])).all()


@pytest.mark.parametrize("k", [1, 3, N_LABELS])
def test_the_best_of_some_labels_are_those_that_match(part, rows, dense, k):
    is_allowed = np.array([True, False, True, True, False, True, False])
    labels, scores = part.top_among(rows, is_allowed, k)
    for row, values in enumerate(dense):
        best = [label for label in ranked(values) if is_allowed[label] and values[label] > 0.1]
        n = min(k, len(best))
        assert labels[row, :n].tolist() == best[:n]
        assert_array_equal(scores[row, :n], values[best[:n]])
        assert (labels[row, n:] == -1).all()


@pytest.mark.parametrize(("stated", "floor"), [(-0.5, 0.0), (0.25, 0.25), (1.5, 1.0)])
def test_the_floor_of_a_saved_part_is_a_probability(part, stated, floor):
    arrays, facts = part.arrays()
    again = Names.from_arrays(arrays, facts | {"floor": stated})
    assert again.floor == floor
    with pytest.raises(StorageError):
        Names.from_arrays(arrays, facts | {"floor": "0.5"})
