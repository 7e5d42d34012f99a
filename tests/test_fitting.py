"""From examples and a recipe to a model: each scorer, pairs of them, the paper's Algorithm 3,
calibration, memory.
"""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss

from rembrandt import RembrandtClassifier, memory
from rembrandt.data.convert import convert
from rembrandt.decoders.logistic import stopping_rows
from rembrandt.engines.place import place_for
from rembrandt.errors import MemoryEstimateError
from rembrandt.fitting import check_memory, fit_model
from rembrandt.metrics import calibration_error, precision_at_k, reliability
from rembrandt.metrics.hits import hits
from rembrandt.predict import Request, all_probabilities, answer, indicator, log_odds
from rembrandt.recipe import SCORERS, EmbeddingSettings, Recipe, TreeSettings
from rembrandt.scorers.blend import LIST_LENGTH, Blend
from rembrandt.selection import Choice, choose
from tests.estimators.problems import blobs, directions, examples, skewed, words
from tests.scorers.problems import all_scores

EMBEDDING = EmbeddingSettings(kernel_scale=1.0, leave_out=0.0, max_epochs=5)
RECIPE = Recipe(
    scorers=("embedding",),
    n_components=4,
    embedding=EMBEDDING,
    trees=TreeSettings(n_trees=1, pairs=3e7, cost=1.0, passes=10),
)
SUBSETS = [names for size in (1, 2, 3) for names in combinations(SCORERS, size)]


def recipe(*names, **changes):
    return replace(RECIPE, scorers=names, **changes)


def texts(seed=0, n=400):
    return examples(*words(n, 30, 150, seed))


def first_is_right(model, data):
    return precision_at_k(data.Y, answer(model, Request(data.X[:], 1)).labels, 1)


def all_log_odds(model, data):
    return log_odds(all_probabilities(model, data.X[:]))


class TestScorers:
    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    def test_a_model_has_the_scorers_of_its_recipe(self, names):
        data = texts()
        model = fit_model(data, recipe(*names, n_components=25))
        assert tuple(model.scorers) == names and model.blend == Blend.fixed(names)
        assert (model.n_labels, model.n_features, model.n_train) == (30, 150, 400)
        assert_array_equal(model.label_counts, data.Y.toarray().sum(axis=0))
        assert first_is_right(model, texts(1)) > 0.7
        assert ("rank" in model.settings) == ("embedding" in names)

    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    def test_the_settings_of_a_model_are_its_recipe(self, names):
        asked = recipe(*names)
        model = fit_model(texts(), asked)
        assert Recipe.from_json(model.settings) == asked
        assert model.settings["memory_estimate"] == check_memory(texts(), asked)

    @pytest.mark.parametrize("name", SCORERS)
    def test_weights_are_repetitions(self, name):
        X, Y = words(300, 20, 100)
        w = np.random.default_rng(0).integers(1, 4, 300)
        repeated = np.repeat(np.arange(300), w)
        exact = {
            "embedding": replace(EMBEDDING, n_iter=4),
            "trees": replace(RECIPE.trees, tolerance=1e-6, passes=5000, threshold=0.0),
        }
        weighted, plain = (
            fit_model(data, recipe(name, n_components=20, **exact)).scorers[name]
            for data in (examples(X, Y, w.astype(float)), examples(X[repeated], Y[repeated]))
        )
        assert_allclose(
            all_scores(weighted, weighted.prepare(X)),
            all_scores(plain, plain.prepare(X)),
            atol=1e-2,
        )

    def test_a_blend_and_a_threshold_that_were_learned_go_with_the_model(self, monkeypatch):
        weights = {"trees": (1.0, 0.5, -1.0, 2.0), "embedding": (0.0, 0.0, 0.0, 0.0)}
        blend = Blend(
            weights,
            quadratic=((0.1, 0.0, 0.2), (0.0, 0.0, 0.0), (0.2, 0.0, 0.0)),
            frequency=0.0,
            bias=-3.0,
            unlisted=(0.5, 0.0, 0.1, -4.0),
        )
        data = texts()
        model = fit_model(data, recipe("trees", "embedding"), blend, 0.3)
        assert (model.blend, model.threshold) == (blend, 0.3)
        of_trees = replace(
            blend,
            weights={"trees": weights["trees"]},
            quadratic=((0.1, 0.2), (0.2, 0.0)),
            unlisted=(0.5, 0.1, -4.0),
        )
        alone = fit_model(data, recipe("trees"), of_trees)
        # What only the embedding lists is not listed by trees alone.
        listed = answer(alone, Request(data.X[:], LIST_LENGTH)).labels
        both = np.take_along_axis(all_log_odds(model, data), listed, axis=1)
        expected = np.take_along_axis(all_log_odds(alone, data), listed, axis=1)
        assert_allclose(both, expected, rtol=1e-5, atol=1e-5)
        monkeypatch.setattr("rembrandt.scorers.blend.LIST_LENGTH", model.n_labels)
        both, expected = (all_log_odds(each, data) for each in (model, alone))
        assert_allclose(both, expected, rtol=1e-5, atol=1e-5)

    def test_trees_find_rare_labels_that_a_small_embedding_cannot_tell_apart(self):
        train, test = (examples(*words(600, 60, 300, seed)) for seed in (0, 1))
        embedding, both = (
            fit_model(train, recipe(*names)) for names in (("embedding",), ("trees", "embedding"))
        )
        assert first_is_right(both, test) > first_is_right(embedding, test) + 0.3

    def test_an_embedding_of_features_goes_with_trees(self):
        data = texts()
        model = fit_model(data, recipe("trees", "embedding", method="pca"))
        assert np.isfinite(all_log_odds(model, data)).all()
        assert first_is_right(model, data) > 0.9

    @pytest.mark.parametrize(
        "names", [("trees",), ("centroids",), ("trees", "embedding")], ids="-".join
    )
    def test_rows_on_disk_give_the_model_of_rows_in_memory(self, names, tmp_path):
        (tmp_path / "rows.svm").write_text(
            "".join(f"{i % 3} {i % 3}:1 {3 + i % 5}:1\n" for i in range(30))
        )
        stored = convert([tmp_path / "rows.svm"], tmp_path / "store", rows=9).dataset()
        X = stored.X[:]
        data = examples(X, stored.Y)
        models = [
            fit_model(each, recipe(*names, n_components=2), place=place_for("cpu", each.X))
            for each in (replace(data, X=stored.X), data)
        ]
        on_disk, in_memory = (all_probabilities(model, X) for model in models)
        assert_allclose(on_disk, in_memory, atol=1e-5)


