"""Labels in every form become one matrix, and keep their type."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.data.targets import joined_labels, read_targets
from rembrandt.errors import DataError

quick = settings(max_examples=50, deadline=None)
labels = st.one_of(
    st.lists(st.lists(st.integers(-5, 12), max_size=4), min_size=1, max_size=6),
    st.lists(st.lists(st.text("ab1", min_size=1, max_size=2), max_size=4), min_size=1, max_size=6),
)


def sets(Y, classes):
    return [
        {classes[j] for j in Y.indices[Y.indptr[i] : Y.indptr[i + 1]]} for i in range(Y.shape[0])
    ]


def is_matrix(lists):
    """Whether lists of numbers look like rows of a 0/1 matrix, and are read as one."""
    return (
        len({len(each) for each in lists}) == 1
        and len(lists[0]) > 1
        and {label for each in lists for label in each} <= {0, 1}
    )


@quick
@given(labels, st.sampled_from([list, tuple, set, np.array]))
def test_lists_of_labels_keep_their_type(lists, kind):
    if is_matrix(lists):
        return
    targets = read_targets([kind(each) if each else [] for each in lists])
    assert sets(targets.Y, targets.classes.tolist()) == [set(each) for each in lists]
    assert targets.classes.tolist() == sorted({label for each in lists for label in each})
    assert not targets.multiclass and set(targets.Y.data) <= {1}


@quick
@given(labels, st.integers(0, 5))
def test_labels_that_come_later_get_new_columns(lists, n_first):
    if is_matrix(lists):
        return
    known = np.array(sorted({label for each in lists[:n_first] for label in each}))
    Y, new = joined_labels(lists, None, known if len(known) else np.empty(0, np.int64))
    assert not {*new.tolist()} & {*known.tolist()}
    assert sets(Y, [*known.tolist(), *new.tolist()]) == [set(each) for each in lists]


@pytest.mark.parametrize("y", [[[1, 2], [3], [2], [1, 3]], [["a", "b"], ["c"], ["b"], ["a", "c"]]])
def test_a_second_partial_fit_with_lists(y):
    X = np.random.default_rng(0).random((40, 5))
    classifier = RembrandtClassifier(random_state=0).partial_fit(X, y * 10)
    expected = sorted({label for each in y for label in each})
    assert classifier.classes_.tolist() == expected
    assert classifier.partial_fit(X, y * 10).classes_.tolist() == expected
    assert {*map(type, classifier.classes_.tolist())} == {*map(type, expected)}


def test_classes_are_named_before_they_occur():
    one = read_targets(["b", "a"], classes=["c", "a", "b"])
    assert one.classes.tolist() == ["a", "b", "c"] and one.multiclass
    assert one.Y.toarray().tolist() == [[0, 1, 0], [1, 0, 0]]
    several = read_targets(np.array([[1, 0], [1, 1]]), classes=["z", "y"])
    assert several.classes.tolist() == ["z", "y"] and several.dense == "int64"
    assert several.Y.toarray().tolist() == [[1, 0], [1, 1]], "the columns keep their order"


@pytest.mark.parametrize(
    "y", [np.array([[0, 1], [1, 1]]), [[0, 1], [1, 1]], sparse.csr_array([[0, 1], [1, 1]])]
)
def test_matrices(y):
    targets = read_targets(y)
    assert targets.Y.toarray().tolist() == [[0, 1], [1, 1]]
    assert targets.classes.tolist() == [0, 1] and not targets.multiclass


@pytest.mark.parametrize(
    ("y", "classes", "known", "complaint"),
    [
        ([["a"], [1]], None, [], "the labels are of the types int and str; give strings only"),
        ([["a"]], None, [1, 2], "give labels of the same type"),
        (np.eye(2), ["a"], [], "2 columns and there are 1 classes"),
        (np.eye(2), ["a", "a"], [], "named twice"),
    ],
)
def test_labels_that_cannot_be_joined(y, classes, known, complaint):
    with pytest.raises(DataError, match=complaint):
        joined_labels(y, classes, np.array(known, np.int64))


def test_one_class_is_not_enough():
    with pytest.raises(DataError, match="one class only"):
        read_targets(["a", "a"])
