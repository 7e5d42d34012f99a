"""The best labels on a device are those of a full ranking, with the same order of ties."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.engines import torch_ranking
from rembrandt.engines.torch_ranking import TorchRanker, top_k
from rembrandt.linalg import ranking
from rembrandt.linalg.blocks import as_numpy
from tests.devices import PLACES


@settings(deadline=None)
@given(
    st.integers(0, 2**20),
    st.integers(1, 7),
    st.integers(1, 60),
    st.sampled_from([2, 4]),
    st.booleans(),
)
def test_top_k_is_that_of_a_full_ranking(seed, k, c, group, holes):
    """Scores take few different values, so most are tied."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 3, (9, c)).astype(np.float32)
    if holes:
        scores[rng.random(scores.shape) < 0.3] = rng.choice([np.nan, -np.inf])
    k = min(k, c)
    best = top_k(torch.as_tensor(scores), k, group)
    for a, b in zip(best, ranking.top_k(scores, k), strict=True):
        assert_array_equal(as_numpy(a), b)


def full(weights, bias, H, k):
    return ranking.top_k(H @ weights + bias, k)


class Rows:
    """Projected rows without a kernel map."""

    def __init__(self, H):
        self.H = H

    def features_of(self, H):
        return H


@pytest.mark.parametrize("backend", PLACES)
def test_the_best_labels_in_blocks(backend, monkeypatch):
    for name, size in {"GROUP": 2, "BLOCK_LABELS": 70, "MAX_SCORES": 700}.items():
        monkeypatch.setattr(torch_ranking, name, size)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((6, 300)).astype(np.float32)
    weights[:, 100:110] = weights[:, :1]  # equal scores
    bias = np.zeros(300, np.float32)
    H = rng.standard_normal((40, 6)).astype(np.float32)
    expected = full(weights, bias, H, 8)
    move = backend().asarray
    ranker = TorchRanker(move(weights), move(bias))
    labels, scores = ranker.top(Rows(move(H)), 8)
    n_known = expected[0].shape[1]
    assert labels.shape == scores.shape == (40, 8) and (labels[:, n_known:] == -1).all()
    if n_known:
        assert (labels[:, :n_known] == expected[0]).mean() > 0.99, (
            "except where rounding decides between two"
        )
        assert_allclose(scores[:, :n_known], expected[1], atol=1e-4)


def test_rough_scores_choose_candidates_that_are_scored_again():
    """As on a GPU: products in bfloat16 first, and still the labels and scores of full
    precision.
    """
    rng = np.random.default_rng(0)
    weights, bias = (
        rng.standard_normal((32, 5000)).astype(np.float32),
        rng.standard_normal(5000).astype(np.float32),
    )
    weights[:, 4000], bias[4000] = weights[:, 7], bias[7]  # equal scores
    H = rng.standard_normal((200, 32)).astype(np.float32)
    expected = full(weights, bias, H, 5)
    ranker = TorchRanker(torch.as_tensor(weights), torch.as_tensor(bias))
    ranker.find_candidates_first()
    best = ranker.top(Rows(torch.as_tensor(H)), 5)
    assert (best[0] == expected[0]).mean() > 0.999
    assert_allclose(best[1], expected[1], atol=1e-4)
