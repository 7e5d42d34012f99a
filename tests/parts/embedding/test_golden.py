"""The published embeddings: figures of the exact solution on two real sets, and how near the
paper's code came.

Exact: the dense eigendecomposition of ``YᵀX(XᵀX + tI)⁻¹XᵀY`` in double precision with a constant
feature appended, divided by the number of examples. The authors' code at rank 50 with two
iterations: its first and fiftieth value.
"""

from functools import lru_cache

import numpy as np
import pytest

from rembrandt import LabelEmbedder
from rembrandt.data import catalogue
from rembrandt.linalg.sparse import append_constant

GOLDEN = {
    # name: ridge, exact first, second and fiftieth value, the authors' first and fiftieth
    "aloi": (1.0, (0.000980139346, 0.000849967170, 0.0000338317271), (0.000980139, 0.0000336824)),
    "bibtex": (1e-4, (0.169815837, 0.064626710, 0.006863125), (0.169816, 0.00641131)),
}

pytestmark = [pytest.mark.data, pytest.mark.parametrize("name", GOLDEN)]


@lru_cache
def load(name, folder):
    return catalogue.load(name, "train", folder)


@lru_cache
def exact(name, folder):
    """All eigenvalues, largest first, and the first fifty eigenvectors."""
    data = load(name, folder)
    X = append_constant(data.X.astype(np.float64))
    G, C = (X.T @ X).toarray(), (X.T @ data.Y.astype(np.float64)).toarray()
    t = GOLDEN[name][0] * np.trace(G) / len(G)
    values, vectors = np.linalg.eigh(C.T @ np.linalg.solve(G + t * np.eye(len(G)), C))
    return values[::-1], vectors[:, ::-1][:, :50]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_singular_values(real_data, name, seed):
    ridge, (first, second, fiftieth), authors = GOLDEN[name]
    data = load(name, real_data)
    embedder = LabelEmbedder(n_components=50, n_iter=2, ridge=ridge, random_state=seed).fit(
        data.X, data.Y
    )
    singular_values = embedder.singular_values_ / data.n_examples
    assert singular_values[0] == pytest.approx(first, rel=1e-5)
    assert singular_values[0] == pytest.approx(authors[0], rel=1e-5)
    assert singular_values[1] == pytest.approx(second, rel=1e-5)
    assert abs(singular_values[49] - fiftieth) <= abs(authors[1] - fiftieth)
    _, vectors = exact(name, real_data)
    # A trailing direction mixes with its neighbours; the leading ones, and nearly all of the fifty,
    # are the exact ones.
    assert captured(vectors[:, :10], embedder.embedding_) > 0.99999
    assert captured(vectors[:, :50], embedder.embedding_) > 0.97


def captured(exact, V):
    """The share of the exact directions that the embedding spans."""
    return np.linalg.norm(V.astype(np.float64).T @ exact) ** 2 / exact.shape[1]


def test_the_exact_figures(real_data, name):
    values = exact(name, real_data)[0] / load(name, real_data).n_examples
    assert values[[0, 1, 49]] == pytest.approx(GOLDEN[name][1], rel=1e-6)
