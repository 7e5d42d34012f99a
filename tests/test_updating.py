"""More examples and labels for a fitted model: the decoder becomes that of ridge on all rows, in
the same embedding.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import RembrandtClassifier, load
from rembrandt.data import catalogue
from rembrandt.data.convert import convert
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.estimators.classifier import _warn_if_large
from rembrandt.estimators.requests import rows_of, top_columns
from rembrandt.fitting import fit_model
from rembrandt.metrics import precision_at_k
from rembrandt.parts.centroids.settings import CentroidSettings
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.protocol import Fitting, Update
from rembrandt.parts.registry import KINDS
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.predict import Request, answer
from rembrandt.updating import outside, refit_due, update_model
from tests.estimators.problems import directions, examples, settings_for, settled, words

KERNEL = {"kernel": "gaussian", "n_random_features": 60}
GROWABLE = settled(growable=True)
ignore_due = pytest.mark.filterwarnings("ignore::rembrandt.errors.RembrandtWarning")


def dense_ridge(Phi, Y, strength, w):
    """Solve ridge with a free intercept by its equations; nothing is shared with the code under
    test.
    """
    mu, nu = w @ Phi / w.sum(), w @ Y / w.sum()
    A = (Phi - mu).T * w @ (Phi - mu)
    A += strength * np.trace(A) / w.sum() * np.eye(len(A))
    Q = np.linalg.solve(A, (Phi - mu).T * w @ (Y - nu))
    return Q, nu - mu @ Q


def more_examples(X, Y, weights=None):
    """Return examples for an update: the labels of the model are the first columns of Y."""
    matrix = sparse.csr_array(Y)
    classes = np.arange(matrix.shape[1])
    return Examples(as_rows(X), matrix, classes, multiclass=False, weights=weights)


def scores_of(part, X):
    return part.every(part.prepare(X))


def lists_of(Y):
    return [np.flatnonzero(row).tolist() for row in Y]


class TestExact:
    @settings(max_examples=40, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
        labels=st.integers(2, 12),
        new=st.integers(0, 4),
        kernel=st.sampled_from([None, "gaussian"]),
        weighted=st.booleans(),
        normalize=st.booleans(),
        strength=st.sampled_from([1e-3, 0.1, 1.0]),
    )
    def test_updates_in_parts_give_the_ridge_decoder_of_all_rows(
        self, seed, sizes, labels, new, kernel, weighted, normalize, strength
    ):
        rng = np.random.default_rng(seed)
        n, c = 30 + sum(sizes), labels + new
        X = rng.standard_normal((n, 6)) + 3 * rng.standard_normal(6)
        Y = (rng.random((n, c)) < 0.3).astype(np.float32)
        Y[0, :labels], Y[:30, labels:] = 1, 0  # new labels come with the later rows
        w = (
            rng.choice([0.5, 1.0, 1.5, 2.0], n) if weighted else None
        )  # exact in float32, as labels are
        first = examples(X[:30], sparse.csr_array(Y[:30, :labels]), None if w is None else w[:30])
        settings = settings_for(
            first,
            n_components=4,
            decoder_ridge=strength,
            kernel=kernel,
            normalize=normalize,
            n_random_features=7,
            growable=True,
        )
        model = start = fit_model(first, settings)
        at = 30
        for size in sizes:
            rows = slice(at, at + size)
            names = np.arange(model.n_labels, c)
            weights = None if w is None else w[rows]
            model = update_model(model, more_examples(X[rows], Y[rows], weights), names)
            at += size
        fitted = start.parts["embedding"]
        H = fitted.project(X)
        w = np.ones(n) if w is None else w
        Q, bias = dense_ridge(fitted.decoder.features(H), Y, strength, w)
        updated = model.parts["embedding"]
        largest = np.abs(Q).max()
        assert_allclose(updated.decoder.weights, Q, rtol=1e-5, atol=1e-6 * largest + 1e-12)
        assert_allclose(updated.decoder.bias, bias, rtol=1e-5, atol=1e-6 * (1 + largest))
        assert updated.moments.total == pytest.approx(w.sum())
        assert (model.n_train, model.n_labels) == (n, c)
        assert updated.vectors.shape[0] == c
        assert_array_equal(model.label_counts, Y.sum(axis=0))

    @ignore_due
    @pytest.mark.parametrize(
        "more",
        [{}, KERNEL, {"normalize": True}, {"label_power": 0.5, "row_power": 0.5}],
        ids=["linear", "kernel", "normalized", "scaled"],
    )
    def test_an_updated_classifier_is_saved_and_updated_again(self, more, tmp_path):
        X, Y = directions()
        Y[:400, 10:] = 0
        classifier = RembrandtClassifier(**settled(growable=True, **more)).fit(
            X[:400], sparse.csr_array(Y[:400, :10])
        )
        start = classifier.build_shortlist().model_.parts["embedding"]
        classifier.partial_fit(X[400:450], Y[400:450], classes=range(12)).save(tmp_path / "model")
        again = load(tmp_path / "model")
        features = start.decoder.features(start.project(X))
        Q, bias = dense_ridge(features, Y, 0.01, np.ones(len(X)))
        for updated in (again, classifier):
            updated.partial_fit(X[450:], lists_of(Y[450:]))
            part = updated.model_.parts["embedding"]
            assert_allclose(part.decoder.weights, Q, rtol=1e-6, atol=1e-8)
            assert_allclose(part.decoder.bias, bias, rtol=1e-6, atol=1e-8)
            assert updated.n_train_ == 500
            assert updated.classes_.tolist() == list(range(12))
            assert_array_equal(updated.label_counts_, Y.sum(axis=0))
            assert [update.n_examples for update in updated.facts_.updates] == [50, 50]
            assert_array_equal(updated.embedding_[:10], start.vectors)
            assert_array_equal(part.projection, start.projection)
            assert part.index is None, "the index was of other weights"

    @ignore_due
    def test_many_small_updates_in_float32_stay_near_one_large_update(self):
        X, Y = directions(n=900)
        X = X.astype(np.float32)
        start = RembrandtClassifier(**settled(growable=True, **KERNEL)).fit(
            X[:300], sparse.csr_array(Y[:300])
        )
        scores = []
        for size in (600, 10):
            updated = RembrandtClassifier(**start.get_params())
            updated.__dict__ |= vars(start)
            for rows in range(300, 900, size):
                updated.partial_fit(X[rows : rows + size], sparse.csr_array(Y[rows : rows + size]))
            scores.append(scores_of(updated.model_.parts["embedding"], X))
        assert_allclose(scores[1], scores[0], atol=2e-5)

    @ignore_due
    def test_rows_on_disk_update_as_rows_in_memory(self, tmp_path):
        X, Y = directions(n=120, labels=3, d=5, multiclass=True)
        y = Y.argmax(axis=1)
        (tmp_path / "rows.svm").write_text(
            "".join(
                f"{c} {' '.join(f'{j}:{v:.3f}' for j, v in enumerate(row))}\n"
                for c, row in zip(y, X, strict=True)
            )
        )
        stored = convert([tmp_path / "rows.svm"], tmp_path / "store", rows=50).dataset()
        classifiers = []
        in_memory = replace(stored, X=stored.X[:])
        for data in (stored, in_memory):
            classifier = RembrandtClassifier(**GROWABLE).fit_dataset(in_memory)
            classifiers.append(classifier.update_dataset(data))
        assert classifiers[0].n_train_ == 240
        scores = [classifier.decision_function(in_memory.X) for classifier in classifiers]
        assert_allclose(scores[0], scores[1], atol=1e-5)


class TestLabels:
    def test_new_labels_are_found_and_old_ones_still(self):
        X, Y = directions()
        new = Y[:, 10:].any(axis=1)
        classifier = RembrandtClassifier(**GROWABLE).fit(X[~new], sparse.csr_array(Y[~new][:, :10]))
        test, truth = directions(seed=1)
        old = ~truth[:, 10:].any(axis=1)

        def precision(rows):
            best = top_columns(classifier, rows_of(classifier, test[rows]), 1)[0]
            return np.take_along_axis(truth[rows], best, axis=1).mean()

        before = precision(old)
        with pytest.warns(RembrandtWarning, match="outside the embedding"):
            classifier.partial_fit(X[new], lists_of(Y[new]))
        assert classifier.classes_.tolist() == list(range(12))
        # The embedding has no direction for new labels: they use those that the old ones share.
        assert precision(old) > before - 0.05
        assert precision(~old) > 0.4
        likely = classifier.predict_proba(test)[:, 10:]
        assert likely[truth[:, 10:] == 1].mean() > 3 * likely[truth[:, 10:] == 0].mean()
        # The vector of a new label is near the projected rows that have it, as those of the fit
        # are.
        scores = classifier.model_.parts["embedding"].project(test) @ classifier.embedding_.T
        assert (
            scores[:, 10][truth[:, 10] == 1].mean() > scores[:, 10][truth[:, 10] == 0].mean() + 0.3
        )

    def test_integers_in_lists_survive_a_second_call(self):
        X, Y = directions()
        classifier = RembrandtClassifier(**settled())
        for rows in (slice(0, 300), slice(300, 400), slice(400, 500)):
            classifier.partial_fit(X[rows], lists_of(Y[rows]))
        assert classifier.classes_.dtype.kind == "i" and classifier.classes_.tolist() == list(
            range(12)
        )
        assert_array_equal(classifier.label_counts_, Y.sum(axis=0))

    def test_strings_in_lists_survive_a_second_call(self):
        X, Y = directions()
        names = [[f"label {j}" for j in each] for each in lists_of(Y)]
        classifier = RembrandtClassifier(**settled()).partial_fit(X[:400], names[:400])
        classifier.partial_fit(X[400:], names[400:])
        assert set(classifier.classes_) == {f"label {j}" for j in range(12)}
        assert classifier.score(X, names) > 0.7

    def test_the_first_call_is_a_fit_and_more_examples_help(self):
        X, Y = directions(n=1500)
        embedding = EmbeddingSettings(n_random_features=60)
        classifier = RembrandtClassifier(kernel="gaussian", embedding=embedding, random_state=0)
        names = [[f"label {j}" for j in each] for each in lists_of(Y)]
        classifier.partial_fit(X[:60], names[:60])
        settings = classifier.settings_["parts"]["embedding"]["settings"]
        assert settings["decoder"] == "ridge", "an open decoder can be updated"
        assert not classifier.growable, "parameters stay as they were given"
        before = classifier.score(X[1000:], names[1000:])
        with pytest.warns(RembrandtWarning, match="900 of the 960 examples .* fit again"):
            classifier.partial_fit(X[60:960], names[60:960])
        assert classifier.score(X[1000:], names[1000:]) > before
        assert "fit again" in refit_due(classifier.model_)

    def test_classes_may_be_named_before_their_examples(self):
        X, Y = directions(multiclass=True)
        y = Y.argmax(axis=1)
        classifier = RembrandtClassifier(**settled(**KERNEL)).partial_fit(
            X[:40], 1 * (X[:40, 0] > 0), range(12)
        )
        assert classifier.classes_.tolist() == list(range(12))
        with pytest.warns(RembrandtWarning, match="outside the embedding"):
            classifier.partial_fit(X, y)
        assert classifier.score(X, y) > 0.3
        other = RembrandtClassifier(**settled()).partial_fit(
            X[:99], np.eye(12)[y[:99]], [f"c{i}" for i in range(12)]
        )
        assert other.classes_[0] == "c0" and other.predict(X[:2]).shape == (2, 12)
        assert other.predict(X[:2]).dtype == np.float64

    def test_texts_use_the_vocabulary_of_the_fit(self):
        texts = ["red apple", "green apple", "red car", "fast car"] * 10
        tags = [["fruit"], ["fruit"], ["vehicle"], ["vehicle"]] * 10
        classifier = RembrandtClassifier(**settled(**KERNEL)).partial_fit(texts, tags)
        words = classifier.n_features_in_
        with pytest.warns(
            RembrandtWarning, match="fit again"
        ):  # half of the new labels have no direction
            classifier.partial_fit(["fast boat", "red boat"] * 5, [["vehicle", "boat"]] * 10)
        assert classifier.n_features_in_ == words and set(classifier.classes_) == {
            "fruit",
            "vehicle",
            "boat",
        }
        assert classifier.predict_topk(["fast"], k=2)[0][0, 0] == "vehicle"

    @ignore_due
    def test_thresholds_of_new_labels_are_those_of_an_average_one(self):
        X, Y = directions()
        classifier = RembrandtClassifier(**settled(growable=True, threshold="macro")).fit(
            X, sparse.csr_array(Y)
        )
        before = classifier.model_.threshold
        classifier.partial_fit(X, np.hstack([Y, Y[:, :2]]), classes=range(14))
        assert_array_equal(classifier.model_.threshold, np.append(before, [np.median(before)] * 2))
        assert classifier.predict(X).shape == (500, 14)

    @ignore_due
    def test_the_blend_is_kept(self):
        X, Y = directions()
        classifier = RembrandtClassifier(**settled(growable=True)).fit(X, sparse.csr_array(Y))
        before = classifier.model_.blend
        assert classifier.partial_fit(X, Y).model_.blend is before


class TestRefitDue:
    def test_the_part_of_new_labels_that_the_embedding_misses(self):
        X, Y = directions()
        model = RembrandtClassifier(**GROWABLE).fit(X, sparse.csr_array(Y)).model_
        assert outside(model, model.label_counts) == pytest.approx(0, abs=1e-12)
        assert outside(model, np.append(np.zeros(12, int), 7)) == 1
        assert outside(
            model, np.append(model.label_counts, model.label_counts.sum())
        ) == pytest.approx(0.5)
        assert outside(model, np.zeros(12, int)) == 0
        assert refit_due(model) is None


def small_settings(data, names, n_trees=2, max_example_node_pairs=3e3, **changes):
    """Settings of a model with these parts; few pairs make clusters."""
    trees = TreeSettings(
        n_trees=n_trees, max_example_node_pairs=max_example_node_pairs, cost=1.0, passes=10
    )
    return settings_for(data, **{"parts": names, "n_components": 6, "trees": trees} | changes)


def first_and_more(n_rows=600, n_labels=40, seed=0):
    """Rows of words with one label; a tenth of the labels are in the later rows alone."""
    X, Y = words(n_rows, n_labels, 5 * n_labels, seed)
    n_old = n_labels - n_labels // 10
    late = np.asarray(Y[:, n_old:].sum(axis=1)).ravel() > 0
    late[::7] = True
    return X, Y, ~late, late


def best_labels(model, X):
    return answer(model, Request(X, 1)).labels[:, 0]


class TestTrees:
    @pytest.mark.parametrize("has_clusters", [True, False], ids=["clusters", "flat"])
    def test_with_history_nodes_with_new_examples_are_those_of_a_fit_to_all(self, has_clusters):
        # Few labels have no clusters.
        n_labels = 200 if has_clusters else 40
        n_old = n_labels - n_labels // 10
        X, Y, first, late = first_and_more(15 * n_labels, n_labels)
        n_pairs = 3e4 if has_clusters else 3e7
        old = examples(X[first], sparse.csr_array(Y[first][:, :n_old]))
        model = fit_model(old, small_settings(old, ("trees",), 1, n_pairs))
        history = more_examples(X[first], Y[first])
        updated = update_model(
            model, more_examples(X[late], Y[late]), np.arange(n_old, n_labels), history=history
        )
        assert updated.n_labels == n_labels
        assert updated.facts.updates[-1].missed == ()
        [before] = model.parts["trees"].trees
        [after] = updated.parts["trees"].trees
        assert before.has_clusters == has_clusters
        assert_array_equal(after.labels.parent[:n_old], before.labels.parent)
        untouched = np.setdiff1d(np.arange(n_old), Y[late].indices)
        n_changed = (after.labels.weights[untouched] - before.labels.weights[untouched]).nnz
        assert n_changed == 0
        assert len(untouched) < n_old / 3
        data = examples(X, Y)
        whole = fit_model(data, small_settings(data, ("trees",), 1, n_pairs))
        best_of_updated = best_labels(updated, X)
        best_of_whole = best_labels(whole, X)
        truth = Y.indices
        assert (best_of_updated == truth).mean() > (best_of_whole == truth).mean() - 0.02
        n_new_found = (best_of_updated[late] >= n_old).sum()
        assert n_new_found > 0.9 * (Y[late].indices >= n_old).sum()
        if has_clusters:  # they have weights of all features, as before
            assert after.levels[0].weights.nnz > 0.9 * before.levels[0].weights.nnz
        else:  # a node learns from all examples in either case
            changed = np.unique(Y[late].indices)
            [tree_of_whole] = whole.parts["trees"].trees
            assert_allclose(
                after.labels.weights[changed].toarray(),
                tree_of_whole.labels.weights[changed].toarray(),
                atol=0.35,
            )

    def test_without_history_new_labels_are_found_and_known_ones_stay(self):
        X, Y, first, late = first_and_more()
        names = ("trees", "centroids", "embedding")
        old = examples(X[first], sparse.csr_array(Y[first][:, :36]))
        model = fit_model(old, small_settings(old, names))
        updated = update_model(model, more_examples(X[late], Y[late]), np.arange(36, 40))
        missed = " ".join(updated.facts.updates[-1].missed)
        assert "history" in missed
        assert "taken to be like the new ones" in missed
        weights = [m.parts["trees"].trees[0].labels.weights[:36] for m in (model, updated)]
        assert (weights[0] - weights[1]).nnz == 0
        test, truth = words(600, seed=9)
        first_labels = best_labels(updated, test)
        new = truth.indices >= 36
        assert (first_labels == truth.indices)[new].mean() > 0.6
        assert (first_labels[~new] >= 36).mean() < 0.1
        known = truth.indices[~new]
        before = (best_labels(model, test[~new]) == known).mean()
        after = (best_labels(updated, test[~new]) == known).mean()
        assert after > before - 0.03

    def test_trees_alone_need_the_old_examples(self):
        X, Y, first, late = first_and_more()
        old = examples(X[first], Y[first])
        model = fit_model(old, small_settings(old, ("trees",)))
        more = more_examples(X[late], Y[late])
        with pytest.raises(SettingsError, match="give the old ones as history") as refused:
            update_model(model, more, np.empty(0, int))
        assert refused.value.parameters == ("history",)
        old = examples(X[first], sparse.csr_array(Y[first][:, :36]))
        both = fit_model(old, small_settings(old, ("trees", "embedding")))
        updated = update_model(both, more, np.arange(36, 40))
        assert "the trees do not know the new labels" in updated.facts.updates[-1].missed
        assert updated.parts["trees"].n_labels == 40


class TestCentroids:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_they_are_those_of_all_examples(self, weighted):
        X, Y, first, late = first_and_more()
        kind = KINDS["centroids"]
        settings = CentroidSettings()
        w = np.ones(len(first))
        if weighted:
            w = np.random.default_rng(0).random(len(first))
        old = more_examples(X[first], Y[first][:, :36], w[first])
        update = Update(
            examples=more_examples(X[late], Y[late], w[late]),
            history=None,
            settings=settings,
            label_counts=np.bincount(old.Y.indices, minlength=36),
            n_train=old.n,
            others={},
        )
        before = kind.fit(old, settings, Fitting())
        after, missed = kind.update(before, update)
        assert missed == []
        whole = kind.fit(more_examples(X, Y, w), settings, Fitting())
        # In half precision.
        assert_allclose(after.centroids.toarray(), whole.centroids.toarray(), atol=1e-3)
        assert_allclose(after.lengths, whole.lengths, rtol=1e-3)


class TestOtherDecoders:
    @pytest.mark.parametrize("decoder", ["discriminant", "logistic", "transpose"])
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_known_labels_stay_and_new_ones_are_found(self, decoder, multiclass):
        X, Y = directions(n=600, multiclass=multiclass)
        late = Y[:, 10:].any(axis=1)
        y = Y.argmax(axis=1)
        first = examples(X[~late], y[~late] if multiclass else sparse.csr_array(Y[~late][:, :10]))
        settings = small_settings(first, ("embedding",), decoder=decoder, n_components=10)
        model = fit_model(first, settings)
        updated = update_model(model, more_examples(X[late], Y[late]), np.arange(10, 12))
        before = model.parts["embedding"]
        after = updated.parts["embedding"]
        assert_array_equal(after.decoder.weights[:, :10], before.decoder.weights)
        missed = updated.facts.updates[-1].missed
        assert f"the {decoder} decoder scores the known labels as before" in missed
        scores = scores_of(after, X)[:, 10:]
        assert scores[Y[:, 10:] == 1].mean() > scores[Y[:, 10:] == 0].mean()

    def test_history_gives_the_moments_that_a_growable_model_keeps(self):
        X, Y = directions()
        first = examples(X[:400], sparse.csr_array(Y[:400]))
        plain = fit_model(first, small_settings(first, ("embedding",)))
        growable = fit_model(first, small_settings(first, ("embedding",), growable=True))
        more = more_examples(X[400:], Y[400:])
        no_classes = np.empty(0, int)
        with_history = update_model(plain, more, no_classes, history=first).parts["embedding"]
        with_moments = update_model(growable, more, no_classes).parts["embedding"]
        assert_allclose(
            with_history.decoder.weights, with_moments.decoder.weights, rtol=1e-6, atol=1e-9
        )
        assert with_history.moments is None, "the model stays as small as it was"


class TestClassifier:
    def test_the_default_is_updated_with_and_without_history(self, tmp_path):
        texts = [f"word{i % 20} other{i % 7} more{i % 3}" for i in range(400)]
        tags = [[f"t{i % 20}", f"o{i % 7}"] for i in range(400)]
        late = [i % 20 == 3 or i % 9 == 0 for i in range(400)]
        rows = {when: [i for i in range(400) if late[i] == when] for when in (False, True)}
        old = [texts[i] for i in rows[False]], [tags[i] for i in rows[False]]
        new = [texts[i] for i in rows[True]], [tags[i] for i in rows[True]]
        for history in (None, old):
            classifier = RembrandtClassifier(random_state=0).fit(*old)
            assert {"trees", "centroids"} <= classifier.model_.parts.keys()
            with warnings.catch_warnings():
                # The embedding has no direction for the new label.
                warnings.simplefilter("ignore", RembrandtWarning)
                classifier.update(*new, history=history)
            assert classifier.n_train_ == 400
            assert "t3" in classifier.classes_
            folder = tmp_path / str(history is None)
            classifier.save(folder)
            again = load(folder)
            assert again.describe()["trained_on"]["n_updated"] == len(new[0])
            assert again.facts_ == classifier.facts_
            labels, probabilities = classifier.predict_topk(texts, 3)
            labels_again, probabilities_again = again.predict_topk(texts, 3)
            assert_array_equal(labels_again, labels)
            assert_array_equal(probabilities_again, probabilities)

    @pytest.mark.parametrize("kind", ["texts", "vectors", "weights"])
    def test_the_history_is_compared_with_what_was_learned(self, kind, tmp_path):
        rng = np.random.default_rng(0)
        n = 60
        X = np.round(rng.standard_normal((n, 6)) * (rng.random((n, 6)) < 0.6), 2)
        X[:, 0] = 1
        y = np.array([f"l{i % 4}" for i in range(n)])
        texts = np.array([f"word{i % 5} other{i % 7} more{i % 3}" for i in range(n)])
        rows = {
            "texts": lambda index: texts[index].tolist(),
            "vectors": lambda index: (texts[index].tolist(), X[index]),
            "weights": lambda index: sparse.csr_matrix(X[index]),
        }[kind]
        first, second, third = np.split(rng.permutation(n), [30, 45])
        weights = {}
        if kind == "weights":
            weights = {"sample_weight": np.linspace(0, 1, 30)}
        fitted = RembrandtClassifier(random_state=0, preset="fast").fit(
            rows(first), y[first], **weights
        )
        fitted.save(tmp_path / "model")
        again = load(tmp_path / "model")
        shuffled = rng.permutation(first)
        again.update(rows(second), y[second], history=(rows(shuffled), y[shuffled]))
        so_far = np.append(second, first)
        again.update(rows(third), y[third], history=(rows(so_far), y[so_far]))

        at = np.flatnonzero(y[first] == "l1")[0]
        other = first.copy()
        other[at] = second[y[second] == "l1"][0]
        swapped = y[first].copy()
        swapped[at] = "l2"
        for index, labels, difference in (
            (first[1:], y[first[1:]], r"history has 29 examples, .* learned from 30"),
            (first, swapped, "number of examples in history differs for 2 labels"),
            (other, y[other], "history has other features than"),
        ):
            model = load(tmp_path / "model")
            with pytest.warns(RembrandtWarning, match=difference):
                model.update(rows(second), y[second], history=(rows(index), labels))

    def test_a_large_covariance_is_announced(self):
        data = examples(*directions())
        kernel = {"kernel": "gaussian", "growable": True, "n_components": 6}
        with pytest.warns(RembrandtWarning, match=r"growable=True adds 12 MB to the model"):
            _warn_if_large(settings_for(data, **kernel, n_random_features=1700))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _warn_if_large(settings_for(data, **kernel, n_random_features=200))
            _warn_if_large(settings_for(data, **kernel | {"kernel": None}))


class TestRefusals:
    @pytest.mark.parametrize(
        "given", [{"decoder": "logistic"}, {"decoder": "transpose"}, {"parts": ("trees",)}]
    )
    def test_an_unfitted_classifier_that_cannot_be_updated_says_so(self, given):
        X, Y = directions()
        classifier = RembrandtClassifier(**given)
        assert not hasattr(classifier, "partial_fit")
        with pytest.raises(AttributeError) as hidden:
            classifier.partial_fit(X, Y)
        assert "decoder='ridge'" in str(hidden.value.__cause__)

    def test_another_decoder_than_ridge_is_refused_before_the_fit(self):
        X, Y = directions()
        with pytest.raises(SettingsError, match=r"growable=True needs decoder='ridge'") as refused:
            RembrandtClassifier(**settled(growable=True, decoder="transpose")).fit(
                X, sparse.csr_array(Y)
            )
        assert refused.value.parameters == ("decoder",)

    @pytest.mark.parametrize(
        ("y", "more", "message"),
        [
            (np.ones((3, 2)), {}, "give classes"),
            (np.ones((3, 2)), {"classes": [1, 1]}, "twice"),
            (["a", "b", "c"], {}, "same type"),
            ([1, 2], {}, "X has 3 rows and y has 2"),
            ([[], [], []], {}, "no example has a label"),
            ([1, 2, 3], {"sample_weight": np.zeros(3)}, "non-zero"),
            ([1, 2, 3], {"sample_weight": -np.ones(3)}, "negative"),
        ],
        ids=[
            "no names",
            "a name twice",
            "strings",
            "rows",
            "no labels",
            "zero weights",
            "negative weights",
        ],
    )
    def test_what_is_given_is_checked(self, y, more, message):
        X, Y = directions()
        classifier = RembrandtClassifier(**GROWABLE).fit(X, sparse.csr_array(Y))
        with pytest.raises(ValueError, match=message):
            classifier.partial_fit(X[:3], y, **more)
        assert classifier.n_train_ == 500

    def test_several_labels_a_row_for_a_model_of_one(self):
        X, Y = directions(multiclass=True)
        classifier = RembrandtClassifier(**GROWABLE).fit(X, Y.argmax(axis=1))
        with pytest.raises(DataError, match="several labels"):
            classifier.partial_fit(X[:2], [[1, 2], [3]])


@pytest.mark.data
@pytest.mark.parametrize("name", ["bibtex", "delicious"])
def test_on_real_sets_an_update_is_nearly_a_fit_to_all(name, real_data):
    train, test = (catalogue.load(name, split, folder=real_data) for split in ("train", "test"))
    late = np.arange(train.n_examples) % 11 == 10
    params = settled(growable=True, normalize=True, decoder_ridge=0.1, n_components=60)
    whole = RembrandtClassifier(**params).fit_dataset(train)
    updated = (
        RembrandtClassifier(**params)
        .fit_dataset(train.rows(~late))
        .update_dataset(train.rows(late))
    )
    # The blend is that of the first fit, learned on other held-out rows.
    precisions = []
    for classifier in (whole, updated):
        part = classifier.model_.parts["embedding"]
        best = part.top(part.prepare(test.X), 1)[0]
        precisions.append(precision_at_k(test.Y, best, 1))
    assert abs(precisions[0] - precisions[1]) < 0.005
