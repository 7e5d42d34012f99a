"""From parameters and data to the settings of a model; refusals name the parameter; JSON both ways."""

import inspect
import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rembrandt import Dataset, LabelEmbedder, RembrandtClassifier
from rembrandt.data.convert import convert, write_store
from rembrandt.data.rows import as_rows, label_feature_pairs
from rembrandt.declarations import (
    PARAMETERS,
    PART_NAMES,
    SETTINGS_TYPES,
    ModelSettings,
    PartSpec,
    preset_settings,
)
from rembrandt.engines.protocol import Engine
from rembrandt.errors import SettingsError
from rembrandt.parts.allowance import ALLOWANCES, Allowance, Work
from rembrandt.parts.centroids.settings import CentroidSettings
from rembrandt.parts.embedding import kind as embedding_kind
from rembrandt.parts.embedding.settings import DECODERS, METHODS, EmbeddingSettings
from rembrandt.parts.registry import KINDS
from rembrandt.parts.trees.kind import WEIGHT_BYTES
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.planning import fixed_settings, max_trial_seconds, resolve
from rembrandt.settings import PRESET_NAMES, UNSET
from tests.estimators.problems import blobs, examples, several

DEFAULTS = RembrandtClassifier(random_state=0).get_params(deep=False)
# Values of the parameters of the embedding other than the defaults.
EMBEDDING_PARAMETERS = {
    "n_components": 3,
    "method": "plst",
    "ridge": 2.0,
    "decoder": "logistic",
    "decoder_ridge": 0.2,
    "kernel": "laplacian",
    "normalize": False,
}
OTHER_SETTINGS = EmbeddingSettings(
    n_iter=2, leave_out=0.25, kernel_scale=0.5, n_random_features=50, retrieves_labels=True
)

each_preset = pytest.mark.parametrize("preset", PRESET_NAMES)


def sparse_examples():
    X, Y = several()
    return examples(sparse.csr_array(X), Y)


def resolved(data=None, **changes):
    if data is None:
        data = sparse_examples()
    return resolve(DEFAULTS | changes, data)


def settings_of(name, data=None, **changes):
    """Return the resolved settings of one part."""
    return resolved(data, **changes).parts[name].settings


def many_rows(n, n_labels=3, d=1):
    """Examples of one label, without features."""
    indptr = np.arange(n + 1)
    Y = sparse.csr_array((np.ones(n, np.float32), np.zeros(n, int), indptr), shape=(n, n_labels))
    return examples(np.zeros((n, d), np.float32), Y)


class TestParameters:
    def test_there_are_at_most_20(self):
        assert len(inspect.signature(RembrandtClassifier).parameters) <= 20

    def test_those_of_the_embedding_are_fields_of_its_settings(self):
        names = {field.name for field in fields(EmbeddingSettings)}
        assert PARAMETERS.keys() <= names & DEFAULTS.keys()
        assert PARAMETERS.keys() == {*EMBEDDING_PARAMETERS, "growable"}

    @pytest.mark.parametrize("name", PARAMETERS)
    def test_their_defaults_are_those_of_the_settings(self, name):
        assert DEFAULTS[name] == PARAMETERS[name].default

    @pytest.mark.parametrize("name", EMBEDDING_PARAMETERS)
    @each_preset
    def test_they_are_the_same_in_either_place(self, preset, name):
        value = EMBEDDING_PARAMETERS[name]
        settings = EmbeddingSettings(**{name: value})
        as_parameter = resolved(preset=preset, **{name: value})
        assert as_parameter == resolved(preset=preset, embedding=settings)
        assert getattr(as_parameter.parts["embedding"].settings, name) == value

    def test_they_can_be_given_in_both_places_if_they_differ_in_name(self):
        settings = settings_of("embedding", ridge=2.0, embedding=EmbeddingSettings(n_iter=3))
        assert (settings.ridge, settings.n_iter) == (2.0, 3)

    @pytest.mark.parametrize("name", EMBEDDING_PARAMETERS)
    def test_one_that_is_given_twice_is_refused(self, name):
        value = EMBEDDING_PARAMETERS[name]
        with pytest.raises(SettingsError, match="given twice") as refused:
            resolved(embedding=EmbeddingSettings(**{name: value}), **{name: value})
        assert refused.value.parameters == (name,)
        assert name in str(refused.value)

    def test_growable_that_is_given_twice_is_refused(self):
        with pytest.raises(SettingsError, match="growable is given twice"):
            resolved(growable=True, embedding=EmbeddingSettings(growable=True))


