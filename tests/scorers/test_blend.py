"""The blend: features of scores, weights equal to those of reference solvers, and probabilities."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from rembrandt.errors import StorageError
from rembrandt.scorers.blend import (
    FEATURES,
    PENALTY,
    Blend,
    Candidates,
    features_of,
    fit_blend,
    log_odds,
    probabilities,
    union,
)

NAMES = ("trees", "embedding")


def problem(n=120, m=6, seed=0):
    """Candidates of two scorers, some of them no labels and some in no list, and which are true: one a row or none."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.permuted(np.tile(np.arange(20), (n, 1)), axis=1)[:, :m], axis=1)
    labels[::5, -1] = -1
    labels[3] = -1  # a row without candidates
    features = {name: rng.standard_normal((n, m, FEATURES)).astype(np.float32) for name in NAMES}
    for own in features.values():
        own[..., 3] = np.maximum(0, own[..., 3])
    found = Candidates(labels, features, rng.random((n, m)).astype(np.float32))
    z = 2 * features["trees"][..., 1] - features["embedding"][..., 0] + rng.gumbel(size=(n, m))
    z = np.where(found.given & found.listed, z, -np.inf)
    best = z.max(axis=1, keepdims=True)
    return found, (z == best) & (best > rng.gumbel(size=(n, 1)))


def standardized(candidates):
    used = candidates.given & candidates.listed
    F = np.hstack([*(own[used] for own in candidates.features.values()), candidates.log_counts[used][:, None]])
    F = F.astype(np.float64)
    return used, (F - F.mean(axis=0)) / F.std(axis=0)


class TestFit:
    def test_with_several_labels_a_row_it_is_logistic_regression(self):
        candidates, true = problem()
        used, F = standardized(candidates)
        reference = LogisticRegression(C=1 / PENALTY, tol=1e-10, max_iter=10_000).fit(F, true[used])
        found = fit_blend(candidates, true, multiclass=False).log_odds(candidates)[used]
        assert_allclose(found, reference.decision_function(F), atol=2e-3)

    def test_with_one_label_a_row_it_is_a_conditional_logit(self):
        candidates, true = problem()
        used, F = standardized(candidates)
        F, y, row = np.hstack([F, np.ones((len(F), 1))]), true[used], np.nonzero(used)[0]

        def loss(w):
            z = F @ w
            totals = 1 + np.bincount(row, np.exp(z), minlength=len(used))
            return np.log(totals).sum() - z[y].sum() + PENALTY / 2 * (w[:-1] ** 2).sum()

        reference = minimize(loss, np.zeros(F.shape[1]), method="BFGS", options={"gtol": 1e-6}).x
        found = fit_blend(candidates, true, multiclass=True).log_odds(candidates)[used]
        assert_allclose(found, F @ reference, atol=5e-3)

    @pytest.mark.parametrize("multiclass", [False, True])
    @pytest.mark.parametrize("share", [0, 1], ids=["nothing true", "everything true"])
    def test_held_out_rows_that_say_nothing_give_finite_weights(self, multiclass, share):
        candidates, true = problem(20, 1 if multiclass else 6)
        blend = fit_blend(candidates, np.full(true.shape, bool(share)) & candidates.given, multiclass)
        assert np.isfinite([*blend.weights["trees"], *blend.weights["embedding"], blend.count, blend.bias]).all()

    def test_labels_in_no_list_change_nothing(self):
        candidates, true = problem()
        assert fit_blend(candidates, true, False) == fit_blend(candidates.short(), true, False)


class TestLogOdds:
    def test_it_is_the_sum_of_the_definition(self):
        candidates, _ = problem(10)
        blend = Blend({"trees": (1.0, 2.0, 3.0, 4.0), "embedding": (0.5, 0.0, -1.0, 2.0)}, 0.7, -0.2)
        expected = -0.2 + 0.7 * candidates.log_counts
        for name, weights in blend.weights.items():
            expected = expected + sum(w * candidates.features[name][..., i] for i, w in enumerate(weights))
        assert_allclose(blend.log_odds(candidates), np.where(candidates.given, expected, -np.inf), rtol=1e-4, atol=1e-4)

    def test_json_restores_it(self):
        blend = fit_blend(*problem(), multiclass=False)
        assert Blend.from_json(json.loads(json.dumps(blend.to_json()))) == blend

    @pytest.mark.parametrize("wrong", [[1.0], [1.0] * 5])
    def test_another_number_of_weights_is_refused(self, wrong):
        facts = Blend.fixed(["trees"]).to_json() | {"weights": {"trees": wrong}}
        with pytest.raises(StorageError, match="4 weights"):
            Blend.from_json(facts)

    def test_fixed_weights_rank_as_the_mean_log_odds(self):
        candidates, _ = problem(10)
        found = Blend.fixed(NAMES).log_odds(candidates)
        mean = sum(candidates.features[name][..., 1] for name in NAMES) / 2
        assert_allclose(found[candidates.given], mean[candidates.given], atol=1e-2)


