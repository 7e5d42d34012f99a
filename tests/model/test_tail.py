"""Ranking for the tail: by probability × worth, the same as by hand, for every decoder."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.errors import SettingsError
from rembrandt.metrics import inverse_propensity, psp_at_k, top_k
from rembrandt.model import ranking
from tests.estimators.problems import SETTLED


def skewed(n=400, labels=30, d=20, multiclass=False, seed=0):
    """Labels from common to rare, each marked by a direction, and not quite."""
    rng = np.random.default_rng(seed)
    rates = 1 / np.arange(1, labels + 1)
    if multiclass:
        y = np.append(np.arange(labels), rng.choice(labels, n - labels, p=rates / rates.sum()))
        Y = np.eye(labels)[y]
    else:
        y = Y = (rng.random((n, labels)) < rates).astype(int)
    X = Y @ np.random.default_rng(7).standard_normal((labels, d)) + rng.standard_normal((n, d))
    return X.astype(np.float32), y


CASES = [
    (False, {"decoder": "ridge"}),
    (False, {"decoder": "ridge", "kernel": "gaussian", "n_random_features": 50}),
    (False, {"decoder": "transpose"}),
    (False, {"decoder": "logistic", "max_epochs": 3}),
    (True, {"decoder": "logistic", "max_epochs": 3}),
    (True, {"decoder": "ridge"}),
]


def fitted(multiclass, settings):
    return _fitted(multiclass, tuple(settings.items()))


@cache
def _fitted(multiclass, settings):
    X, y = skewed(multiclass=multiclass)
    return X, RembrandtClassifier(**SETTLED | dict(settings)).fit(X, y)


@pytest.mark.parametrize(("multiclass", "settings"), CASES)
@pytest.mark.parametrize("block", [7, 1 << 16])
@pytest.mark.parametrize("device", ["cpu", "torch"])
def test_the_ranking_is_that_of_all_probabilities_times_worth(multiclass, settings, block, device, monkeypatch):
    X, classifier = fitted(multiclass, settings)
    monkeypatch.setattr(ranking, "LABELS", block)
    model = classifier.model_
    if device == "torch":
        pytest.importorskip("torch")
        from rembrandt.engines.torch_place import torch_place

        model = model.on(torch_place("cpu,cpu"))
    worth = inverse_propensity(model.label_counts, model.n_train)
    decoder, H = classifier.model_.decoder, classifier.model_.project(X)
    everything = decoder.probabilities(decoder.scores(H)) * worth
    for allowed in (None, np.arange(0, model.n_labels, 3)):
        hidden = np.full_like(everything, -np.inf)
        hidden[:, slice(None) if allowed is None else allowed] = 0
        labels, scores = model.top_k(X, 5, allowed, worth=worth)
        np.testing.assert_allclose(scores, top_k(everything + hidden, 5)[1], rtol=1e-4)
        np.testing.assert_allclose(np.take_along_axis(everything, labels, axis=1), scores, rtol=1e-4)


def test_where_all_labels_are_worth_the_same_the_ranking_is_the_usual_one():
    X, classifier = fitted(False, {"decoder": "logistic", "max_epochs": 3})
    worth = np.full(30, 3.0)
    np.testing.assert_array_equal(classifier.model_.top_k(X, 5, worth=worth)[0], classifier.model_.top_k(X, 5)[0])


def test_it_finds_more_of_the_tail():
    _, classifier = fitted(False, {"decoder": "logistic"})
    Xt, Yt = skewed(seed=1)
    worth = classifier.model_.worth()
    for k in (1, 3):
        plain, tail = (classifier.model_topk(Xt, k, tail=tail)[0] for tail in (False, True))
        truth = sparse.csr_array(Yt.astype(np.float32))
        assert psp_at_k(truth, tail, k, worth) > psp_at_k(truth, plain, k, worth)


@pytest.mark.parametrize("pairs", [10.0, 3e7])
def test_a_sparse_part_is_weighed_too(pairs):
    X, y = skewed()
    classifier = RembrandtClassifier(**SETTLED | {"sparse": True, "sparse_pairs": pairs}).fit(X, y)
    for blend in (0.5, 1.0):
        model = replace(classifier.model_, blend=blend)
        assert model.forest is not None
        scores = model.top_k(X[:50], 4, worth=model.worth())[1]
        # Among its candidates; with so few labels these are all that the trees reach.
        found, plain = model.top_k(X[:50], 30)
        known = np.where(found < 0, -np.inf, np.clip(plain, 1e-6, 1 - 1e-6) * model.worth()[found])
        np.testing.assert_allclose(scores, -np.sort(-known, axis=1)[:, :4], rtol=1e-5)


def test_the_constants_of_the_propensities_are_checked():
    X, classifier = fitted(False, {})
    names, scores = classifier.predict_topk(X[:3], 2, tail=(0.5, 0.4))
    assert names.shape == scores.shape == (3, 2)
    for wrong in ("yes", (0.5,), (-1.0, 1.0), (0.5, 0.0)):
        with pytest.raises(SettingsError, match="tail"):
            classifier.predict_topk(X[:3], 2, tail=wrong)
