"""A classifier whose embedding learns from what the other parts list."""

import numpy as np
import pytest

from rembrandt import RembrandtClassifier, load
from rembrandt.errors import SettingsError
from rembrandt.metrics import precision_at_k
from tests.estimators.problems import words

PARTS = {"parts": ("centroids", "embedding"), "n_components": 20, "random_state": 0}


def embedding_settings(classifier):
    return classifier.settings_["parts"]["embedding"]["settings"]


@pytest.fixture(scope="module")
def fitted():
    X, Y = words(400)
    return RembrandtClassifier(decoder="candidates", **PARTS).fit(X, Y), X, Y


def test_it_is_what_was_asked_for_and_predicts(fitted):
    model, X, Y = fitted
    settings = embedding_settings(model)
    assert settings["decoder"] == "candidates"
    assert settings["kernel"] is None
    embedding = model.model_.parts["embedding"]
    assert not embedding.retrieves_labels
    assert embedding.decoder.link == "sigmoid"
    labels, _ = model.predict_topk(X, 1)
    assert precision_at_k(Y, labels, 1) > 0.8


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    model, X, _ = fitted
    model.save(tmp_path / "model")
    labels, probabilities = model.predict_topk(X, 5)
    labels_again, probabilities_again = load(tmp_path / "model").predict_topk(X, 5)
    np.testing.assert_array_equal(labels_again, labels)
    np.testing.assert_array_equal(probabilities_again, probabilities)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"parts": ("embedding",)}, "other parts list"),
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
    assert embedding_settings(model)["kernel"] == "gaussian"
    assert embedding_settings(model)["decoder"] == "ridge"


def test_a_search_without_time_keeps_the_decoder_that_was_asked_for():
    X, Y = words(400)
    model = RembrandtClassifier(decoder="candidates", budget=0.01, **PARTS).fit(X, Y)
    assert embedding_settings(model)["decoder"] == "candidates"
