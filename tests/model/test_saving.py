"""A classifier that is saved and loaded predicts as before."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

from rembrandt import Dataset, RembrandtClassifier, TextFeatures, load
from rembrandt.errors import ModelError, OutputExistsError
from rembrandt.model.folder import load_folder, save_folder
from rembrandt.model.saving import load_model
from rembrandt.parts.embedding.settings import DECODERS, EmbeddingSettings
from rembrandt.parts.trees.settings import TreeSettings
from tests.estimators.problems import settled, words

TEXTS = ["red apple", "green apple", "red car", "fast car", "naïve 日本 apple", "slow car"] * 8
TREES = TreeSettings(n_trees=2, max_example_node_pairs=4e3, cost=1.0, passes=10)


def options(**more):
    return settled(**{"n_components": 3} | more)


def points(n=90, d=5, classes=4):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), np.arange(n) % classes


def assert_same(first, second, X):
    assert_array_equal(first.classes_, second.classes_)
    assert first.classes_.dtype.kind == second.classes_.dtype.kind
    for name in ("decision_function", "predict_proba"):
        assert_array_equal(getattr(first, name)(X), getattr(second, name)(X), strict=True)
    for found, expected in zip(second.predict_topk(X, 7), first.predict_topk(X, 7), strict=True):
        assert_array_equal(found, expected)
    found, expected = second.predict(X), first.predict(X)
    assert type(found) is type(expected)
    assert_array_equal(*(a.toarray() if sparse.issparse(a) else a for a in (found, expected)))
    for name in ("embedding_", "singular_values_", "label_counts_"):
        assert_array_equal(getattr(first, name), getattr(second, name), strict=True)
    assert json.loads(json.dumps(first.settings_)) == second.settings_
    assert first.facts_ == second.facts_
    assert first.n_train_ == second.n_train_
    assert first.n_features_in_ == second.n_features_in_


def saved(classifier, path):
    classifier.save(path / "model")
    return load(path / "model")


class TestModels:
    @pytest.mark.parametrize(
        "decoder", [name for name in DECODERS if name != "candidates"]
    )  # it needs other parts
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_each_decoder(self, tmp_path, decoder, dtype):
        X, y = points()
        fitted = RembrandtClassifier(**options(decoder=decoder)).fit(X.astype(dtype), y)
        assert_same(fitted, saved(fitted, tmp_path), X)

    @pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
    @pytest.mark.parametrize("normalize", [False, True])
    def test_a_kernel(self, tmp_path, kernel, normalize):
        X, y = points()
        fitted = RembrandtClassifier(
            **options(kernel=kernel, n_random_features=20, normalize=normalize)
        ).fit(X, y)
        found = saved(fitted, tmp_path)
        assert found.model_.parts["embedding"].decoder.fourier.size == 23
        assert_same(fitted, found, X)

    @pytest.mark.parametrize(
        "names",
        [("trees",), ("centroids",), ("trees", "embedding"), ("trees", "centroids", "embedding")],
        ids="-".join,
    )
    def test_each_part_and_blends(self, tmp_path, names):
        X, Y = words(90, 20, 100)
        fitted = RembrandtClassifier(**options(trees=TREES, parts=names)).fit(X, Y)
        found = saved(fitted, tmp_path)
        assert tuple(found.model_.parts) == tuple(fitted.model_.parts) == names
        assert found.model_.blend == fitted.model_.blend
        assert_same(fitted, found, X)

    @pytest.mark.parametrize("threshold", [0.3, "micro", "macro"])
    def test_blends_and_thresholds(self, tmp_path, threshold):
        X, Y = words(300, 10, 150)
        fitted = RembrandtClassifier(
            **options(parts=("trees", "embedding"), threshold=threshold)
        ).fit(X, Y)
        found = saved(fitted, tmp_path)
        assert found.model_.blend == fitted.model_.blend
        assert_array_equal(found.model_.threshold, fitted.model_.threshold)
        assert_same(fitted, found, X)

    def test_what_an_update_needs(self, tmp_path):
        X, y = points()
        fitted = RembrandtClassifier(**options(growable=True)).fit(X, y)
        found = saved(fitted, tmp_path)
        for one in (fitted, found):
            one.partial_fit(X[:20], y[:20])
        assert_array_equal(found.decision_function(X), fitted.decision_function(X))


class TestLabels:
    @pytest.mark.filterwarnings("ignore:.* with an empty label")
    @pytest.mark.parametrize(
        "names",
        [
            np.array([5, -3, 100, 2**40]),
            np.array(["b", "a", "naïve ☃", ""]),
            np.array([0.5, 1.0, 2.0, 3.0]) * 2,
            np.array(["b", "a", "c", "d"], dtype=object),
            np.array([False, True, False, True]),
        ],
        ids=["integers", "strings", "floats", "objects", "booleans"],
    )
    def test_classes_of_any_type(self, tmp_path, names):
        X, y = points()
        fitted = RembrandtClassifier(**options(n_components=2)).fit(X, names[y])
        found = saved(fitted, tmp_path)
        assert_array_equal(found.predict(X), fitted.predict(X))
        assert [type(label) for label in found.predict(X).tolist()] == [
            type(label) for label in fitted.predict(X).tolist()
        ]
        assert found.score(X, names[y]) == fitted.score(X, names[y])

    def test_names_that_end_in_nul_and_long_names(self, tmp_path):
        """In an array of fixed width two of these are equal, and each takes as much memory as the
        longest.
        """
        X, y = points()
        names = ["a", "a\0", "b" * 100_000, *(f"c{i}" for i in range(2000))]
        data = Dataset.from_arrays(
            X, [[names[i % 3], names[3 + j % 2000]] for j, i in enumerate(y)]
        )
        fitted = RembrandtClassifier(**options(n_components=2)).fit_dataset(data)
        found = saved(fitted, tmp_path)
        assert found.classes_.tolist() == fitted.classes_.tolist() == data.label_ids
        assert {"a", "a\0"} < set(found.classes_.tolist())
        assert found.classes_.nbytes < 1 << 20

    @pytest.mark.parametrize(
        "kind", [np.asarray, sparse.csr_array, list], ids=["dense", "sparse", "lists"]
    )
    def test_several_labels_a_row(self, tmp_path, kind):
        X, _ = points()
        Y = np.random.default_rng(1).integers(0, 2, (len(X), 4))
        target = [[f"l{i}" for i in np.flatnonzero(row)] for row in Y] if kind is list else kind(Y)
        fitted = RembrandtClassifier(**options()).fit(X, target)
        found = saved(fitted, tmp_path)
        assert_same(fitted, found, X)
        assert found.score(X, target) == fitted.score(X, target)

    @pytest.mark.filterwarnings("ignore:.*no word of the model")
    @pytest.mark.parametrize("text", [None, TextFeatures(lowercase=False)], ids=["default", "own"])
    def test_texts(self, tmp_path, text):
        y = ["fruit", "fruit", "car", "car", "fruit", "car"] * 8
        fitted = RembrandtClassifier(**options(n_components=2, text=text)).fit(TEXTS, y)
        found = saved(fitted, tmp_path)
        assert_same(fitted, found, [*TEXTS, "", "unknown words", "日本", "RED Apple"])
        assert text is None or found.text.get_params() == text.get_params()


class TestParameters:
    @pytest.mark.parametrize(
        "more",
        [
            {"ridge": 0.3, "center": True},
            {"parts": ("trees", "embedding"), "trees": TREES},
            {"parts": "trees", "trees": TREES},
            {"preset": "fast", "trees": TREES, "embedding": None, "parts": "auto"},
        ],
        ids=["embedding", "names", "name", "preset"],
    )
    def test_they_are_kept_and_a_clone_fits_the_same_model(self, tmp_path, more):
        X, y = points()
        fitted = RembrandtClassifier(**options(**more)).fit(X, y)
        found = saved(fitted, tmp_path)
        assert found.get_params() == fitted.get_params()
        assert_array_equal(clone(found).fit(X, y).predict_proba(X), fitted.predict_proba(X))

    def test_a_drawn_seed_is_kept(self, tmp_path):
        X, y = points()
        fitted = RembrandtClassifier(**options(method="cs", random_state=None)).fit(X, y)
        found = saved(fitted, tmp_path)
        assert_array_equal(clone(found).fit(X, y).predict_proba(X), fitted.predict_proba(X))

    @pytest.mark.parametrize(
        "setting",
        [
            {"n_components": np.int64(2)},
            {"ridge": np.float32(0.5)},
            {"decoder_ridge": np.float64(0.5)},
            {"threshold": np.float32(0.25)},
            {
                "embedding": EmbeddingSettings(
                    leave_out=0.0, max_iter=np.int32(5), center=np.bool_(True)
                )
            },
            {"trees": TreeSettings(n_trees=np.int64(2), cost=np.float32(1)), "parts": "trees"},
        ],
        ids=lambda setting: next(iter(setting)),
    )
    def test_numbers_of_numpy(self, tmp_path, setting):
        X, y = points()
        fitted = RembrandtClassifier(**options() | setting).fit(X, y)
        assert_same(fitted, saved(fitted, tmp_path), X)

    def test_trials_and_extras(self, tmp_path):
        X, y = points(120)
        settings = EmbeddingSettings(n_random_features=10, max_epochs=3)
        fitted = RembrandtClassifier(
            preset="best", n_components=2, embedding=settings, random_state=0
        ).fit(X, y)
        fitted.save(tmp_path / "model", extra={"note": "mine"})
        found = load(tmp_path / "model")
        assert found.selection_ and found.selection_ == json.loads(json.dumps(fitted.selection_))
        assert found.extra_ == {"note": "mine"}
        assert_same(fitted, found, X)


class TestFolders:
    def test_a_loaded_classifier_can_be_saved_again(self, tmp_path):
        X, y = points()
        fitted = RembrandtClassifier(**options()).fit(X, y)
        found = saved(fitted, tmp_path)
        found.save(tmp_path / "again")
        assert_same(fitted, load(tmp_path / "again"), X)
        for name in ("weights.safetensors", "model.json"):
            assert (tmp_path / "again" / name).read_bytes() == (
                tmp_path / "model" / name
            ).read_bytes()

    def test_a_model_is_replaced_only_on_request(self, tmp_path):
        X, y = points()
        first, second = (
            RembrandtClassifier(**options(decoder=name)).fit(X, y)
            for name in ("ridge", "transpose")
        )
        first.save(tmp_path / "model")
        with pytest.raises(OutputExistsError):
            second.save(tmp_path / "model")
        assert_same(first, load(tmp_path / "model"), X)
        second.save(tmp_path / "model", force=True)
        assert_same(second, load(tmp_path / "model", verify=False), X)

    def test_a_folder_of_something_else_is_refused(self, tmp_path):
        save_folder(tmp_path / "other", {"a": np.ones(2)}, {})
        with pytest.raises(ModelError, match="not a classifier"):
            load_model(tmp_path / "other")

    def test_features_that_would_not_fit_in_memory_are_refused(self, tmp_path):
        """A few bytes can claim any number of features, and prediction has a list for each."""
        RembrandtClassifier(parts="trees", trees=TREES).fit(*points()).save(tmp_path / "model")
        arrays, metadata = load_folder(tmp_path / "model")
        many = {
            name: np.array([array[0], 1 << 45])
            for name, array in arrays.items()
            if name.endswith(".shape")
        }
        save_folder(tmp_path / "other", arrays | many, metadata)
        with pytest.raises(ModelError, match=r"35,184,372,088,832 features need more memory"):
            load(tmp_path / "other")

    @pytest.mark.parametrize("dense", [0, False, "", "(", "f4,f4", "O", {}])
    def test_a_type_of_targets_that_is_none_is_refused(self, tmp_path, dense):
        X, y = points()
        RembrandtClassifier(**options()).fit(X, np.eye(4)[y]).save(tmp_path / "model")
        arrays, metadata = load_folder(tmp_path / "model")
        assert metadata["extra"]["dense_target"] is not None
        save_folder(
            tmp_path / "other",
            arrays,
            metadata | {"extra": metadata["extra"] | {"dense_target": dense}},
        )
        with pytest.raises(ModelError, match="other is damaged"):
            load(tmp_path / "other")

    def test_memory_that_runs_out_is_a_sentence(self, tmp_path, monkeypatch):
        RembrandtClassifier(parts="trees", trees=TREES).fit(*points()).save(tmp_path / "model")

        def fail(*_):
            raise MemoryError("Unable to allocate 7.45 GiB")

        monkeypatch.setattr("rembrandt.model.saving._check_fit", fail)
        with pytest.raises(
            ModelError, match=r"model: memory ran out \(Unable to allocate 7\.45 GiB"
        ):
            load(tmp_path / "model")

    def test_an_unfitted_classifier_cannot_be_saved(self, tmp_path):
        with pytest.raises(ValueError, match="not fitted"):
            RembrandtClassifier().save(tmp_path / "model")
        assert not (tmp_path / "model").exists()
