"""Regressors that are plugged into the estimators: what they learn, keep and refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from rembrandt import LabelEmbedder, RembrandtClassifier, load
from rembrandt.engines.place import CPU
from rembrandt.errors import MemoryEstimateError, ModelError, SettingsError
from rembrandt.explore.explain import explain
from rembrandt.regressors import MLP, KernelFeatures
from rembrandt.regressors import kernel as kernel_module
from tests.devices import PLACES
from tests.embeddings.test_plugged import RelativeRidge
from tests.estimators.problems import SETTLED, several

PLAIN = SETTLED | {"ridge": 1e-3}
FEW = KernelFeatures("laplacian", 100, 2.0)
QUICK = MLP(hidden=64, max_epochs=60, learning_rate=1e-2)


def xor(n=600, seed=0):
    """Two classes that no line tells apart."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")


@pytest.mark.parametrize("regressor", [KernelFeatures(n_features=300), QUICK, KNeighborsRegressor(5)])
def test_what_is_not_linear_learns_what_is_not_linear(regressor):
    X, y = xor()
    test = xor(300, seed=1)
    assert RembrandtClassifier(**PLAIN).fit(X, y).score(*test) < 0.6
    assert RembrandtClassifier(**PLAIN, regressor=regressor).fit(X, y).score(*test) > 0.9


def test_a_linear_regressor_is_the_linear_path():
    X, Y = several(labels=12)
    linear = LabelEmbedder(4, n_iter=8, ridge=0.5, random_state=0).fit(X, Y)
    plugged = LabelEmbedder(4, n_iter=8, random_state=0, regressor=RelativeRidge(0.5)).fit(X, Y)
    assert_allclose(plugged.singular_values_, linear.singular_values_, rtol=1e-6)
    assert_allclose(plugged.embedding_, linear.embedding_, atol=1e-4)
    assert_allclose(plugged.transform(X), linear.transform(X), atol=1e-4)


def test_the_kernel_is_ridge_on_random_features():
    X, Y = several(labels=12)
    found = LabelEmbedder(4, n_iter=3, random_state=0, regressor=KernelFeatures(n_features=50)).fit(X, Y)
    again = LabelEmbedder(4, n_iter=3, random_state=0).fit(found.lift_(X), Y)
    assert_array_equal(found.embedding_, again.embedding_)
    assert_array_equal(found.transform(X), again.transform(found.lift_(X)))
    assert found.certify(X, Y).residuals.max() < 0.1 * found.singular_values_[0]
    assert_array_equal(found.truncate(2).transform(X), found.transform(X)[:, :2])


@pytest.mark.parametrize("wide", [4096, 3])
def test_sparse_rows_are_lifted_as_dense_ones_are(wide, monkeypatch):
    X = several()[0].astype(np.float32)
    lift = KernelFeatures(n_features=40).lift(X, 0)
    monkeypatch.setattr(kernel_module, "WIDE", wide)
    found = lift(sparse.csr_array(X))
    assert sparse.issparse(found) == (wide == 3) and found.dtype == np.float32
    assert_allclose(found.toarray() if sparse.issparse(found) else found, lift(X), atol=1e-5)


@pytest.mark.parametrize("regressor", ["mlp", QUICK, FEW])
@pytest.mark.parametrize("kind", [np.asarray, lambda X: sparse.csr_array(X.astype(np.float32))])
def test_ours_are_saved_with_the_model(regressor, kind, tmp_path):
    X, Y = several(n=150)
    X = kind(X)
    classifier = RembrandtClassifier(**PLAIN, regressor=regressor).fit(X, Y)
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.decision_function(X), classifier.decision_function(X))
    assert again.n_features_in_ == again.model_.n_features == 8
    assert repr(again.regressor) == repr(regressor)
    assert again.settings_["regressor"]["name"] in ("kernel", "mlp")
    assert clone(again).fit(X, Y).predict_topk(X, 2)[0].shape == (150, 2)
    assert_array_equal(again.fit(X, Y).decision_function(X), classifier.decision_function(X))