class TestAlgorithm3:
    """The paper's classifier: label embedding, ridge regression on it, logistic regression in
    it.
    """

    def test_it_is_an_embedding_with_a_logistic_decoder_and_no_kernel(self):
        X, y = blobs(n=600, noise=1.0)
        settings = EmbeddingSettings(leave_out=0.0, n_iter=4, tol=1e-8, max_epochs=200)
        classifier = RembrandtClassifier(
            scorers=("embedding",),
            decoder="logistic",
            kernel=None,
            n_components=3,
            ridge=0.1,
            normalize=False,
            embedding=settings,
            random_state=0,
        ).fit(X, y)
        [scorer] = classifier.model_.scorers.values()
        # Line by line with dense matrices: the eigenvectors of YᵀX(XᵀX + λI)⁻¹XᵀY, and the
        # regression on YV. The rows that stop the decoder have no weight in the embedding.
        X1, Y = np.hstack([X, np.ones((len(X), 1))]), np.eye(6)[y]
        stopping = stopping_rows(sparse.csr_array(Y), None, True, 0)
        X1, Y = np.delete(X1, stopping, axis=0), np.delete(Y, stopping, axis=0)
        gram = X1.T @ X1
        inverse = np.linalg.inv(gram + 0.1 * np.trace(gram) / len(gram) * np.eye(len(gram)))
        values, V = np.linalg.eigh(Y.T @ X1 @ inverse @ X1.T @ Y)
        values, V = values[::-1][:3], V[:, ::-1][:, :3]
        assert_allclose(scorer.singular_values, values, rtol=1e-5)
        signs = np.sign((scorer.vectors * V).sum(axis=0))
        assert_allclose(scorer.vectors, V * signs, atol=1e-4)
        assert_allclose(scorer.projection, inverse @ X1.T @ Y @ V * signs, atol=1e-4)
        # Scores are linear in the projected rows, and predict new rows about as well as an exact
        # logistic regression on them; ours stops early.
        H = np.hstack([X, np.ones((len(X), 1))]) @ scorer.projection
        new, expected = blobs(n=600, noise=1.0, seed=1)
        assert scorer.decoder.fourier is None and scorer.decoder.link == "softmax"
        scores = H @ scorer.decoder.weights + scorer.decoder.bias
        assert_allclose(all_scores(scorer, scorer.prepare(X)), scores, rtol=1e-4, atol=1e-4)
        reference = LogisticRegression(C=1e6, max_iter=5000).fit(H, y)
        projected = np.hstack([new, np.ones((600, 1))]) @ scorer.projection
        assert classifier.score(new, expected) > reference.score(projected, expected) - 0.05
        best = log_loss(expected, reference.predict_proba(projected))
        assert log_loss(expected, classifier.predict_proba(new)) < 1.15 * best


