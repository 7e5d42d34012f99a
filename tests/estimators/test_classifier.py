"""The classifier: what it accepts, predicts and refuses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import f1_score

from rembrandt import RembrandtClassifier
from rembrandt.blend import Blend
from rembrandt.data.ordering import in_canonical_order
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.estimators.requests import rows_of, top_columns
from rembrandt.fitting import fit_model
from rembrandt.parts.embedding.settings import DECODERS, EmbeddingSettings
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.planning import resolve
from rembrandt.predict import all_probabilities
from rembrandt.probabilities import log_odds
from rembrandt.search import search
from rembrandt.settings import PRESET_NAMES

from .problems import blobs, examples, settled, several, skewed, words


def classifier(**more):
    return RembrandtClassifier(**settled(**more))


def embedding_scores(fitted, X):
    """Scores of the embedding, before the blend."""
    part = fitted.model_.parts["embedding"]
    return part.every(part.prepare(rows_of(fitted, X).features))


class TestInput:
    @pytest.mark.parametrize(
        "kind", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array]
    )
    def test_sparse_features_give_the_model_of_dense_ones(self, kind):
        X, y = blobs()
        X[X < 0] = 0
        dense, found = classifier().fit(X, y), classifier().fit(kind(X), y)
        assert_allclose(found.decision_function(kind(X)), dense.decision_function(X), atol=1e-3)
        assert_allclose(found.decision_function(X), dense.decision_function(X), atol=1e-3)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
    def test_numbers_of_any_type(self, dtype):
        X, y = blobs()
        X = (10 * X).astype(dtype)
        assert classifier().fit(X, y).score(X, y) > 0.9

    @pytest.mark.parametrize(
        "names",
        [
            np.array(["f", "b", "e", "a", "c", "d"]),
            np.array([30, 10, -5, 7, 0, 2]),
            np.array([0.5, 1, 2, 3, 4, 5]) * 2,
        ],
        ids=["strings", "integers", "floats"],
    )
    def test_classes_of_any_type(self, names):
        X, y = blobs()
        fitted = classifier().fit(X, names[y])
        assert_array_equal(fitted.classes_, np.sort(names))
        assert fitted.predict(X).dtype == (object if names.dtype.kind == "U" else names.dtype)
        assert (fitted.predict(X) == names[y]).mean() > 0.95
        assert fitted.score(X, names[y]) > 0.95
        listed = classifier().fit(X, names[y].tolist())
        assert_array_equal(listed.predict(X), fitted.predict(X))

    def test_a_matrix_of_labels_is_predicted_in_the_form_it_was_given(self):
        X, Y = several()
        dense, stored = classifier().fit(X, Y), classifier().fit(X, sparse.csr_matrix(Y))
        assert isinstance(dense.predict(X), np.ndarray)
        assert sparse.issparse(stored.predict(X))
        assert_array_equal(stored.predict(X).toarray(), dense.predict(X))
        assert (dense.predict(X) == Y).mean() > 0.97
        assert dense.score(X, Y) == stored.score(X, sparse.csr_array(Y))
        assert_array_equal(classifier().fit(X, Y.tolist()).predict(X), dense.predict(X))

    def test_lists_of_names(self):
        X, Y = several()
        names = np.array([f"label {i}" for i in range(8)])
        lists = [names[row == 1].tolist() for row in Y]
        fitted = classifier().fit(X, lists)
        assert sorted(fitted.classes_) == sorted(names)
        columns = [fitted.classes_.tolist().index(name) for name in names]
        expected = classifier().fit(X, Y)
        assert_allclose(
            fitted.decision_function(X)[:, columns], expected.decision_function(X), atol=1e-4
        )
        assert fitted.score(X, lists) == pytest.approx(expected.score(X, Y))
        assert_array_equal(fitted.predict(X).toarray()[:, columns], expected.predict(X))
        assert_array_equal(
            classifier().fit(X, [set(entry) for entry in lists]).predict(X).toarray(),
            fitted.predict(X).toarray(),
        )

    def test_texts(self):
        texts, y = (
            ["red apple", "green apple", "red car", "fast car"] * 10,
            ["fruit", "fruit", "car", "car"] * 10,
        )
        fitted = classifier().fit(texts, y)
        assert fitted.predict(["an apple", "the car"]).tolist() == ["fruit", "car"]
        assert fitted.predict(np.array(["apple"], dtype=object)).tolist() == ["fruit"]
        with pytest.warns(RembrandtWarning, match="1 of 2 texts have no word of the model"):
            assert fitted.predict(["", "car"]).shape == (2,)
        labels, scores = fitted.predict_topk(["", "a car", "unheard"], 1)
        assert labels.tolist() == [[None], ["car"], [None]] and (scores[[0, 2]] == 0).all()
        assert fitted.predict_labels(["", "a car"]) == [[], ["car"]]

    def test_rows_without_features_or_labels(self):
        X, Y = several()
        X[:5] = 0
        Y[3:9] = 0
        for features in (X, sparse.csr_array(X)):
            fitted = classifier(normalize=True).fit(features, Y)
            assert np.isfinite(fitted.decision_function(features)).all()
            assert np.isfinite(fitted.decision_function(features[:1] * 0)).all()
        labelled = Y.any(axis=1) & X.any(axis=1)
        assert fitted.score(X[labelled], Y[labelled]) > 0.95

    def test_more_labels_than_examples(self):
        X = np.eye(12)
        Y = sparse.csr_array(np.repeat(np.eye(12), 4, axis=1))
        for decoder in ("ridge", "transpose"):
            fitted = classifier(decoder=decoder, decoder_ridge=1e-6, ridge=1e-6).fit(X, Y)
            found, _ = fitted.predict_topk(X, 4)
            assert [set(row) for row in found.tolist()] == [
                set(range(4 * i, 4 * i + 4)) for i in range(12)
            ]

    def test_a_label_without_examples(self):
        X, Y = several()
        Y[:, 3] = 0
        fitted = classifier().fit(X, Y)
        assert fitted.predict(X)[:, 3].sum() == 0
        assert fitted.label_counts_[3] == 0


class TestRefusals:
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_features_that_are_not_finite(self, value, kind):
        X, y = blobs()
        fitted = classifier().fit(X, y)
        X[7, 2] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            classifier().fit(kind(X), y)
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            fitted.predict(kind(X))

    def test_one_class(self):
        X, _ = blobs()
        with pytest.raises(DataError, match=r"one class only \(.*'a'.*at least two"):
            classifier().fit(X, ["a"] * len(X))

    def test_no_label_at_all(self):
        X, Y = several()
        for target in (np.zeros_like(Y), sparse.csr_array(Y.shape), [[] for _ in X]):
            with pytest.raises(DataError, match="label"):
                classifier().fit(X, target)

    def test_another_number_of_rows(self):
        X, y = blobs()
        with pytest.raises(DataError, match="X has 300 rows and y has 299"):
            classifier().fit(X, y[:-1])

    def test_values_other_than_zero_and_one(self):
        X, Y = several()
        with pytest.raises(DataError, match="other than 0 and 1"):
            classifier().fit(X, 2 * Y)

    def test_weights_below_zero(self):
        X, y = blobs()
        with pytest.raises(DataError, match="sample_weight"):
            classifier().fit(X, y, sample_weight=np.where(np.arange(300) == 4, -1.0, 1.0))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("decoder", "tree"),
            ("kernel", "rbf"),
            ("normalize", "l1"),
            ("n_components", -3),
            ("decoder_ridge", "strong"),
            ("decoder_ridge", -1.0),
            ("kernel_scale", 0.0),
            ("n_random_features", 0),
            ("threshold", "best"),
        ],
    )
    def test_a_wrong_parameter_is_named(self, name, value):
        X, y = blobs()
        with pytest.raises(SettingsError, match=name) as refused:
            classifier(**{name: value}).fit(X, y)
        assert refused.value.parameters == (name,)

    def test_parameters_that_cannot_be_combined(self):
        X, y = blobs()
        with pytest.raises(SettingsError, match=r"method='pca'.*decoder='ridge'") as refused:
            classifier(method="pca", decoder="transpose").fit(X, y)
        assert refused.value.parameters == ("decoder",)
        with pytest.raises(SettingsError, match="kernel=None") as refused:
            classifier(decoder="transpose", kernel="gaussian").fit(X, y)
        assert refused.value.parameters == ("kernel",)


class TestTopK:
    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls):
        X, y = blobs(noise=1.0)
        return classifier().fit(X, np.array(list("abcdef"))[y])

    def test_it_is_the_sorted_probabilities(self, fitted):
        X, _ = blobs(noise=1.0, seed=1)
        labels, scores = fitted.predict_topk(X, 4)
        order = np.argsort(-fitted.decision_function(X), axis=1, kind="stable")[:, :4]
        assert_array_equal(labels, fitted.classes_[order])
        assert_allclose(
            scores, np.take_along_axis(fitted.predict_proba(X), order, axis=1), rtol=1e-4, atol=1e-6
        )
        assert_array_equal(labels[:, 0], fitted.predict(X))

    @pytest.mark.parametrize("wrap", [list, tuple, set, np.array, iter], ids=lambda w: w.__name__)
    def test_include_and_exclude(self, fitted, wrap):
        X, _ = blobs(noise=1.0, seed=1)
        everything, scores = fitted.predict_topk(X, 6)
        for keep, options in (
            ("bdf", {"include": wrap(list("bdf"))}),
            ("acd", {"exclude": wrap(list("bef"))}),
            ("b", {"include": wrap(list("bd")), "exclude": wrap(["d"])}),
        ):
            labels, values = fitted.predict_topk(X, len(keep), **options)
            chosen = np.isin(everything, list(keep))
            assert_array_equal(labels, everything[chosen].reshape(len(X), -1))
            assert_allclose(values, scores[chosen].reshape(len(X), -1), rtol=1e-5, atol=1e-6)

    def test_where_there_are_fewer_labels(self, fitted):
        X, _ = blobs()
        labels, scores = fitted.predict_topk(X[:3], 9)
        assert labels.shape == scores.shape == (3, 6)
        assert all(set(row) == set("abcdef") for row in labels)
        nothing, scores = fitted.predict_topk(X[:3], 2, include=[])
        assert nothing.shape == scores.shape == (3, 0)

    def test_labels_that_the_model_does_not_know(self, fitted):
        X, _ = blobs()
        with pytest.raises(DataError, match="'z' is not one of the 6"):
            fitted.predict_topk(X, 2, include=["a", "z"])
        with pytest.raises(ValueError, match="k=0"):
            fitted.predict_topk(X, 0)

    def test_equal_scores_are_ranked_by_the_order_of_labels(self):
        """Labels without examples all have the same score, and the lists of a part are in the
        order of labels.
        """
        X, Y = several()
        fitted = classifier().fit(
            X, np.hstack([np.zeros((len(Y), 3), dtype=int), Y, np.zeros((len(Y), 3), dtype=int)])
        )
        labels, _ = fitted.predict_topk(X, 14)
        empty = ~np.isin(labels, np.arange(3, 11))
        assert_array_equal(
            labels[empty].reshape(len(X), 6), np.tile([0, 1, 2, 11, 12, 13], (len(X), 1))
        )

    @pytest.mark.parametrize(
        "decoder", [name for name in DECODERS if name != "candidates"]
    )  # it needs other parts
    @pytest.mark.parametrize("method", ["rembrandt", "cs"])
    def test_every_decoder_predicts(self, decoder, method):
        X, y = blobs()
        fitted = classifier(method=method, decoder=decoder, n_components=5).fit(X, y)
        labels, scores = fitted.predict_topk(X, 3)
        assert (np.diff(scores, axis=1) <= 0).all()
        assert all(len(set(row)) == 3 for row in labels.tolist())
        assert (labels[:, 0] == y).mean() > 0.8
        assert_array_equal(labels[:, 0], fitted.predict(X))


class TestFit:
    def test_the_same_seed_gives_the_same_bits(self):
        X, Y = several()
        for more in (
            {"decoder": "logistic"},
            {"kernel": "gaussian", "n_random_features": 40},
            {"method": "cs"},
        ):
            first, second = (classifier(**{"random_state": 3} | more).fit(X, Y) for _ in range(2))
            assert_array_equal(
                first.model_.parts["embedding"].decoder.weights,
                second.model_.parts["embedding"].decoder.weights,
                strict=True,
            )
            assert_array_equal(first.predict_proba(X), second.predict_proba(X), strict=True)
            other = classifier(**more | {"random_state": 4}).fit(X, Y)
            assert not np.array_equal(
                first.model_.parts["embedding"].decoder.weights,
                other.model_.parts["embedding"].decoder.weights,
            )

    @pytest.mark.parametrize("center", [False, True])
    @pytest.mark.parametrize("method", ["rembrandt", "plst", "cca", "pca"])
    def test_weights_are_repetitions(self, method, center):
        X, Y = several()
        w = np.random.default_rng(0).integers(0, 4, len(X))
        options = {"method": method, "center": center, "n_components": 4, "n_iter": 4}
        weighted = classifier(**options).fit(X, Y, sample_weight=w)
        repeated = classifier(**options).fit(np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0))
        assert_allclose(embedding_scores(weighted, X), embedding_scores(repeated, X), atol=2e-3)
        plain = classifier(**options).fit(X, Y)
        assert np.abs(embedding_scores(plain, X) - embedding_scores(repeated, X)).max() > 5e-3

    def test_the_order_of_rows_does_not_matter_to_ridge(self):
        X, Y = several()
        order = np.random.default_rng(0).permutation(len(X))
        found = embedding_scores(classifier().fit(X[order], Y[order]), X)
        assert_allclose(found, embedding_scores(classifier().fit(X, Y), X), atol=1e-4)

    @pytest.mark.parametrize("method", ["rembrandt", "plst", "cca"])
    @pytest.mark.parametrize("center", [False, True])
    def test_the_transpose_keeps_the_base_rates(self, method, center):
        """With centring the intercept is free, so predictions are right on average, at any rank.

        Without it the constant feature is part of the regression, and all directions together are
        right on average.
        """
        X, Y = several()
        Y = np.hstack([Y, np.ones((len(Y), 1), dtype=int)])  # a label that all rows have
        rank = 2 if center else "auto"
        options = {"method": method, "center": center, "n_components": rank, "ridge": 1e-6}
        scores = embedding_scores(classifier(decoder="transpose", **options).fit(X, Y), X)
        assert_allclose(scores.mean(axis=0), Y.mean(axis=0), atol=0.02)

    def test_what_was_chosen_is_recorded(self):
        X, y = blobs(n=120)
        settings = EmbeddingSettings(n_random_features=30, max_epochs=5)
        fitted = RembrandtClassifier(
            preset="best", parts=("embedding",), embedding=settings, random_state=0
        ).fit(X, y)
        best = max(trial["quality"] for trial in fitted.selection_)
        [chosen] = [trial for trial in fitted.selection_ if trial["outcome"] == "chosen"]
        assert best > 0.9
        # Another value is taken if it is better by more than a standard error.
        assert chosen["quality"] >= best - 0.1
        assert chosen["settings"] == fitted.settings_["parts"]["embedding"]["settings"]

    def test_without_a_budget_nothing_is_searched(self):
        X, y = blobs(n=120)
        fitted = RembrandtClassifier(random_state=0).fit(X, y)
        assert fitted.selection_ == []
        rank = fitted.model_.parts["embedding"].facts()["rank"]
        assert fitted.embedding_.shape == (6, rank)

    def test_empty_features_change_nothing(self):
        X, y = blobs()
        wide = sparse.csr_array(np.hstack([np.zeros((len(X), 3)), X, np.zeros((len(X), 2))]))
        found, plain = classifier(ridge=1e-6).fit(wide, y), classifier(ridge=1e-6).fit(X, y)
        assert found.model_.parts["embedding"].projection.shape[0] == X.shape[1] + 6
        assert_allclose(embedding_scores(found, wide), embedding_scores(plain, X), atol=1e-3)

    def test_fitting_again_forgets(self):
        X, y = blobs()
        texts = ["red apple", "fast car"] * 10
        fitted = classifier().fit(texts, ["fruit", "car"] * 10).fit(X, y)
        assert fitted.text_ is None
        assert fitted.n_features_in_ == X.shape[1]
        assert_array_equal(fitted.predict(X), classifier().fit(X, y).predict(X))


class TestPresets:
    @pytest.mark.parametrize("preset", PRESET_NAMES)
    def test_a_fit_is_what_the_settings_give(self, preset):
        X, Y = words(150, 30, 200)
        small = None if preset == "fast" else EmbeddingSettings(n_random_features=20, max_epochs=2)
        fitted = RembrandtClassifier(preset=preset, embedding=small, random_state=0).fit(X, Y)
        data = in_canonical_order(examples(X, Y))
        settings = resolve(fitted.get_params(deep=False), data)
        result = search(data, settings, varies=preset == "best")
        expected = fit_model(data, result.settings, result.learned)
        assert_array_equal(fitted.decision_function(X), log_odds(all_probabilities(expected, X)))
        assert fitted.settings_ == expected.settings.to_json()
        assert fitted.selection_ == result.trials
        assert fitted.facts_.held_out == result.held_out

    def test_fast_finds_rare_labels(self):
        X, Y = words(400, 30, 200)
        fast = RembrandtClassifier(preset="fast", random_state=0).fit(X, Y)
        assert fast.score(X, Y) > 0.9

    def test_the_parameters_stay_as_they_were_given(self):
        X, Y = words(400, 30, 200)
        fitted = RembrandtClassifier(preset="fast", trees=TreeSettings(n_trees=2), random_state=0)
        before = fitted.get_params()
        fitted.fit(X, Y)
        assert fitted.get_params() == before
        again = clone(fitted).fit(X, Y)
        assert again.get_params() == before
        assert_array_equal(again.decision_function(X), fitted.decision_function(X))


class TestBlend:
    def test_thresholds_serve_the_f1_that_they_are_for(self):
        train, (X, Y) = skewed(n=900), skewed(n=900, seed=1)
        fitted = {
            threshold: classifier(threshold=threshold).fit(*train)
            for threshold in (0.5, "micro", "macro")
        }
        for kind in ("micro", "macro"):
            options = {"average": kind, "zero_division": 0}
            learned = f1_score(Y, fitted[kind].predict(X), **options)
            fixed = f1_score(Y, fitted[0.5].predict(X), **options)
            assert learned > fixed
        assert np.shape(fitted["macro"].model_.threshold) == (30,)
        assert fitted[0.5].threshold_ == 0.5
        assert fitted["micro"].threshold_ == fitted["micro"].model_.threshold
        assert_array_equal(fitted["macro"].threshold_, fitted["macro"].model_.threshold)

    def test_it_is_learned_on_held_out_rows_and_the_model_on_all(self):
        X, Y = skewed(n=900)
        fitted = classifier().fit(X, Y)
        assert fitted.n_train_ == 900 and fitted.model_.blend != Blend.fixed(["embedding"])
        assert fitted.facts_.calibration_error < 0.1
        # The blend, and the embedding alone
        assert [measures.parts for measures in fitted.facts_.held_out] == [("embedding",)] * 2

    def test_few_rows_are_not_held_out(self):
        few = classifier(threshold="macro").fit(*skewed(n=60))
        assert few.model_.blend == Blend.fixed(["embedding"]) and few.model_.threshold == 0.5

    @pytest.mark.parametrize("several_labels", [False, True])
    def test_probabilities_of_the_best_labels_are_those_of_all_labels(self, several_labels):
        X, Y = words(400, 30, 200)
        if several_labels:
            Y = sparse.csr_array(
                ((Y + Y[np.arange(len(Y.indptr) - 1)[::-1]]) > 0).astype(np.float32)
            )
        params = {"parts": ("trees", "centroids"), "random_state": 0}
        fitted = RembrandtClassifier(**params).fit(X, Y if several_labels else Y.indices)
        columns, probabilities = top_columns(fitted, rows_of(fitted, X), 5)
        assert fitted.model_.multiclass is not several_labels
        expected = np.take_along_axis(fitted.predict_proba(X), columns, axis=1)
        assert_array_equal(probabilities, expected)
