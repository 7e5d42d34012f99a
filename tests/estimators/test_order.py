"""Shuffled rows give the same model, bit for bit, and one row more changes little."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.data.content import row_keys
from rembrandt.data.examples import Examples
from rembrandt.data.generated import labelled_documents
from rembrandt.data.ordering import in_canonical_order, random_order, row_hashes
from rembrandt.data.rows import MemoryRows
from rembrandt.data.targets import read_targets
from rembrandt.progress import silent
from rembrandt.search.holdout import splits_of


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


@pytest.fixture(scope="module")
def before_and_after():
    """Texts, and the same with two more that have new words and a new label; columns of the words
    are between others.
    """
    texts, labels = documents(600)
    named = [[f"label {number}" for number in row] for row in labels]
    more = [*texts, f"entirely different {texts[0]}", f"entirely different {texts[1]}"]
    more_named = [*named, ["label 10 and a half"], ["label 10 and a half"]]
    before = read_texts(texts, named)
    after = read_texts(more, more_named)
    assert after.X.shape[1] > before.X.shape[1]
    assert after.n_labels == before.n_labels + 1
    return before, after


def read_texts(texts, labels):
    classifier = RembrandtClassifier(preset="fast", random_state=0)
    data, _ = classifier._read(texts, lambda: read_targets(labels), None, silent)
    return data


def is_old(text):
    return not text.startswith("entirely")


def test_with_more_rows_the_others_keep_their_hashes_and_their_order(before_and_after):
    before, after = before_and_after
    np.testing.assert_array_equal(row_hashes(after)[:-2], row_hashes(before))
    ordered = filter(is_old, in_canonical_order(after).texts.tolist())
    assert list(ordered) == in_canonical_order(before).texts.tolist()


def test_with_more_rows_nearly_the_same_are_held_out(before_and_after):
    for split, again in zip(*(splits_of(data, 0) for data in before_and_after), strict=True):
        assert len(np.setxor1d(split.held_out, again.held_out)) <= 4


def test_with_more_rows_the_random_orders_of_the_others_stay(before_and_after):
    orders = []
    for data in before_and_after:
        ordered = in_canonical_order(data)
        drawn = ordered.texts[random_order(ordered, np.arange(ordered.n), seed=3)].tolist()
        assert drawn != ordered.texts.tolist()
        orders.append(list(filter(is_old, drawn)))
    assert orders[0] == orders[1]


def test_terms_count_and_not_their_columns_or_weights():
    keys = np.arange(10, 14, dtype=np.uint64)
    X = sparse.csr_array(np.float32([[1, 0, 2, 0], [1, 0, 3, 0], [0, 0, 0, 0], [0, 1, 0, 1]]))
    Y = sparse.csr_array(np.eye(4))
    data = Examples(MemoryRows(X), Y, np.arange(4), multiclass=True, term_keys=keys)
    moved = replace(data, X=MemoryRows(sparse.csr_array(X[:, ::-1])), term_keys=keys[::-1])
    np.testing.assert_array_equal(row_keys(data), row_keys(moved))
    first, second, third, fourth = row_keys(data).tolist()
    assert first == second
    assert len({first, third, fourth}) == 3
    with_vectors = replace(data, vectors=(MemoryRows(np.float32([[1], [2], [1], [1]])),))
    assert len(np.unique(row_keys(with_vectors))) == 4
    # The rows of a block are the same as alone.
    np.testing.assert_array_equal(row_keys(data, np.array([3, 0])), row_keys(data)[[3, 0]])
