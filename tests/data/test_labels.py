"""Names, columns and titles."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rembrandt.data.labels import LabelIndex

names = st.one_of(
    st.lists(st.text(max_size=3), max_size=9), st.lists(st.integers(-9, 9), max_size=9)
)


@given(names, names)
def test_columns_and_additions(first, second):
    index = LabelIndex()
    added = [*index.add(first), *index.add(second)]
    assert index.names == list(dict.fromkeys([*first, *second]))
    assert [index.names[column] for column in added] == [*first, *second]
    assert len(index) == len(index.names)
    assert index.columns(first).tolist() == added[: len(first)]
    assert LabelIndex(index.names).columns([*index.names, "unknown"]).tolist() == [
        *range(len(index)),
        -1,
    ]


@given(st.lists(st.text("0123456789a", min_size=1, max_size=4), unique=True))
def test_order(spelled):
    index = LabelIndex(spelled)
    ordered, position = index.in_order()
    whole = all(name.isdigit() for name in spelled)
    assert ordered == sorted(spelled, key=(lambda name: (int(name), name)) if whole else None)
    assert [ordered[i] for i in position] == spelled


def test_numbers_of_numpy_are_names():
    index = LabelIndex(np.array([30, 4]))
    assert index.columns(np.array([4, 5, 30])).tolist() == [1, -1, 0]
    assert index.find("4") == 1 and index.title(1) == "4"


def test_titles():
    index = LabelIndex(["D1", "D2", "d2"], ["Abdomen", "Éclair", ""])
    assert [index.title(column) for column in range(3)] == ["Abdomen", "Éclair", "d2"]
    assert [index.find(text) for text in ("D2", "d2", "ÉCLAIR", "abdomen", "d1", "none")] == [
        1,
        2,
        1,
        0,
        0,
        None,
    ]
