"""Labels that are several in one are refused or reported; labels that only look a little like that
are not.
"""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rembrandt import Dataset, RembrandtClassifier, read
from rembrandt.data.separators import unsplit_labels
from rembrandt.data.targets import named_targets, read_targets
from rembrandt.errors import DataError, RembrandtWarning

TAGS = [
    "sauce",
    "bread",
    "meat",
    "baking",
    "eggs",
    "cheese",
    "oven",
    "rice",
    "fish",
    "tea",
    "wine",
    "milk",
]


def cells(separator, n=300, seed=0):
    rng = np.random.default_rng(seed)
    return [separator.join(rng.choice(TAGS, rng.integers(1, 4), replace=False)) for _ in range(n)]


def write(path, labels, delimiter=","):
    rows = [
        f"text{delimiter}tags",
        *(f'word{i % 7}{delimiter}"{label}"' for i, label in enumerate(labels)),
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("separator", [";", "|", "\t"])
@pytest.mark.parametrize("given", [None, ","])
def test_a_forgotten_or_wrong_separator_is_refused(tmp_path, separator, given):
    path = write(tmp_path / "a.csv", cells(separator))
    with pytest.raises(DataError, match="look like several in one") as refused:
        read(path, text="text", labels="tags", label_separator=given, delimiter=",")
    assert repr(separator) in str(refused.value) and refused.value.parameters == (
        "label_separator",
        "verbatim_labels",
    )
    assert read(
        path, text="text", labels="tags", label_separator=separator, delimiter=","
    ).n_labels == len(TAGS)
    kept = read(path, text="text", labels="tags", verbatim_labels=True, delimiter=",")
    assert kept.n_labels == len({*cells(separator)})


def test_a_comma_is_reported(tmp_path):
    path = write(tmp_path / "a.csv", cells(", "))
    with pytest.warns(RembrandtWarning, match=r"split at ','"):
        assert read(path, text="text", labels="tags").n_labels > len(TAGS)


def test_a_separator_that_never_occurs_is_reported(tmp_path):
    path = write(tmp_path / "a.csv", cells(";", 300)[:1] * 300)
    with pytest.warns(RembrandtWarning, match="no row has the label separator '/'"):
        read(path, text="text", labels="tags", label_separator="/")


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.text("abc ,-|;", min_size=1, max_size=6), min_size=1, unique=True),
    st.integers(1, 3),
)
def test_labels_that_do_not_get_fewer_or_denser_pass(names, count):
    found = unsplit_labels(names, [count] * len(names))
    if found is not None:
        parts = {part.strip() for name in names for part in name.split(found.separator)} - {""}
        assert found.after == len(parts) and len(names) >= 10
        assert 2 * len(parts) <= len(names) or 2 * sum(
            found.separator in name for name in names
        ) >= len(names)


def test_headings_with_commas_pass():
    names = [
        f"Person {i}, born {1800 + i}" if i % 4 == 0 else f"Heading {i} -- History"
        for i in range(2000)
    ]
    assert unsplit_labels(names, np.arange(2000) % 5 + 1) is None
    assert unsplit_labels([str(i) for i in range(100)], np.ones(100)) is None


def test_joined_labels_in_memory_are_reported_unless_they_are_named():
    y = cells(";")
    with pytest.warns(RembrandtWarning, match=r"label.split\(';'\)"):
        named_targets(y)
    assert len(named_targets(y, sorted({*y})).classes) == len({*y})
    assert len(named_targets([cell.split(";") for cell in y]).classes) == len(TAGS)


