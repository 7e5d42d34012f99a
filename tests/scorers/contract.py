"""What every scorer must do; a subclass says how it is fitted."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.engines.place import CPU
from rembrandt.metrics import precision_at_k, top_k
from tests.devices import PLACES
from tests.estimators.problems import examples, words
from tests.scorers.problems import all_likelihoods, all_scores

LABELS, FEATURES = 30, 120
ABSENT = [0, 1, 2, 27, 28, 29]  # labels without an example


def problem(seed=0, n=300):
    """Rows of words with one label each; some labels have no example."""
    X, Y = words(n, LABELS - len(ABSENT), FEATURES, seed)
    wide = sparse.csr_array((n, LABELS), dtype=np.float32).tolil()
    wide[:, [label for label in range(LABELS) if label not in ABSENT]] = Y
    return X, sparse.csr_array(wide.tocsr())


class ScorerContract:
    """Tests of a scorer, given a fit."""

    tolerance = 1e-5  # of scores that are computed in different ways, relative to the largest
    least = 0.8  # P@1 on new rows
    by_device = (
        1e-4  # difference between scores of fits on two devices, relative to the largest score
    )
    on_host = True  # there, rows have the same bits in any block of rows

    @classmethod
    def fit(cls, data, place=CPU):
        raise NotImplementedError

    def restored(self, scorer, arrays, facts):
        return type(scorer).from_arrays(arrays, facts)

    def again(self, scorer):
        """Return a scorer of the same examples."""
        return self.fit(examples(*problem()))

    @pytest.fixture(scope="class")
    @classmethod
    def scorer(cls):
        return cls.fit(examples(*problem()))

    @pytest.fixture(scope="class")
    @classmethod
    def X(cls):
        """New rows; the last two have no features."""
        X = problem(1, 60)[0].tolil()
        X[-2:] = 0
        return sparse.csr_array(X.tocsr())

    @pytest.fixture(scope="class")
    @classmethod
    def rows(cls, scorer, X):
        return scorer.prepare(X)

    @pytest.fixture(scope="class")
    @classmethod
    def scores(cls, scorer, rows):
        return all_scores(scorer, rows)

    def close(self, found, expected):
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=1)
        assert_allclose(found, expected, rtol=self.tolerance, atol=self.tolerance * largest)

    def test_sizes(self, scorer, scores):
        assert (scorer.n_labels, scorer.n_features) == (LABELS, FEATURES)
        assert scorer.nbytes > 0 and scorer.block_rows > 0
        assert scores.shape == (60, LABELS) and scores.dtype.kind == "f"

    def test_scores_are_finite_even_of_rows_without_features(self, scores):
        assert np.isfinite(scores).all()

    def test_it_finds_the_labels(self, scorer):
        X, Y = problem(1, 200)
        assert precision_at_k(Y, scorer.top(scorer.prepare(X), 1)[0], 1) > self.least

    @pytest.mark.parametrize("k", [1, 5, LABELS])
    def test_the_best_labels_are_the_best_of_all(self, scorer, rows, scores, k):
        labels, best = scorer.top(rows, k)
        assert labels.dtype == np.int64 and labels.shape == best.shape == (60, k)
        self.close(best, top_k(scores, k)[1])
        self.close(np.take_along_axis(scores, labels, axis=1), best)
        assert all(len(set(row)) == k for row in labels.tolist())

    def test_equal_scores_are_ranked_by_label_index(self, scorer, rows):
        labels, best = scorer.top(rows, LABELS)
        equal = np.diff(best, axis=1) == 0
        assert equal.any() and (np.diff(labels, axis=1)[equal] > 0).all()
        assert (np.diff(best, axis=1) <= 0).all()

    def test_more_labels_than_there_are(self, scorer, rows):
        labels, best = scorer.top(rows, LABELS + 3)
        assert (labels[:, LABELS:] == -1).all() and np.isneginf(best[:, LABELS:]).all()
        assert_array_equal(np.sort(labels[:, :LABELS], axis=1), np.tile(np.arange(LABELS), (60, 1)))

    def test_scores_of_given_labels(self, scorer, rows, scores):
        labels = np.random.default_rng(3).integers(-1, LABELS, (60, 7))
        expected = np.where(
            labels < 0, -np.inf, np.take_along_axis(scores, np.maximum(labels, 0), axis=1)
        )
        self.close(scorer.at(rows, labels), expected)

    def test_likelihoods_are_finite_and_rise_with_the_score(self, scorer, rows, scores):
        likely = all_likelihoods(scorer, rows)
        assert likely.shape == scores.shape and np.isfinite(likely).all()
        rising = np.take_along_axis(likely, np.argsort(scores, axis=1), axis=1)
        assert (np.diff(rising, axis=1) >= 0).all()

    def test_likelihoods_of_some_labels_are_those_among_all(self, scorer, rows):
        labels = np.random.default_rng(3).integers(0, LABELS, (60, 4))
        found = scorer.likelihood(rows, labels, scorer.at(rows, labels))
        self.close(found, np.take_along_axis(all_likelihoods(scorer, rows), labels, axis=1))

    def test_scores_of_every_label(self, scorer, rows, scores):
        every = scorer.every(rows)
        assert every.shape == (60, LABELS) and every.dtype.kind == "f"
        self.close(every, scores)

    @pytest.mark.parametrize("size", [1, 7])
    def test_results_do_not_depend_on_the_rows_passed_at_a_time(self, scorer, X, scores, size):
        parts = [scorer.prepare(X[start : start + size]) for start in range(0, 60, size)]
        whole = scorer.prepare(X)
        same = assert_array_equal if self.on_host else self.close
        same(np.vstack([all_scores(scorer, part) for part in parts]), scores)
        same(np.vstack([scorer.every(part) for part in parts]), scorer.every(whole))
        likelihoods = np.vstack([all_likelihoods(scorer, part) for part in parts])
        same(likelihoods, all_likelihoods(scorer, whole))
        labels, best = scorer.top(whole, 3)
        same(np.vstack([scorer.top(part, 3)[1] for part in parts]), best)
        self.close(best, top_k(scores, 3)[1])
        if self.on_host:
            assert_array_equal(np.vstack([scorer.top(part, 3)[0] for part in parts]), labels)

    @pytest.mark.parametrize("k", [1, 4])
    def test_fewer_labels_are_the_first_of_more(self, scorer, rows, k):
        if self.on_host:
            for few, more in zip(scorer.top(rows, k), scorer.top(rows, 10), strict=True):
                assert_array_equal(few, more[:, :k])

    def test_no_rows(self, scorer, X):
        rows = scorer.prepare(X[:0])
        assert all_scores(scorer, rows).shape == scorer.every(rows).shape == (0, LABELS)
        assert [found.shape for found in scorer.top(rows, 3)] == [(0, 3), (0, 3)]

    def test_dense_rows_have_the_scores_of_sparse_ones(self, scorer, X, scores):
        self.close(all_scores(scorer, scorer.prepare(X.toarray())), scores)

    @pytest.mark.parametrize("likelihood", [False, True])
    def test_explanations_add_up(self, scorer, X, rows, likelihood):
        labels = scorer.top(rows, 3)[0]
        expected = scorer.at(rows, labels)
        if likelihood:
            expected = scorer.likelihood(rows, labels, expected)
        for i in range(X.shape[0]):
            base, values = scorer.explain(X[[i]], labels[i], likelihood)
            assert base.shape == (3,) and values.shape == (X[[i]].nnz, 3)
            assert_allclose(base + values.sum(axis=0), expected[i], rtol=1e-3, atol=1e-4)

    def test_arrays_and_json_restore_it_to_the_bit(self, scorer, X, scores):
        arrays, facts = scorer.arrays()
        again = self.restored(scorer, arrays, json.loads(json.dumps(facts)))
        rows = again.prepare(X)
        assert_array_equal(all_scores(again, rows), scores, strict=True)
        for found, expected in zip(
            again.top(rows, 5), scorer.top(scorer.prepare(X), 5), strict=True
        ):
            assert_array_equal(found, expected, strict=True)
        assert again.nbytes == scorer.nbytes

    def test_the_same_examples_give_the_same_scorer(self, scorer, X, scores):
        again = self.again(scorer)
        assert_array_equal(all_scores(again, again.prepare(X)), scores)

    @pytest.mark.parametrize("elsewhere", PLACES)
    def test_scores_and_ranks_do_not_depend_on_where_it_was_fitted(self, X, scores, elsewhere):
        there = self.fit(examples(*problem()), elsewhere())
        rows, largest = there.prepare(X), np.abs(scores).max()
        assert_allclose(all_scores(there, rows), scores, rtol=0, atol=self.by_device * largest)
        labels, best = there.top(rows, LABELS)
        expected, tolerance = (
            top_k(scores, LABELS)[1],
            2 * self.by_device * largest + self.tolerance,
        )
        assert_allclose(best, expected, rtol=0, atol=tolerance)
        assert_allclose(
            np.take_along_axis(scores, labels, axis=1), expected, rtol=0, atol=tolerance
        )