class TestMerging:
    @each_preset
    def test_unset_is_unset(self, preset):
        """Settings in which nothing is set are as none: the preset decides."""
        for data in (sparse_examples(), examples(*several())):
            plain = resolved(data, preset=preset)
            assert resolved(data, preset=preset, trees=TreeSettings()) == plain
            assert resolved(data, preset=preset, embedding=EmbeddingSettings()) == plain

    @each_preset
    def test_what_is_set_stands(self, preset):
        changes = EMBEDDING_PARAMETERS | {"embedding": OTHER_SETTINGS}
        settings = settings_of("embedding", preset=preset, **changes)
        for name, value in (EMBEDDING_PARAMETERS | OTHER_SETTINGS.set_values()).items():
            assert getattr(settings, name) == value
        trees = TreeSettings(
            n_trees=7,
            max_example_node_pairs=1e4,
            label_features="all",
            cost=0.7,
            power=2.5,
            prune_below=0.2,
            tolerance=0.1,
            beam=4,
            passes=3,
        )
        assert settings_of("trees", preset=preset, trees=trees) == trees

    @each_preset
    def test_trees_are_filled_in_field_by_field(self, preset):
        settings = settings_of("trees", preset=preset, trees=TreeSettings(cost=0.7))
        assert settings == replace(settings_of("trees", preset=preset), cost=0.7)

    @each_preset
    @pytest.mark.parametrize("name", PART_NAMES)
    def test_a_resolved_part_leaves_nothing_open(self, preset, name):
        settings = settings_of(name, preset=preset, parts=PART_NAMES)
        assert UNSET not in vars(settings).values()
        for setting, value in vars(settings).items():
            # The solver follows from the number of features of an engine.
            if setting != "solver":
                assert not isinstance(value, str) or value != "auto", setting

    @each_preset
    def test_complete_settings_resolve_to_themselves(self, preset):
        data = sparse_examples()
        for name, spec in resolved(data, preset=preset).parts.items():
            complete = preset_settings(name, preset, spec.settings)
            assert complete == spec.settings
            allowance = ALLOWANCES[preset]
            assert KINDS[spec.kind].resolve(complete, data, allowance, False) == spec.settings