def test_others_are_not_saved(tmp_path):
    X, Y = several()
    classifier = RembrandtClassifier(**PLAIN, regressor=ExtraTreesRegressor(5, random_state=0)).fit(X, Y)
    with pytest.raises(ModelError, match=r"pickle.*regressor='kernel'"):
        classifier.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(SettingsError, match="checkpoint"):
        clone(classifier).fit(X, Y, checkpoint=tmp_path / "kept")


def test_a_checkpoint_keeps_ours(tmp_path):
    X, Y = several()
    classifier = RembrandtClassifier(**PLAIN, regressor=KernelFeatures(n_features=50))
    first = clone(classifier).fit(X, Y, checkpoint=tmp_path / "kept").decision_function(X)
    assert_array_equal(clone(classifier).fit(X, Y, checkpoint=tmp_path / "kept").decision_function(X), first)


def test_the_network_has_its_seed_and_its_weights():
    X, Y = several()
    T = Y.astype(np.float64)
    first, again = (clone(QUICK).fit(X, T).predict(X) for _ in range(2))
    assert_array_equal(first, again)
    assert not np.array_equal(clone(QUICK).set_params(seed=1).fit(X, T).predict(X), first)
    assert ((first - T) ** 2).mean() < 0.3 * T.var()
    some = np.repeat([0.0, 1.0], 150)
    assert_allclose(clone(QUICK).fit(X, T, some).predict(X[150:]).mean(axis=0), T[150:].mean(axis=0), atol=0.1)
    assert_allclose(clone(QUICK).fit(sparse.csr_array(X), T).predict(sparse.csr_array(X)), first, atol=0.05)


def test_weights_reach_the_regressor():
    X, Y = several()
    weights = np.repeat([0.0, 2.0], 150)
    settings = {"n_components": 3, "n_iter": 2, "random_state": 0, "regressor": Ridge(1.0)}
    weighted = LabelEmbedder(**settings).fit(X, Y, weights)
    alone = LabelEmbedder(**settings | {"regressor": Ridge(0.5)}).fit(X[150:], Y[150:])
    assert_allclose(weighted.transform(X), alone.transform(X), atol=1e-5)
    with pytest.raises(SettingsError, match="sample_weight"):
        LabelEmbedder(**settings | {"regressor": KNeighborsRegressor()}).fit(X, Y, weights)


@pytest.mark.parametrize("place", PLACES)
def test_rows_are_lifted_before_they_go_to_a_device(place):
    X, Y = several()
    model = RembrandtClassifier(**PLAIN, regressor=FEW).fit(X.astype(np.float32), Y).model_
    assert_allclose(model.on(place()).scores(X), model.on(CPU).scores(X), atol=1e-2)


def test_the_decoder_is_chosen_with_a_regressor():
    X, y = xor(120)
    settings = PLAIN | {"decoder_ridge": "auto"}
    classifier = RembrandtClassifier(**settings, regressor=KernelFeatures(n_features=100)).fit(X, y)
    assert classifier.selection_ and classifier.score(X, y) > 0.9


def test_refusals(monkeypatch):
    X, Y = several()
    for wrong in ("forest", 3, object(), Ridge):
        with pytest.raises(SettingsError, match="regressor="):
            LabelEmbedder(3, regressor=wrong).fit(X, Y)
    for wrong in (KernelFeatures("linear"), KernelFeatures(n_features=0), MLP(hidden=0), MLP(learning_rate=0)):
        with pytest.raises(SettingsError):
            LabelEmbedder(3, regressor=wrong).fit(X, Y)
    with pytest.raises(SettingsError, match="center"):
        LabelEmbedder(3, regressor=Ridge(), center=True).fit(X, Y)
    with pytest.raises(SettingsError, match="certificate"):
        LabelEmbedder(3, regressor=Ridge(), random_state=0).fit(X, Y).certify(X, Y)
    with pytest.raises(SettingsError, match="explain"):
        explain(RembrandtClassifier(**PLAIN, regressor=FEW).fit(X, Y), X[:2])
    with monkeypatch.context() as context:
        context.setattr(kernel_module.memory, "available", lambda: 1 << 10)
        with pytest.raises(MemoryEstimateError, match="random features"):
            KernelFeatures().lift(X, 0)
    monkeypatch.setattr("rembrandt.regressors.mlp.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install 'rembrandt\[gpu\]'"):
        LabelEmbedder(3, regressor="mlp").fit(X, Y)
