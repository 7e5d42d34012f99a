"""A classifier that is saved and loaded answers as before."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

from rembrandt import RembrandtClassifier, TextFeatures, load
from rembrandt.errors import ModelError, OutputExistsError
from rembrandt.fitting import DECODERS
from rembrandt.model import save_folder
from rembrandt.model.persist import load_model

OPTIONS = {"n_components": 3, "decoder_ridge": 0.01, "kernel": None, "normalize": False, "random_state": 0}
TEXTS = ["red apple", "green apple", "red car", "fast car", "naïve 日本 apple", "slow car"] * 8


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
    for name in ("embedding_", "singular_values_", "projection_", "label_counts_"):
        assert_array_equal(getattr(first, name), getattr(second, name), strict=True)
    assert json.loads(json.dumps(first.settings_)) == second.settings_
    assert first.n_train_ == second.n_train_
    assert first.n_features_in_ == second.n_features_in_


def kept(classifier, path):
    classifier.save(path / "model")
    return load(path / "model")


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_decoder(tmp_path, decoder, dtype):
    X, y = points()
    fitted = RembrandtClassifier(**OPTIONS | {"decoder": decoder}).fit(X.astype(dtype), y)
    assert_same(fitted, kept(fitted, tmp_path), X)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize("normalize", [False, True])
def test_a_kernel(tmp_path, kernel, normalize):
    X, y = points()
    more = {"decoder": "ridge", "kernel": kernel, "n_random_features": 20, "normalize": normalize}
    fitted = RembrandtClassifier(**OPTIONS | more).fit(X, y)
    found = kept(fitted, tmp_path)
    assert found.model_.decoder.fourier.size == 23
    assert_same(fitted, found, X)


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
def test_classes_of_any_type(tmp_path, names):
    X, y = points()
    fitted = RembrandtClassifier(**OPTIONS | {"decoder": "ridge", "n_components": 2}).fit(X, names[y])
    found = kept(fitted, tmp_path)
    assert_array_equal(found.predict(X), fitted.predict(X))
    assert [type(label) for label in found.predict(X).tolist()] == [type(label) for label in fitted.predict(X).tolist()]
    assert found.score(X, names[y]) == fitted.score(X, names[y])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, list], ids=["dense", "sparse", "lists"])
def test_many_labels(tmp_path, kind):
    X, _ = points()
    Y = np.random.default_rng(1).integers(0, 2, (len(X), 4))
    target = [[f"l{i}" for i in np.flatnonzero(row)] for row in Y] if kind is list else kind(Y)
    fitted = RembrandtClassifier(**OPTIONS | {"decoder": "ridge"}).fit(X, target)
    found = kept(fitted, tmp_path)
    assert_same(fitted, found, X)
    assert found.score(X, target) == fitted.score(X, target)


@pytest.mark.parametrize("text", [None, TextFeatures(lowercase=False)], ids=["default", "own"])
def test_texts(tmp_path, text):
    y = ["fruit", "fruit", "car", "car", "fruit", "car"] * 8
    fitted = RembrandtClassifier(**OPTIONS | {"decoder": "ridge", "n_components": 2, "text": text}).fit(TEXTS, y)
    found = kept(fitted, tmp_path)
    assert_same(fitted, found, [*TEXTS, "", "unknown words", "日本", "RED Apple"])
    assert text is None or found.text.get_params() == text.get_params()


def test_settings_survive_and_the_copy_fits_alike(tmp_path):
    X, y = points()
    fitted = RembrandtClassifier(**OPTIONS | {"decoder": "ridge", "ridge": 0.3, "center": True}).fit(X, y)
    found = kept(fitted, tmp_path)
    assert found.get_params() == fitted.get_params()
    assert_array_equal(clone(found).fit(X, y).predict_proba(X), fitted.predict_proba(X))


def test_a_drawn_seed_is_kept(tmp_path):
    X, y = points()
    fitted = RembrandtClassifier(**OPTIONS | {"decoder": "ridge", "method": "cs", "random_state": None}).fit(X, y)
    found = kept(fitted, tmp_path)
    assert_array_equal(clone(found).fit(X, y).predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(
    "setting",
    [
        {"n_components": np.int64(2)},
        {"ridge": np.float32(0.5)},
        {"decoder_ridge": np.float64(0.5)},
        {"max_iter": np.int32(5)},
        {"center": np.bool_(True)},
    ],
    ids=lambda s: next(iter(s)),
)
def test_numbers_of_numpy_as_a_search_gives_them(tmp_path, setting):
    X, y = points()
    fitted = RembrandtClassifier(**OPTIONS | {"decoder": "ridge"} | setting).fit(X, y)
    assert_same(fitted, kept(fitted, tmp_path), X)


def test_trials_names_and_extras(tmp_path):
    X, y = points()
    fitted = RembrandtClassifier(n_random_features=10, max_epochs=3, n_components=2, random_state=0).fit(X, y)
    fitted.save(tmp_path / "model", extra={"note": "mine"})
    found = load(tmp_path / "model")
    assert found.selection_ == fitted.selection_
    assert found.extra_["note"] == "mine"
    assert_same(fitted, found, X)


def test_a_loaded_classifier_can_be_saved_again(tmp_path):
    X, y = points()
    fitted = RembrandtClassifier(**OPTIONS | {"decoder": "ridge"}).fit(X, y)
    found = kept(fitted, tmp_path)
    found.save(tmp_path / "again")
    assert_same(fitted, load(tmp_path / "again"), X)
    for name in ("weights.safetensors", "model.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


def test_a_model_is_replaced_only_when_told(tmp_path):
    X, y = points()
    first = RembrandtClassifier(**OPTIONS | {"decoder": "ridge"}).fit(X, y)
    second = RembrandtClassifier(**OPTIONS | {"decoder": "transpose"}).fit(X, y)
    first.save(tmp_path / "model")
    with pytest.raises(OutputExistsError):
        second.save(tmp_path / "model")
    assert_same(first, load(tmp_path / "model"), X)
    second.save(tmp_path / "model", force=True)
    assert_same(second, load(tmp_path / "model", verify=False), X)


def test_a_folder_of_something_else(tmp_path):
    save_folder(tmp_path / "other", {"a": np.ones(2)}, {})
    with pytest.raises(ModelError, match="not a classifier"):
        load_model(tmp_path / "other")


def test_an_unfitted_one_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        RembrandtClassifier().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
