"""Trials: a trial is a fit, and what is measured on held-out rows is what the model gives there."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import memory
from rembrandt.blend import Blend
from rembrandt.candidates import collect
from rembrandt.data.rows import as_rows
from rembrandt.data.views import Views
from rembrandt.declarations import ModelSettings, PartSpec
from rembrandt.engines.backend import CPU
from rembrandt.errors import MemoryEstimateError
from rembrandt.fitting import fit_model
from rembrandt.linalg import ranking
from rembrandt.metrics import ndcg_at_k, precision_at_k
from rembrandt.metrics.hits import hits
from rembrandt.parts.centroids.settings import CentroidSettings
from rembrandt.parts.embedding import fit as embedding_fit
from rembrandt.parts.protocol import Fitting
from rembrandt.parts.registry import KINDS
from rembrandt.search.holdout import Split
from rembrandt.search.trial import Trial, padded_lists
from rembrandt.settings.view_names import FEATURES, VECTORS
from tests.devices import PLACES
from tests.estimators.problems import examples, words
from tests.parts.problems import embedding_settings, small_clusters, tree_settings

USUAL = embedding_settings(
    n_components=8, normalize=True, leave_out=0.5, n_random_features=40, max_epochs=3
)
EMBEDDINGS = {
    "ridge": USUAL,
    "kernel": replace(USUAL, kernel="gaussian", kernel_scale=0.5),
    "transpose": replace(USUAL, n_components=3, normalize=False, decoder="transpose"),
    "logistic": replace(USUAL, decoder="logistic", decoder_ridge=0.0),
    "discriminant": replace(USUAL, decoder="discriminant"),
    "scaled": replace(USUAL, label_power=0.5, row_power=0.5),
    "center": replace(USUAL, leave_out=0.0, center=True),
    "growable": replace(USUAL, growable=True),
}
TREES = tree_settings(n_trees=2, max_example_node_pairs=4e3)
CASES = {name: ("embedding", settings) for name, settings in EMBEDDINGS.items()}
CASES["trees"] = ("trees", TREES)
CASES["centroids"] = ("centroids", CentroidSettings())
ALL = ModelSettings(
    {
        "trees": PartSpec("trees", TREES),
        "centroids": PartSpec("centroids", CentroidSettings()),
        "embedding": PartSpec("embedding", USUAL),
    }
)
VIEWS = dict.fromkeys(ALL.parts, FEATURES)

each_case = pytest.mark.parametrize("case", CASES)


def texts(n=900, seed=0, multiclass=True):
    return replace(examples(*words(n, 30, 200, seed)), multiclass=multiclass)


def make_trial(data=None, backend=CPU):
    """Return a trial whose last third of the rows is held out."""
    if data is None:
        data = texts()
    rows = np.arange(data.n)
    n_fit = 2 * data.n // 3
    return Trial(data, Split(rows[:n_fit], rows[n_fit:]), backend)


def settings_of(case):
    """Return the settings of a model of one part."""
    kind, settings = CASES[case]
    return ModelSettings({kind: PartSpec(kind, settings)}, seed=3)


def assert_same_part(part, expected):
    """Assert that two parts have the same bits."""
    arrays, facts = part.arrays()
    expected_arrays, expected_facts = expected.arrays()
    assert arrays.keys() == expected_arrays.keys()
    for name, array in arrays.items():
        assert_array_equal(array, expected_arrays[name], strict=True)
    assert facts == expected_facts


class TestFit:
    @each_case
    @pytest.mark.parametrize("is_weighted", [False, True], ids=["", "weighted"])
    def test_it_is_the_fit_of_the_part_to_the_same_rows(self, case, is_weighted):
        data = texts()
        if is_weighted:
            weights = np.random.default_rng(0).random(data.n) ** 4
            data = replace(data, weights=weights)
        kind, settings = CASES[case]
        part = make_trial(data).fit(kind, settings_of(case))
        expected = KINDS[kind].fit(data.take(np.arange(600)), settings, Fitting(seed=3))
        assert_same_part(part, expected)

    def test_it_is_the_same_with_shared_results(self):
        """In one trial after all other settings, and in a trial of its own."""
        busy = make_trial()
        for case in [*EMBEDDINGS, *reversed(EMBEDDINGS)]:
            settings = settings_of(case)
            assert_same_part(
                busy.fit("embedding", settings), make_trial().fit("embedding", settings)
            )

    def test_a_decoder_of_candidates_learns_from_earlier_parts(self):
        settings = replace(USUAL, decoder="candidates", retrieves_labels=False)
        model_settings = ALL.with_part("embedding", settings)
        trial = make_trial()
        earlier = {}
        for name in ("trees", "centroids"):
            earlier[name] = trial.fit(name, model_settings)
        part = trial.fit("embedding", model_settings, earlier)
        model = fit_model(trial.fit_data, model_settings)
        assert_same_part(part, model.parts["embedding"])

    def test_trees_with_clusters(self):
        with small_clusters(5):
            part = make_trial().fit("trees", settings_of("trees"))
        assert len(part.trees) == 2
        assert part.trees[0].has_clusters

    def test_a_part_of_the_vectors_reads_them(self):
        data = texts()
        vectors = as_rows(np.random.default_rng(0).standard_normal((data.n, 6)))
        data = replace(data, vectors=(vectors,))
        settings = replace(USUAL, n_components=4)
        specs = {"vectors": PartSpec("embedding", settings, VECTORS)}
        trial = make_trial(data)
        part = trial.fit("vectors", ModelSettings(specs))
        assert part.n_features == 6
        expected = KINDS["embedding"].fit(trial.fit_data.view(VECTORS), settings, Fitting())
        assert_same_part(part, expected)
        assert trial.measure(part, VECTORS).quality < 0.2, "they say nothing about the labels"

    @each_case
    def test_memory_is_checked_before_anything_is_fitted(self, monkeypatch, case):
        monkeypatch.setattr(memory, "available", lambda: 1000)
        kind, _ = CASES[case]
        monkeypatch.setattr(type(KINDS[kind]), "fit", lambda *_: pytest.fail("fitted"))
        with pytest.raises(MemoryEstimateError):
            make_trial().fit(kind, settings_of(case))


class TestShared:
    @pytest.fixture
    def embedded(self, monkeypatch):
        """Settings of the embeddings that were computed."""
        calls = []
        embed_labels = embedding_fit.embed_labels

        def counted(data, settings, *rest):
            calls.append(settings)
            return embed_labels(data, settings, *rest)

        monkeypatch.setattr(embedding_fit, "embed_labels", counted)
        return calls

    def fit(self, trial, **changes):
        settings = replace(USUAL, **changes)
        specs = {"embedding": PartSpec("embedding", settings)}
        return trial.fit("embedding", ModelSettings(specs))

    def test_an_embedding_serves_all_decoders_in_closed_form(self, embedded):
        trial = make_trial()
        self.fit(trial)
        self.fit(trial, kernel="gaussian", decoder_ridge=0.3)
        self.fit(trial, decoder="discriminant")
        self.fit(trial, leave_out=0.0)
        self.fit(trial, decoder="transpose")
        assert len(embedded) == 1

    @pytest.mark.parametrize(
        "changes",
        [
            {"ridge": 3.0},
            {"normalize": False},
            {"n_components": 9},
            {"label_power": 0.5},
            {"row_power": 0.5},
            {"tol": 0.5},
            {"method": "plst"},
            {"n_iter": 2},
            {"center": True},
            {"decoder": "logistic"},  # the rows that stop it have no weight in its embedding
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_another_embedding_is_computed(self, embedded, changes):
        trial = make_trial()
        self.fit(trial)
        self.fit(trial, **changes)
        assert len(embedded) == 2

    def test_the_last_one_is_kept(self, embedded):
        trial = make_trial()
        self.fit(trial)
        self.fit(trial, ridge=3.0)
        self.fit(trial, ridge=3.0, decoder_ridge=1.0)
        assert len(embedded) == 2
        self.fit(trial)
        assert len(embedded) == 3

    def test_nothing_is_kept_when_it_is_forgotten(self, embedded):
        trial = make_trial()
        self.fit(trial)
        trial.forget()
        self.fit(trial)
        assert len(embedded) == 2

    def test_parts_of_different_names_share_nothing(self, embedded):
        data = texts()
        vectors = as_rows(np.random.default_rng(0).standard_normal((data.n, 12)))
        trial = make_trial(replace(data, vectors=(vectors,)))
        specs = {
            "embedding": PartSpec("embedding", USUAL),
            "vectors": PartSpec("embedding", USUAL, VECTORS),
        }
        for name in specs:
            trial.fit(name, ModelSettings(specs))
        assert len(embedded) == 2


class TestMeasures:
    @each_case
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_a_part_is_measured_as_its_model(self, case, multiclass):
        data = texts(multiclass=multiclass)
        trial = make_trial(data)
        kind, _ = CASES[case]
        part = trial.fit(kind, settings_of(case))
        measures = trial.measure(part, FEATURES)
        model = fit_model(data.take(np.arange(600)), settings_of(case))
        held_out = data.take(np.arange(600, 900))
        expected_part = model.parts[kind]
        labels = expected_part.top(expected_part.prepare(held_out.X[:]), 5)[0]
        precision = [precision_at_k(held_out.Y, labels, k) for k in (1, 3, 5)]
        assert_allclose(measures.precision, precision)
        quality = precision[0]
        if not multiclass:
            quality = (precision[0] + ndcg_at_k(held_out.Y, labels, 5)) / 2
        assert measures.quality == pytest.approx(quality)

    def test_hits_of_ranked_labels(self):
        trial = make_trial()
        parts = {name: trial.fit(name, ALL) for name in ("trees", "centroids")}
        silent = ALL.with_part("embedding", replace(USUAL, retrieves_labels=False))
        parts["embedding"] = trial.fit("embedding", silent)
        ranked = trial.ranked_hits(parts, VIEWS)
        assert ranked.keys() == {"trees", "centroids"}
        X = trial.held_out.X[:]
        for name, hit in ranked.items():
            labels = parts[name].top(parts[name].prepare(X), 20)[0]
            assert_array_equal(hit, hits(trial.held_out.Y, labels))

    def test_labels_of_each_row_in_lists(self):
        Y = sparse.csr_array(np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]]))
        assert padded_lists(Y).tolist() == [[1, 2], [-1, -1], [0, -1]]
        assert padded_lists(Y[[1]]).tolist() == [[-1]]


class TestCandidates:
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_those_of_held_out_rows_are_those_of_the_model(self, multiclass):
        """What the blend learns from is what a model of the same rows gives it."""
        trial = make_trial(texts(multiclass=multiclass))
        held_out = trial.held_out
        parts = {name: trial.fit(name, ALL) for name in ALL.parts}
        listed, unlisted = trial.candidates(parts, VIEWS, {}, seed=0)
        model = fit_model(trial.fit_data, ALL)
        X = held_out.X[:]
        rows = {name: part.prepare(X) for name, part in model.parts.items()}
        expected = collect(model.parts, rows, model.log_frequencies)
        assert_array_equal(listed.labels, expected.labels)
        assert_array_equal(listed.log_frequencies, expected.log_frequencies)
        for name, features in expected.features.items():
            assert_array_equal(listed.features[name], features)
        n_listed = hits(held_out.Y, listed.labels).sum()
        assert unlisted.true.sum() == held_out.Y.nnz - n_listed
        # Except for rows of which no label was drawn that is not listed.
        n_unlisted = 30 * held_out.n - listed.is_label.sum()
        assert 0.99 * n_unlisted < unlisted.weights.sum() <= n_unlisted + 1e-6
        assert unlisted.log_odds.shape == (len(unlisted.true), 3)

    def test_the_sample_of_other_labels_depends_on_the_seed_alone(self):
        trial = make_trial()
        parts = {name: trial.fit(name, ALL) for name in ("trees", "centroids")}
        samples = [trial.candidates(parts, VIEWS, {}, seed)[1] for seed in (0, 0, 1)]
        first, again, other = (sample.log_odds for sample in samples)
        assert_array_equal(first, again)
        assert first.shape != other.shape or (first != other).any()

    def test_lists_have_the_lengths_asked_for(self):
        trial = make_trial()
        parts = {name: trial.fit(name, ALL) for name in ("trees", "centroids")}
        listed, _ = trial.candidates(parts, VIEWS, {"trees": 3, "centroids": 0}, 0)
        assert listed.labels.shape[1] == 3
        assert listed.is_label.all()
        rows = parts["trees"].prepare(trial.held_out.X[:])
        assert_array_equal(listed.labels, np.sort(parts["trees"].top(rows, 3)[0], axis=1))
        assert (listed.features["centroids"][..., 3] > 0).all()

    def test_each_part_reads_its_view(self):
        data = texts()
        vectors = as_rows(np.random.default_rng(0).standard_normal((data.n, 12)))
        specs = ALL.parts | {"vectors": PartSpec("embedding", USUAL, VECTORS)}
        settings = ModelSettings(specs)
        trial = make_trial(replace(data, vectors=(vectors,)))
        parts = {name: trial.fit(name, settings) for name in specs}
        listed, _ = trial.candidates(parts, VIEWS | {"vectors": VECTORS}, {}, seed=0)
        views = Views(trial.held_out.X[:], (vectors[600:],))
        rows = {name: part.prepare(views.view(specs[name].view)) for name, part in parts.items()}
        model = fit_model(trial.fit_data, settings)
        expected = collect(parts, rows, model.log_frequencies)
        assert_array_equal(listed.labels, expected.labels)
        assert_array_equal(listed.features["vectors"], expected.features["vectors"])

    @pytest.mark.parametrize("case", [*EMBEDDINGS, "candidates"])
    @pytest.mark.parametrize("backend", PLACES)
    def test_they_are_the_same_on_every_device(self, backend, case):
        settings = EMBEDDINGS.get(case)
        if case == "candidates":
            settings = replace(USUAL, decoder="candidates", retrieves_labels=False)
        model_settings = ALL.with_part("embedding", settings)
        first_labels = []
        for device in (CPU, backend()):
            trial = make_trial(backend=device)
            parts = {}
            for name in model_settings.parts:
                parts[name] = trial.fit(name, model_settings, dict(parts))
            weights = parts["embedding"].decoder.weights
            assert weights.device == device.asarray(np.zeros(1)).device
            listed, _ = trial.candidates(parts, VIEWS, {}, seed=0)
            log_odds = Blend.fixed(parts).log_odds(listed)
            first_labels.append(ranking.rank(listed.labels, log_odds)[0][:, 0])
        assert (first_labels[0] == first_labels[1]).mean() > 0.98
