"""Linear discriminant analysis from the sums of a ridge decoder."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from rembrandt.engines.backend import CPU
from rembrandt.parts.embedding.decoders.discriminant import fit_discriminant
from tests.parts.decoders import contract


class TestDiscriminant(contract.DecoderContract):
    def fit(self, H, Y, places):
        return fit_discriminant(CPU.statistics(H, Y, None, None), 0.1, self.multiclass)


class TestDiscriminantManyLabels(TestDiscriminant):
    multiclass = False


def problem(n=400, classes=5, k=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(classes), np.minimum(rng.geometric(0.4, n - classes) - 1, classes - 1))
    H = 1.5 * rng.standard_normal((classes, k))[y] + rng.standard_normal(
        (n, k)
    ) @ rng.standard_normal((k, k))
    return H, y


def labels(y, c):
    return sparse.csr_array(
        (np.ones(len(y), np.float32), (np.arange(len(y)), y)), shape=(len(y), c)
    )


def test_it_agrees_with_the_textbook():
    H, y = problem()
    decoder = fit_discriminant(CPU.statistics(H, labels(y, 5), None, None), shrinkage=0.0)
    expected = LinearDiscriminantAnalysis(solver="lsqr").fit(H, y).predict_log_proba(H)
    scores = H @ decoder.weights + decoder.bias
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    assert_allclose(scores, expected, atol=1e-2)
    assert decoder.link == "softmax"


def test_weights_are_repetitions_and_empty_classes_come_last():
    H, y = problem()
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(np.float64)
    again = np.repeat(np.arange(len(y)), weights.astype(int))
    weighted = fit_discriminant(CPU.statistics(H, labels(y, 7), None, weights))
    repeated = fit_discriminant(CPU.statistics(H[again], labels(y[again], 7), None, None))
    assert_allclose(weighted.weights, repeated.weights, atol=1e-4 * np.abs(repeated.weights).max())
    assert_allclose(weighted.bias, repeated.bias, rtol=1e-4, atol=1e-3)
    assert (H @ weighted.weights + weighted.bias).argmax(axis=1).max() <= 4


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_with_several_labels_a_row_the_covariance_is_that_of_all_rows(shrinkage):
    H, Y, _ = contract.problem(multiclass=False)
    decoder = fit_discriminant(CPU.statistics(H, Y, None, None), shrinkage, multiclass=False)
    covariance, mean = np.cov(H.T, bias=True).astype(np.float64), H.mean(axis=0)
    covariance += shrinkage * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    dense = Y.toarray()
    means = dense.T @ H / dense.sum(axis=0)[:, None]
    weights = np.linalg.solve(covariance, (means - mean).T)
    bias = np.log(dense.mean(axis=0)) - (weights * (means + mean).T / 2).sum(axis=0)
    assert_allclose(decoder.scores(H), H @ weights + bias, rtol=2e-3, atol=2e-2)
    assert decoder.link == "sigmoid"


@pytest.mark.parametrize("n", [5, 6])
def test_one_example_of_a_class_is_enough(n):
    H, y = problem()
    decoder = fit_discriminant(CPU.statistics(H[:n], labels(y[:n], 5), None, None))
    assert np.isfinite(decoder.weights).all()
    assert_allclose((H[:5] @ decoder.weights + decoder.bias).argmax(axis=1), y[:5])
