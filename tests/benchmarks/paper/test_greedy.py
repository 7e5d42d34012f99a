"""Orthogonal matching pursuit recovers sparse labels, alone and through a fitted label
embedding.
"""

import numpy as np
import pytest
from benchmarks.paper.greedy import greedy_labels, pursue
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from benchmarks.paper import greedy
from rembrandt import LabelEmbedder
from rembrandt.metrics import precision_at_k


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 5))
def test_exactly_sparse_labels_are_recovered_from_gaussian_measurements(seed, count):
    """Far fewer measurements than labels suffice (Hsu et al., 2009)."""
    rng = np.random.default_rng(seed)
    labels, measurements, rows = 300, 80, 20
    V = rng.standard_normal((labels, measurements)) / measurements**0.5
    true = np.stack([rng.choice(labels, count, replace=False) for _ in range(rows)])
    H = V[true].sum(axis=1)
    found, scores = pursue(H.astype(np.float32), V.astype(np.float32), count)
    right = [set(a) == set(b) for a, b in zip(found.tolist(), true.tolist(), strict=True)]
    assert np.mean(right) >= 0.9
    assert (np.diff(scores, axis=1) <= 0).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 12), st.integers(1, 8), st.integers(1, 20))
def test_labels_are_distinct_and_no_more_than_there_are(seed, labels, components, wanted):
    rng = np.random.default_rng(seed)
    H, V = rng.standard_normal((30, components)), rng.standard_normal((labels, components))
    found, scores = pursue(H, V, wanted)
    n = min(wanted, labels, components)
    assert found.shape == scores.shape == (30, n)
    assert all(len(set(row)) == n for row in found.tolist()) and found.max() < labels


def test_labels_with_equal_vectors_do_not_break_the_fit():
    rng = np.random.default_rng(0)
    V = rng.standard_normal((12, 8))
    found, scores = pursue(rng.standard_normal((20, 8)), np.vstack([V, V]), 4)
    assert np.isfinite(scores).all()
    assert all(len(set(row)) == 4 for row in found.tolist())


@pytest.mark.parametrize("block", [1, 1 << 24])
def test_compressed_sensing_decodes_a_linear_problem(block, monkeypatch):
    monkeypatch.setattr(greedy, "BLOCK", block)
    rng = np.random.default_rng(0)
    Y = np.zeros((600, 40))
    for row in Y:
        row[rng.choice(40, 2, replace=False)] = 1
    X = Y @ rng.standard_normal((40, 60)) + 0.05 * rng.standard_normal((600, 60))
    model = LabelEmbedder(n_components=30, method="cs", ridge=1e-3, random_state=0).fit(
        X[:500], Y[:500]
    )
    labels, _ = greedy_labels(model, X[500:], 2)
    assert precision_at_k(sparse.csr_array(Y[500:]), labels, 2) > 0.9
