"""A classifier whose embedding learns from what the other scorers propose."""

import numpy as np
import pytest

from rembrandt import RembrandtClassifier, load
from rembrandt.errors import SettingsError
from rembrandt.metrics import precision_at_k
from tests.estimators.problems import words

PARTS = {"scorers": ("trees", "centroids", "embedding"), "n_components": 20, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    X, Y = words(400)
    return RembrandtClassifier(decoder="candidates", **PARTS).fit(X, Y), X, Y


def test_it_is_what_was_asked_for_and_predicts(fitted):
    model, X, Y = fitted
    assert model.settings_["decoder"] == "candidates" and model.settings_["kernel"] is None
    if model.model_.embedding is not None:
        assert not model.model_.embedding.proposes and model.model_.embedding.decoder.link == "sigmoid"
    labels, _ = model.predict_topk(X, 1)
    assert precision_at_k(Y, labels, 1) > 0.8


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    model, X, _ = fitted
    model.save(tmp_path / "model")
    for one, other in zip(model.predict_topk(X, 5), load(tmp_path / "model").predict_topk(X, 5), strict=True):
        np.testing.assert_array_equal(one, other)


def test_of_the_decoders_that_are_tried_the_better_blend_is_kept():
    X, Y = words(400)
    model = RembrandtClassifier(**PARTS).fit(X, Y)
    best = model.settings_["blends"][0]["quality"]
    for decoder in ("ridge", "candidates"):
        asked = RembrandtClassifier(decoder=decoder, kernel=None, **PARTS).fit(X, Y)
        assert best >= asked.settings_["blends"][0]["quality"] - 0.02


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"scorers": ("embedding",)}, "other scorers propose"),
        ({"kernel": "gaussian"}, "does not use a kernel"),
    ],
)
def test_what_does_not_go_together_is_refused(parameters, message):
    X, Y = words(200)
    with pytest.raises(SettingsError, match=message):
        RembrandtClassifier(decoder="candidates", **PARTS | parameters).fit(X, Y)
