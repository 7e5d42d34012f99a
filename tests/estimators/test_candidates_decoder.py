"""A classifier whose embedding learns from what the other scorers propose."""

import numpy as np
import pytest

from rembrandt import RembrandtClassifier, load
from rembrandt.errors import SettingsError
from rembrandt.metrics import precision_at_k
from tests.estimators.problems import words

PARTS = {"scorers": ("centroids", "embedding"), "n_components": 20, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    X, Y = words(400)
    return RembrandtClassifier(decoder="candidates", **PARTS).fit(X, Y), X, Y


def test_it_is_what_was_asked_for_and_predicts(fitted):
    model, X, Y = fitted
    assert model.settings_["decoder"] == "candidates" and model.settings_["kernel"] is None
    assert not model.model_.embedding.proposes and model.model_.embedding.decoder.link == "sigmoid"
    labels, _ = model.predict_topk(X, 1)
    assert precision_at_k(Y, labels, 1) > 0.8


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    model, X, _ = fitted
    model.save(tmp_path / "model")
    for one, other in zip(
        model.predict_topk(X, 5), load(tmp_path / "model").predict_topk(X, 5), strict=True
    ):
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


def test_a_kernel_that_was_asked_for_is_used():
    X, Y = words(400)
    model = RembrandtClassifier(kernel="gaussian", **PARTS).fit(X, Y)
    assert model.settings_["kernel"] == "gaussian" and model.settings_["decoder"] != "candidates"


def test_a_search_without_time_keeps_the_decoder_that_was_asked_for():
    X, Y = words(400)
    model = RembrandtClassifier(decoder="candidates", budget=0.01, **PARTS).fit(X, Y)
    assert model.settings_["decoder"] == "candidates"


def test_the_trial_of_the_embedding_that_is_kept_is_marked(fitted):
    model = fitted[0]
    chosen = {trial["scorers"][0] for trial in model.selection_ if trial["outcome"] == "chosen"}
    assert "embedding" in chosen
