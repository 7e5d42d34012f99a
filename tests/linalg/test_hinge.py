"""The squared hinge: the optimum that scikit-learn finds, on the features of a label's own examples
or on all.
"""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from rembrandt.linalg.hinge import CACHED_ROWS, compact_pool, squared_hinge, two_multipliers
from rembrandt.linalg.hinge_panels import PANEL_LABELS, squared_hinge_panels
from rembrandt.linalg.sparse import normalize_rows


def examples(n, d, seed):
    """Rows of a few features each, and the rows of two labels: one has a word of its own, the other
    is rare.
    """
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.1, rng=rng, dtype=np.float32, format="csr")
    X = normalize_rows(sparse.csr_array(X))
    score = X @ rng.normal(size=d)
    return X, [
        np.flatnonzero(score > np.quantile(score, 0.9)),
        np.sort(rng.choice(n, 3, replace=False)),
    ]


def fitted(X, positives, pool, cost, passes=2000, threshold=0.0, all_features=False):
    d = X.shape[1]
    position = np.full(d, -1, dtype=np.int32)
    costs = np.full(len(pool), cost, dtype=np.float32)
    compact, features = compact_pool((X.indptr, X.indices, X.data), pool, costs, position)
    assert (position == -1).all(), "work space is left as it was"
    starts = np.append(0, np.cumsum([len(rows) for rows in positives]))
    rows = np.searchsorted(pool, np.concatenate(positives)).astype(np.int32)
    fit = squared_hinge_panels if all_features else squared_hinge
    ends, columns, values, bias = fit(compact, (starts, rows), passes, 2, 1e-4, threshold)
    entries = (values, features[columns], np.append(0, ends))
    W = sparse.csr_array(entries, shape=(len(positives), d)).toarray()
    return W, bias


@pytest.mark.parametrize("all_features", [False, True])
@pytest.mark.parametrize(
    ("n", "cost"), [(80, 0.3), (400, 3.0), (1200, 0.03), (CACHED_ROWS + 900, 1.0)]
)
def test_it_is_the_optimum_over_all_features_or_those_of_the_positive_rows(n, cost, all_features):
    X, positives = examples(n, 40, seed=n)
    pool = np.arange(n) if n < 400 else np.union1d(np.arange(0, n, 2), np.concatenate(positives))
    assert_is_the_optimum(X, positives, pool, cost, all_features)


@pytest.mark.parametrize("all_features", [False, True])
def test_rows_need_not_have_the_same_length(all_features):
    X, positives = examples(80, 40, seed=5)
    lengths = np.random.default_rng(0).uniform(0.5, 4, 80).astype(np.float32)
    X = sparse.csr_array(X * lengths[:, None])
    assert_is_the_optimum(X, positives, np.arange(80), 1.0, all_features)


def assert_is_the_optimum(X, positives, pool, cost, all_features):
    """Compare with what liblinear finds."""
    W, bias = fitted(X, positives, pool, cost, all_features=all_features)
    for rows, w, b in zip(positives, W, bias, strict=True):
        features_of_pool = np.flatnonzero(np.diff(X[pool if all_features else rows].tocsc().indptr))
        assert not np.delete(w, features_of_pool).any()
        y = np.isin(pool, rows)
        svc = LinearSVC(C=cost, tol=1e-6, max_iter=100_000, random_state=0).fit(
            X[pool][:, features_of_pool].toarray(), y
        )
        np.testing.assert_allclose(w[features_of_pool], svc.coef_[0], atol=2e-3)
        np.testing.assert_allclose(b, svc.intercept_[0], atol=2e-3)


def test_the_first_multipliers_are_the_best_that_all_rows_of_a_side_can_share():
    """They minimise ½‖u P − t N‖² + ¼ (t² n + u² p) − t n − u p, where P and N are sums of rows."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        positive_sum, negative_sum = rng.normal(size=(2, 6)).astype(np.float32)
        positive_sum[-1], negative_sum[-1] = p, n = rng.uniform(0.5, 20, 2).astype(np.float32)

        def objective(multipliers, P=positive_sum, N=negative_sum, p=p, n=n):
            t, u = multipliers
            w = u * P - t * N
            return w @ w / 2 + (t**2 * n + u**2 * p) / 4 - t * n - u * p

        best = minimize(objective, [1.0, 1.0], method="L-BFGS-B", bounds=[(0, None)] * 2, tol=1e-12)
        assert best.x.min() > 0, "costs are in both sums, so that each side needs some"
        # As Python: it is compiled into other functions only.
        shared = two_multipliers.py_func(positive_sum, negative_sum)
        np.testing.assert_allclose(shared, best.x, rtol=1e-3)


def test_one_hard_negative_row_where_the_others_need_no_weight():
    """All but one of the negative rows are far on the other side, so that together they have no
    multiplier.
    """
    rows = [[1, 0.2]] * 10 + [[-10, 0]] * 30 + [[1, 0.5]]
    X = sparse.csr_array(np.array(rows, dtype=np.float32))
    positives = [np.arange(10)]
    W, bias = fitted(X, positives, np.arange(41), 1.0, all_features=True)
    svc = LinearSVC(C=1.0, tol=1e-8, max_iter=1_000_000, random_state=0)
    svc.fit(X.toarray(), np.arange(41) < 10)
    np.testing.assert_allclose(W[0], svc.coef_[0], atol=2e-3)
    np.testing.assert_allclose(bias[0], svc.intercept_[0], atol=2e-3)
    assert svc.decision_function(X.toarray())[-1] > -1  # it is not beyond its margin


def test_small_weights_are_dropped_and_the_rest_stays():
    X, positives = examples(300, 40, seed=1)
    full, bias = fitted(X, positives, np.arange(300), 1.0)
    pruned, same = fitted(X, positives, np.arange(300), 1.0, threshold=0.2)
    np.testing.assert_array_equal(pruned, np.where(np.abs(full) > 0.2, full, 0))
    np.testing.assert_array_equal(same, bias)


def test_a_label_without_examples_has_no_weights():
    X, positives = examples(100, 20, seed=2)
    for all_features in (False, True):
        none = np.array([], dtype=positives[0].dtype)
        W, bias = fitted(X, [*positives, none], np.arange(100), 1.0, all_features=all_features)
        assert not W[2].any() and bias[2] < 0


def test_a_label_has_the_same_weights_in_any_place_of_any_panel():
    X, positives = examples(300, 40, seed=3)
    rng = np.random.default_rng(4)
    for size in rng.integers(1, 60, PANEL_LABELS + 4):
        positives.append(np.sort(rng.choice(300, size, replace=False)))
    pool = np.arange(300)
    together, bias = fitted(X, positives, pool, 1.0, all_features=True)
    for label, rows in enumerate(positives):
        alone, bias_alone = fitted(X, [rows], pool, 1.0, all_features=True)
        np.testing.assert_allclose(together[label], alone[0], atol=2e-3)
        np.testing.assert_allclose(bias[label], bias_alone[0], atol=2e-3)
