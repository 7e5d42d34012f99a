"""Subsets, splits, alignment and notes."""

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.generated import sparse_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from rembrandt.data import Dataset, Notes
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import DataError


@pytest.fixture
def data() -> Dataset:
    X = np.array([[1, 0], [0, 0], [3, 4]])
    return Dataset.from_arrays(X, [["b", "a"], ["c"], []], feature_names=["f", "g"])


def test_from_arrays_takes_labels_in_every_form():
    X = np.eye(3)
    one = Dataset.from_arrays(X, np.array([30, 4, 30]))
    assert (one.label_ids, one.task) == (["4", "30"], "multiclass")
    several = Dataset.from_arrays(X, [("x", "y", "x"), ["y"], set()])
    assert several.Y.toarray().tolist() == [[1, 1], [0, 1], [0, 0]]
    assert (several.notes.duplicate_labels, several.task) == (1, "multilabel")
    for matrix in (
        several.Y.toarray(),
        several.Y,
        sp.coo_array(several.Y),
        several.Y.toarray().astype(bool),
    ):
        assert (Dataset.from_arrays(X, matrix, label_ids=["x", "y"]).Y != several.Y).nnz == 0
    texts = Dataset.from_arrays(texts=["p", ""], Y=["x", "y"], label_ids=["y", "z", "x"])
    assert texts.Y.toarray().tolist() == [[0, 0, 1], [1, 0, 0]]
    assert texts.notes.rows_without_features == 1


def test_from_arrays_does_not_change_what_it_is_given():
    X = sp.csr_array(([1.0, 2.0], [1, 1], [0, 2]), shape=(1, 2))
    data = Dataset.from_arrays(X, ["a"])
    assert X.nnz == 2
    assert data.X.toarray().tolist() == [[0, 3]]


def test_rows_by_position_and_by_mask(data):
    for index in ([2, 0], np.array([True, False, True])):
        part = data.rows(index)
        assert part.n_examples == 2
        assert part.label_ids == data.label_ids
    assert data.rows([2, 0]).X.toarray().tolist() == [[3, 4], [1, 0]]
    assert data.rows([2, 0]).notes == Notes(rows_without_labels=1)
    assert data.rows([]).n_examples == 0


def test_split_is_whole_disjoint_and_repeatable():
    data = Dataset.from_arrays(np.arange(100)[:, None] + 1.0, np.arange(100) % 7)
    first, second = data.split(0.3, seed=1)
    assert (first.n_examples, second.n_examples) == (70, 30)
    assert sorted(np.concatenate([first.X.data, second.X.data])) == list(range(1, 101))
    assert (data.split(0.3, seed=1)[1].X != second.X).nnz == 0
    assert (data.split(0.3, seed=2)[1].X != second.X).nnz > 0
    with pytest.raises(DataError, match="between 0 and 1"):
        data.split(1.5)


def test_align_counts_what_it_leaves_out(data):
    aligned = data.align_labels(["z", "b"]).align_features(["g"])
    assert aligned.Y.toarray().tolist() == [[0, 1], [0, 0], [0, 0]]
    assert aligned.X.toarray().tolist() == [[0], [0], [4]]
    assert aligned.dropped_labels.tolist() == [1, 1, 0]
    assert aligned.notes == Notes(
        rows_without_features=2,
        rows_without_labels=1,
        unseen_labels=2,
        unseen_label_uses=2,
        unseen_features=1,
    )
    assert aligned.rows([1]).dropped_labels.tolist() == [1]
    again = aligned.align_labels(["b"])
    assert again.dropped_labels.tolist() == [1, 1, 0]
    assert data.align_labels(data.label_ids).dropped_labels.tolist() == [0, 0, 0]


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 1000))
def test_align_to_a_permutation_and_back_is_nothing(order, seed):
    Y = np.random.default_rng(seed).random((5, 6)) < 0.5
    data = Dataset.from_arrays(np.ones((5, 1)), Y)
    there = data.align_labels([str(i) for i in order])
    assert (there.Y.toarray() == Y[:, order]).all()
    assert (there.align_labels(data.label_ids).Y != data.Y).nnz == 0


def test_notes_speak():
    said = Notes(rows_without_labels=1200, duplicate_features=1).sentences()
    assert len(said) == 2
    assert said[0].startswith("1,200 examples have no label")


def test_align_names_needs_names():
    with pytest.raises(DataError, match="no named features"):
        Dataset.from_arrays(np.eye(2), ["a", "b"]).align_features(["x"])


def test_generated_documents_have_the_structure_promised():
    train, test = labelled_documents(2000, seed=3, n_topics=5, labels_per_topic=8)
    assert (train.n_examples, test.n_examples, train.n_labels) == (1600, 400, 40)
    assert train.label_ids[9] == "topic-01/label-001"
    assert train.notes == Notes()
    topics = np.unique(np.column_stack([train.Y.nonzero()[0], train.Y.nonzero()[1] // 8]), axis=0)
    assert len(topics) == train.n_examples, "every document is of one topic"
    assert labelled_documents(2000, seed=3, n_topics=5, labels_per_topic=8)[0].texts == train.texts


def test_generated_sparse_problem_has_the_rank_promised():
    X, Y = sparse_problem(20_000, 200, 60, rank=5, features_each=10)
    assert (X.shape, Y.shape, X.dtype) == ((20_000, 200), (20_000, 60), np.float32)
    spectrum = np.linalg.svd((Y.T @ X).toarray(), compute_uv=False)
    assert spectrum[4] > 5 * spectrum[5]
