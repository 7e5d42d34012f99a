"""Logistic regression over candidates."""

import numpy as np
import pytest
from scipy import sparse

from rembrandt.linalg.ranking import top_k
from rembrandt.parts.embedding.decoders.candidates import drop_known, fit_candidates
from tests.parts.decoders import contract


def proposals(H, places, m=6):
    """The labels whose places are nearest."""
    return top_k(H @ places.T, m)[0].astype(np.int32)


class TestCandidates(contract.DecoderContract):
    multiclass = True

    def fit(self, H, Y, places):
        return fit_candidates(H, Y, proposals(H, places))

    def ranked(self, decoder, H, k):
        """Of the candidates: other labels are not told apart."""
        labels = proposals(H, contract.problem()[2])
        scores = np.take_along_axis(decoder.scores(H), labels, axis=1)
        return np.take_along_axis(labels, top_k(scores, k)[0], axis=1)


class TestCandidatesManyLabels(TestCandidates):
    multiclass = False


def test_a_label_moves_towards_its_own_rows():
    H, Y, _ = contract.problem()
    some = [int(np.flatnonzero(Y.toarray()[:, 0])[0]), int(np.flatnonzero(Y.toarray()[:, 1])[0])]
    decoder = fit_candidates(H[some], sparse.csr_array(Y[some]), np.full((2, 1), -1, np.int32))
    scores = decoder.scores(H[some])
    assert scores[0, 0] > scores[1, 0] and scores[1, 1] > scores[0, 1]
    assert np.ptp(decoder.weights[:, 2:]) == 0, "labels that are no candidates do not move"


def test_candidates_that_are_true_or_repeated_are_no_negatives():
    candidates = np.array([[3, 1, 3, 5], [0, 0, -1, 2]], dtype=np.int32)
    drop_known(candidates, np.array([0, 2, 3]), np.array([1, 4, 2], dtype=np.int32))
    assert candidates.tolist() == [[3, -1, -1, 5], [0, -1, -1, -1]]


def test_rows_without_weight_change_nothing():
    H, Y, places = contract.problem()
    weights = np.ones(600)
    weights[300:] = 0
    wrong = sparse.csr_array(sparse.vstack([Y[:300], Y[:300]], format="csr"))
    decoder = fit_candidates(H, Y, proposals(H, places), weights)
    expected = fit_candidates(H, wrong, proposals(H, places), weights)
    np.testing.assert_array_equal(decoder.weights, expected.weights)


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_columns_may_have_any_mean_and_scale(shift):
    H, Y, places = contract.problem()
    scale = 10.0 ** np.arange(-4, 4)
    lists = proposals(H, places)
    expected = fit_candidates(H, Y, lists).scores(H)
    moved = H.astype(np.float64) * scale + shift * scale
    decoder = fit_candidates(moved, Y, lists)
    scores = moved @ decoder.weights.astype(np.float64) + decoder.bias
    assert np.corrcoef(scores.ravel(), expected.ravel())[0, 1] > 0.999


@pytest.mark.parametrize("constant", [7, 1000.1, -0.3])
def test_a_constant_column_has_no_weight(constant):
    """Also where rounding leaves it a deviation."""
    H, Y, places = contract.problem()
    wide = np.hstack([H, np.full((600, 1), constant, np.float32)])
    decoder = fit_candidates(wide, Y, proposals(H, places))
    assert (decoder.weights[-1] == 0).all() and np.isfinite(decoder.weights).all()
