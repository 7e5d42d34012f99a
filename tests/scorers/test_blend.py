"""The blend: features of scores by their definitions, weights as references find them, and
probabilities.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from rembrandt.errors import StorageError
from rembrandt.linalg.ranking import rank, top_k
from rembrandt.recipe import EmbeddingSettings, Recipe
from rembrandt.scorers.blend import (
    LARGEST,
    LENGTH,
    PENALTY,
    SMALLEST,
    Blend,
    Candidates,
    collect,
    features_of,
    fit_blend,
    log_odds,
    probabilities,
    union,
)
from rembrandt.scorers.centroids import fit_centroids
from rembrandt.scorers.embedding_fit import fit_embedding_scorer
from rembrandt.scorers.tree_fit import fit_trees
from tests.estimators.problems import examples, words
from tests.scorers.problems import tree_settings

NAMES = "trees", "embedding"


def candidates(n=200, m=12, seed=0, multiclass=False, names=NAMES):
    """Candidates with random likelihoods, some rows with fewer labels, and which of them are
    true.
    """
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.permuted(np.tile(np.arange(40), (n, 1)), axis=1)[:, :m], axis=1)
    labels = np.where(np.arange(m) < rng.integers(3, m + 1, (n, 1)), labels, -1)
    truth = rng.standard_normal((n, m))
    features = {}
    for name in names:
        likely = 1 / (1 + np.exp(1.5 - truth - rng.standard_normal((n, m))))
        listed, best = rank(labels, np.where(labels < 0, -np.inf, likely))
        features[name] = features_of(likely, labels, listed[:, :5], best[:, :1])
    found = Candidates(labels, features, rng.random((n, m)).astype(np.float32))
    score = np.where(labels < 0, -np.inf, 2 * truth - 1)
    if multiclass:
        drawn = np.where(np.isinf(score), -np.inf, score + rng.gumbel(size=(n, m)))
        chosen = drawn.argmax(axis=1)
        true = (np.arange(m) == chosen[:, None]) & (
            drawn.max(axis=1, keepdims=True) > rng.gumbel(size=(n, 1))
        )
    else:
        true = rng.random((n, m)) < 1 / (1 + np.exp(-score))
    return found, true


def standardised(found):
    """The features of the listed candidates that the penalty applies to, and the rows that they
    belong to.
    """
    given = found.given & found.listed
    columns = [own[given] for own in found.features.values()] + [found.log_counts[given][:, None]]
    F = np.concatenate(columns, axis=1).astype(np.float64)
    return (F - F.mean(axis=0)) / F.std(axis=0), given


class TestFeatures:
    def test_each_by_its_definition(self):
        rng = np.random.default_rng(0)
        scores = rng.uniform(-0.2, 1.2, (30, 25))
        labels = np.sort(rng.permuted(np.tile(np.arange(25), (30, 1)), axis=1)[:, :9], axis=1)
        labels[::3, -4:] = -1
        listed, best = top_k(scores, 6)
        likely = np.take_along_axis(scores, np.maximum(labels, 0), axis=1)
        found = features_of(likely, labels, listed, best[:, :1])
        for row, own in enumerate(labels.tolist()):
            for at, label in enumerate(own):
                if label < 0:
                    continue
                p = scores[row, label]
                inside = min(max(p, SMALLEST), 1 - SMALLEST)
                place = listed[row].tolist().index(label) + 1 if label in listed[row] else np.inf
                expected = [p, np.log(inside / (1 - inside)), scores[row].max() - p, 1 / place]
                assert_allclose(found[row, at], expected, atol=1e-5)

    @given(arrays(np.float64, (3, 4), elements=st.floats(-1e30, 1e30)))
    def test_they_are_bounded(self, likely):
        labels = np.tile(np.arange(4), (3, 1))
        listed, best = rank(labels, likely)
        found = features_of(likely, labels, listed, best[:, :1])
        assert np.isfinite(found).all() and np.abs(found[..., :3]).max() <= max(
            2 * LARGEST, -np.log(SMALLEST) + 1
        )

    def test_log_odds_of_likelihoods(self):
        p = np.array([0.01, 0.5, 0.9])
        assert_allclose(log_odds(p), np.log(p / (1 - p)))
        assert_allclose(
            log_odds(np.array([-3.0, 0.0, 2.0])),
            log_odds(np.array([SMALLEST] * 2 + [1 - SMALLEST])),
        )

    def test_only_labels_in_a_list_are_listed(self):
        found, _ = candidates()
        assert_array_equal(
            found.listed, np.max([own[..., 3] for own in found.features.values()], axis=0) > 0
        )
        assert not found.listed[~found.given].any()
        assert_array_equal(found.short().labels >= 0, found.listed)

    def test_blocks_of_different_width_are_stacked(self):
        first, second = candidates(20, 12)[0], candidates(30, 7, seed=1)[0]
        joined = Candidates.joined([first, second])
        assert joined.labels.shape == (50, 12) and (joined.labels[20:, 7:] == -1).all()
        blend = Blend(dict.fromkeys(NAMES, (0.5, 0.2, -0.3, 1.0)), 0.1, -1.0)
        for part, rows in ((first, slice(20)), (second, slice(20, None))):
            width = part.labels.shape[1]
            assert_array_equal(
                blend.log_odds(joined.take(np.arange(50)[rows]))[:, :width], blend.log_odds(part)
            )


class TestWeights:
    @pytest.mark.parametrize("names", [("trees",), NAMES], ids="-".join)
    def test_those_of_logistic_regression(self, names):
        found, true = candidates(names=names)
        blend = fit_blend(found, true, multiclass=False)
        F, given = standardised(found)
        reference = LogisticRegression(C=1 / PENALTY, tol=1e-10, max_iter=2000).fit(F, true[given])
        assert_allclose(blend.log_odds(found)[given], reference.decision_function(F), atol=2e-3)
        assert tuple(blend.weights) == names

    def test_those_of_a_conditional_logit(self):
        """Candidates of a row compete with each other and with none of them; minimised without
        derivatives by hand.
        """
        found, true = candidates(n=120, multiclass=True)
        F, given = standardised(found)
        rows = np.nonzero(given)[0]
        dense = np.zeros((*given.shape, F.shape[1] + 1))
        dense[given] = np.hstack([F, np.ones((len(F), 1))])
        assert 0.1 < (true & given).any(axis=1).mean() < 0.95, (
            "some rows have none, and some have one"
        )

        def loss(w):
            z = np.where(given, dense @ w, -np.inf)
            total = logsumexp(np.hstack([z, np.zeros((len(z), 1))]), axis=1).sum()
            return total - z[true & given].sum() + PENALTY / 2 * w[:-1] @ w[:-1]

        best = minimize(loss, np.zeros(F.shape[1] + 1), method="BFGS", options={"gtol": 1e-5}).x
        blend = fit_blend(found, true, multiclass=True)
        assert_allclose(blend.log_odds(found)[given], (dense @ best)[given], atol=5e-3)
        assert len(np.unique(rows)) == len(given)

    def test_rows_whose_labels_no_scorer_lists_change_nothing(self):
        found, true = candidates(multiclass=True)
        more = candidates(50, seed=1)[0]
        hidden = replace(
            more,
            labels=np.full_like(more.labels, -1),
            features={n: 0 * f for n, f in more.features.items()},
        )
        wide = Candidates.joined([found, hidden])
        for multiclass in (False, True):
            one = fit_blend(found, true, multiclass)
            two = fit_blend(wide, np.vstack([true, np.zeros((50, 12), dtype=bool)]), multiclass)
            assert_allclose(two.log_odds(found), one.log_odds(found), rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("truth", [False, True])
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_where_all_or_none_are_true_they_are_finite(self, truth, multiclass):
        found, true = candidates(n=30)
        blend = fit_blend(found, np.full_like(true, truth), multiclass)
        likely = probabilities(blend.log_odds(found), found.listed, 40, multiclass)[found.listed]
        assert np.isfinite(likely).all()
        assert multiclass or not truth or (likely > 0.9).all()
        assert truth or blend == Blend.fixed(found.features)  # nothing can be learned

    def test_a_better_scorer_has_more_influence(self):
        found, true = candidates(n=2000)
        noise = np.random.default_rng(0).random(true.shape)
        listed, best = rank(found.labels, np.where(found.given, noise, -np.inf))
        useless = features_of(noise, found.labels, listed[:, :5], best[:, :1])
        mixed = replace(found, features={"trees": found.features["trees"], "embedding": useless})
        weights = fit_blend(mixed, true, False).weights
        spread = {
            name: np.std(mixed.features[name][mixed.given] @ np.array(own))
            for name, own in weights.items()
        }
        assert spread["embedding"] < 0.2 * spread["trees"]

    def test_without_rows_to_learn_from_they_average_the_log_odds(self):
        found, _ = candidates()
        expected = np.mean([found.features[name][..., 1] for name in NAMES], axis=0)
        given = found.given
        assert_allclose(
            Blend.fixed(NAMES).log_odds(found)[given], expected[given], atol=LARGEST * 1e-3
        )

    def test_json_restores_them(self):
        found, true = candidates()
        blend = fit_blend(found, true, False)
        assert Blend.from_json(json.loads(json.dumps(blend.to_json()))) == blend

    @pytest.mark.parametrize("weights", [[1.0] * 3, [1.0] * 5, [], [np.inf] * 4])
    def test_other_weights_are_refused(self, weights):
        with pytest.raises(StorageError):
            Blend.from_json({"weights": {"trees": weights}, "count": 0.0, "bias": 0.0})

    def test_there_are_no_log_odds_without_a_label(self):
        found, true = candidates()
        z = fit_blend(found, true, False).log_odds(found)
        assert z.dtype == np.float32
        assert_array_equal(np.isneginf(z), ~found.given)


class TestProbabilities:
    @settings(deadline=None)
    @given(
        arrays(np.float32, (4, 6), elements=st.floats(-80, 80, width=32)),
        arrays(np.bool_, (4, 6)),
        st.integers(6, 100),
        st.booleans(),
    )
    def test_they_are_probabilities(self, z, listed, n_labels, multiclass):
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            P = probabilities(z, listed, n_labels, multiclass)
        assert ((P >= 0) & (P <= 1)).all()
        if multiclass:
            sums = np.where(listed, P, 0).sum(axis=1)
            assert (sums <= 1 + 1e-9).all()
            assert_allclose(sums[listed.sum(axis=1) == n_labels], 1)

    def test_with_one_label_they_are_a_softmax_with_none_of_them(self):
        z = np.array([[1.0, -0.5, 2.0]])
        listed = np.ones((1, 3), dtype=bool)
        assert_allclose(probabilities(z, listed, 50, True), np.exp(z) / (1 + np.exp(z).sum()))
        assert_allclose(probabilities(z, listed, 3, True), np.exp(z) / np.exp(z).sum())
        assert_allclose(probabilities(z, listed, 3, False), 1 / (1 + np.exp(-z)))

    @pytest.mark.parametrize("multiclass", [False, True])
    def test_labels_that_are_not_listed_change_no_other(self, multiclass):
        rng = np.random.default_rng(0)
        z, listed = rng.standard_normal((20, 8)), rng.random((20, 8)) < 0.6
        listed[:, 0] = True
        P = probabilities(z, listed, 50, multiclass)
        for column in range(8):
            less = np.where(listed, z, -np.inf)
            less[:, column] = z[:, column]
            assert_allclose(probabilities(less, listed, 50, multiclass)[:, column], P[:, column])
        rest = 1 - np.where(listed, P, 0).sum(axis=1, keepdims=True)
        assert not multiclass or (np.where(listed, 0, P) <= rest + 1e-12).all()


@pytest.fixture(scope="module")
def scored():
    """Three scorers of 150 labels, and their prepared rows."""
    data = examples(*words(600, 150, 700))
    recipe = Recipe(n_components=8, embedding=EmbeddingSettings(leave_out=0.0))
    scorers = {
        "trees": fit_trees(data.X, data.Y, tree_settings(pairs=4e3, beam=1000), 0),
        "centroids": fit_centroids(data.X, data.Y),
        "embedding": fit_embedding_scorer(data, recipe)[0],
    }
    X = words(40, 150, 700, seed=1)[0]
    counts = np.log1p(np.bincount(data.Y.indices, minlength=150)).astype(np.float32)
    return scorers, {name: scorer.prepare(X) for name, scorer in scorers.items()}, counts


class TestCollect:
    def test_candidates_are_the_union_of_the_lists(self, scored):
        scorers, rows, counts = scored
        found = collect(scorers, rows, counts)
        lists = [scorer.top(rows[name], LENGTH)[0] for name, scorer in scorers.items()]
        assert_array_equal(found.labels, union(lists))
        assert_array_equal(found.listed, found.given)
        assert_allclose(found.log_counts[found.given], counts[found.labels[found.given]])

    def test_longer_lists_and_allowed_labels_add_candidates_and_change_no_feature(self, scored):
        scorers, rows, counts = scored
        short = collect(scorers, rows, counts)
        every = collect(scorers, rows, counts, labels=np.tile(np.arange(150), (40, 1)))
        blend = Blend(dict.fromkeys(scorers, (0.5, 0.3, -0.2, 1.0)), 0.1, -1.0)
        for more, allowed in (
            (0, None),
            (50, None),
            (3, np.array([4, 90, 91])),
            (3, np.arange(0, 150, 2)),
        ):
            found = collect(scorers, rows, counts, more, allowed)
            row, column = np.nonzero(found.given)
            for name in scorers:
                expected = every.features[name][row, found.labels[row, column]]
                assert_allclose(found.features[name][row, column], expected, atol=2e-4)
            assert_allclose(
                blend.log_odds(found)[row, column],
                blend.log_odds(every)[row, found.labels[row, column]],
                atol=2e-3,
            )
            for own, wanted in zip(found.labels.tolist(), short.labels.tolist(), strict=True):
                assert set(wanted) - {-1} <= set(own)

    def test_a_scorer_that_does_not_propose_ranks_what_others_list(self, scored):
        scorers, rows, counts = scored
        silent = scorers | {"embedding": replace(scorers["embedding"], proposes=False)}
        found = collect(silent, rows, counts, 20)
        others = {name: scorers[name] for name in ("trees", "centroids")}
        assert_array_equal(found.labels, collect(others, rows, counts, 20).labels)
        common = union([scorer.top(rows[name], LENGTH)[0] for name, scorer in others.items()])
        ranked, scores = rank(common, scorers["embedding"].at(rows["embedding"], common))
        own = found.features["embedding"]
        for row in range(40):
            place = {
                label: 1 / (at + 1)
                for at, label in enumerate(ranked[row, :LENGTH].tolist())
                if label >= 0
            }
            for at, label in enumerate(found.labels[row].tolist()):
                if label >= 0:
                    assert own[row, at, 3] == pytest.approx(place.get(label, 0.0))
                    assert own[row, at, 2] == pytest.approx(
                        scores[row, 0] - own[row, at, 0], abs=1e-5
                    )


labels = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6).flatmap(
    lambda shape: st.lists(
        arrays(np.int64, shape, elements=st.integers(-1, 8)), min_size=1, max_size=3
    )
)


@given(labels)
def test_the_union_has_each_label_of_a_row_once(lists):
    found = union(lists)
    wanted = [
        {label for part in lists for label in part[row].tolist()} - {-1}
        for row in range(len(lists[0]))
    ]
    assert found.shape == (len(wanted), max(1, *map(len, wanted), 0))
    for row, expected in zip(found.tolist(), wanted, strict=True):
        known = row[: len(expected)]
        assert known == sorted(expected) and set(row[len(expected) :]) <= {-1}
