"""The contract of scorers, for each of them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.data.rows import as_rows
from rembrandt.engines.place import CPU
from rembrandt.errors import ModelError, SettingsError
from rembrandt.fitting import fit_scorer
from rembrandt.linalg.sparse import normalize_rows
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings
from rembrandt.scorers.centroids import fit_centroids, heavy_entries, largest_entries
from rembrandt.scorers.embedding_fit import fit_embedding_scorer
from rembrandt.scorers.tree_fit import fit_trees
from rembrandt.settings import with_defaults
from tests.devices import PLACES
from tests.estimators.problems import examples, words
from tests.scorers.contract import LABELS, ScorerContract, problem
from tests.scorers.problems import all_likelihoods, all_scores

SETTINGS = EmbeddingSettings(kernel_scale=1.0, leave_out=0.0, n_random_features=80, max_epochs=8)
TREES = with_defaults(TreeSettings(n_trees=2, pairs=1e9, cost=1.0, power=3.0, passes=10))


def embedding_scorer(data, place=CPU, **changes):
    return fit_embedding_scorer(
        data, replace(Recipe(n_components=20, embedding=SETTINGS), **changes), place
    )[0]


class TestCentroids(ScorerContract):
    least = 0.7
    by_device = 0.0  # the same bits: fitted on the CPU in any case

    @classmethod
    def fit(cls, data, place=CPU):
        return fit_scorer("centroids", data, Recipe(), place)[0]

    def test_a_score_is_the_cosine_with_the_mean_direction(self, X, scores):
        features, Y = problem()
        sums = Y.toarray().T @ normalize_rows(features).toarray()
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        expected = normalize_rows(X).toarray() @ (sums / np.where(lengths > 0, lengths, 1)).T
        assert_allclose(scores, expected, atol=1e-3)  # in half precision

    def test_weights_are_repetitions(self, X):
        features, Y = problem()
        w = np.random.default_rng(0).integers(0, 4, features.shape[0])
        repeated = np.repeat(np.arange(len(w)), w)
        found = fit_centroids(as_rows(features), Y, w)
        expected = fit_centroids(as_rows(features[repeated]), Y[repeated])
        assert_allclose(
            all_scores(found, found.prepare(X)),
            all_scores(expected, expected.prepare(X)),
            atol=1e-5,
        )

    def test_only_the_largest_entries_are_kept(self):
        data = examples(*problem())
        few = fit_centroids(data.X, data.Y, kept=3).centroids
        assert np.diff(few.indptr).max() == 3
        rng = np.random.default_rng(0)
        A = sparse.csr_array(rng.standard_normal((20, 30)) * (rng.random((20, 30)) < 0.4))
        expected = np.where(
            np.abs(A.toarray()) >= np.sort(np.abs(A.toarray()))[:, [-4]], A.toarray(), 0
        )
        assert_array_equal(largest_entries(A, 4).toarray(), expected)

    def test_of_many_labels_the_best_are_found_with_their_exact_scores(
        self, scorer, rows, scores, monkeypatch
    ):
        exact, _ = scorer.top(rows, 3)
        monkeypatch.setattr("rembrandt.scorers.centroids.MANY", 1)
        found, cosines = scorer.top(rows, 3)
        assert_allclose(cosines, np.take_along_axis(scores, found, axis=1), atol=1e-6)
        assert (np.diff(cosines, axis=1) <= 0).all()
        assert (found[:, 0] == exact[:, 0]).mean() >= 0.9

    def test_heavy_entries_are_those_above_a_share_of_the_mean_square(self, X):
        sizes = np.diff(X.indptr)[:, None]
        for share in (0.0, 0.3, 1.0):
            squares = X.toarray().astype(np.float64) ** 2
            expected = (squares > 0) & (
                squares >= share * squares.sum(axis=1, keepdims=True) / np.maximum(sizes, 1)
            )
            assert_array_equal(heavy_entries(X, share).toarray() != 0, expected)


class TestTrees(ScorerContract):
    """Each label against all examples: there are no clusters."""

    by_device = 0.0

    @classmethod
    def fit(cls, data, place=CPU):
        return fit_trees(data.X, data.Y, TREES, 0, place=place)


class TestTreesWithClusters(TestTrees):
    """Trees of clusters, all of which are visited."""

    @classmethod
    def fit(cls, data, place=CPU):
        return fit_trees(data.X, data.Y, replace(TREES, pairs=1e3, beam=1000), 0, place=place)


class TestRidge(ScorerContract):
    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(data, place)


class TestTranspose(ScorerContract):
    least = 0.7

    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(data, place, decoder="transpose", normalize=True)


class TestSoftmax(ScorerContract):
    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(
            replace(data, multiclass=True), place, decoder="logistic", decoder_ridge=0.0
        )

    def test_likelihoods_sum_to_one(self, scorer, rows):
        assert_allclose(all_likelihoods(scorer, rows).sum(axis=1), 1, rtol=1e-5)

    def test_rounding_of_scores_does_not_change_the_odds_of_a_certain_label(self, scorer, rows):
        """Other products round differently; one over a small difference would show it."""
        labels, scores = scorer.top(rows, 1)
        expected = 1 - scorer.likelihood(rows, labels, scores)
        assert_allclose(
            1 - scorer.likelihood(rows, labels, scores * (1 + 1e-6)), expected, rtol=1e-6
        )


class TestSigmoid(ScorerContract):
    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(data, place, decoder="logistic", decoder_ridge=0.0)

    def test_likelihoods_are_probabilities(self, scorer, rows):
        likely = all_likelihoods(scorer, rows)
        assert ((likely > 0) & (likely < 1)).all()


class TestDiscriminant(TestSoftmax):
    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(replace(data, multiclass=True), place, decoder="discriminant")

    def test_likelihoods_of_some_labels_need_no_others_where_they_are_not_searched(self):
        data = replace(examples(*problem()), multiclass=True)
        settings = replace(SETTINGS, proposes=False)
        scorer = embedding_scorer(data, decoder="discriminant", embedding=settings)
        assert scorer.decoder.link == "sigmoid" and not scorer.proposes
        assert not type(scorer).from_arrays(*scorer.arrays()).proposes


class TestDiscriminantManyLabels(TestSigmoid):
    least = 0.7

    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(data, place, decoder="discriminant")

    def test_likelihoods_are_probabilities(self, scorer, rows):
        likely = all_likelihoods(scorer, rows)
        assert ((likely >= 0) & (likely <= 1)).all()


class TestKernel(ScorerContract):
    tolerance = 1e-4

    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(data, place, kernel="gaussian")


class TestGrowable(ScorerContract):
    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(data, place, growable=True)

    def test_moments_are_kept(self, scorer):
        again = type(scorer).from_arrays(*scorer.arrays())
        assert again.moments.total == scorer.moments.total
        assert_array_equal(again.moments.scatter, scorer.moments.scatter)


class TestShortlist(ScorerContract):
    """Through the index, with as many candidates as there are labels."""

    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(data, place).with_shortlist(LABELS)

    def restored(self, scorer, arrays, facts):
        again = type(scorer).from_arrays(arrays, facts)
        assert again.shortlist is None, "how many labels are scored is a question of prediction"
        assert_array_equal(again.index.clusters, scorer.index.clusters)
        return again.with_shortlist(LABELS)


@pytest.mark.parametrize("place", PLACES, scope="class")
class TestDevice(ScorerContract):
    tolerance = 1e-4
    on_host = False

    @pytest.fixture(scope="class")
    @classmethod
    def scorer(cls, place):
        return embedding_scorer(examples(*problem()), kernel="gaussian").on(place())

    @classmethod
    def fit(cls, data, place=CPU):
        return embedding_scorer(data, place, kernel="gaussian")

    def restored(self, scorer, arrays, facts):
        return type(scorer).from_arrays(arrays, facts).on(scorer.place)

    def again(self, scorer):
        return super().again(scorer).on(scorer.place)

    def test_a_shortlist_is_refused(self, scorer):
        with pytest.raises(SettingsError, match="cpu") as refused:
            scorer.with_shortlist(10)
        assert refused.value.parameters == ("shortlist",)


@pytest.mark.parametrize("decoder", ["ridge", "discriminant"])
@pytest.mark.parametrize("kernel", [None, "gaussian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_of_many_labels_have_the_scores_that_they_have_among_all(decoder, kernel, dtype):
    """They are computed one by one; more of them come from the product with all labels."""
    X, Y = words(700, 500, 1200)
    scorer = embedding_scorer(examples(X.astype(dtype), Y), decoder=decoder, kernel=kernel)
    rows = scorer.prepare(X)
    for few in (1, 7, 24, 26, 40):
        labels = np.random.default_rng(few).integers(-1, 500, (700, few))
        expected = np.where(
            labels < 0,
            -np.inf,
            np.take_along_axis(all_scores(scorer, rows), np.maximum(labels, 0), axis=1),
        )
        assert_allclose(scorer.at(rows, labels), expected, rtol=1e-4, atol=1e-4)
    assert scorer.at(rows, np.empty((700, 0), np.int64)).shape == (700, 0)


class TestRegressor:
    def test_a_scorer_with_a_regressor_predicts_and_cannot_be_written(self):
        from sklearn.linear_model import Ridge

        X, Y = problem()
        scorer = embedding_scorer(examples(X.toarray(), Y), regressor=Ridge(alpha=0.1))
        assert scorer.n_features == X.shape[1]
        assert np.isfinite(all_scores(scorer, scorer.prepare(X.toarray()))).all()
        with pytest.raises(ModelError, match=r"Ridge.*regressor=None"):
            scorer.arrays()
        with pytest.raises(SettingsError, match="regressor=None"):
            scorer.explain(X[[0]], np.array([0]))