class TestParts:
    @each_preset
    def test_small_sparse_data_have_all(self, preset):
        assert tuple(resolved(preset=preset).parts) == PART_NAMES

    @each_preset
    def test_each_has_the_kind_of_its_name_and_reads_the_features(self, preset):
        for name, spec in resolved(preset=preset).parts.items():
            assert (spec.kind, spec.view) == (name, "features")
            assert type(spec.settings) is SETTINGS_TYPES[name]

    @pytest.fixture
    def with_allowance(self, monkeypatch):
        def run(seconds, multiple, data=None, **changes):
            allowance = Allowance(
                n_trees=3, rank=100, tree_entries=8e8, seconds=seconds, multiple=multiple
            )
            monkeypatch.setitem(ALLOWANCES, "fast", allowance)
            return resolved(data, preset="fast", **changes)

        return run

    @pytest.fixture
    def work(self):
        """Counted seconds of the parts in small data, and of an embedding without a kernel."""
        data = sparse_examples()
        specs = resolved(data, preset="fast").parts
        embedding = specs["embedding"].settings
        [linear] = KINDS["embedding"].alternatives(embedding, data, ALLOWANCES["fast"])
        return {
            "trees": KINDS["trees"].work(specs["trees"].settings, data).seconds,
            "kernel": KINDS["embedding"].work(embedding, data).seconds,
            "linear": KINDS["embedding"].work(linear, data).seconds,
        }

    def test_an_embedding_that_costs_more_than_is_allowed_is_left_out(self, with_allowance, work):
        assert work["linear"] < work["kernel"]
        settings = with_allowance(0.9 * work["linear"], 0.0)
        assert tuple(settings.parts) == ("trees", "centroids")

    @pytest.fixture
    def free_lists(self, monkeypatch):
        monkeypatch.setattr(embedding_kind, "LISTING_WORK", 0.0)

    def test_lists_of_other_parts_count(self, with_allowance, work, monkeypatch):
        monkeypatch.setattr(embedding_kind, "LISTING_WORK", 1e12)
        assert "embedding" not in with_allowance(1.1 * work["linear"], 0.0).parts

    def test_the_gram_matrix_of_the_features_counts_where_it_is_formed(self):
        largest = embedding_kind.MAX_EXACT_COLUMNS
        assert largest == Engine.exact_columns
        settings = settings_of("embedding", parts=("embedding",), kernel=None, decoder="ridge")
        work = {}
        for d in (largest, largest + 1):
            data = examples(np.ones((6, d), np.float32), np.eye(2, dtype=np.float32)[[0, 1] * 3])
            work[d] = KINDS["embedding"].work(settings, data).dense
        assert work[largest] > largest**3 > work[largest + 1]

    def embedding_work(self, data, **changes):
        """Return the counted multiply-adds of an embedding."""
        settings = {"n_components": 3, "n_oversamples": 2, "kernel": None} | changes
        resolved = settings_of("embedding", data, embedding=EmbeddingSettings(**settings))
        return KINDS["embedding"].work(resolved, data).dense

    def test_the_embedding_counts_its_blocks_and_the_gram_matrix(self, monkeypatch):
        """Sparse features, of which each row has two: they have fewer entries than columns."""
        n, n_columns, n_labels = 30, 100, 7
        columns = np.arange(2 * n) % n_columns
        X = sparse.csr_array((np.ones(2 * n), columns, 2 * np.arange(n + 1)), (n, n_columns))
        data = examples(X, np.eye(n_labels, dtype=np.float32)[np.arange(n) % n_labels])
        n_used = 2 * n
        whole = self.embedding_work(data, decoder="transpose")
        monkeypatch.setattr(embedding_kind, "MAX_EXACT_COLUMNS", n_used - 1)
        blocks = self.embedding_work(data, decoder="transpose")
        assert whole - blocks == 2 * n * n_used + n_used**3
        width = 3 + 2
        assert blocks == embedding_kind.BLOCK_PRODUCTS * (n + n_used + n_labels) * width**2

    def test_the_embedding_is_no_wider_than_the_features_and_the_constant(self):
        n, d, n_labels = 30, 2, 7
        X = np.random.default_rng(0).standard_normal((n, d))
        data = examples(X, np.eye(n_labels, dtype=np.float32)[np.arange(n) % n_labels])
        work = self.embedding_work(data, n_components=5, decoder="transpose")
        gram = X.size * d + d**3
        width = d + 1 + 2
        expected = embedding_kind.BLOCK_PRODUCTS * (n + d + n_labels) * width**2 + gram
        assert work == pytest.approx(expected)

    def test_the_decoder_counts(self):
        data = sparse_examples()
        n, n_labels = data.n, data.n_labels

        def decoding(n_random_features=0, **changes):
            if n_random_features:
                changes |= {"kernel": "gaussian", "n_random_features": n_random_features}
            without = self.embedding_work(data, decoder="transpose")
            return self.embedding_work(data, **changes) - without

        def closed_form(n_mapped):
            return (n + n_labels) * n_mapped**2 + n_mapped**3 / 3

        assert decoding(decoder="ridge") == pytest.approx(closed_form(3))
        assert decoding(50, decoder="ridge") == pytest.approx(closed_form(53))
        for n_random_features in (0, 50):
            n_mapped = 3 + n_random_features
            epochs = 2 * 7 * n * n_mapped * n_labels
            work = decoding(n_random_features, decoder="logistic", max_epochs=7)
            assert work == pytest.approx(closed_form(n_mapped) + epochs)
        assert decoding(decoder="candidates") == pytest.approx(embedding_kind.LISTING_WORK * n)

    @pytest.mark.usefixtures("free_lists")
    def test_it_has_no_kernel_where_that_costs_more_than_is_allowed(self, with_allowance, work):
        settings = with_allowance(1.1 * work["linear"], 0.0)
        assert tuple(settings.parts) == PART_NAMES
        assert settings.parts["embedding"].settings.kernel is None
        assert settings.parts["embedding"].settings.decoder_ridge == 0.1

    def test_a_kernel_that_is_given_is_kept(self, with_allowance, work):
        settings = with_allowance(1.1 * work["linear"], 0.0, kernel="gaussian")
        assert settings.parts["embedding"].settings.kernel == "gaussian"

    @pytest.mark.usefixtures("free_lists")
    def test_it_may_cost_a_multiple_of_the_trees(self, with_allowance, work):
        multiple = 1.1 * work["linear"] / work["trees"]
        assert "embedding" in with_allowance(0.0, multiple).parts
        assert "embedding" not in with_allowance(0.0, 0.8 * multiple).parts

    def test_a_trial_may_cost_what_a_part_may_beside_the_trees(self, with_allowance, work):
        settings = with_allowance(0.5, 3.0)
        allowed = max_trial_seconds(settings, sparse_examples())
        assert allowed == pytest.approx(0.5 + 3 * work["trees"])

    def test_what_a_user_sets_is_allowed(self, with_allowance):
        for changes in ({"ridge": 2.0}, {"embedding": EmbeddingSettings(n_iter=2)}):
            assert "embedding" in with_allowance(0.0, 0.0, **changes).parts
        dense = examples(*several())
        assert "trees" not in with_allowance(0.0, 0.0, dense).parts
        assert "trees" in with_allowance(0.0, 0.0, dense, trees=TreeSettings(beam=20)).parts

    def test_dense_features_have_an_embedding_and_trees_where_they_are_allowed(
        self, with_allowance
    ):
        dense = examples(*several())
        assert tuple(with_allowance(0.0, 0.0, dense).parts) == ("centroids", "embedding")
        assert tuple(with_allowance(10.0, 0.0, dense).parts) == PART_NAMES

    def test_what_is_asked_for_is_not_measured(self, with_allowance):
        assert tuple(with_allowance(0.0, 0.0, parts=PART_NAMES).parts) == PART_NAMES

    @given(st.lists(st.sampled_from(PART_NAMES), min_size=1, max_size=5))
    def test_those_that_are_named_come_in_the_order_of_fitting(self, names):
        expected = tuple(name for name in PART_NAMES if name in names)
        for collection in (tuple(names), list(names), set(names)):
            settings = resolved(preset="fast", kernel="gaussian", parts=collection)
            assert tuple(settings.parts) == expected
        assert tuple(resolved(parts=names[0]).parts) == (names[0],)

    def test_rows_on_disk_have_the_same(self, tmp_path):
        (tmp_path / "rows.svm").write_text("".join(f"{i % 3} {i % 3}:1\n" for i in range(30)))
        X = convert([tmp_path / "rows.svm"], tmp_path / "store", rows=9).dataset().X
        data = replace(examples(np.eye(30, 3), np.arange(30) % 3), X=X)
        for preset in PRESET_NAMES:
            assert tuple(resolved(data, preset=preset).parts) == PART_NAMES
        assert tuple(resolved(data, parts="trees").parts) == ("trees",)

    @pytest.mark.parametrize("n_blocks", [1, 2])
    def test_vectors_have_an_embedding_of_their_own(self, n_blocks):
        data = sparse_examples()
        blocks = [np.random.default_rng(i).standard_normal((data.n, 5)) for i in range(n_blocks)]
        data = replace(data, vectors=tuple(as_rows(block) for block in blocks))
        settings = resolved(data, ridge=2.0)
        names = ["vectors", "vectors-2"][:n_blocks]
        assert list(settings.parts) == [*PART_NAMES, *names]
        for name in names:
            spec = settings.parts[name]
            assert (spec.kind, spec.view) == ("embedding", name)
            assert spec.settings.ridge == 2.0
            assert spec.settings.n_components == 5 + 1  # and the constant feature

    def test_beside_vectors_no_part_is_alone(self):
        data = replace(sparse_examples(), vectors=(as_rows(np.ones((300, 2))),))
        settings = resolved(data, parts="embedding", embedding=EmbeddingSettings(n_components=2))
        assert list(settings.parts) == ["embedding", "vectors"]

    def test_work_adds_up(self):
        work = Work(dense=3e10) + Work(sparse=2e9)
        assert work.seconds == pytest.approx(2.0)
        assert (work * 3).seconds == pytest.approx(6.0)

    def test_what_costs_as_much_as_is_allowed_is_permitted(self):
        work = Work(dense=3e10)
        allowance = replace(ALLOWANCES["fast"], seconds=work.seconds)
        assert allowance.permits(work)
        assert not allowance.permits(work * 1.01)


