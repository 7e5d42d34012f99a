"""From examples and settings to a model: each part, pairs of them, the paper's Algorithm 3,
calibration, memory.
"""

import json
from dataclasses import replace
from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from threadpoolctl import threadpool_info

from rembrandt import RembrandtClassifier, memory
from rembrandt.blend import Blend
from rembrandt.candidates import LIST_LENGTH
from rembrandt.data.convert import convert
from rembrandt.data.ordering import row_hashes
from rembrandt.data.rows import MemoryRows, as_rows
from rembrandt.declarations import PART_NAMES, ModelSettings
from rembrandt.engines.backend import CPU, backend_for
from rembrandt.errors import MemoryEstimateError
from rembrandt.fitting import (
    Learned,
    check_memory,
    fit_model,
    fit_together,
    independent_parts,
    threads_of_part,
)
from rembrandt.metrics import calibration_error, precision_at_k, reliability
from rembrandt.metrics.hits import hits
from rembrandt.parts.embedding.decoders.logistic import stopping_rows
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.predict import Request, all_probabilities, answer, indicator
from rembrandt.probabilities import log_odds
from rembrandt.search import search
from rembrandt.search.search import SearchResult
from tests.estimators.problems import blobs, directions, examples, settings_for, skewed, words

TREES = TreeSettings(n_trees=1, max_example_node_pairs=3e7, cost=1.0, passes=10)
SUBSETS = [names for size in (1, 2, 3) for names in combinations(PART_NAMES, size)]


def settings_of(data, *names, **changes):
    """Return the settings of a small model of these parts."""
    return settings_for(
        data, **{"parts": names, "n_components": 4, "max_epochs": 5, "trees": TREES} | changes
    )


def texts(seed=0, n=400):
    return examples(*words(n, 30, 150, seed))


class StoredRowsOfNothing(MemoryRows):
    """Rows of which none are in memory."""

    def resident(self):
        return 0, 0


def first_is_right(model, data):
    return precision_at_k(data.Y, answer(model, Request(data.X[:], 1)).labels, 1)


def all_log_odds(model, data):
    return log_odds(all_probabilities(model, data.X[:]))


class TestParts:
    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    def test_a_model_has_the_parts_of_its_settings(self, names):
        data = texts()
        model = fit_model(data, settings_of(data, *names, n_components=25))
        assert tuple(model.parts) == names
        assert model.blend == Blend.fixed(names)
        assert (model.n_labels, model.n_features, model.n_train) == (30, 150, 400)
        assert_array_equal(model.label_counts, data.Y.toarray().sum(axis=0))
        assert first_is_right(model, texts(1)) > 0.7
        assert model.has_label_vectors == ("embedding" in names)

    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    def test_a_model_keeps_its_settings(self, names):
        data = texts()
        settings = settings_of(data, *names)
        model = fit_model(data, settings)
        assert model.settings == settings
        as_saved = json.loads(json.dumps(settings.to_json()))
        assert ModelSettings.from_json(as_saved) == settings
        assert model.facts.memory_estimate == check_memory(data, settings)

    @pytest.mark.parametrize("name", PART_NAMES)
    def test_weights_are_repetitions(self, name):
        X, Y = words(300, 20, 100)
        w = np.random.default_rng(0).integers(1, 4, 300)
        repeated = np.repeat(np.arange(300), w)
        exact = {
            "n_components": 20,
            "n_iter": 4,
            "trees": replace(TREES, tolerance=1e-6, passes=5000, prune_below=0.0),
        }
        scores = []
        for data in (examples(X, Y, w.astype(float)), examples(X[repeated], Y[repeated])):
            part = fit_model(data, settings_of(data, name, **exact)).parts[name]
            scores.append(part.every(part.prepare(X)))
        assert_allclose(scores[0], scores[1], atol=1e-2)

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
        settings = settings_of(data, "trees", "embedding")
        model = fit_model(data, settings, Learned(blend, 0.3))
        assert (model.blend, model.threshold) == (blend, 0.3)
        of_trees = replace(
            blend,
            weights={"trees": weights["trees"]},
            quadratic=((0.1, 0.2), (0.2, 0.0)),
            unlisted=(0.5, 0.1, -4.0),
        )
        alone = fit_model(data, settings_of(data, "trees"), Learned(of_trees))
        # What only the embedding lists is not listed by trees alone.
        listed = answer(alone, Request(data.X[:], LIST_LENGTH)).labels
        both = np.take_along_axis(all_log_odds(model, data), listed, axis=1)
        expected = np.take_along_axis(all_log_odds(alone, data), listed, axis=1)
        assert_allclose(both, expected, rtol=1e-5, atol=1e-5)
        monkeypatch.setattr("rembrandt.candidates.LIST_LENGTH", model.n_labels)
        assert_allclose(all_log_odds(model, data), all_log_odds(alone, data), rtol=1e-5, atol=1e-5)

    def test_trees_find_rare_labels_that_a_small_embedding_cannot_tell_apart(self):
        train, test = (examples(*words(600, 60, 300, seed)) for seed in (0, 1))
        embedding = fit_model(train, settings_of(train, "embedding"))
        both = fit_model(train, settings_of(train, "trees", "embedding"))
        assert first_is_right(both, test) > first_is_right(embedding, test) + 0.3

    def test_an_embedding_of_features_goes_with_trees(self):
        data = texts()
        model = fit_model(data, settings_of(data, "trees", "embedding", method="pca"))
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
        settings = settings_of(data, *names, n_components=2)
        probabilities = []
        for rows in (stored.X, data.X):
            model = fit_model(replace(data, X=rows), settings, backend=backend_for("cpu", rows))
            probabilities.append(all_probabilities(model, X))
        assert_allclose(probabilities[0], probabilities[1], atol=1e-5)


