"""Shuffled rows give the same model, bit for bit."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.data.examples import Examples
from rembrandt.data.generated import labelled_documents
from rembrandt.data.ordering import in_canonical_order, row_hashes
from rembrandt.data.rows import MemoryRows


def documents(n):
    """Texts and lists of labels, of which some occur several times, also with other labels."""
    data, _ = labelled_documents(n, seed=3, n_topics=4, labels_per_topic=5)
    starts = data.Y.indptr
    columns = data.Y.indices.tolist()
    labels = [columns[start:stop] for start, stop in pairwise(starts.tolist())]
    texts = [*data.texts, *data.texts[:20], *data.texts[:20]]
    return texts, [*labels, *labels[:20], *labels[20:40]]


def arrays_of(classifier):
    arrays = {}
    for name, part in classifier.model_.parts.items():
        part_arrays, _ = part.arrays()
        arrays |= {f"{name}.{key}": value for key, value in part_arrays.items()}
    return arrays


def assert_same_models(left, right):
    left_arrays = arrays_of(left)
    right_arrays = arrays_of(right)
    assert left_arrays.keys() == right_arrays.keys()
    for name, values in left_arrays.items():
        np.testing.assert_array_equal(values, right_arrays[name], err_msg=name)
    assert left.model_.blend == right.model_.blend
    assert left.model_.threshold == right.model_.threshold
    assert left.classes_.tolist() == right.classes_.tolist()


@pytest.mark.parametrize(
    ("preset", "extra"),
    [
        ("fast", {}),
        ("balanced", {}),
        ("best", {"parts": "trees"}),
        ("balanced", {"parts": "embedding", "n_components": 12}),
    ],
    ids=["fast", "balanced", "best", "embedding"],
)
def test_shuffled_rows_give_the_same_model(preset, extra):
    texts, labels = documents(110)
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 3, len(texts)).astype(float)
    groups = np.arange(len(texts)) // 2
    order = rng.permutation(len(texts))
    first = RembrandtClassifier(preset=preset, random_state=0, **extra)
    first.fit(texts, labels, sample_weight=weights, groups=groups)
    second = RembrandtClassifier(preset=preset, random_state=0, **extra)
    second.fit(
        [texts[i] for i in order],
        [labels[i] for i in order],
        sample_weight=weights[order],
        groups=groups[order],
    )
    assert_same_models(first, second)


def test_rows_that_differ_in_anything_have_different_hashes():
    X = sparse.csr_array(np.float32([[1, 0, 2], [1, 0, 2], [1, 0, 2], [1, 0, 2], [0, 1, 0]]))
    Y = sparse.csr_array(np.float32([[1, 0], [1, 0], [1, 1], [1, 0], [1, 0]]))
    texts = np.array(["a", "a", "a", "A", "a"], dtype=object)
    data = Examples(MemoryRows(X), Y, np.arange(2), multiclass=False, texts=texts)
    hashes = row_hashes(data)
    assert hashes[0] == hashes[1]
    assert len(np.unique(hashes)) == 4
    weighted = row_hashes(replace(data, weights=np.array([1.0, 2.0, 1.0, 1.0, 1.0])))
    assert len(np.unique(weighted)) == 5


def test_rows_in_their_order_are_not_copied():
    X = sparse.csr_array(np.eye(5, dtype=np.float32))
    data = Examples(MemoryRows(X), sparse.csr_array(np.eye(5)), np.arange(5), multiclass=True)
    ordered = in_canonical_order(data)
    assert ordered is not data
    assert in_canonical_order(ordered) is ordered