class TestSizes:
    def test_better_presets_have_more_of_everything(self):
        fast, balanced, best = (resolved(preset=preset).parts for preset in PRESET_NAMES)
        n_trees = [parts["trees"].settings.n_trees for parts in (fast, balanced, best)]
        assert n_trees == sorted(n_trees)
        assert n_trees == [ALLOWANCES[preset].n_trees for preset in PRESET_NAMES]
        ranks = [ALLOWANCES[preset].rank for preset in PRESET_NAMES]
        assert ranks == sorted(ranks)
        passes = [parts["trees"].settings.passes for parts in (fast, balanced, best)]
        assert passes == sorted(passes)

    def test_the_rank_is_at_most_what_the_data_allow(self):
        assert settings_of("embedding").n_components == 8
        wide = examples(sparse.csr_array(np.eye(400)), np.arange(400))
        rank = ALLOWANCES["balanced"].rank
        assert settings_of("embedding", wide, parts="embedding").n_components == rank
        assert settings_of("embedding", wide, parts="embedding", preset="fast").n_components == 100

    def test_long_rows_have_fewer_pairs_on_the_first_level_of_a_tree(self, monkeypatch):
        data = sparse_examples()
        allowance = replace(ALLOWANCES["fast"], tree_entries=1e3)
        monkeypatch.setitem(ALLOWANCES, "fast", allowance)
        pairs = settings_of("trees", data, preset="fast").max_example_node_pairs
        assert pairs == pytest.approx(1e3 * data.n / data.X.nnz)
        given_pairs = TreeSettings(max_example_node_pairs=5e6)
        settings = settings_of("trees", data, preset="fast", trees=given_pairs)
        assert settings.max_example_node_pairs == 5e6

    def test_more_pairs_than_for_the_square_root_of_the_labels_are_not_needed(self):
        data = sparse_examples()
        pairs = settings_of("trees", data).max_example_node_pairs
        assert pairs == pytest.approx(data.n * data.n_labels**0.5)

    def test_fewer_trees_where_their_weights_take_much_memory(self, tmp_path, monkeypatch):
        X, Y = several()
        names = [str(label) for label in range(Y.shape[1])]
        blocks = [
            Dataset.build(
                sparse.csr_array(Y[rows].astype("f4")), sparse.csr_array(X[rows]), label_ids=names
            )
            for rows in (slice(100), slice(100, None))
        ]
        stored = write_store(blocks, tmp_path / "store").dataset()
        data = examples(stored.X, stored.Y)
        tree_bytes = WEIGHT_BYTES * label_feature_pairs(as_rows(stored.X), stored.Y)

        def n_trees(allowed_bytes, **changes):
            allowance = replace(ALLOWANCES["balanced"], tree_bytes=allowed_bytes)
            monkeypatch.setitem(ALLOWANCES, "balanced", allowance)
            return settings_of("trees", data, **changes).n_trees

        assert n_trees(3 * tree_bytes) == 3
        assert n_trees(3 * tree_bytes, trees=TreeSettings(cost=1.0)) == 3
        assert n_trees(3 * tree_bytes, trees=TreeSettings(n_trees=7)) == 7
        assert n_trees(0) == 1
        assert n_trees(1e12) == ALLOWANCES["balanced"].n_trees

    def test_more_rows_have_fewer_random_features(self):
        def n_random_features(n, preset):
            settings = settings_of("embedding", many_rows(n), preset=preset, kernel="gaussian")
            return settings.n_random_features

        numbers = [n_random_features(n, "balanced") for n in (8000, 10_000, 10**6)]
        assert numbers == sorted(numbers, reverse=True)
        assert numbers[0] > numbers[-1]
        assert numbers[-1] == 1000
        assert n_random_features(8000, "best") == 4000
        assert n_random_features(10_000, "best") > n_random_features(10_000, "balanced")
        settings = EmbeddingSettings(n_random_features=70)
        assert settings_of("embedding", embedding=settings).n_random_features == 70

    def test_there_are_two_examples_for_each_random_feature(self):
        def n_random_features(**changes):
            settings = settings_of("embedding", many_rows(300), kernel="gaussian", **changes)
            return settings.n_random_features

        assert n_random_features() == 150
        # A model that grows may see many more examples.
        assert n_random_features(embedding=EmbeddingSettings(growable=True)) > 1000

    def test_many_rows_have_no_kernel_unless_one_is_given(self):
        assert settings_of("embedding", many_rows(100)).kernel == "gaussian"
        assert settings_of("embedding", many_rows(10**6)).kernel is None
        assert settings_of("embedding", many_rows(10**6), kernel="laplacian").kernel == "laplacian"

    def test_the_penalty_of_the_decoder_follows_from_the_kernel(self):
        assert settings_of("embedding", kernel=None).decoder_ridge == 0.1
        assert settings_of("embedding", kernel="matern3").decoder_ridge == 0.3

    def test_the_powers_of_the_preset(self):
        settings = settings_of("embedding")
        assert (settings.label_power, settings.row_power) == (0.25, 0.5)
        settings = settings_of("embedding", method="pca")
        assert (settings.label_power, settings.row_power) == (0.0, 0.0)

    def test_rows_of_unit_length_are_not_scaled(self):
        X, y = blobs()
        assert settings_of("embedding", examples(X, y)).normalize is True
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        assert settings_of("embedding", examples(unit, y)).normalize is False


