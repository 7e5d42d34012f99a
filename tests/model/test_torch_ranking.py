"""The best labels on a device are those of the whole ranking, ties and all."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from rembrandt import metrics
from rembrandt.decoders.decoder import Decoder
from rembrandt.linalg.blocks import as_numpy
from rembrandt.model import ranking, torch_ranking
from rembrandt.model.ranking import best_labels
from tests.devices import PLACES


@given(st.integers(0, 2**20), st.integers(1, 7), st.integers(1, 60), st.sampled_from([2, 4]), st.booleans())
def test_top_k_is_that_of_a_full_ranking(seed, k, c, group, holes):
    """Scores of few different values, so that most are tied."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 3, (9, c)).astype(np.float32)
    if holes:
        scores[rng.random(scores.shape) < 0.3] = rng.choice([np.nan, -np.inf])
    k = min(k, c)
    expected = metrics.top_k(scores, k)
    before, torch_ranking.GROUP = torch_ranking.GROUP, group
    try:
        found = torch_ranking.top_k(torch.as_tensor(scores), k)
    finally:
        torch_ranking.GROUP = before
    for a, b in zip(found, expected, strict=True):
        assert_array_equal(as_numpy(a), b)


@pytest.mark.parametrize("allowed", [None, np.array([1, 5, 70, 71, 299]), np.array([], dtype=np.int64)])
@pytest.mark.parametrize("place", PLACES)
def test_the_best_labels_in_blocks(place, allowed, monkeypatch):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((6, 300)).astype(np.float32)
    weights[:, 100:110] = weights[:, :1]  # equal scores
    decoder = Decoder(weights, np.zeros(300, np.float32), "identity")
    H = rng.standard_normal((40, 6)).astype(np.float32)
    expected = best_labels(decoder, H, 8, allowed)
    monkeypatch.setattr(torch_ranking, "LABELS", 70)
    monkeypatch.setattr(torch_ranking, "GROUP", 2)
    monkeypatch.setattr(torch_ranking, "SCORES", 700)
    monkeypatch.setattr(ranking, "LABELS", 64)
    place = place()
    found = best_labels(decoder.moved(place.asarray), place.asarray(H), 8, allowed)
    assert (found[0] == expected[0]).mean() > 0.99, "but where rounding decides between two"
    np.testing.assert_allclose(found[1], expected[1], atol=1e-4)
    assert found[0].shape == (40, 8)


def test_rough_scores_choose_candidates_that_are_scored_again(monkeypatch):
    """As on a GPU: products in bfloat16 first, and yet the labels and scores of full precision."""
    rng = np.random.default_rng(0)
    weights, bias = rng.standard_normal((32, 5000)).astype(np.float32), rng.standard_normal(5000).astype(np.float32)
    weights[:, 4000], bias[4000] = weights[:, 7], bias[7]  # equal scores
    decoder = Decoder(weights, bias, "identity")
    H = rng.standard_normal((200, 32)).astype(np.float32)
    expected = best_labels(decoder, H, 5)
    placed, used = decoder.moved(torch.as_tensor), []

    def rough(given):
        used.append(given)
        return torch_ranking._Rough(given.weights.to(torch.bfloat16), given.weights.T.contiguous())

    monkeypatch.setattr(torch_ranking, "_rough", rough)
    found = best_labels(placed, torch.as_tensor(H), 5)
    assert used
    assert (found[0] == expected[0]).mean() > 0.999
    np.testing.assert_allclose(found[1], expected[1], atol=1e-4)
