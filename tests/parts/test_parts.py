"""The contract of parts, for each kind and each form of it."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import RembrandtClassifier, load
from rembrandt.data.rows import as_rows
from rembrandt.engines.backend import CPU
from rembrandt.errors import SettingsError
from rembrandt.fitting import fit_model
from rembrandt.linalg.sparse import normalize_rows
from rembrandt.metrics import precision_at_k
from rembrandt.parts.allowance import ALLOWANCES
from rembrandt.parts.centroids.fit import label_centroids, largest_entries
from rembrandt.parts.centroids.part import heavy_entries
from rembrandt.parts.centroids.settings import CentroidSettings
from rembrandt.parts.embedding.part import LabelEmbedding
from rembrandt.parts.encoder.settings import EncoderSettings
from rembrandt.parts.names.settings import NameSettings
from rembrandt.parts.protocol import Fitting
from rembrandt.parts.registry import KINDS
from tests.devices import PLACES
from tests.encoders import texts_of_rows, word_encoder
from tests.estimators.problems import examples, settings_for, words
from tests.parts.contract import ABSENT, FEATURES, LABELS, KindContract, PartContract, problem
from tests.parts.problems import (
    all_likelihoods,
    all_scores,
    embedding_settings,
    small_clusters,
    tree_settings,
)

FORM = {"n_components": 20, "leave_out": 0.0, "n_random_features": 80, "max_epochs": 8}


def small_embedding(**changes):
    """Return settings of an embedding that is fitted quickly."""
    return embedding_settings(**FORM | changes)


def fit_small_embedding(data, backend=CPU, **changes):
    return KINDS["embedding"].fit(data, small_embedding(**changes), Fitting(backend=backend))


class TestTreesKind(KindContract):
    name = "trees"

    def test_few_trees_are_kept_and_only_where_they_have_clusters(self, kind, data):
        settings = tree_settings(n_trees=4, max_example_node_pairs=1e3)
        with small_clusters(8):
            part = kind.fit(data, settings, Fitting())
            kept = kind.kept(part, settings)
            assert kept.trees == part.trees[:2]
            again = kind.fit(data, settings, Fitting(begun=kept))
        assert len(again.trees) == 4
        for tree, expected in zip(again.trees, part.trees, strict=True):
            assert_array_equal(tree.labels.weights.data, expected.labels.weights.data)
        flat = kind.fit(data, settings, Fitting())
        assert len(flat.trees) == 1
        assert kind.kept(flat, settings) is None

    def test_a_preset_has_as_many_trees_as_memory_allows(self, kind, monkeypatch):
        data = examples(*problem())
        assert self.resolved(kind, data, "balanced").n_trees == ALLOWANCES["balanced"].n_trees > 1
        monkeypatch.setattr("rembrandt.parts.trees.kind.WEIGHT_BYTES", 1e6)
        assert self.resolved(kind, data, "balanced").n_trees == 1


class TestCentroidsKind(KindContract):
    name = "centroids"


class TestEmbeddingKind(KindContract):
    name = "embedding"

    @pytest.mark.parametrize(
        "changes", [{"decoder": "candidates"}, {"retrieves_labels": False}], ids=str
    )
    def test_without_other_parts_it_searches_all_labels(self, kind, data, changes):
        user = kind.settings_type(**changes)
        with pytest.raises(SettingsError, match="add parts"):
            self.resolved(kind, data, "fast", is_alone=True, user=user)
        settings = self.resolved(kind, data, "fast", is_alone=False, user=user)
        assert settings.retrieves_labels is False

    def test_a_kernel_costs_more_and_is_what_is_given_up(self, kind, data):
        settings = self.resolved(kind, data, "balanced")
        assert settings.kernel == "gaussian"
        [linear] = kind.alternatives(settings, data, None)
        assert linear.kernel is None
        assert linear.decoder_ridge < settings.decoder_ridge


def encoder_settings(**changes):
    """Return settings of a tiny encoder that is fine-tuned quickly."""
    return EncoderSettings(
        word_encoder(),
        **{
            "training": "fine-tune",
            "epochs": 20,
            "batch_size": 32,
            "learning_rate": 2e-3,
            "head_learning_rate": 2e-2,
            "start": "random",
        }
        | changes,
    )


class Texts:
    """Rows of features as texts."""

    n_features = 1

    @classmethod
    def view(cls, X):
        return texts_of_rows(X)

    @classmethod
    def examples(cls, n=300):
        X, Y = problem(n=n)
        return replace(examples(X, Y), texts=texts_of_rows(X))


class TestEncoderKind(Texts, KindContract):
    name = "encoder"
    decided_by_the_fit = frozenset({"decay_epochs", "epochs", "max_tokens"})

    @classmethod
    def forms(cls):
        return [cls.examples]

    @classmethod
    def with_view(cls, data, X):
        return replace(data, texts=texts_of_rows(X))

    @classmethod
    def user(cls):
        return encoder_settings()


def names_of_labels():
    """Names of two words, which are those of the rows of `problem`, and of one more label."""
    present = [label for label in range(LABELS) if label not in ABSENT]
    names = [f"x{label} y{label}" for label in range(LABELS)]
    for number, label in enumerate(present):
        names[label] = f"w{2 * number} w{2 * number + 1}"
    return [*names, "w0 w20"]


def with_names(data):
    """Return examples whose labels have names."""
    return replace(data, label_names=names_of_labels()[: data.n_labels])


class TestNamesKind(Texts, KindContract):
    name = "names"

    @classmethod
    def examples(cls, n=300):
        return with_names(super().examples(n))

    @classmethod
    def forms(cls):
        return [cls.examples]

    @classmethod
    def with_view(cls, data, X):
        return with_names(replace(data, texts=texts_of_rows(X)))


def test_every_kind_is_tested():
    tested = {contract.name for contract in KindContract.__subclasses__()}
    assert tested == KINDS.keys()
    tested = {contract.name for contract in PartContract.__subclasses__()}
    assert tested == KINDS.keys()


class TestCentroids(PartContract):
    name = "centroids"
    settings = CentroidSettings()
    least_precision = 0.7
    # The same bits: fitted on the CPU in any case.
    device_tolerance = 0.0

    def test_a_score_is_the_cosine_with_the_mean_direction(self, X, scores):
        features, Y = problem()
        sums = Y.toarray().T @ normalize_rows(features).toarray()
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        directions = sums / np.where(lengths > 0, lengths, 1)
        expected = normalize_rows(X).toarray() @ directions.T
        assert_allclose(scores, expected, atol=1e-3)  # in half precision

    def test_weights_are_repetitions(self, X):
        features, Y = problem()
        weights = np.random.default_rng(0).integers(0, 4, features.shape[0])
        repeated = np.repeat(np.arange(len(weights)), weights)
        weighted_part = self.fit(examples(features, Y, weights))
        repeated_part = self.fit(replace(examples(features, Y).take(repeated), weights=None))
        assert_allclose(
            all_scores(weighted_part, weighted_part.prepare(X)),
            all_scores(repeated_part, repeated_part.prepare(X)),
            atol=1e-5,
        )

    def test_only_the_largest_entries_are_kept(self):
        data = examples(*problem())
        centroids = label_centroids(data.X, data.Y, n_entries=3)
        assert np.diff(centroids.indptr).max() == 3
        rng = np.random.default_rng(0)
        dense = rng.standard_normal((20, 30)) * (rng.random((20, 30)) < 0.4)
        limits = np.sort(np.abs(dense))[:, [-4]]
        expected = np.where(np.abs(dense) >= limits, dense, 0)
        assert_array_equal(largest_entries(sparse.csr_array(dense), 4).toarray(), expected)

    def test_short_sums_and_those_of_labels_without_examples_are_read_again(self):
        features, Y = problem()
        Y = Y.toarray()
        Y[:, 3] = 0
        data = examples(features, Y, np.full(len(Y), 1e-3))
        part = self.fit(data)
        assert part.lengths[3] == 0 < part.lengths.max() < 1
        again = type(part).from_arrays(*part.arrays())
        assert_array_equal(again.lengths, part.lengths)

    def test_of_many_labels_the_best_are_found_with_their_exact_scores(
        self, part, rows, scores, monkeypatch
    ):
        exact_labels, _ = part.top(rows, 3)
        monkeypatch.setattr("rembrandt.parts.centroids.part.MANY_LABELS", 1)
        labels, cosines = part.top(rows, 3)
        assert_allclose(cosines, np.take_along_axis(scores, labels, axis=1), atol=1e-6)
        assert (np.diff(cosines, axis=1) <= 0).all()
        assert (labels[:, 0] == exact_labels[:, 0]).mean() >= 0.9

    @pytest.mark.parametrize("is_random", [False, True])
    def test_heavy_entries_are_those_above_a_share_of_the_mean_square(self, X, is_random):
        if is_random:
            rng = np.random.default_rng(0)
            values = rng.standard_normal((20, 30)) * (rng.random((20, 30)) < 0.4)
            X = sparse.csr_array(values)
        sizes = np.diff(X.indptr)[:, None]
        squares = X.toarray().astype(np.float64) ** 2
        mean_squares = squares.sum(axis=1, keepdims=True) / np.maximum(sizes, 1)
        for share in (0.0, 0.3, 1.0):
            expected = (squares > 0) & (squares >= share * mean_squares)
            assert_array_equal(heavy_entries(X, share).toarray() != 0, expected)


class TestTrees(PartContract):
    """Each label against all examples: there are no clusters."""

    name = "trees"
    settings = tree_settings(n_trees=2)
    device_tolerance = 0.0

    def test_there_is_one_tree(self, part):
        assert [len(tree.levels) for tree in part.trees] == [1]


class TestTreesWithClusters(TestTrees):
    """Trees of clusters, all of which are visited."""

    settings = tree_settings(n_trees=2, max_example_node_pairs=1e3, beam=1000)

    @classmethod
    def fit(cls, data, backend=CPU):
        with small_clusters(8):
            return super().fit(data, backend)

    def test_there_is_one_tree(self, part):
        """There are as many as asked for, each with clusters."""
        assert len(part.trees) == 2
        assert all(tree.n_clusters >= 4 for tree in part.trees)


class TestRidge(PartContract):
    name = "embedding"
    settings = small_embedding()


class TestTranspose(PartContract):
    name = "embedding"
    settings = small_embedding(decoder="transpose", normalize=True)
    least_precision = 0.7


class TestSoftmax(PartContract):
    name = "embedding"
    settings = small_embedding(decoder="logistic", decoder_ridge=0.0)

    @classmethod
    def fit(cls, data, backend=CPU):
        return super().fit(replace(data, multiclass=True), backend)

    def test_likelihoods_sum_to_one(self, part, rows):
        assert_allclose(all_likelihoods(part, rows).sum(axis=1), 1, rtol=1e-5)

    def test_rounding_of_scores_does_not_change_the_odds_of_a_certain_label(self, part, rows):
        """Other products round differently; one over a small difference would show it."""
        labels, scores = part.top(rows, 1)
        expected = 1 - part.likelihood(rows, labels, scores)
        rounded = part.likelihood(rows, labels, scores * (1 + 1e-6))
        assert_allclose(1 - rounded, expected, rtol=1e-6)


class TestSigmoid(PartContract):
    name = "embedding"
    settings = small_embedding(decoder="logistic", decoder_ridge=0.0)

    @classmethod
    def fit(cls, data, backend=CPU):
        return super().fit(replace(data, multiclass=False), backend)

    def test_likelihoods_are_probabilities(self, part, rows):
        likelihoods = all_likelihoods(part, rows)
        assert ((likelihoods > 0) & (likelihoods < 1)).all()


class OfTexts(Texts):
    """A part that reads texts: rows have the same bits only in the same batches."""

    on_host = False

    @classmethod
    def n_entries(cls, row):
        return 1

    def test_dense_rows_have_the_scores_of_sparse_ones(self):
        pytest.skip("texts are neither dense nor sparse")


class TestNames(OfTexts, PartContract):
    name = "names"
    settings = NameSettings()
    on_host = True
    # The same bits: fitted on the CPU in any case.
    device_tolerance = 0.0

    @classmethod
    def examples(cls):
        return with_names(super().examples())


class TestTunedEncoder(OfTexts, PartContract):
    name = "encoder"
    settings = encoder_settings().with_defaults()
    least_precision = 0.7
    device_tolerance = 1e-3


class TestFrozenEncoder(OfTexts, PartContract):
    name = "encoder"
    settings = encoder_settings(training="frozen", include_encoder=True).with_defaults()
    # Vectors of words that were drawn say little.
    least_precision = 0.2


class TestDiscriminant(TestSoftmax):
    settings = small_embedding(decoder="discriminant")

    def test_likelihoods_of_some_labels_need_no_others_where_they_are_not_searched(self):
        data = replace(examples(*problem()), multiclass=True)
        part = fit_small_embedding(data, decoder="discriminant", retrieves_labels=False)
        assert part.decoder.link == "sigmoid"
        assert not part.retrieves_labels
        assert not type(part).from_arrays(*part.arrays()).retrieves_labels


class TestDiscriminantManyLabels(TestSigmoid):
    settings = small_embedding(decoder="discriminant")
    least_precision = 0.7

    def test_likelihoods_are_probabilities(self, part, rows):
        likelihoods = all_likelihoods(part, rows)
        assert ((likelihoods >= 0) & (likelihoods <= 1)).all()


class TestKernel(PartContract):
    name = "embedding"
    settings = small_embedding(kernel="gaussian")
    tolerance = 1e-4


class TestGrowable(PartContract):
    name = "embedding"
    settings = small_embedding(growable=True)

    def test_moments_are_kept(self, part):
        restored = type(part).from_arrays(*part.arrays())
        assert restored.moments.total == part.moments.total
        assert_array_equal(restored.moments.scatter, part.moments.scatter)

    def test_prediction_needs_no_moments(self, part, X, scores):
        smaller = part.for_prediction()
        assert smaller.moments is None
        assert smaller.sizes()[""] == part.sizes()[""]
        assert_array_equal(all_scores(smaller, smaller.prepare(X)), scores)


class TestShortlist(PartContract):
    """Through the index, with as many candidates as there are labels."""

    name = "embedding"
    settings = small_embedding()

    @classmethod
    def fit(cls, data, backend=CPU):
        return super().fit(data, backend).with_shortlist(LABELS)

    def restored(self, part, arrays, facts):
        restored = type(part).from_arrays(arrays, facts)
        assert restored.shortlist is None, "how many labels are scored is a question of prediction"
        assert_array_equal(restored.index.clusters, part.index.clusters)
        return restored.with_shortlist(LABELS)


@pytest.mark.parametrize("backend", PLACES, scope="class")
class TestDevice(PartContract):
    name = "embedding"
    settings = small_embedding(kernel="gaussian")
    tolerance = 1e-4
    on_host = False

    @pytest.fixture(scope="class")
    @classmethod
    def part(cls, backend):
        return cls.fit(examples(*problem())).on(backend())

    def restored(self, part, arrays, facts):
        return super().restored(part, arrays, facts).on(part.backend)

    def fitted_again(self, part):
        return super().fitted_again(part).on(part.backend)

    def test_a_shortlist_is_refused(self, part):
        with pytest.raises(SettingsError, match="cpu") as refused:
            part.with_shortlist(10)
        assert refused.value.parameters == ("shortlist",)


@pytest.mark.parametrize("decoder", ["ridge", "discriminant"])
@pytest.mark.parametrize("kernel", [None, "gaussian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_of_many_labels_have_the_scores_that_they_have_among_all(decoder, kernel, dtype):
    """They are computed one by one; more of them come from the product with all labels."""
    X, Y = words(700, 500, 1200)
    part = fit_small_embedding(examples(X.astype(dtype), Y), decoder=decoder, kernel=kernel)
    rows = part.prepare(X)
    scores = all_scores(part, rows)
    for n_given in (1, 7, 24, 26, 40):
        labels = np.random.default_rng(n_given).integers(-1, 500, (700, n_given))
        of_all = np.take_along_axis(scores, np.maximum(labels, 0), axis=1)
        expected = np.where(labels < 0, -np.inf, of_all)
        assert_allclose(part.at(rows, labels), expected, rtol=1e-4, atol=1e-4)
    assert part.at(rows, np.empty((700, 0), np.int64)).shape == (700, 0)


class TestTwoEmbeddings:
    """Parts of the same kind on different views: the words of half of the labels, and vectors of
    the others.
    """

    WIDTH = 16

    @classmethod
    def blocks(cls, seed, n):
        X, Y = problem(seed, n)
        label = Y.indices
        n_own_words = 2 * (LABELS - len(ABSENT))
        visible = X.tolil()
        visible[np.flatnonzero(label < LABELS // 2), :n_own_words] = 0
        centres = np.random.default_rng(9).standard_normal((LABELS, cls.WIDTH))
        noise = np.random.default_rng(seed).standard_normal((n, cls.WIDTH))
        vectors = np.where(label[:, None] < LABELS // 2, centres[label], 0) + 0.2 * noise
        return (sparse.csr_array(visible.tocsr()), vectors.astype(np.float32)), Y

    @pytest.fixture(scope="class")
    @classmethod
    def classifier(cls):
        X, Y = cls.blocks(0, 600)
        classifier = RembrandtClassifier(parts=("embedding",), kernel=None, random_state=0)
        return classifier.fit(X, Y)

    def test_each_reads_its_own_view(self, classifier):
        parts = classifier.model_.parts
        assert list(parts) == ["embedding", "vectors"]
        assert all(isinstance(part, LabelEmbedding) for part in parts.values())
        assert parts["embedding"].n_features == FEATURES
        assert parts["vectors"].n_features == self.WIDTH
        specs = classifier.settings_["parts"]
        assert [spec["kind"] for spec in specs.values()] == ["embedding", "embedding"]
        assert specs["embedding"]["view"] != specs["vectors"]["view"]

    def test_together_they_know_what_neither_knows(self, classifier):
        X, Y = self.blocks(1, 300)
        together = precision_at_k(Y, classifier.predict_topk(X, 1)[0].astype(np.int64), 1)
        views = {"embedding": X[0], "vectors": X[1]}
        for name, part in classifier.model_.parts.items():
            labels, _ = part.top(part.prepare(views[name]), 1)
            assert precision_at_k(Y, labels, 1) < together - 0.2
        assert together > 0.8

    def test_they_are_saved_and_loaded(self, classifier, tmp_path):
        X, _ = self.blocks(1, 300)
        classifier.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        pairs = zip(loaded.predict_topk(X, 3), classifier.predict_topk(X, 3), strict=True)
        for values, expected in pairs:
            assert_array_equal(values, expected)

    def test_a_model_has_the_part_that_the_vectors_alone_have(self):
        (X, vectors), Y = self.blocks(0, 300)
        data = replace(examples(X, Y), vectors=(as_rows(vectors),))
        settings = settings_for(data)
        model = fit_model(data, settings)
        alone = KINDS["embedding"].fit(
            data.view("vectors"), settings.parts["vectors"].settings, Fitting()
        )
        rows = alone.prepare(vectors)
        part = model.parts["vectors"]
        assert_array_equal(all_scores(part, part.prepare(vectors)), all_scores(alone, rows))