class TestRetrieval:
    def many_labels(self):
        shape = (20, 5 * 10**6)
        Y = sparse.csr_array((np.ones(20, np.float32), np.arange(20), np.arange(21)), shape=shape)
        return examples(np.eye(20), Y)

    def test_the_embedding_searches_few_labels_or_where_no_other_part_does(self):
        data = self.many_labels()
        assert settings_of("embedding").retrieves_labels is True
        assert settings_of("embedding", data, parts=PART_NAMES).retrieves_labels is False
        assert settings_of("embedding", data, parts="embedding").retrieves_labels is True

    @pytest.mark.parametrize("retrieves_labels", [True, False])
    def test_what_is_given_stands(self, retrieves_labels):
        settings = EmbeddingSettings(retrieves_labels=retrieves_labels)
        for data in (sparse_examples(), self.many_labels()):
            after = settings_of("embedding", data, embedding=settings)
            assert after.retrieves_labels is retrieves_labels

    def test_a_model_needs_a_part_that_does(self):
        with pytest.raises(SettingsError, match="add parts"):
            resolved(parts="embedding", embedding=EmbeddingSettings(retrieves_labels=False))
        with pytest.raises(SettingsError, match="add parts"):
            resolved(parts="embedding", decoder="candidates")

    def test_a_decoder_of_candidates_scores_what_others_list(self):
        settings = settings_of("embedding", decoder="candidates")
        assert settings.retrieves_labels is False
        assert settings.kernel is None


