"""The blend: a weighted mean of likelihoods, and probabilities from it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.scorers.blend import Blend, union
from rembrandt.scorers.calibration import MonotoneMap

MAP = MonotoneMap(np.array([-1.0, 0.0, 2.0]), np.array([0.1, 0.2, 0.9]))


@given(arrays(np.float32, array_shapes(min_dims=2, max_dims=2), elements=st.floats(-2, 2, width=32)), st.floats(0, 1))
def test_the_score_is_the_weighted_mean(first, weight):
    second = np.flip(first)
    found = Blend({"trees": weight, "embedding": 1 - weight})({"trees": first, "embedding": second})
    assert found.dtype == np.float32
    assert_allclose(found, weight * first + (1 - weight) * second, rtol=1e-5, atol=1e-5)
    assert_array_equal(Blend({"trees": 1.0})({"trees": first}), first)


def test_no_probability_is_certain():
    found = Blend({"trees": 1.0}).probability(np.float32([-3, 0, 0.25, 1, 7]))
    assert ((found > 0) & (found < 1)).all() and found[2] == 0.25 and found.dtype == np.float32


def test_a_calibration_replaces_the_clipped_mean():
    scores = np.array([[-5.0, -1.0, -0.5], [1.0, 2.0, 9.0]])
    assert_allclose(Blend({"trees": 1.0}, MAP).probability(scores), [[0.1, 0.1, 0.15], [0.55, 0.9, 0.9]])


@pytest.mark.parametrize("calibration", [None, MAP], ids=["plain", "calibrated"])
def test_arrays_and_json_restore_it(calibration):
    blend = Blend({"trees": 0.25, "embedding": 0.75}, calibration)
    own, facts = blend.arrays()
    again = Blend.from_arrays(own, json.loads(json.dumps(facts)))
    assert again.weights == blend.weights
    scores = np.linspace(-3, 3, 50)
    assert_array_equal(again.probability(scores), blend.probability(scores))


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