class TestAlgorithm3:
    """The paper's classifier: label embedding, ridge regression on it, logistic regression in
    it.
    """

    def test_it_is_an_embedding_with_a_logistic_decoder_and_no_kernel(self):
        X, y = blobs(n=600, noise=1.0)
        settings = EmbeddingSettings(
            label_power=0, row_power=0, leave_out=0.0, n_iter=4, tol=1e-8, max_epochs=200
        )
        classifier = RembrandtClassifier(
            parts=("embedding",),
            decoder="logistic",
            kernel=None,
            n_components=3,
            ridge=0.1,
            normalize=False,
            embedding=settings,
            random_state=0,
        ).fit(X, y)
        [part] = classifier.model_.parts.values()
        # Line by line with dense matrices: the eigenvectors of YᵀX(XᵀX + λI)⁻¹XᵀY, and the
        # regression on YV. The rows that stop the decoder have no weight in the embedding.
        order = np.argsort(row_hashes(examples(X, np.eye(6)[y])), kind="stable")
        X1, Y = np.hstack([X, np.ones((len(X), 1))])[order], np.eye(6)[y[order]]
        stopping = stopping_rows(sparse.csr_array(Y), None, True, 0)
        X1, Y = np.delete(X1, stopping, axis=0), np.delete(Y, stopping, axis=0)
        gram = X1.T @ X1
        inverse = np.linalg.inv(gram + 0.1 * np.trace(gram) / len(gram) * np.eye(len(gram)))
        values, V = np.linalg.eigh(Y.T @ X1 @ inverse @ X1.T @ Y)
        values, V = values[::-1][:3], V[:, ::-1][:, :3]
        assert_allclose(part.singular_values, values, rtol=1e-5)
        signs = np.sign((part.vectors * V).sum(axis=0))
        assert_allclose(part.vectors, V * signs, atol=1e-4)
        assert_allclose(part.projection, inverse @ X1.T @ Y @ V * signs, atol=1e-4)
        # Scores are linear in the projected rows, and predict new rows about as well as an exact
        # logistic regression on them; ours stops early.
        H = np.hstack([X, np.ones((len(X), 1))]) @ part.projection
        new, expected = blobs(n=600, noise=1.0, seed=1)
        assert part.decoder.fourier is None and part.decoder.link == "softmax"
        scores = H @ part.decoder.weights + part.decoder.bias
        assert_allclose(part.every(part.prepare(X)), scores, rtol=1e-4, atol=1e-4)
        reference = LogisticRegression(C=1e6, max_iter=5000).fit(H, y)
        projected = np.hstack([new, np.ones((600, 1))]) @ part.projection
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
        result = search(train, settings_of(train, *names))
        model = fit_model(train, result.settings, result.learned)
        not_learned = fit_model(train, result.settings)

        def error(fitted):
            ranked = answer(fitted, Request(test.X[:], 5))
            return calibration_error(reliability(ranked.probabilities, hits(test.Y, ranked.labels)))

        assert error(model) < 0.05
        assert result.calibration_error < 0.05
        assert error(model) < error(not_learned) + 0.01
        if multiclass:
            assert_allclose(all_probabilities(model, test.X[:]).sum(axis=1), 1, rtol=1e-4)

    @pytest.mark.parametrize("threshold", ["micro", "macro", 0.3])
    def test_thresholds_are_chosen_where_the_settings_say_so(self, threshold):
        data = examples(*skewed())
        learned = search(data, settings_of(data, "embedding", threshold=threshold)).learned
        assert np.shape(learned.threshold) == ((30,) if threshold == "macro" else ())
        assert threshold != 0.3 or learned.threshold == 0.3

    def test_the_threshold_is_near_the_best_on_new_rows(self):
        train, test = (examples(*skewed(n=1200, seed=seed)) for seed in (0, 2))
        result = search(train, settings_of(train, "trees", "embedding"))
        model = fit_model(train, result.settings, result.learned)
        truth = test.Y.toarray()

        def f1(threshold):
            labels = answer(model, Request(test.X[:], threshold=threshold)).labels
            predicted = indicator(labels, model.n_labels).toarray()
            return f1_score(truth, predicted, average="micro")

        assert f1(model.threshold) > 0.95 * max(map(f1, np.linspace(0.1, 0.9, 9)))


