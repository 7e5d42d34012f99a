"""Trials: what is measured on held-out rows is what the fitted model gives there."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import memory
from rembrandt.engines.place import CPU
from rembrandt.errors import MemoryEstimateError
from rembrandt.fitting import fit_model
from rembrandt.linalg import ranking
from rembrandt.metrics import ndcg_at_k, precision_at_k
from rembrandt.metrics.hits import hits
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings
from rembrandt.scorers.blend import Blend, collect
from rembrandt.selection import trial as module
from rembrandt.selection.trial import (
    FEATURES,
    FEWEST_DIRECTIONS,
    Measures,
    Trial,
    mean,
    measures,
)
from tests.devices import PLACES
from tests.estimators.problems import examples, words
from tests.scorers.problems import all_scores

USUAL = Recipe(
    scorers=("embedding",),
    n_components=8,
    normalize=True,
    embedding=EmbeddingSettings(
        kernel_scale=1.0, leave_out=0.5, n_random_features=40, max_epochs=3
    ),
    trees=TreeSettings(n_trees=2, pairs=4e3, cost=1.0, passes=10),
)
PLAIN = USUAL.with_embedding(leave_out=0.0)
EMBEDDINGS = {
    "ridge": USUAL,
    "kernel": replace(USUAL, kernel="gaussian").with_embedding(kernel_scale=0.5),
    "transpose": replace(PLAIN, n_components=3, normalize=False, decoder="transpose"),
    "logistic": replace(PLAIN, decoder="logistic", decoder_ridge=0.0),
    "discriminant": replace(USUAL, decoder="discriminant"),
    "center": PLAIN.with_embedding(center=True),
}
OTHERS = {name: replace(USUAL, scorers=(name,)) for name in ("trees", "centroids")}


def texts(n=600, seed=0):
    return examples(*words(n, 30, 200, seed))


def trial(fit=None, held=None, **more):
    fit = texts() if fit is None else fit
    return Trial(fit, texts(300, 1) if held is None else held, fit.n, **more)


def expected(fit, held, recipe):
    """Measure a scorer that is fitted by itself."""
    [scorer] = fit_model(fit, recipe).scorers.values()
    labels = scorer.top(scorer.prepare(held.X[:]), 5)[0]
    p = tuple(precision_at_k(held.Y, labels, k) for k in (1, 3, 5))
    return p, p[0] if held.multiclass else (p[0] + ndcg_at_k(held.Y, labels, 5)) / 2


class TestMeasures:
    @pytest.mark.parametrize("name", [*EMBEDDINGS, *OTHERS])
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_a_candidate_alone_is_measured_as_its_model(self, name, multiclass):
        candidate = (EMBEDDINGS | OTHERS)[name]
        fit, held = (replace(data, multiclass=multiclass) for data in (texts(), texts(300, 1)))
        one = trial(fit, held)
        found = one.measure(one.scorer(candidate))
        p, quality = expected(fit, held, candidate)
        assert_allclose(found.p, p, atol=1e-6)
        assert found.quality == pytest.approx(quality, abs=1e-6)

    @pytest.mark.parametrize("multiclass", [False, True])
    def test_candidates_of_held_out_rows_are_those_of_the_model(self, multiclass):
        """What the blend learns from is what a model of the same rows gives it."""
        fit, held = (replace(data, multiclass=multiclass) for data in (texts(), texts(300, 1)))
        one = trial(fit, held)
        names = ("trees", "centroids", "embedding")
        scorers = {name: one.scorer(replace(USUAL, scorers=(name,))) for name in names}
        listed, unlisted = one.candidates(scorers, seed=0)
        model = fit_model(fit, replace(USUAL, scorers=names))
        rows = {name: scorer.prepare(held.X[:]) for name, scorer in model.scorers.items()}
        wanted = collect(model.scorers, rows, model.log_frequencies)
        assert_array_equal(listed.labels, wanted.labels)
        blend = Blend.fixed(names)
        assert_allclose(blend.log_odds(listed), blend.log_odds(wanted), rtol=1e-3, atol=1e-3)
        assert_allclose(listed.log_frequencies, wanted.log_frequencies)
        n_listed = hits(held.Y, listed.labels).sum()
        assert unlisted.true.sum() == held.Y.nnz - n_listed
        # Except for rows of which no label was drawn that is not listed.
        n_unlisted = 30 * held.n - listed.is_label.sum()
        assert 0.99 * n_unlisted < unlisted.weights.sum() <= n_unlisted + 1e-6
        assert unlisted.log_odds.shape == (len(unlisted.true), 3)

    def test_the_sample_of_other_labels_depends_on_the_seed_alone(self):
        one = trial()
        scorers = {name: one.scorer(candidate) for name, candidate in OTHERS.items()}
        first, again, other = (one.candidates(scorers, seed)[1] for seed in (0, 0, 1))
        assert_array_equal(first.log_odds, again.log_odds)
        assert (
            first.log_odds.shape != other.log_odds.shape or (first.log_odds != other.log_odds).any()
        )

    def test_lists_have_the_lengths_asked_for(self):
        one = trial()
        scorers = {name: one.scorer(candidate) for name, candidate in OTHERS.items()}
        listed, _ = one.candidates(scorers, 0, {"trees": 3, "centroids": 0})
        assert listed.labels.shape[1] == 3 and listed.is_label.all()
        X = one.held.X[:]
        expected = scorers["trees"].top(scorers["trees"].prepare(X), 3)[0]
        assert_array_equal(listed.labels, np.sort(expected, axis=1))
        assert (np.sort(listed.features["centroids"][..., 3], axis=1) > 0).all()

    def test_hits_of_ranked_labels(self):
        one = trial()
        scorers = {name: one.scorer(candidate) for name, candidate in OTHERS.items()}
        silent = one.scorer(USUAL.with_embedding(proposes=False))
        ranked = one.ranked_hits(scorers | {"embedding": silent})
        assert ranked.keys() == scorers.keys()
        for name, found in ranked.items():
            labels = scorers[name].top(scorers[name].prepare(one.held.X[:]), 20)[0]
            assert_array_equal(found, hits(one.held.Y, labels))

    @pytest.mark.parametrize("name", [*EMBEDDINGS, "candidates"])
    @pytest.mark.parametrize("place", PLACES)
    def test_candidates_are_the_same_on_every_device(self, place, name):
        own = EMBEDDINGS.get(
            name, replace(USUAL, decoder="candidates").with_embedding(proposes=False)
        )
        found = []
        for here in (CPU, place()):
            one = trial(place=here)
            others = {each: one.scorer(candidate) for each, candidate in OTHERS.items()}
            scorer = one.scorer(own, others=others)
            assert scorer.decoder.weights.device == here.asarray(np.zeros(1)).device
            found.append(one.candidates({**others, "embedding": scorer}, seed=0)[0])
        blend = Blend.fixed((*OTHERS, "embedding"))
        first = [ranking.rank(each.labels, blend.log_odds(each))[0][:, 0] for each in found]
        assert (first[0] == first[1]).mean() > 0.98

    @pytest.mark.parametrize("name", [*EMBEDDINGS, *OTHERS])
    def test_weights_of_rows_count(self, name):
        candidate = (EMBEDDINGS | OTHERS)[name]
        w = np.random.default_rng(0).random(600) ** 4
        fit, held = replace(texts(), weights=w), texts(300, 1)
        one = trial(fit, held)
        assert_allclose(
            one.measure(one.scorer(candidate)).p, expected(fit, held, candidate)[0], atol=1e-6
        )

    def test_trees_have_fewer_pairs_where_rows_are_fewer(self):
        fit, held = texts(), texts(300, 1)
        found = Trial(fit, held, 10 * fit.n).scorer(OTHERS["trees"])
        expected = fit_model(fit, OTHERS["trees"].with_trees(pairs=400.0)).scorers["trees"]
        rows = held.X[:]
        assert_allclose(
            all_scores(found, found.prepare(rows)), all_scores(expected, expected.prepare(rows))
        )

    @pytest.mark.parametrize("several", [False, True])
    def test_quality_by_hand(self, several):
        Y = sparse.csr_array(np.float32([[1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]))
        held = replace(examples(np.zeros((2, 1)), Y), multiclass=not several)

        class Fixed:
            """The first row is ranked perfectly; the only label of the second comes fifth."""

            block_rows = 10

            def prepare(self, X):
                return X

            def top(self, rows, k):
                return np.array([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]), None

        found = trial(held, held).measure(Fixed())
        ranking = np.mean([1, 1 / np.log2(6)])
        assert found.p == pytest.approx((1 / 2, 2 / 6, 3 / 10))
        assert found.quality == pytest.approx(np.mean([1 / 2, ranking]) if several else 1 / 2)

    def test_rows_without_labels_are_measured_as_misses(self):
        Y = sparse.csr_array(np.float32([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]))
        held = replace(examples(np.zeros((2, 1)), Y), multiclass=False)
        found = measures(held, np.array([[0, 1, 2, 3, 4]] * 2))
        assert found.p == pytest.approx((1 / 2, 1 / 6, 1 / 10))
        assert found.quality == pytest.approx(1 / 2)

    def test_the_mean_of_several_splits(self):
        found = mean([Measures((1.0, 0.5, 0.2), 0.8), Measures((0.0, 0.5, 0.4), 0.4)])
        assert found.p == pytest.approx((0.5, 0.5, 0.3)) and found.quality == pytest.approx(0.6)


class TestShared:
    @pytest.fixture
    def embedded(self, monkeypatch):
        """Ranks of the embeddings that were computed."""
        ranks, original = [], module.embed_labels

        def spy(data, recipe, place, **more):
            ranks.append(recipe.n_components)
            return original(data, recipe, place, **more)

        monkeypatch.setattr(module, "embed_labels", spy)
        return ranks

    def test_smaller_ranks_are_the_first_columns_of_larger_ones(self, embedded):
        large, small = replace(USUAL, n_components=25), replace(USUAL, n_components=15)
        own, shared = trial(), trial()
        first, larger, second = own.scorer(small), shared.scorer(large), shared.scorer(small)
        assert embedded == [15, 25]
        assert_allclose(second.vectors, larger.vectors[:, :15])
        assert_allclose(second.projection, larger.projection[:, :15])
        assert_allclose(own.measure(first).p, shared.measure(second).p, atol=0.03)

    def test_an_embedding_serves_all_decoders(self, embedded):
        one = trial()
        for candidate in (
            USUAL,
            EMBEDDINGS["kernel"],
            EMBEDDINGS["discriminant"],
            replace(USUAL, decoder_ridge=1.0),
        ):
            one.scorer(candidate)
        assert embedded == [8]
        for candidate in (
            replace(USUAL, ridge=3.0),
            replace(USUAL, normalize=False),
            replace(USUAL, n_components=9),
        ):
            one.scorer(candidate)
        assert embedded == [8, 8, 8, 9]
        for changes in ({"label_power": 0.5}, {"row_power": 0.5}):
            one.scorer(USUAL.with_embedding(**changes))
        assert embedded == [8, 8, 8, 9, 8, 8]
        one.scorer(
            replace(USUAL, decoder="logistic")
        )  # the rows that stop it have no weight in its embedding
        assert len(embedded) == 7

    def test_embeddings_of_scaled_labels_share_the_regression_on_the_features(self, monkeypatch):
        solved, original = [], module.ridge_solver

        def spy(engine, recipe, report):
            solved.append((recipe.ridge, recipe.normalize))
            return original(engine, recipe, report)

        monkeypatch.setattr(module, "ridge_solver", spy)
        one = trial()
        plain, scaled = USUAL, USUAL.with_embedding(label_power=0.5, row_power=0.5)
        for candidate in (plain, replace(plain, normalize=False), scaled):
            found = one.scorer(candidate)
        assert solved == [(1.0, True), (1.0, False)]
        alone = trial().scorer(scaled)
        solved.clear()
        assert_array_equal(found.vectors, alone.vectors)
        assert_array_equal(found.projection, alone.projection)
        one.scorer(replace(scaled, ridge=3.0))  # the last two are kept
        one.scorer(replace(plain, decoder="logistic"))
        one.scorer(scaled.with_embedding(label_power=0.25))
        assert solved == [(3.0, True), (1.0, True), (1.0, True)]

    @pytest.mark.parametrize(
        ("solver", "small", "kept"), [("cg", 3e7, 0), ("cholesky", 1e3, 0), ("cholesky", 3e7, 1)]
    )
    def test_only_small_factored_regressions_are_kept(self, monkeypatch, solver, small, kept):
        monkeypatch.setattr(module, "SMALL", small)
        one = trial()
        one.scorer(USUAL.with_embedding(solver=solver))
        assert len(one._regressions) == kept

    def test_the_order_of_candidates_changes_nothing(self):
        wanted = [
            replace(USUAL, decoder_ridge=0.1),
            replace(USUAL, decoder_ridge=0.3),
            USUAL.with_embedding(leave_out=0.0),
            replace(USUAL, normalize=False),
            EMBEDDINGS["kernel"],
            replace(EMBEDDINGS["kernel"], decoder_ridge=0.3),
        ]
        one, other = trial(), trial()
        found = {c: one.measure(one.scorer(c)) for c in wanted}
        assert found == {c: other.measure(other.scorer(c)) for c in reversed(wanted)}

    @pytest.mark.parametrize("name", [*EMBEDDINGS, *OTHERS])
    def test_memory_is_checked_before_anything_is_fitted(self, monkeypatch, embedded, name):
        monkeypatch.setattr(memory, "available", lambda: 1000)
        with pytest.raises(MemoryEstimateError):
            trial().scorer((EMBEDDINGS | OTHERS)[name])
        assert embedded == []


class TestSize:
    """Trials on some of the labels are smaller, in proportion."""

    def test_of_some_labels_an_embedding_has_fewer_directions_and_random_features(self):
        fit, held = examples(*words(600, 200, 500)), examples(*words(100, 200, 500, 1))
        wide = replace(USUAL, n_components=150, kernel="gaussian").with_embedding(
            n_random_features=FEATURES + 50
        )
        for share, rank, features in (
            (1.0, 150, FEATURES + 50),
            (0.6, 90, FEATURES),
            (0.01, FEWEST_DIRECTIONS, FEATURES),
        ):
            scorer = Trial(fit, held, fit.n, share=share).scorer(wide)
            assert scorer.projection.shape[1] == rank
            assert scorer.decoder.fourier.size == rank + features

    @pytest.mark.parametrize("n_trees", [1, 2, 3])
    def test_a_trial_has_as_many_trees_as_asked_for_and_the_model_has(self, n_trees):
        fit, held = texts(), texts(300, 1)
        found = Trial(fit, held, fit.n, n_trees=n_trees).scorer(OTHERS["trees"])
        wanted = fit_model(fit, OTHERS["trees"].with_trees(n_trees=min(2, n_trees))).scorers[
            "trees"
        ]
        assert found.nbytes == wanted.nbytes
