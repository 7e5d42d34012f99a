"""Calibrated probabilities and thresholds: rising, nearer to what comes, kept in the files, and used."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import RembrandtClassifier, load
from rembrandt.calibrating import Pairs, best_threshold, held_out_pairs, label_thresholds
from rembrandt.decoders.monotone import fit_monotone
from rembrandt.errors import SettingsError
from rembrandt.fitting import Labelled, Recipe, Settings, fit_model
from rembrandt.metrics import calibration_error, macro_f1, micro_f1, reliability
from tests.estimators.problems import SETTLED
from tests.model.test_tail import skewed


@settings(deadline=None, max_examples=50)
@given(
    arrays(np.float64, st.integers(1, 40), elements=st.floats(-5, 5)),
    st.integers(0, 2**32 - 1),
)
def test_the_map_rises_and_stays_between_0_and_1(scores, seed):
    rng = np.random.default_rng(seed)
    found = fit_monotone(scores, rng.random(len(scores)) < 0.5, rng.random(len(scores)) + 0.1)
    for dtype in (np.float32, np.float64):
        values = found(np.linspace(-7, 7, 500).astype(dtype))
        assert values.dtype == dtype and (np.diff(values) >= -1e-6).all()
        assert values.min() >= 0 and values.max() <= 1
    inside = np.interp(scores, found.scores, found.probabilities)
    assert_allclose(found(scores), inside, atol=1e-9)


def fitted(settings, multiclass=False, n=900, **more):
    X, y = skewed(n=n, multiclass=multiclass)
    return RembrandtClassifier(**SETTLED | settings | more).fit(X, y)


@pytest.mark.parametrize(
    ("multiclass", "settings"),
    [
        (False, {"decoder": "ridge"}),
        (False, {"decoder": "logistic"}),
        (True, {"decoder": "ridge"}),
        (True, {"decoder": "logistic"}),
        (False, {"decoder": "ridge", "sparse": True}),
    ],
)
def test_probabilities_are_nearer_to_what_comes(multiclass, settings, tmp_path):
    plain, classifier = (fitted(settings, multiclass, calibrate=calibrate) for calibrate in (False, True))
    X, y = skewed(n=900, multiclass=multiclass, seed=1)
    right = (np.eye(30)[y] if multiclass else y).astype(bool)

    def error(one):
        P = one.predict_proba(X)
        best = np.argsort(-P, axis=1)[:, :5]
        given, came = (np.take_along_axis(each, best, axis=1) for each in (P, right))
        return calibration_error(reliability(np.clip(given, 0, 1), came))

    facts = classifier.settings_["calibration"]
    assert facts["n_examples"] == 150 and facts["error_after"] < 0.1
    assert error(classifier) < 0.1 and error(classifier) < error(plain) + 0.02
    assert_array_equal(plain.model_topk(X, 5)[1], classifier.model_topk(X, 5)[1])  # scores and ranks are as they were
    if multiclass:
        assert_allclose(classifier.predict_proba(X).sum(axis=1), 1, rtol=1e-5)
    else:
        found, scores = classifier.model_topk(X, 5)
        P = np.take_along_axis(classifier.predict_proba(X), found, axis=1)
        if classifier.model_.forest is None:
            assert_allclose(classifier.model_.likelihood_of_scores(scores), P, rtol=1e-4, atol=1e-6)
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_allclose(again.predict_proba(X), classifier.predict_proba(X), rtol=1e-4, atol=1e-6)
    assert again.settings_["calibration"] == facts


def test_labels_that_are_drawn_stand_for_all_the_others():
    rng = np.random.default_rng(0)
    c, n = 400, 300
    Y = sparse.csr_array((rng.random((n, c)) < 0.02).astype(np.float32))
    X = Y @ rng.standard_normal((c, 50)).astype(np.float32)
    data = Labelled(X, Y, np.arange(c), multiclass=False)
    model = fit_model(data, Recipe(Settings(n_components=20, seed=0)))
    pairs = held_out_pairs(model, data, seed=0)
    per_row = np.bincount(pairs.rows, pairs.weights)
    assert_allclose(per_row, c)
    assert len(pairs.rows) < n * 101 and len(set(zip(pairs.rows.tolist(), pairs.labels.tolist(), strict=True))) == len(
        pairs.rows
    )
    assert_array_equal(pairs.right, Y.toarray()[pairs.rows, pairs.labels] > 0)
    assert_allclose(pairs.scores, model.raw(X)[pairs.rows, pairs.labels])


def test_the_tail_is_ranked_by_calibrated_probabilities():
    classifier = fitted({"decoder": "ridge"}, calibrate=True)
    X = skewed(seed=1)[0]
    worth = classifier.model_.worth()
    product = classifier.predict_proba(X) * worth
    _, scores = classifier.model_topk(X, 5, tail=True)
    assert_allclose(scores, -np.sort(-product, axis=1)[:, :5], rtol=1e-4, atol=1e-7)


def pairs_of(P, Y):
    rows, labels = (each.ravel() for each in np.indices(P.shape))
    ones = np.ones(P.size)
    return Pairs(rows, labels, P.ravel(), Y.ravel() == 1, ones, ones > 0, Y.sum(axis=0).astype(np.int64))


def test_the_micro_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    Y = rng.random((60, 8)) < 0.3
    P = np.clip(0.3 * Y + 0.7 * rng.random(Y.shape), 0, 1)
    chosen = best_threshold(pairs_of(P, Y), P.ravel())
    scores = [micro_f1(sparse.csr_array(Y * 1.0), sparse.csr_array((t <= P) * 1.0)) for t in np.unique(P)]
    assert micro_f1(sparse.csr_array(Y * 1.0), sparse.csr_array((chosen <= P) * 1.0)) > max(scores) - 0.01


def test_labels_with_few_examples_keep_near_the_common_threshold():
    rng = np.random.default_rng(0)
    Y = np.zeros((400, 3), dtype=bool)
    Y[:, 0], Y[:, 1] = rng.random(400) < 0.3, rng.random(400) < 0.3
    Y[0, 2] = True
    P = np.where(Y, [0.9, 0.4, 0.02], [0.5, 0.1, 0.01]) + 0.001 * rng.random(Y.shape)
    common, rare = label_thresholds(pairs_of(P, Y), P.ravel())[:2], label_thresholds(pairs_of(P, Y), P.ravel())[2]
    assert 0.5 < common[0] <= 0.91 and 0.1 < common[1] <= 0.41
    assert rare > 0.1


@pytest.mark.parametrize("calibrate", [False, True])
def test_thresholds_serve_the_f1_that_they_are_for(calibrate, tmp_path):
    X, Y = skewed(n=900, seed=1)
    truth = sparse.csr_array(Y.astype(np.float32))
    found = {t: fitted({}, threshold=t, calibrate=calibrate) for t in (0.5, "micro", "macro")}
    sets = {t: sparse.csr_array(one.predict(X).astype(np.float32)) for t, one in found.items()}
    assert micro_f1(truth, sets["micro"]) > micro_f1(truth, sets[0.5])
    assert macro_f1(truth, sets["macro"]) > macro_f1(truth, sets[0.5])
    assert np.shape(found["macro"].model_.threshold) == (30,)
    found["macro"].save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").predict(X), found["macro"].predict(X))


def test_settings_are_checked_and_few_rows_leave_them_plain():
    for wrong in ({"threshold": "best"}, {"threshold": -1.0}, {"calibrate": "yes"}):
        with pytest.raises(SettingsError):
            fitted({}, **wrong)
    few = fitted({}, n=60, calibrate=True, threshold="macro")
    assert few.model_.calibration is None and few.model_.threshold == 0.5 and few.settings_["calibration"] == {}
