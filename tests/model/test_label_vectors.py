"""Vectors of labels: the embedding, or the singular vectors of label weights where there is
none.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt import RembrandtClassifier
from rembrandt.model.model import N_DERIVED_DIRECTIONS
from rembrandt.parts.trees.settings import TreeSettings
from tests.estimators.problems import settled, words

TREES = TreeSettings(n_trees=2, max_example_node_pairs=4e3, cost=1.0, passes=10)


def fitted(n_labels, *names, n=600):
    X, Y = words(n, n_labels, 5 * n_labels)
    return RembrandtClassifier(**settled(parts=names, trees=TREES, n_components=5)).fit(X, Y)


@pytest.mark.parametrize("names", [("embedding",), ("trees", "embedding")], ids="-".join)
def test_they_are_the_embedding(names):
    classifier = fitted(20, *names, n=90)
    assert_array_equal(classifier.embedding_, classifier.model_.parts["embedding"].vectors)
    assert_array_equal(
        classifier.singular_values_, classifier.model_.parts["embedding"].singular_values
    )
    assert classifier.embedding_.shape == (20, 5)


@pytest.mark.parametrize("name", ["trees", "centroids"])
@pytest.mark.parametrize("n_labels", [20, 80])
def test_without_an_embedding_they_are_the_singular_vectors_of_the_label_weights(name, n_labels):
    model = fitted(n_labels, name).model_
    V, strength = model.label_vectors
    size = min(n_labels, N_DERIVED_DIRECTIONS)
    assert V.shape == (n_labels, len(strength)) and len(strength) <= size
    assert_allclose(V.T @ V, np.eye(len(strength)), atol=1e-4)
    weights = model.parts[name].label_weights().toarray().astype(np.float64)
    expected = np.linalg.svd(weights, compute_uv=False)[: len(strength)] ** 2
    assert_allclose(strength, expected, rtol=0.1)
    # Labels and directions are what the weights say: V Vᵀ W is near W as far as the rank goes.
    held = np.square(V.T @ weights).sum() / expected.sum()
    assert 0.95 < held < 1.001
