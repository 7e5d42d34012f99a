"""Sums in place of data: the same products, and more data is more to add."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rembrandt.engines.sums import Sums, SumsEngine
from tests.engines.contract import EngineContract, N, case


class TestSums(EngineContract):
    def make(self, X, Y, weights=None, center_features=False, center_labels=False):
        return SumsEngine(Sums.of(X, Y, weights), center_features, center_labels, constant=False)

    def test_rows_are_projected_in_order_and_without_weights(self, given):
        assert not hasattr(self.engine(given), "project"), "there are no rows"


@pytest.mark.parametrize("weighted", [False, True])
def test_parts_add_up_and_come_back_from_a_file(weighted, monkeypatch):
    given = case(weighted=weighted)
    w = given.weights
    whole = Sums.of(given.X, given.Y, w)
    monkeypatch.setattr("rembrandt.engines.sums.ROWS", 10)
    first, second = slice(0, 20), slice(20, N)
    parts = [Sums.of(given.X[rows], given.Y[rows], None if w is None else w[rows]) for rows in (first, second)]
    # The first part knows fewer labels.
    parts[0] = Sums.of(given.X[first], given.Y[first][:, :5], None if w is None else w[first])
    missing = given.Y[first].toarray()[:, 5:]
    both = Sums.unpacked(parts[0].plus(parts[1]).packed())
    assert both.n == N and both.total == pytest.approx(N if w is None else w.sum())
    assert_allclose(both.features, whole.features, rtol=1e-6, atol=1e-9)
    X = np.hstack([given.X[first].toarray(), np.ones((20, 1))])
    lost = X.T @ (missing if w is None else w[first, None] * missing)
    assert_allclose(both.cross[:, :5], whole.cross[:, :5], rtol=1e-6, atol=1e-9)
    assert_allclose(both.cross[:, 5:], whole.cross[:, 5:] - lost, rtol=1e-6, atol=1e-6)
    assert_allclose(both.labels.toarray(), both.labels.toarray().T)
    assert both.labels.shape == whole.labels.shape
