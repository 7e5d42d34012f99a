"""The sparse part on devices: the classifiers that the compiled solver finds, to the end and well before it."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from rembrandt import RembrandtClassifier
from rembrandt.decoders import torch_hinge
from rembrandt.decoders.torch_hinge import hinge_weights
from rembrandt.decoders.tree import DEVICE_PAIRS, TreeSettings, fit_tree
from rembrandt.engines.torch_place import TorchPlace
from rembrandt.linalg.sparse import as_csr, normalize_rows
from rembrandt.metrics import precision_at_k
from tests.devices import CPU_ONE, PLACES

from .test_tree import EXACT, words


@pytest.mark.parametrize(("cost", "weighted"), [(0.3, False), (2.0, True)])
@pytest.mark.parametrize("place", PLACES)
def test_the_minimum_is_that_of_the_compiled_solver(place, cost, weighted, monkeypatch):
    monkeypatch.setattr(torch_hinge, "TOLERANCE", 1e-5)
    monkeypatch.setattr(torch_hinge, "STEPS", 3000)
    monkeypatch.setattr(torch_hinge, "MOST", 15)  # several blocks
    X, Y = words(200, 25, 120)
    w = np.random.default_rng(0).random(X.shape[0]) + 0.5 if weighted else np.ones(X.shape[0])
    [expected] = fit_tree(X, Y, TreeSettings(cost=cost, **EXACT), w).levels
    weights, bias = hinge_weights(normalize_rows(X), as_csr(Y.T), (cost * w).astype(np.float32), 0.0, place())
    assert_allclose(weights.toarray(), expected.weights.toarray(), atol=2e-3)
    assert_allclose(bias, expected.bias, atol=2e-3)
    assert (weights.toarray()[(Y.T @ X).toarray() == 0] == 0).all()


@pytest.mark.parametrize("pairs", [1e9, 60.0])
@pytest.mark.parametrize("place", PLACES)
def test_a_tree_fitted_on_a_device_answers_as_well(place, pairs):
    X, Y = words(600)
    new, truth = words(300, seed=1)
    settings = TreeSettings(pairs=pairs, trees=1)
    alike = TreeSettings(pairs=DEVICE_PAIRS * pairs, trees=1)  # as many clusters
    here = precision_at_k(truth, fit_tree(X, Y, alike).top_k(new, 1)[0], 1)
    tree = fit_tree(X, Y, settings, place=place())
    assert len(tree.levels) == (1 if pairs == 1e9 else 2)
    assert precision_at_k(truth, tree.top_k(new, 1)[0], 1) >= here - 0.01


def test_small_weights_are_dropped_and_no_room_means_narrower_blocks(monkeypatch):
    X, Y = words()
    X, rows, costs = normalize_rows(X), as_csr(Y.T), np.ones(X.shape[0], np.float32)
    place = TorchPlace(CPU_ONE, torch.float32)
    whole, bias = hinge_weights(X, rows, costs, 0.1, place)
    assert np.abs(whole.data).min() >= 0.1
    monkeypatch.setattr(TorchPlace, "available", lambda _: 200_000)  # some nine labels
    parts, again = hinge_weights(X, rows, costs, 0.1, place)
    assert_allclose(parts.toarray(), whole.toarray(), atol=1e-4)
    assert_allclose(again, bias, atol=1e-4)


def test_a_classifier_with_a_sparse_part_fits_on_devices():
    X, Y = words(400)
    found = RembrandtClassifier(n_components=10, sparse=True, device="cpu,cpu", random_state=0).fit(X, Y.toarray())
    assert found.blends_
    assert found.score(X, Y.toarray()) > 0.9