class TestGrowable:
    @each_preset
    def test_a_growable_model_has_an_embedding_with_a_ridge_decoder_alone(self, preset):
        settings = resolved(preset=preset, growable=True)
        assert tuple(settings.parts) == ("embedding",)
        embedding = settings.parts["embedding"].settings
        assert (embedding.decoder, embedding.growable) == ("ridge", True)
        assert embedding.retrieves_labels is True

    def test_labels_are_not_scaled_and_there_is_no_kernel_unless_one_is_given(self):
        embedding = settings_of("embedding", growable=True)
        assert (embedding.label_power, embedding.row_power) == (0.0, 0.0)
        assert embedding.kernel is None
        assert settings_of("embedding", growable=True, kernel="gaussian").kernel == "gaussian"

    def test_it_can_be_given_in_the_settings(self):
        in_settings = resolved(embedding=EmbeddingSettings(growable=True))
        assert in_settings == resolved(growable=True)

    def test_other_parts_are_refused(self):
        for parts in ("trees", ("trees", "embedding"), PART_NAMES):
            with pytest.raises(SettingsError, match="growable=True needs") as refused:
                resolved(parts=parts, growable=True)
            assert refused.value.parameters == ("growable",)

    def test_growable_false_is_as_unset(self):
        assert resolved(growable=False) == resolved()


class TestRest:
    def test_the_transpose_has_no_kernel(self):
        assert settings_of("embedding", decoder="transpose").kernel is None

    def test_with_one_label_a_row_there_is_no_threshold_to_choose(self):
        assert resolved(examples(*blobs()), threshold="macro").threshold == 0.5
        assert resolved(threshold="macro").threshold == "macro"
        assert resolved(threshold=1).threshold == 1.0

    def test_a_number_is_the_seed_and_a_generator_gives_one(self):
        assert resolved(random_state=17).seed == 17
        assert resolved(random_state=np.int64(17)).seed == 17
        first, second = (resolved(random_state=np.random.RandomState(0)).seed for _ in range(2))
        assert first == second
        assert isinstance(first, int)

    @each_preset
    def test_the_preset_is_remembered(self, preset):
        assert resolved(preset=preset).preset == preset

    def test_what_a_search_may_not_change(self):
        params = DEFAULTS | {
            "ridge": 2.0,
            "kernel": None,
            "embedding": EmbeddingSettings(label_power="auto", leave_out=0.25),
            "trees": TreeSettings(cost=0.7),
        }
        data = replace(sparse_examples(), vectors=(as_rows(np.ones((300, 2))),))
        fixed = fixed_settings(params, resolve(params, data))
        assert set(fixed["trees"]) == {"cost"}
        assert set(fixed["embedding"]) == {"ridge", "kernel", "leave_out"}
        assert set(fixed["vectors"]) == set(fixed["embedding"])
        assert fixed["centroids"] == []