class TestTogether:
    """Parts that are fitted at the same time."""

    def digests(self, model):
        arrays = {}
        for name, part in model.parts.items():
            arrays |= {f"{name} {array}": values for array, values in part.arrays()[0].items()}
        return arrays

    def test_the_number_of_threads_and_of_parts_at_a_time_changes_nothing(self, monkeypatch):
        data = texts()
        settings = settings_of(data, *PART_NAMES, kernel="gaussian", n_random_features=50)
        models = []
        for n_threads in "135":
            monkeypatch.setenv("REMBRANDT_NUM_THREADS", n_threads)
            models.append(fit_model(data, settings))
        first, *others = models
        for other in others:
            assert list(other.parts) == list(PART_NAMES)
            arrays = self.digests(other)
            assert arrays.keys() == self.digests(first).keys()
            for name, values in self.digests(first).items():
                assert_array_equal(arrays[name], values, strict=True)

    def test_blas_has_one_thread_for_sparse_rows_and_parts_that_may_be_fitted_beside_others(self):
        data = texts()

        def n_blas_threads(name, settings, data=data):
            with threads_of_part(name, data, settings, CPU):
                return {
                    library["num_threads"]
                    for library in threadpool_info()
                    if library["user_api"] == "blas"
                }

        together = settings_of(data, *PART_NAMES)
        assert n_blas_threads("embedding", together) == {1}
        alone = settings_of(data, "embedding", decoder="ridge")
        assert n_blas_threads("embedding", alone) == {1}
        dense = replace(data, X=as_rows(data.X[:].toarray()))
        before = {
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        }
        assert n_blas_threads("embedding", alone, dense) == before
        assert n_blas_threads("embedding", together, dense) == {1}

    def test_those_that_learn_from_others_wait_for_them(self):
        data = texts()
        together = settings_of(data, *PART_NAMES)
        assert independent_parts(data, together) == list(PART_NAMES)
        waits = settings_of(data, *PART_NAMES, decoder="candidates", kernel=None)
        assert independent_parts(data, waits) == ["trees", "centroids"]
        alone = settings_of(data, "embedding", decoder="ridge")
        assert independent_parts(data, alone) == ["embedding"]

    def test_there_is_one_of_each_kind(self):
        data = texts()
        vectors = np.random.default_rng(0).standard_normal((data.n, 5)).astype(np.float32)
        data = replace(data, vectors=(as_rows(vectors),))
        settings = settings_of(data, "trees", "embedding")
        assert tuple(settings.parts) == ("trees", "embedding", "vectors")
        assert independent_parts(data, settings) == ["trees", "embedding"]

    def test_rows_on_disk_are_read_by_one_part_at_a_time(self, tmp_path):
        X, y = words(200, 10, 50)
        data = examples(X, y)
        settings = settings_of(data, "trees", "embedding")
        assert len(independent_parts(data, settings)) == 2
        on_disk = replace(data, X=StoredRowsOfNothing(data.X[:]))
        assert independent_parts(on_disk, settings) == []

    def test_with_little_memory_they_are_fitted_one_after_the_other(self, monkeypatch):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
        data = texts()
        settings = settings_of(data, *PART_NAMES)
        names = []

        def fit(name, earlier, report):
            names.append(name)
            return name

        assert fit_together(data, settings, fit) == {name: name for name in PART_NAMES}
        assert sorted(names) == sorted(PART_NAMES)
        much = check_memory(data, settings)
        monkeypatch.setattr(memory, "available", lambda: much - 1)
        assert fit_together(data, settings, fit) == {}
        assert check_memory(data, settings) < much

    def test_where_memory_runs_out_nothing_is_kept(self, monkeypatch):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")

        def fit(name, earlier, report):
            raise MemoryError("no room")

        data = texts()
        assert fit_together(data, settings_of(data, *PART_NAMES), fit) == {}