class TestFeatures:
    def test_by_hand(self):
        labels, listed = np.array([[2, 5, 7, -1]]), np.array([[7, 9, 2]])
        found = features_of(np.float32([[0.25, 0.5, 9.0, -np.inf]]), labels, listed, np.float32([[0.75]]))
        assert_allclose(found[0, :3, 0], [0.25, 0.5, 5.0])
        assert_allclose(found[0, :2, 1], [-np.log(3), 0], atol=1e-6)
        assert_allclose(found[0, :3, 2], [0.5, 0.25, -4.25])
        assert_allclose(found[0, :, 3], [1 / 3, 0, 1, 0])
        assert np.isfinite(found).all()

    @given(arrays(np.float64, 9, elements=st.floats(0.001, 0.999)))
    def test_log_odds_are_the_inverse_of_the_sigmoid(self, p):
        assert_allclose(expit(log_odds(p)), p, rtol=1e-9)

    def test_blocks_of_different_widths_are_joined(self):
        first, _ = problem(5, 6)
        second, _ = problem(4, 3, seed=1)
        both = Candidates.joined([first, second])
        assert both.labels.shape == (9, 6) and (both.labels[5:, 3:] == -1).all()
        for rows, part, width in ((np.arange(5), first, 6), (np.arange(5, 9), second, 3)):
            taken = both.take(rows).of(["trees"])
            assert list(taken.features) == ["trees"]
            assert_array_equal(taken.labels[:, :width], part.labels)
            assert_array_equal(taken.features["trees"][:, :width], part.features["trees"])


class TestProbabilities:
    @given(arrays(np.float64, (4, 5), elements=st.floats(-80, 80)), st.booleans())
    def test_they_are_between_0_and_1(self, z, multiclass):
        listed = np.arange(5) < np.arange(1, 5)[:, None]
        P = probabilities(z, listed, 9, multiclass)
        assert ((P >= 0) & (P <= 1)).all()

    @given(arrays(np.float64, (3, 4), elements=st.floats(-20, 20)))
    def test_one_label_a_row_competes_with_none_of_them(self, z):
        listed = np.ones(z.shape, dtype=bool)
        expected = np.exp(z) / (1 + np.exp(z).sum(axis=1, keepdims=True))
        assert_allclose(probabilities(z, listed, 9, True), expected, rtol=1e-9)
        assert_allclose(probabilities(z, listed, 4, True).sum(axis=1), 1)

    def test_several_labels_a_row_have_a_sigmoid_each(self):
        z = np.array([[-3.0, 0.0, 2.0, -np.inf]])
        assert_allclose(probabilities(z, np.ones((1, 4), bool), 4, False), expit(z), atol=1e-12)

    def test_labels_that_are_not_listed_change_no_other(self):
        z, listed = np.array([[1.0, 9.0, 0.5]]), np.array([[True, False, True]])
        P = probabilities(z, listed, 10, True)
        assert_allclose(P[:, [0, 2]], probabilities(z[:, [0, 2]], listed[:, [0, 2]], 10, True))
        assert P[0, 1] <= 1 - P[0, 0] - P[0, 2] + 1e-12


labels = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6).flatmap(
    lambda shape: st.lists(arrays(np.int64, shape, elements=st.integers(-1, 8)), min_size=1, max_size=3)
)


@given(labels)
def test_the_union_has_each_label_of_a_row_once(lists):
    found = union(lists)
    wanted = [{label for part in lists for label in part[row].tolist()} - {-1} for row in range(len(lists[0]))]
    assert found.shape == (len(wanted), max(1, *map(len, wanted), 0))
    for row, expected in zip(found.tolist(), wanted, strict=True):
        known = row[: len(expected)]
        assert known == sorted(expected) and set(row[len(expected) :]) <= {-1}
