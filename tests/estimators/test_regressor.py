"""Regressors plugged into the estimators: what they learn and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from rembrandt import LabelEmbedder, RembrandtClassifier
from rembrandt.engines.place import CPU
from rembrandt.errors import ModelError, SettingsError
from rembrandt.explore.explain import explain
from rembrandt.predict import all_probabilities
from tests.devices import PLACES
from tests.embeddings.test_regressor import RelativeRidge

from .problems import SETTLED, several

PLAIN = SETTLED | {"ridge": 1e-3}


def xor(n=600, seed=0):
    """Two classes that no line separates."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")


def test_a_nonlinear_regressor_learns_nonlinear_classes():
    X, y = xor()
    test = xor(300, seed=1)
    assert RembrandtClassifier(**PLAIN).fit(X, y).score(*test) < 0.6
    assert (
        RembrandtClassifier(**PLAIN, regressor=KNeighborsRegressor(5)).fit(X, y).score(*test) > 0.9
    )


def test_a_linear_regressor_is_the_linear_path():
    X, Y = several(labels=12)
    linear = LabelEmbedder(4, n_iter=8, ridge=0.5, random_state=0).fit(X, Y)
    plugged = LabelEmbedder(4, n_iter=8, random_state=0, regressor=RelativeRidge(0.5)).fit(X, Y)
    assert_allclose(plugged.singular_values_, linear.singular_values_, rtol=1e-6)
    assert_allclose(plugged.embedding_, linear.embedding_, atol=1e-4)
    assert_allclose(plugged.transform(X), linear.transform(X), atol=1e-4)
    assert_array_equal(plugged.truncate(2).transform(X), plugged.transform(X)[:, :2])


def test_a_model_with_a_regressor_is_not_saved(tmp_path):
    X, Y = several()
    classifier = RembrandtClassifier(**PLAIN, regressor=ExtraTreesRegressor(5, random_state=0)).fit(
        X, Y
    )
    with pytest.raises(ModelError, match=r"pickle.*regressor=None"):
        classifier.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(SettingsError, match="checkpoint"):
        clone(classifier).fit(X, Y, checkpoint=tmp_path / "kept")


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
def test_predictions_go_to_a_device(place):
    X, Y = several()
    model = (
        RembrandtClassifier(**PLAIN, regressor=KNeighborsRegressor(5))
        .fit(X.astype(np.float32), Y)
        .model_
    )
    rows = X.astype(np.float32)
    on_device = all_probabilities(model.on(place()), rows)
    assert_allclose(on_device, all_probabilities(model.on(CPU), rows), atol=1e-2)


def test_the_decoder_is_chosen_with_a_regressor():
    X, y = xor(120)
    settings = PLAIN | {"decoder": "auto", "decoder_ridge": "auto"}
    classifier = RembrandtClassifier(**settings, regressor=KNeighborsRegressor(5)).fit(X, y)
    assert classifier.selection_ and classifier.score(X, y) > 0.9


def test_refusals():
    X, Y = several()
    for wrong in ("forest", 3, object(), Ridge):
        with pytest.raises(SettingsError, match="regressor="):
            LabelEmbedder(3, regressor=wrong).fit(X, Y)
    with pytest.raises(SettingsError, match="center"):
        LabelEmbedder(3, regressor=Ridge(), center=True).fit(X, Y)
    with pytest.raises(SettingsError, match="certificate"):
        LabelEmbedder(3, regressor=Ridge(), random_state=0).fit(X, Y).certify(X, Y)
    with pytest.raises(SettingsError, match=r"contributions.*regressor=None"):
        explain(RembrandtClassifier(**PLAIN, regressor=Ridge()).fit(X, Y), X[:2])
