"""Tree nodes on devices: the classifiers of the compiled solver."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.data.rows import MemoryRows
from rembrandt.engines import torch_hinge
from rembrandt.engines.hinge import Nodes
from rembrandt.engines.torch_place import TorchPlace
from rembrandt.linalg.sparse import as_csr
from rembrandt.metrics import precision_at_k
from rembrandt.progress import silent
from rembrandt.scorers.tree_fit import fit_trees
from tests.devices import CPU_ONE, PLACES
from tests.scorers.problems import tree_settings
from tests.scorers.test_trees import EXACT, words


def hinge_weights(X, Y, costs, threshold, place):
    """Fit one level of labels against all examples."""
    everything = sparse.csr_array(np.ones((1, X.shape[0]), np.int8))
    settings = tree_settings(threshold=threshold)
    nodes = Nodes(
        as_csr(Y.T), everything, np.zeros(Y.shape[1], np.int64), costs.astype(np.float32), settings, X.shape[0]
    )
    return place.hinge(MemoryRows(X), np.arange(X.shape[0])).fit(nodes, silent)


@pytest.mark.parametrize(("cost", "weighted"), [(0.3, False), (2.0, True)])
@pytest.mark.parametrize("place", PLACES)
def test_the_minimum_is_that_of_the_compiled_solver(place, cost, weighted, monkeypatch):
    monkeypatch.setattr(torch_hinge, "TOLERANCE", 1e-5)
    monkeypatch.setattr(torch_hinge, "STEPS", 3000)
    monkeypatch.setattr(torch_hinge, "MOST", 15)  # several blocks
    X, Y = words(200, 25, 120)
    w = np.random.default_rng(0).random(X.shape[0]) + 0.5 if weighted else np.ones(X.shape[0])
    [expected] = fit_trees(MemoryRows(X), Y, tree_settings(cost=cost, **EXACT), weights=w).trees[0].levels
    weights, bias = hinge_weights(X, Y, cost * w, 0.0, place())
    assert_allclose(weights.toarray(), expected.weights.toarray(), atol=2e-3)
    assert_allclose(bias, expected.bias, atol=2e-3)
    assert (weights.toarray()[(Y.T @ X).toarray() == 0] == 0).all()


@pytest.mark.parametrize("pairs", [1e9, 60.0])
@pytest.mark.parametrize("place", PLACES)
def test_a_tree_fitted_on_a_device_predicts_as_well(place, pairs):
    X, Y = words(600)
    new, truth = words(300, seed=1)
    place = place()
    here = fit_trees(MemoryRows(X), Y, tree_settings(pairs=place.hinge_speed * pairs))  # as many clusters
    there = fit_trees(MemoryRows(X), Y, tree_settings(pairs=pairs), place=place)
    assert len(there.trees[0].levels) == (1 if pairs == 1e9 else 2)
    expected, found = (precision_at_k(truth, trees.top(trees.prepare(new), 1)[0], 1) for trees in (here, there))
    assert found >= expected - 0.01


def test_small_weights_are_dropped_and_little_memory_means_narrower_blocks(monkeypatch):
    X, Y = words()
    costs = np.ones(X.shape[0])
    place = TorchPlace(CPU_ONE, torch.float32)
    whole, bias = hinge_weights(X, Y, costs, 0.1, place)
    assert np.abs(whole.data).min() >= 0.1
    monkeypatch.setattr(TorchPlace, "available", lambda _: 200_000)  # some nine labels
    parts, again = hinge_weights(X, Y, costs, 0.1, place)
    assert_allclose(parts.toarray(), whole.toarray(), atol=1e-4)
    assert_allclose(again, bias, atol=1e-4)


def test_a_classifier_with_trees_fits_on_devices():
    X, Y = words(400)
    found = RembrandtClassifier(scorers=("trees", "embedding"), n_components=10, device="cpu,cpu", random_state=0).fit(
        X, Y.toarray()
    )
    assert any("trees" in trial["scorers"] for trial in found.selection_)
    assert found.score(X, Y.toarray()) > 0.9
