"""A shortlist finds what scoring all labels finds, with the same scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt import RembrandtClassifier, load
from rembrandt.errors import DataError, ModelError, SettingsError
from rembrandt.linalg.kmeans import cluster_means, kmeans
from rembrandt.metrics import top_k
from rembrandt.model.folder import load_folder, save_folder
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.parts.embedding.shortlist import Shortlist, default_size, n_clusters
from rembrandt.parts.trees.settings import TreeSettings
from tests.estimators.problems import settled, several


def decoder(c=3000, D=12, seed=0, dtype=np.float32):
    """Columns around a few dozen centres, of very different lengths, as those of common and rare
    labels are.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((40, D))
    lengths = rng.lognormal(-1, 1, c)
    Q = (centres[rng.integers(0, 40, c)] + 0.4 * rng.standard_normal((c, D))).T * lengths
    return Decoder(Q.astype(dtype), (0.1 * rng.standard_normal(c)).astype(dtype), "identity")


def rows(n=200, D=12, seed=1, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal((n, D)).astype(dtype)


@pytest.fixture(scope="module")
def made():
    full = decoder()
    return full, Shortlist.build(full)


class TestIndex:
    @given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 9), st.integers(0, 2**31))
    @settings(max_examples=40, deadline=None)
    def test_with_all_labels_it_is_full_scoring(self, c, D, k, seed):
        full = decoder(c, D, seed, np.float64)
        Phi = rows(7, D, seed + 1, np.float64)
        labels, scores = top_k(full.scores(Phi), k)
        shortlisted, shortlisted_scores = Shortlist.build(full).top_k(Phi, k, c)
        assert_array_equal(shortlisted, labels)
        assert_allclose(shortlisted_scores, scores, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_scores_are_those_of_full_scoring(self, dtype):
        full = decoder(dtype=dtype)
        Phi = rows(dtype=dtype)
        shortlisted, scores = Shortlist.build(full).top_k(Phi, 5, 100)
        assert scores.dtype == dtype and ((shortlisted >= 0) & (shortlisted < 3000)).all()
        assert all(len(set(row)) == 5 for row in shortlisted)
        assert_allclose(
            scores, np.take_along_axis(full.scores(Phi), shortlisted, axis=1), rtol=1e-4, atol=1e-5
        )
        assert (np.diff(scores, axis=1) <= 0).all()

    def test_more_labels_find_more_and_one_in_ten_is_enough(self, made):
        full, shortlist = made
        Phi = rows(400)
        labels, _ = top_k(full.scores(Phi), 5)
        recall = [
            np.mean(
                [
                    np.isin(a, b)
                    for a, b in zip(labels, shortlist.top_k(Phi, 5, size)[0], strict=True)
                ]
            )
            for size in (50, 300, 1000, 3000)
        ]
        assert recall == sorted(recall) and recall[1] > 0.95 and recall[-1] == 1

    def test_the_same_columns_give_the_same_results(self, made):
        full, shortlist = made
        again = Shortlist.build(full)
        assert_array_equal(again.clusters, shortlist.clusters)
        for values, expected_values in zip(
            again.top_k(rows(), 5, 200), shortlist.top_k(rows(), 5, 200), strict=True
        ):
            assert_array_equal(values, expected_values)

    def test_equal_columns_are_ranked_by_label_index(self):
        same = Decoder(np.ones((3, 50), np.float32), np.zeros(50, np.float32), "identity")
        shortlisted, _ = Shortlist.build(same).top_k(np.ones((4, 3), np.float32), 6, 50)
        assert_array_equal(shortlisted, np.tile(np.arange(6), (4, 1)))

    def test_no_rows_and_one_label(self):
        single = Decoder(np.ones((2, 1), np.float32), np.zeros(1, np.float32), "identity")
        assert Shortlist.build(single).top_k(np.empty((0, 2), np.float32), 3, 1)[0].shape == (0, 3)
        assert Shortlist.build(single).top_k(np.ones((1, 2), np.float32), 2, 1)[0].tolist() == [
            [0, -1]
        ]
        assert n_clusters(1) == default_size(1) == 1 and default_size(200_000) == 5000

    def test_clusters_reach_as_far_as_the_best_of_their_labels_is_expected(self, made):
        full, shortlist = made
        columns = np.vstack([full.weights, full.bias]).T.astype(float)
        layout = shortlist.layout
        for cluster in range(len(layout.reach)):
            members = columns[shortlist.clusters == cluster]
            distances = np.linalg.norm(members - members.mean(axis=0), axis=1)
            n_members, n_dimensions = members.shape
            expected = np.sqrt((distances**2).mean() * 2 * np.log(n_members) / n_dimensions)
            assert_allclose(layout.reach[cluster], expected, rtol=1e-3, atol=1e-3)

    def test_a_wide_cluster_is_searched_before_a_narrow_one_with_a_better_mean(self):
        narrow = np.full(8, 0.5)
        wide = np.array([2, -2, 2, -2, 2, -2, 2, -2.5])
        weights = np.append(narrow, wide)[None].astype(np.float32)
        full = Decoder(weights, np.zeros(16, np.float32), "identity")
        shortlist = Shortlist(full, np.repeat([0, 1], 8).astype(np.int32))
        labels, _ = shortlist.top_k(np.ones((1, 1), np.float32), 2, 8)
        assert labels.tolist() == [[8, 10]]

    def test_clusters_have_their_own_means(self):
        A = rows(500, 4)
        clusters = kmeans(A, 20)
        means = cluster_means(A, clusters, 20)
        for cluster in np.unique(clusters):
            assert_allclose(
                means[cluster], A[clusters == cluster].mean(axis=0), rtol=1e-4, atol=1e-5
            )
        apart = np.linalg.norm(A[:, None] - means[np.unique(clusters)], axis=2).min(axis=1)
        assert apart.mean() < np.linalg.norm(A - A.mean(axis=0), axis=1).mean()


class TestClassifier:
    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls):
        X, Y = several(labels=40)
        return RembrandtClassifier(**settled(kernel="gaussian", n_random_features=100)).fit(X, Y), X

    def test_with_all_labels_it_changes_nothing(self, fitted):
        classifier, X = fitted
        for limits in ({}, {"include": range(0, 40, 3)}, {"exclude": [0, 1]}, {"tail": True}):
            labels, scores = classifier.predict_topk(X, 4, **limits)
            shortlisted, shortlisted_scores = classifier.predict_topk(X, 4, **limits, shortlist=40)
            assert_array_equal(shortlisted, labels)
            assert_allclose(shortlisted_scores, scores, rtol=1e-9)
        assert_array_equal(
            classifier.predict_topk(X, 4, shortlist=True)[0], classifier.predict_topk(X, 4)[0]
        )

    def test_it_is_saved_with_the_model(self, fitted, tmp_path):
        classifier, X = fitted
        expected = classifier.predict_topk(X, 4, shortlist=10)
        classifier.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.model_.parts["embedding"].index is not None
        for values, expected_values in zip(
            again.predict_topk(X, 4, shortlist=10), expected, strict=True
        ):
            assert_array_equal(values, expected_values)

    def test_wrong_clusters_are_refused(self, fitted, tmp_path):
        classifier, _ = fitted
        classifier.build_shortlist().save(tmp_path / "model")
        arrays, facts = load_folder(tmp_path / "model")
        [name] = [name for name in arrays if name.endswith("shortlist.clusters")]
        for wrong in (
            np.full(40, -1, np.int32),
            np.full(40, 40, np.int32),
            np.zeros(39, np.int32),
            np.zeros(40),
        ):
            save_folder(tmp_path / "bad", dict(arrays) | {name: wrong}, facts, force=True)
            with pytest.raises(ModelError, match="clusters"):
                load(tmp_path / "bad")

    @pytest.mark.filterwarnings("ignore::rembrandt.errors.RembrandtWarning")
    def test_new_labels_are_found_too(self):
        X, Y = several(labels=10)
        classifier = RembrandtClassifier(**settled(growable=True)).fit(X, Y).build_shortlist()
        classifier.partial_fit(X, np.hstack([Y, Y[:, :1]]), classes=range(11))
        assert_array_equal(
            classifier.predict_topk(X, 11, shortlist=11)[0], classifier.predict_topk(X, 11)[0]
        )

    @pytest.mark.parametrize("decoder", ["ridge", "logistic"])
    def test_beside_trees_the_candidates_are_those_of_both(self, decoder):
        X, Y = several(n=400, labels=30)
        blended = {"parts": ("trees", "embedding"), "trees": TreeSettings(n_trees=1, cost=1.0)}
        both = RembrandtClassifier(**settled(decoder=decoder, max_epochs=3, **blended)).fit(X, Y)
        for limits in ({}, {"include": range(0, 30, 2)}):
            labels, scores = both.predict_topk(X, 5, **limits)
            shortlisted, shortlisted_scores = both.predict_topk(X, 5, **limits, shortlist=30)
            assert_allclose(shortlisted_scores, scores, rtol=1e-5, atol=1e-6)
            assert (shortlisted == labels).mean() > 0.999

    def test_trees_alone_have_none_and_need_none(self):
        X, Y = several()
        fast = RembrandtClassifier(preset="fast", parts=("trees",), random_state=0).fit(X, Y)
        assert_array_equal(fast.predict_topk(X, 3, shortlist=5)[0], fast.predict_topk(X, 3)[0])

    def test_what_is_given_is_checked(self, fitted):
        classifier, X = fitted
        for wrong in (0, -1, 2.5, "many"):
            with pytest.raises(SettingsError, match="shortlist") as refused:
                classifier.predict_topk(X, shortlist=wrong)
            assert refused.value.parameters == ("shortlist",)
        with pytest.raises(DataError, match="not one of"):
            classifier.predict_topk(X, include=["nothing"], shortlist=10)
