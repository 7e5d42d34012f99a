"""Ranking for rare labels: by probability × worth, as computed by hand, with every decoder and
part.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.errors import SettingsError
from rembrandt.estimators.requests import rows_of, top_columns
from rembrandt.linalg.ranking import top_k
from rembrandt.metrics import inverse_propensity, psp_at_k
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.predict import Request, all_probabilities, answer
from tests.devices import PLACES
from tests.estimators.problems import settled, skewed

TREES = TreeSettings(n_trees=1, cost=1.0, passes=10)
CASES = {
    "ridge": (False, {"decoder": "ridge"}),
    "kernel": (False, {"decoder": "ridge", "kernel": "gaussian", "n_random_features": 50}),
    "transpose": (False, {"decoder": "transpose"}),
    "logistic": (False, {"decoder": "logistic", "max_epochs": 3}),
    "logistic, one label": (True, {"decoder": "logistic", "max_epochs": 3}),
    "ridge, one label": (True, {"decoder": "ridge"}),
    "trees": (False, {"parts": "trees", "trees": TREES}),
    "blend": (False, {"parts": ("trees", "embedding"), "trees": TREES}),
    "discriminant, one label": (True, {"decoder": "discriminant"}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    multiclass, settings = CASES[request.param]
    X, y = skewed(multiclass=multiclass)
    return X, RembrandtClassifier(**settled(**settings)).fit(X, y)


@pytest.mark.parametrize("backend", [pytest.param(lambda: None, id="cpu"), *PLACES])
def test_the_ranking_is_that_of_all_probabilities_times_worth(case, backend):
    X, classifier = case
    model, device = classifier.model_, backend()
    worth = inverse_propensity(model.label_counts, model.n_train)
    everything = all_probabilities(model, X) * worth
    there = model if device is None else model.on(device)
    for allowed in (None, np.arange(0, model.n_labels, 3)):
        hidden = np.full_like(everything, -np.inf)
        hidden[:, slice(None) if allowed is None else allowed] = 0
        ranked = answer(there, Request(X, 5, allowed=allowed, tail=(0.55, 1.5)))
        scores = ranked.weighted
        assert_allclose(scores, top_k(everything + hidden, 5)[1], rtol=1e-4, atol=1e-6)
        expected = np.take_along_axis(everything, ranked.labels, axis=1)
        assert_allclose(expected, scores, rtol=1e-4, atol=1e-6)
        assert_allclose(ranked.probabilities * worth[ranked.labels], scores, rtol=1e-5, atol=1e-9)


def test_the_score_is_the_probability_times_worth(case):
    X, classifier = case
    product = classifier.predict_proba(X) * classifier.model_.worth()
    _, scores = classifier.predict_topk(X, 5, tail=True)
    assert_allclose(scores, -np.sort(-product, axis=1)[:, :5], rtol=1e-4, atol=1e-7)


@pytest.fixture(scope="module")
def logistic():
    X, y = skewed()
    return X, RembrandtClassifier(**settled(decoder="logistic")).fit(X, y)


def test_where_all_labels_are_worth_the_same_the_ranking_is_the_usual_one(logistic):
    X, classifier = logistic
    model = replace(classifier.model_, label_counts=np.full(30, 7))
    plain = answer(model, Request(X, 5))
    tail = answer(model, Request(X, 5, tail=(0.55, 1.5)))
    assert len(np.unique(model.worth())) == 1
    assert_array_equal(tail.labels, plain.labels)


def test_it_finds_more_of_the_rare_labels(logistic):
    _, classifier = logistic
    X, Y = skewed(seed=1)
    truth, worth = sparse.csr_array(Y.astype(np.float32)), classifier.model_.worth()
    for k in (1, 3):
        rows = rows_of(classifier, X)
        plain = top_columns(classifier, rows, k)[0]
        tail = top_columns(classifier, rows, k, tail=True)[0]
        assert psp_at_k(truth, tail, k, worth) > psp_at_k(truth, plain, k, worth)


def test_the_constants_of_the_propensities_are_checked(logistic):
    X, classifier = logistic
    labels, scores = classifier.predict_topk(X[:3], 2, tail=(0.5, 0.4))
    assert labels.shape == scores.shape == (3, 2)
    for wrong in ("yes", (0.5,), (-1.0, 1.0), (0.5, 0.0)):
        with pytest.raises(SettingsError, match="tail") as refused:
            classifier.predict_topk(X[:3], 2, tail=wrong)
        assert refused.value.parameters == ("tail",)