class TestMemory:
    def test_more_of_anything_needs_more(self):
        data = examples(*directions())
        settings = settings_of(data, "embedding")
        small = check_memory(data, settings)
        assert check_memory(data, settings_of(data, "embedding", n_components=400)) > small
        kernel = settings_of(data, "embedding", kernel="gaussian", n_random_features=1000)
        assert check_memory(data, kernel) > small
        assert check_memory(examples(*directions(n=5000)), settings) > small

    def test_vectors_beside_the_features_count(self):
        data = examples(*directions())
        vectors = np.random.default_rng(0).standard_normal((data.n, 3000)).astype(np.float32)
        with_vectors = replace(data, vectors=(as_rows(vectors),))
        settings = settings_of(with_vectors, "embedding")
        assert tuple(settings.parts) == ("embedding", "vectors")
        features_alone = check_memory(data, settings.with_parts(["embedding"]))
        assert check_memory(with_vectors, settings) > features_alone + vectors.nbytes

    def test_a_fit_that_does_not_fit_is_refused_before_it_begins(self, monkeypatch):
        data = examples(*directions())
        stages = []
        monkeypatch.setattr(memory, "available", lambda: 1000)
        for names in SUBSETS:
            with pytest.raises(MemoryEstimateError, match="GiB is free"):
                fit_model(
                    data,
                    settings_of(data, *names),
                    report=lambda stage, *_: stages.append(stage),
                )
        assert stages == []


class TestFirstTree:
    """A tree that was fitted to nearly all rows for the blend is the first tree of the model."""

    trees = TreeSettings(n_trees=2, max_example_node_pairs=4e3, cost=1.0, passes=10)

    def searched(self, n=5200):
        data = examples(*words(n, 200, 600))
        return data, search(data, settings_of(data, "trees", trees=self.trees))

    def test_it_is_kept(self):
        data, result = self.searched()
        arrays, facts = result.arrays()
        after_interruption = SearchResult.from_arrays(arrays, json.loads(json.dumps(facts)))
        probabilities = []
        for learned in (result.learned, after_interruption.learned):
            model = fit_model(data, result.settings, learned)
            first, second = model.parts["trees"].trees
            begun = learned.begun["trees"].trees[0]
            assert_array_equal(first.labels.weights.toarray(), begun.labels.weights.toarray())
            assert first.labels.weights.nnz != second.labels.weights.nnz
            probabilities.append(all_probabilities(model, data.X[:50]))
        assert_array_equal(probabilities[0], probabilities[1])

    def test_that_of_one_of_several_splits_is_not(self):
        assert self.searched(400)[1].learned.begun == {}

    def test_that_of_too_few_rows_is_not(self, monkeypatch):
        monkeypatch.setattr(import_module("rembrandt.search.search"), "NEARLY_ALL", 0.9)
        assert self.searched()[1].learned.begun == {}
