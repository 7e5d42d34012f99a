"""What every decoder must do, however it is fitted; a test class says how."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt.errors import StorageError
from rembrandt.metrics import precision_at_k, top_k
from rembrandt.parts.embedding.decoders.decoder import Decoder

K, C = 8, 12


def problem(seed=0, n=600, multiclass=True, noise=0.1):
    """Labels at known places of the embedding, and examples near the sum of theirs."""
    rng = np.random.default_rng(seed)
    places = np.linalg.qr(np.random.default_rng(99).standard_normal((C, K)))[0].astype(np.float32)
    counts = np.ones(n, dtype=int) if multiclass else rng.integers(0, 3, n)
    Y = np.zeros((n, C), dtype=np.float32)
    for row, count in zip(Y, counts, strict=True):
        row[rng.choice(C, count, replace=False)] = 1
    H = Y @ places + noise * rng.standard_normal((n, K)) / K**0.5
    return H.astype(np.float32), sparse.csr_array(Y), places


class DecoderContract:
    multiclass = True
    least = 0.97  # of the test rows, right in the first place

    def fit(self, H, Y, places):
        raise NotImplementedError

    def ranked(self, decoder, H, k):
        return top_k(decoder.scores(H), k)[0]

    @pytest.fixture
    def train(self):
        return problem(0, multiclass=self.multiclass)

    @pytest.fixture
    def test(self):
        return problem(1, multiclass=self.multiclass)

    def test_scores(self, train, test):
        decoder = self.fit(*train)
        scores = decoder.scores(test[0])
        assert decoder.weights.shape[1] == decoder.bias.shape[0] == C
        assert scores.shape == (len(test[0]), C)
        assert scores.dtype == np.float32
        assert np.isfinite(scores).all()
        assert decoder.scores(test[0][:0]).shape == (0, C)

    def test_scores_of_some_labels(self, train, test):
        decoder = self.fit(*train)
        scores = decoder.scores(test[0])
        assert_allclose(decoder.scores(test[0], slice(3, 7)), scores[:, 3:7], rtol=1e-3, atol=1e-3)
        assert_allclose(
            decoder.scores(test[0], np.array([5, 0])), scores[:, [5, 0]], rtol=1e-3, atol=1e-3
        )

    def test_labels_in_another_order(self, train, test):
        H, Y, places = train
        order = np.random.default_rng(0).permutation(C)
        scores = self.fit(H, Y[:, order], places[order]).scores(test[0])
        assert_allclose(scores, self.fit(*train).scores(test[0])[:, order], atol=2e-3)

    def test_learns_what_can_be_learned(self, train, test):
        H, Y, _ = test
        some = np.flatnonzero(np.diff(Y.indptr))  # an example without labels cannot be right
        assert precision_at_k(Y[some], self.ranked(self.fit(*train), H[some], 1), 1) > self.least

    def test_probabilities(self, train, test):
        decoder = self.fit(*train)
        scores = decoder.scores(test[0])
        P = decoder.probabilities(scores)
        assert ((P >= 0) & (P <= 1)).all()
        rising = np.take_along_axis(P, scores.argsort(axis=1), axis=1)
        assert (np.diff(rising, axis=1) >= 0).all(), "a better score is never less probable"

    def test_saved_arrays_give_the_same_scores(self, train, test):
        decoder = self.fit(*train)
        again = Decoder.from_arrays(*decoder.arrays())
        assert np.array_equal(again.scores(test[0]), decoder.scores(test[0]))
        assert again.link == decoder.link

    def test_saved_arrays_that_do_not_fit_together_are_refused(self, train):
        arrays, facts = self.fit(*train).arrays()
        arrays["decoder.weights"] = arrays["decoder.weights"][:-1]
        if "fourier.frequencies" in arrays:
            with pytest.raises(StorageError, match="do not fit together"):
                Decoder.from_arrays(arrays, facts)
        with pytest.raises(StorageError):
            Decoder.from_arrays(arrays, facts | {"link": "none"})

    def test_the_same_data_gives_the_same_bits(self, train):
        first, second = self.fit(*train), self.fit(*train)
        assert np.array_equal(first.weights, second.weights)
        assert np.array_equal(first.bias, second.bias)

    def test_a_label_without_examples(self, train):
        H, Y, places = train
        empty = Y.tolil()
        empty[:, 4] = 0
        decoder = self.fit(H, sparse.csr_array(empty.tocsr()), places)
        assert np.isfinite(decoder.scores(H)).all()