class TestCalibration:
    @pytest.mark.parametrize("multiclass", [False, True])
    @pytest.mark.parametrize(
        "names", [("embedding",), ("trees",), ("trees", "embedding")], ids="-".join
    )
    def test_learned_probabilities_are_near_the_truth(self, names, multiclass):
        train, test = (
            examples(*skewed(n=1200, multiclass=multiclass, seed=seed)) for seed in (0, 2)
        )
        asked = recipe(*names)
        choice = choose(train, asked, 2)
        model = fit_model(train, choice.recipe, choice.blend, choice.threshold)

        def error(one):
            ranked = answer(one, Request(test.X[:], 5))
            return calibration_error(reliability(ranked.probabilities, hits(test.Y, ranked.labels)))

        assert error(model) < 0.05 and choice.calibration_error < 0.05
        assert error(model) < error(fit_model(train, choice.recipe)) + 0.01
        if multiclass:
            assert_allclose(all_probabilities(model, test.X[:]).sum(axis=1), 1, rtol=1e-4)

    @pytest.mark.parametrize("threshold", ["micro", "macro", 0.3])
    def test_thresholds_are_chosen_where_the_recipe_says_so(self, threshold):
        choice = choose(examples(*skewed()), recipe("embedding", threshold=threshold))
        assert np.shape(choice.threshold) == ((30,) if threshold == "macro" else ())
        assert threshold != 0.3 or choice.threshold == 0.3

    def test_the_threshold_is_near_the_best_on_new_rows(self):
        train, test = (examples(*skewed(n=1200, seed=seed)) for seed in (0, 2))
        choice = choose(train, recipe("trees", "embedding"))
        model = fit_model(train, choice.recipe, choice.blend, choice.threshold)
        truth = test.Y.toarray()

        def f1(threshold):
            labels = answer(model, Request(test.X[:], threshold=threshold)).labels
            predicted = indicator(labels, model.n_labels).toarray()
            return f1_score(truth, predicted, average="micro")

        assert f1(model.threshold) > 0.95 * max(map(f1, np.linspace(0.1, 0.9, 9)))


class TestMemory:
    def test_more_of_anything_needs_more(self):
        data = examples(*directions())
        small = check_memory(data, RECIPE)
        assert check_memory(data, replace(RECIPE, n_components=400)) > small
        assert check_memory(data, replace(RECIPE, kernel="gaussian")) > small
        assert check_memory(examples(*directions(n=5000)), RECIPE) > small

    def test_what_is_open_in_an_embedding_that_is_not_there_needs_nothing(self):
        data = examples(*directions())
        assert check_memory(data, recipe("trees", kernel="auto")) == check_memory(
            data, recipe("trees")
        )

    def test_a_fit_that_does_not_fit_is_refused_before_it_begins(self, monkeypatch):
        data = examples(*directions())
        stages = []
        monkeypatch.setattr(memory, "available", lambda: 1000)
        for names in SUBSETS:
            with pytest.raises(MemoryEstimateError, match="GiB is free"):
                fit_model(data, recipe(*names), report=lambda stage, *_: stages.append(stage))
        assert stages == []


class TestFirstTree:
    """A tree that was fitted to nearly all rows for the blend is the first tree of the model."""

    trees = TreeSettings(n_trees=2, pairs=4e4, cost=1.0, passes=10)

    def choice(self, n=5200):
        data = texts(n=n)
        return data, choose(data, recipe("trees", trees=self.trees))

    def test_it_is_kept(self, monkeypatch):
        monkeypatch.setattr("rembrandt.selection.halving.NEARLY_ALL", 0.8)
        data, choice = self.choice()
        arrays, facts = choice.arrays()
        again = Choice.from_arrays(
            arrays, json.loads(json.dumps(facts))
        )  # as after an interruption
        models = [
            fit_model(data, each.recipe, each.blend, each.threshold, first_trees=each.first_trees)
            for each in (choice, again)
        ]
        for model in models:
            first, second = model.scorers["trees"].trees
            own = choice.first_trees.trees[0].labels
            assert_array_equal(first.labels.weights.toarray(), own.weights.toarray())
            assert first.labels.weights.nnz != second.labels.weights.nnz
        assert_array_equal(*(all_probabilities(model, data.X[:50]) for model in models))

    @pytest.mark.parametrize("n", [400, 5200])
    def test_one_of_too_few_rows_is_not(self, n):
        assert self.choice(n)[1].first_trees is None