def test_strings_and_lists_in_json_mean_the_same(tmp_path):
    rows = [["a;b", ["a", "b"]], ["c", ["c"]], ["a; c", ["a;c"]]]
    for first, second in ((0, 1), (1, 0), (0, 0), (1, 1)):
        path = tmp_path / f"{first}{second}.jsonl"
        chosen = [pair[(first, second)[i % 2]] for i, pair in enumerate(rows)]
        path.write_text(
            "".join(json.dumps({"text": "x", "labels": labels}) + "\n" for labels in chosen)
        )
        data = read(path, text="text", labels="labels", label_separator=";")
        assert data.label_ids == ["a", "b", "c"]
        assert (
            data.Y.toarray().tolist() == [[1, 1, 0], [0, 0, 1], [1, 0, 1]]
            and data.task == "multilabel"
        )


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan])
def test_missing_labels_are_no_labels(missing):
    pd = pytest.importorskip("pandas")
    for y in (
        ["a", missing, "b"],
        pd.Series(["a", missing, "b"]),
        np.array(["a", missing, "b"], dtype=object),
    ):
        with pytest.warns(RembrandtWarning, match="1 label in 3 rows is missing"):
            targets = read_targets(y)
        assert targets.classes.tolist() == ["a", "b"] and targets.Y.toarray().tolist() == [
            [1, 0],
            [0, 0],
            [0, 1],
        ]
    for y in ([["a", missing], [], ["b"]], [["a"], missing, ["b"]]):
        with pytest.warns(RembrandtWarning, match="missing"):
            assert read_targets(y).classes.tolist() == ["a", "b"]
        with pytest.warns(RembrandtWarning, match="missing"):
            assert Dataset.from_arrays(np.eye(3), y).label_ids == ["a", "b"]
    with pytest.warns(RembrandtWarning, match="missing"):
        assert read_targets(pd.Series([1, 2, None])).classes.tolist() == [1, 2]
    with pytest.warns(RembrandtWarning, match="missing"):
        assert read_targets(pd.Series([1, 2, None], dtype="Int64")).classes.tolist() == [1, 2]


def test_missing_labels_in_files_are_no_labels(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    table = pa.table({"text": ["x", "y", "z"], "code": [1.0, float("nan"), 2.0]})
    parquet.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text(
        '{"text": "x", "code": 1}\n{"text": "y", "code": NaN}\n{"text": "z", "code": 2}\n'
    )
    for name in ("a.parquet", "a.jsonl"):
        data = read(tmp_path / name, text="text", labels="code")
        assert data.label_ids == ["1", "2"] and data.notes.rows_without_labels == 1


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_csv_file_is_detected_or_given(tmp_path, delimiter):
    path = write(tmp_path / "a.csv", ["a", "b, c", "d"], delimiter)
    given = delimiter if delimiter == "|" else None
    data = read(path, text="text", labels="tags", delimiter=given)
    assert data.label_ids == ["a", "b, c", "d"] and data.texts == ["word0", "word1", "word2"]
    with pytest.raises(DataError, match="not one character"):
        read(path, text="text", labels="tags", delimiter="ab")


def test_ids_of_examples_stay_with_them(tmp_path):
    (tmp_path / "a.csv").write_text("key,text,tags\nx7,one,a\nx8,two,b\nx9,three,a\n")
    data = read(tmp_path / "a.csv", text="text", labels="tags", id="key")
    assert data.ids == ["x7", "x8", "x9"] and data.rows([2, 0]).ids == ["x9", "x7"]
    with pytest.raises(DataError, match="no column 'pmid'"):
        read(tmp_path / "a.csv", text="text", labels="tags", id="pmid")
    (tmp_path / "a.txt").write_text("__label__a one\n__label__b two\n")
    with pytest.raises(DataError, match="no columns to take ids from"):
        read(tmp_path / "a.txt", id="key")


def test_a_long_label_costs_its_own_length():
    y = [*(f"label {i % 50}" for i in range(400)), "x" * 100_000]
    targets = read_targets(y)
    assert targets.classes.dtype == object and len(targets.classes) == 51
    fitted = RembrandtClassifier(n_components=5, random_state=0, preset="fast").fit(
        np.eye(50)[np.arange(401) % 50], y
    )
    assert fitted.classes_.nbytes < 1000 and fitted.predict(np.eye(50)).tolist()[1:3] == [
        "label 1",
        "label 2",
    ]
