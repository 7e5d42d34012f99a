"""Fitting the part: what its decoder is given."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rembrandt.engines.backend import CPU
from rembrandt.engines.descent import LogisticSettings
from rembrandt.parts.embedding.decoders.logistic import fit_logistic
from rembrandt.parts.embedding.fit import KERNEL_DROPOUT, fit_embedding, hold_out
from rembrandt.parts.protocol import Fitting
from tests.estimators.problems import directions, examples
from tests.parts.problems import embedding_settings


@pytest.mark.parametrize("n_random_features", [0, 40])
def test_a_penalty_of_one_on_a_logistic_decoder_weighs_as_much_as_a_row(n_random_features):
    """The mean squared length of a whitened row is the number of features."""
    data = examples(*directions())
    penalty = 3.0
    settings = embedding_settings(
        n_components=5, decoder="logistic", decoder_ridge=penalty, max_epochs=3, leave_out=0.0
    )
    dropout = 0.0
    if n_random_features:
        settings = replace(settings, kernel="gaussian", n_random_features=n_random_features)
        dropout = KERNEL_DROPOUT
    part = fit_embedding(data, settings, Fitting())
    stopping, _ = hold_out(data, settings, 0)
    logistic = LogisticSettings(
        multiclass=False,
        max_epochs=3,
        dropout=dropout,
        l2=penalty * (5 + n_random_features) / data.n,
    )
    H = CPU.project(data.X, part.projection)
    expected = fit_logistic(H, data.Y, logistic, part.decoder.fourier, stopping=stopping)
    assert_array_equal(part.decoder.weights, expected.weights)
    without = replace(logistic, l2=0.0)
    free = fit_logistic(H, data.Y, without, part.decoder.fourier, stopping=stopping)
    assert np.linalg.norm(part.decoder.weights) < np.linalg.norm(free.weights)
