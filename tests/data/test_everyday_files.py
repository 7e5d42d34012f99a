"""Files as they lie on a desk: cells that spell lists, columns without options, other encodings,
arrays of JSON, paths to columns, sheets of Excel.
"""

import gzip
import json
import zipfile
from itertools import pairwise

import pytest

from rembrandt import read
from rembrandt.data.columns import choose_columns
from rembrandt.data.label_cells import spelled_list
from rembrandt.errors import DataError, RembrandtWarning

TABLE = {"text": "text", "labels": "tags"}


def labels_of(data):
    starts = data.Y.indptr
    columns = data.Y.indices
    return [sorted(data.label_ids[i] for i in columns[a:b]) for a, b in pairwise(starts)]


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ('["a", "b"]', ["a", "b"]),
        ("['a', 'b, c']", ["a", "b, c"]),
        ("""["it's", 'x']""", ["it's", "x"]),
        ("[]", []),
        ("[1, 2]", ["1", "2"]),
        ('["a", null]', ["a"]),
        ("[None, 'a']", ["a"]),
        ("a [b]", None),
        ("[unknown]", None),
        ("[sic] and [x]", None),
    ],
)
def test_lists_that_are_spelled_out(cell, labels):
    assert spelled_list(cell) == labels


def test_cells_that_spell_lists_have_the_labels_of_the_lists(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text\ttags\none\t[\"a\", \"b\"]\ntwo\t['b', 'c']\nthree\td\nfour\t[]\n")
    data = read(path, **TABLE)
    assert labels_of(data) == [["a", "b"], ["b", "c"], ["d"], []]
    assert data.task == "multilabel"
    kept = read(path, **TABLE, verbatim_labels=True)
    assert "['b', 'c']" in kept.label_ids and kept.n_labels == 4


@pytest.mark.parametrize("cell", ["['a' 'b']", '["a", "b]"x"]', "['a' + 'b']"])
def test_a_list_that_cannot_be_read_is_refused_with_the_remedy(tmp_path, cell):
    path = tmp_path / "a.tsv"
    path.write_text(f"text\ttags\none\tx\ntwo\t{cell}\n")
    with pytest.raises(DataError, match="labels of example 2 look like a list") as refused:
        read(path, **TABLE)
    assert refused.value.parameters == ("verbatim_labels",)


def test_labels_spelled_like_missing_values_are_reported(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,tags\none,NaN\ntwo,b\nthree,NaN\nfour,\n")
    with pytest.warns(RembrandtWarning, match="2 examples with the label 'NaN'"):
        data = read(path, **TABLE)
    assert data.label_ids == ["NaN", "b"] and data.notes.rows_without_labels == 1


@pytest.mark.parametrize(
    ("columns", "text", "labels"),
    [
        (["id", "text", "labels"], ["text"], "labels"),
        (["Title", "Abstract", "MeSH", "Subjects"], ["Title", "Abstract"], "Subjects"),
        (["tags", "title"], ["title"], "tags"),
        (["title", "text", "category"], ["title", "text"], "category"),
    ],
)
def test_columns_are_chosen_by_their_names(columns, text, labels):
    chosen = choose_columns(None, columns, (), None, True)
    assert (list(chosen.text), chosen.labels) == (text, labels)
    assert "By the names of the columns" in chosen.sentence()
    assert repr(labels) in chosen.sentence()


@pytest.mark.parametrize(
    ("columns", "missing"),
    [
        (["text", "abstract", "tags"], "text"),
        (["name", "tags"], "text"),
        (["text", "tags", "topic"], "labels"),
        (["text", "mesh"], "labels"),
        (["text", "labels", "Labels"], "labels"),
    ],
)
def test_columns_are_not_chosen_in_doubt(columns, missing):
    with pytest.raises(DataError, match=f"the column with the {missing} is not known") as refused:
        choose_columns(None, columns, (), None, True)
    assert refused.value.parameters == (missing,)


def test_read_says_which_columns_it_chose(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Title,tags,year\none,a,1\ntwo,b,2\n")
    data = read(path)
    assert data.texts == ["one", "two"] and data.columns.labels == "tags"
    assert data.columns.chosen == ("text", "labels") and data.rows([0]).columns == data.columns
    named = read(path, text="Title", labels="year")
    assert named.columns.sentence() == ""


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig", "cp1252"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_encodings(tmp_path, encoding, suffix):
    path = tmp_path / f"a{suffix}"
    text = "text,tags\nMüller liebt Käse,käse\n" + "Brot,brot\n" * 3
    contents = text.encode(encoding)
    if encoding == "utf-16-be":
        contents = b"\xfe\xff" + contents
    path.write_bytes(gzip.compress(contents) if suffix.endswith("gz") else contents)
    if encoding == "cp1252":
        with pytest.raises(DataError, match=r"line 2: .* set encoding.*as cp1252.*Müller"):
            read(path, **TABLE)
        data = read(path, **TABLE, encoding="cp1252")
    else:
        data = read(path, **TABLE)
    assert data.texts[0] == "Müller liebt Käse" and data.label_ids == ["brot", "käse"]


def test_a_wrong_encoding_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,tags\nKäse,b\n".encode("cp1252"))
    for name in ("klingon", "base64"):
        with pytest.raises(DataError, match="encoding") as refused:
            read(path, **TABLE, encoding=name)
        assert refused.value.parameters == ("encoding",)
    with pytest.raises(DataError, match="is not utf-16"):
        read(path, **TABLE, encoding="utf-16-le")
    with pytest.raises(DataError, match="read without an encoding"):
        read(tmp_path / "a.csv", "svmlight", encoding="cp1252")


def test_an_array_of_objects(tmp_path):
    rows = [{"text": f"text {i} ü", "tags": ["a", "b"][: 1 + i % 2]} for i in range(300)]
    path = tmp_path / "a.json"
    for contents in (json.dumps(rows), json.dumps(rows, indent=2, ensure_ascii=False)):
        path.write_text(contents, encoding="utf-8")
        data = read(path)
        assert data.texts == [row["text"] for row in rows]
        assert labels_of(data) == [row["tags"] for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(path).n_examples == 300


def test_objects_that_end_in_another_block(tmp_path, monkeypatch):
    monkeypatch.setattr("rembrandt.data.json_rows._BLOCK_BYTES", 7)
    rows = [{"text": "中中中" * i, "tags": "a"} for i in range(9)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    assert read(path).texts == [row["text"] for row in rows]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("[1, 2]", "line 1: expected an object"),
        ('[{"text": "a"}\n{"text": "b"}]', "line 2: expected a comma"),
        ('[\n{"text": "a"},\n{"text": ]', "line 3: this object is not JSON"),
        ('[{"text": "a"}', "expected a comma or the end"),
        ('[{"text": "a"}] x', "expected the end of the file"),
        ("[]", "no examples"),
    ],
)
def test_damaged_arrays(tmp_path, contents, message):
    path = tmp_path / "a.json"
    path.write_text(contents)
    with pytest.raises(DataError, match=message):
        read(path, text="text", unlabelled=True)


def test_paths_to_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    rows = [
        {"doc": {"title": "one", "x": {"y": "deep"}}, "meta": {"tags": ["a", "b"]}},
        {"doc": None, "meta": {"tags": []}},
    ]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("a.parquet", "a.jsonl"):
        data = read(tmp_path / name, text=["doc.title", "doc.x.y"], labels="meta.tags")
        assert data.texts == ["one deep", ""] and labels_of(data) == [["a", "b"], []]
        with pytest.raises(DataError, match=r"doc\.title"):
            read(tmp_path / name, text="doc.name", labels="meta.tags")
    (tmp_path / "b.jsonl").write_text('{"text": "x", "tags": [{"name": "a"}, {"name": "b"}]}\n')
    assert labels_of(read(tmp_path / "b.jsonl", text="text", labels="tags.name")) == [["a", "b"]]


def test_a_sheet_of_excel(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.create_sheet("data")
    sheet = book["data"]
    for row in (("Title", "tags", "year"), ("bread", "a;b", 2020.0), ("cake", None, None)):
        sheet.append(row)
    path = tmp_path / "a.xlsx"
    book.save(path)
    data = read(path, label_separator=";")
    assert data.texts == ["bread", "cake"] and labels_of(data) == [["a", "b"], []]
    assert read(path, text="title".title(), labels="year").label_ids == ["2020"]
    with pytest.raises(DataError, match="there is no column 'body'"):
        read(path, text="body", labels="tags")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"not a whole \.xlsx file"):
        read(path)
    with pytest.raises(DataError, match="save the sheet as"):
        read(path.rename(tmp_path / "a.xls"))


def test_a_sheet_that_expands_too_much_is_refused(tmp_path):
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(9):
            archive.writestr(f"xl/{number}.xml", b"0" * (1 << 25))
    with pytest.raises(DataError, match="expand to 301,989,888 bytes"):
        read(path, text="a", labels="b")


FRAME = {"text": ["one", "two", "three"], "tags": [["a", "b"], ["b"], []]}


def frames():
    pandas = pytest.importorskip("pandas")
    yield pandas.DataFrame(FRAME, index=[5, 6, 7])
    import pyarrow

    yield pyarrow.table(FRAME)


def test_data_frames_and_tables_in_memory():
    for frame in frames():
        data = read(frame)
        assert data.texts == ["one", "two", "three"]
        assert labels_of(data) == [["a", "b"], ["b"], []] and data.task == "multilabel"
        with pytest.raises(DataError, match="no column 'body'; the columns are text, tags"):
            read(frame, text="body", labels="tags")


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    assert labels_of(read(polars.DataFrame(FRAME))) == [["a", "b"], ["b"], []]


def test_data_sets_of_hugging_face():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict(FRAME)
    assert labels_of(read(data)) == [["a", "b"], ["b"], []]
    named = datasets.Dataset.from_dict(
        {"text": ["one", "two"], "label": [1, -1]},
        features=datasets.Features(
            {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
        ),
    )
    assert labels_of(read(named)) == [["yes"], []]
    with pytest.raises(DataError, match=r"the parts train; give one of them.*data\['train'\]"):
        read(datasets.DatasetDict({"train": data}))


def test_options_of_files_are_refused_for_frames():
    frame = next(frames())
    with pytest.raises(DataError, match="has no encoding") as refused:
        read(frame, encoding="cp1252")
    assert refused.value.parameters == ("encoding",)
