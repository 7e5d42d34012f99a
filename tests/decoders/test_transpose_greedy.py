"""The two decoders that fit nothing: back through the basis, and matching pursuit."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rembrandt.decoders.greedy import pursue
from rembrandt.decoders.transpose import fit_transpose

from .contract import C, DecoderContract, K, problem


class TestTranspose(DecoderContract):
    def fit(self, H, Y, places):
        return fit_transpose(places)

    def test_scores_are_the_product_with_the_basis(self, train):
        H, _, places = train
        assert_allclose(self.fit(*train).scores(H), H @ places.T, rtol=1e-6, atol=1e-6)

    def test_the_basis_given_is_not_shared(self, train):
        _, _, places = train
        decoder = self.fit(*train)
        decoder.weights[:] = 0
        assert places.any()


class TestGreedy(DecoderContract):
    def fit(self, H, Y, places):
        return replace(fit_transpose(places), greedy=True)

    def ranked(self, decoder, H, k):
        return pursue(H, decoder.weights.T, k)[0]


class TestGreedyManyLabels(TestGreedy):
    multiclass = False
    least = 0.9


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 5))
def test_exactly_sparse_labels_are_recovered_from_gaussian_measurements(seed, count):
    """Far fewer measurements than labels, and yet every label is found (Hsu et al., 2009)."""
    rng = np.random.default_rng(seed)
    labels, measurements, rows = 300, 80, 20
    basis = rng.standard_normal((labels, measurements)) / measurements**0.5
    true = np.stack([rng.choice(labels, count, replace=False) for _ in range(rows)])
    H = basis[true].sum(axis=1)
    found, scores = pursue(H.astype(np.float32), basis.astype(np.float32), count)
    right = [set(a) == set(b) for a, b in zip(found.tolist(), true.tolist(), strict=True)]
    assert np.mean(right) >= 0.9
    assert (np.diff(scores, axis=1) <= 0).all()


def test_no_label_is_picked_twice_and_no_more_than_there_are():
    H, _, places = problem()
    found, scores = pursue(H, places, 50)
    assert found.shape == scores.shape == (len(H), K), "no more labels than measurements"
    assert all(len(set(row)) == K for row in found.tolist())
    assert pursue(H, places[:3], 50)[0].shape == (len(H), 3)
    assert found.max() < C


def test_a_repeated_place_does_not_break_the_fit():
    H, _, places = problem(n=20)
    found, scores = pursue(H, np.vstack([places, places]), 4)
    assert np.isfinite(scores).all()
    assert all(len(set(row)) == 4 for row in found.tolist())