REFUSED = [
    {"preset": "quick"},
    {"parts": "sparse"},
    {"parts": ()},
    {"parts": ("trees", 3)},
    {"n_components": 0},
    {"n_components": 2.5},
    {"n_components": True},
    {"method": "svd"},
    {"ridge": -1.0},
    {"ridge": float("nan")},
    {"decoder": "greedy"},
    {"decoder_ridge": "strong"},
    {"decoder_ridge": -1.0},
    {"kernel": "rbf"},
    {"decoder": "transpose", "kernel": "gaussian"},
    {"normalize": "l1"},
    {"embedding": {"n_iter": 1}},
    {"trees": 3},
    {"trees": EmbeddingSettings()},
    {"growable": "yes"},
    {"parts": ("trees",), "growable": True},
    {"trees": TreeSettings(beam=20), "growable": True},
    {"growable": True, "decoder": "logistic"},
    {"threshold": "best"},
    {"threshold": -0.5},
    {"threshold": 7},
    {"threshold": "auto"},
    {"method": "auto"},
    {"growable": "auto"},
    {"random_state": -1},
    {"random_state": "zero"},
    {"device": 3},
    {"budget": 0},
    {"budget": -1.0},
    {"budget": float("inf")},
    {"budget": "5m"},
]


class TestRefusals:
    @pytest.mark.parametrize(
        "params",
        REFUSED,
        ids=lambda params: "-".join(f"{name}={value}" for name, value in params.items()),
    )
    def test_the_error_names_the_parameter(self, params):
        with pytest.raises(SettingsError) as refused:
            resolved(**params)
        *_, last = params
        assert refused.value.parameters == (last,)
        assert last in str(refused.value)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("kernel_scale", 0.0),
            ("n_random_features", 0),
            ("leave_out", 1.5),
            ("leave_out", "half"),
            ("label_power", -0.5),
            ("row_power", 1.5),
            ("label_ridge", -1.0),
            ("projection_ridge", "none"),
            ("n_oversamples", -1),
            ("n_iter", 0.5),
            ("solver", "lu"),
            ("tol", -0.1),
            ("max_iter", 0),
            ("center", "yes"),
            ("retrieves_labels", "sometimes"),
            ("max_epochs", 0),
            ("n_components", 0),
            ("decoder", "greedy"),
        ],
    )
    def test_settings_of_the_embedding_are_checked(self, name, value):
        with pytest.raises(SettingsError, match=name) as refused:
            resolved(embedding=EmbeddingSettings(**{name: value}))
        assert refused.value.parameters == (name,)

    @pytest.mark.parametrize("name", ["label_power", "row_power"])
    def test_labels_are_not_scaled_where_features_are_embedded(self, name):
        with pytest.raises(SettingsError, match="embeds the features") as refused:
            resolved(method="pca", embedding=EmbeddingSettings(**{name: 0.5}))
        assert refused.value.parameters == (name,)
        with pytest.raises(SettingsError, match="embeds the features"):
            LabelEmbedder(2, method="pca", **{name: 0.5}).fit(*blobs())
        LabelEmbedder(2, method="pca", **{name: 0}).fit(*blobs())

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("n_trees", 0),
            ("max_example_node_pairs", 0.0),
            ("cost", -1.0),
            ("power", "high"),
            ("prune_below", -0.1),
            ("tolerance", 0),
            ("passes", 0),
            ("beam", 1.5),
        ],
    )
    def test_settings_of_the_trees_are_checked(self, name, value):
        with pytest.raises(SettingsError, match=name) as refused:
            resolved(trees=TreeSettings(**{name: value}))
        assert refused.value.parameters == (name,)


positive = st.floats(1e-6, 1e6)
whole = st.integers(1, 10**6)
EMBEDDINGS = st.builds(
    EmbeddingSettings,
    n_components=whole,
    method=st.sampled_from(METHODS),
    ridge=positive,
    decoder=st.sampled_from(DECODERS),
    decoder_ridge=positive,
    kernel=st.sampled_from((None, "gaussian", "matern3")),
    normalize=st.booleans(),
    growable=st.booleans(),
    kernel_scale=positive,
    n_random_features=st.none() | whole,
    leave_out=st.floats(0, 1),
    label_power=st.floats(0, 1),
    row_power=st.floats(0, 1),
    retrieves_labels=st.booleans(),
    solver=st.sampled_from(("auto", "cholesky", "pcg")),
    tol=positive,
    center=st.booleans(),
)
TREES = st.builds(TreeSettings, n_trees=whole, max_example_node_pairs=positive, cost=positive)
SPECS = st.one_of(
    st.builds(PartSpec, st.just("embedding"), EMBEDDINGS, st.sampled_from(("features", "vectors"))),
    st.builds(PartSpec, st.just("trees"), TREES),
    st.just(PartSpec("centroids", CentroidSettings())),
)
MODEL_SETTINGS = st.builds(
    ModelSettings,
    parts=st.dictionaries(st.sampled_from(("a", "b", "trees")), SPECS, min_size=1),
    threshold=st.sampled_from(("micro", "macro")) | st.floats(0, 1),
    seed=st.integers(0, 2**31 - 1),
    preset=st.sampled_from(PRESET_NAMES),
)
BAD_VALUES = [-1, 1e999, "x", [], [[]], {"a": 1}, "9" * 5000]


class TestJson:
    def facts(self):
        return json.loads(json.dumps(resolved(parts=PART_NAMES).to_json()))

    @given(MODEL_SETTINGS)
    def test_there_and_back(self, settings):
        facts = json.loads(json.dumps(settings.to_json()))
        assert ModelSettings.from_json(facts) == settings
        assert list(ModelSettings.from_json(facts).parts) == list(settings.parts)

    @each_preset
    def test_resolved_settings_there_and_back(self, preset):
        settings = resolved(preset=preset, random_state=np.random.RandomState(0))
        facts = json.loads(json.dumps(settings.to_json()))
        assert ModelSettings.from_json(facts) == settings
        assert facts.keys() == {"preset", "parts", "threshold", "seed"}
        for spec in facts["parts"].values():
            assert spec.keys() == {"kind", "view", "settings"}

    def test_further_facts_are_ignored(self):
        facts = self.facts()
        assert ModelSettings.from_json(facts | {"quality": 0.5}) == ModelSettings.from_json(facts)

    @pytest.mark.parametrize("name", ["embedding", "trees"])
    @pytest.mark.parametrize("value", BAD_VALUES, ids=range(7))
    def test_settings_of_a_wrong_type_are_refused(self, name, value):
        """JSON from a checkpoint is not trusted: a setting has a possible value, or is refused."""
        facts = self.facts()
        settings = facts["parts"][name]["settings"]
        for setting in settings:
            facts["parts"][name]["settings"] = settings | {setting: value}
            with pytest.raises(SettingsError) as refused:
                ModelSettings.from_json(facts)
            assert len(str(refused.value)) < 2500

    @pytest.mark.parametrize("name", ["preset", "parts", "threshold", "seed"])
    @pytest.mark.parametrize("value", [*BAD_VALUES, None], ids=range(8))
    def test_values_of_a_wrong_type_are_refused(self, name, value):
        with pytest.raises(SettingsError) as refused:
            ModelSettings.from_json(self.facts() | {name: value})
        assert len(str(refused.value)) < 2500

    @pytest.mark.parametrize("name", ["kind", "view", "settings"])
    @pytest.mark.parametrize(
        "value", [-1, 1e999, [], [[]], {"a": 1}, None, "9" * 5000], ids=range(7)
    )
    def test_parts_of_a_wrong_kind_are_refused(self, name, value):
        if name == "view" and isinstance(value, str):
            return  # any name; a model checks that it has this view
        if name == "settings" and value == []:
            return
        facts = self.facts()
        facts["parts"]["trees"][name] = value
        with pytest.raises(SettingsError) as refused:
            ModelSettings.from_json(facts)
        assert len(str(refused.value)) < 6000

    @pytest.mark.parametrize(
        "change",
        [
            lambda facts: facts.pop("seed"),
            lambda facts: facts.pop("parts"),
            lambda facts: facts["parts"]["trees"].pop("view"),
            lambda facts: facts["parts"]["trees"]["settings"].update(colour=3),
            lambda facts: facts["parts"].update(more=3),
        ],
        ids=["seed", "parts", "view", "unknown setting", "no part"],
    )
    def test_what_is_incomplete_is_refused(self, change):
        facts = self.facts()
        change(facts)
        with pytest.raises(SettingsError):
            ModelSettings.from_json(facts)

    @pytest.mark.parametrize("facts", [{}, [], "settings", {"parts": {}}, None, 3], ids=repr)
    def test_what_are_no_settings_is_refused(self, facts):
        with pytest.raises(SettingsError):
            ModelSettings.from_json(facts)

    def test_a_model_has_a_part(self):
        with pytest.raises(SettingsError, match="at least one part"):
            ModelSettings.from_json(self.facts() | {"parts": {}})


class TestModelSettings:
    def test_with_another_part(self):
        settings = resolved()
        trees = replace(settings.parts["trees"].settings, cost=3.0)
        changed = settings.with_part("trees", trees)
        assert changed.parts["trees"].settings.cost == 3.0
        assert changed.with_part("trees", settings.parts["trees"].settings) == settings
        assert list(changed.parts) == list(settings.parts)

    def test_with_some_of_the_parts(self):
        settings = resolved().with_parts(["embedding", "trees"])
        assert list(settings.parts) == ["embedding", "trees"]
