"""What is written in a format is what is read from it."""

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from rembrandt.data import Dataset, read
from tests.data import writing

# Hypothesis likes to call a label "null".
pytestmark = pytest.mark.filterwarnings("ignore:.*write for a missing value")

endings = st.sampled_from(list(writing.COMPRESSORS))
quick = settings(max_examples=40, deadline=None)


def read_bytes(name: str, data: bytes, **options: object) -> Dataset:
    with tempfile.TemporaryDirectory() as folder:
        return read(writing.write(Path(folder), name, data), **options)


def labels_of(data: Dataset) -> list[set[str]]:
    return [
        {data.label_ids[j] for j in data.Y.indices[data.Y.indptr[i] : data.Y.indptr[i + 1]]}
        for i in range(data.n_examples)
    ]


def features_of(data: Dataset, prefix: str = "") -> list[dict[str, float]]:
    names = data.feature_names or [str(i) for i in range(data.X.shape[1])]
    starts = data.X.indptr
    return [
        {
            names[j].removeprefix(prefix): float(v)
            for j, v in zip(data.X.indices[a:b], data.X.data[a:b], strict=True)
        }
        for a, b in pairwise(starts)
    ]


@quick
@given(writing.rows, st.booleans(), endings)
def test_numeric(rows, header, ending):
    format = "repository" if header else "svmlight"
    data = read_bytes("rows.txt" + ending, writing.numeric(rows, header), format=format)
    assert labels_of(data) == [set(map(str, labels)) for labels, _ in rows]
    assert features_of(data) == [{str(i): v for i, v in features.items()} for _, features in rows]
    assert data.notes.rows_without_labels == sum(not labels for labels, _ in rows)
    assert data.notes.rows_without_features == sum(not features for _, features in rows)
    assert data.X.dtype == data.Y.dtype == np.float32
    if header:
        assert (data.X.shape[1], data.Y.shape[1]) == (61, 31)


@quick
@given(writing.rows, endings)
def test_vw(rows, ending):
    data = read_bytes("rows.vw" + ending, writing.vw(rows))
    assert labels_of(data) == [{f"l{label}" for label in labels} for labels, _ in rows]
    assert features_of(data, "n^f") == [
        {str(i): v for i, v in features.items()} for _, features in rows
    ]
    assert data.weights is None


@quick
@given(writing.documents, st.sampled_from(["fasttext", "tsv", "csv", "jsonl"]), endings)
def test_text(rows, format, ending):
    options = {} if format == "fasttext" else {"text": "text", "labels": "tags"}
    if format in ("tsv", "csv"):
        options["label_separator"] = "|"
    data = read_bytes("rows" + ending, getattr(writing, format)(rows), format=format, **options)
    assert data.texts == [text for _, text in rows]
    assert labels_of(data) == [set(labels) for labels, _ in rows]
    assert data.label_ids == sorted(data.label_ids) or all(
        name.isdigit() for name in data.label_ids
    )


@quick
@given(writing.documents, st.booleans())
def test_parquet(rows, as_list):
    tags = [labels if as_list else "|".join(labels) or None for labels, _ in rows]
    kind = pa.list_(pa.string()) if as_list else pa.string()
    table = pa.table(
        {
            "text": [text for _, text in rows],
            "tags": pa.array(tags, kind),
            "other": range(len(rows)),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pa.parquet.write_table(table, path)
        data = read(path, text="text", labels="tags", label_separator=None if as_list else "|")
    assert data.texts == [text for _, text in rows]
    assert labels_of(data) == [set(labels) for labels, _ in rows]
    assert data.task == "multilabel"


def test_npz(tmp_path):
    X = sp.random_array((20, 7), density=0.3, format="csr", rng=0)
    Y = sp.csr_array((np.arange(20)[:, None] % 4 == np.arange(4)).astype(float))
    sp.save_npz(tmp_path / "X.npz", X)
    sp.save_npz(tmp_path / "Y.npz", Y)
    data = read(tmp_path / "X.npz", labels=tmp_path / "Y.npz", label_ids=["a", "b", "c", "d"])
    assert abs(data.X - X.astype(np.float32)).max() == 0
    assert (data.Y != Y).nnz == 0
    assert (data.task, data.label_ids) == ("multiclass", ["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("name", "data", "format"),
    [
        ("a.txt", b"2 5 3\n0,1 0:1\n2 4:1\n", "repository"),
        ("a.txt", b"0,1 0:1\n2 4:1\n", "repository"),
        ("train.csv", b"Data\n314523, 165538 5:1 6:2\n7 8:1\n", "repository"),
        ("a.dat", b"3 | 1:4 6:4\n", "vw"),
        ("a.dat", b"3 2.0 'tag|n a:4 b\n", "vw"),
        ("a.txt", b"__label__a text\n", "fasttext"),
        ("a.csv", b"text,label\nx,y\n", "csv"),
        ("a.tsv", b"text\tlabel\n", "tsv"),
        ("a.svm", b"1 1:1\n", "svmlight"),
        ("a.ndjson", b"{}\n", "jsonl"),
    ],
)
@pytest.mark.parametrize("ending", list(writing.COMPRESSORS))
def test_detection(tmp_path, name, data, format, ending):
    from rembrandt.data.detect import detect

    assert detect(writing.write(tmp_path, name + ending, data)) == format


def test_kaggle_file_with_a_title_line():
    data = read_bytes("train.csv", b"Data\n3, 5 5:1 6:2\n7 8:1\n")
    assert labels_of(data) == [{"3", "5"}, {"7"}]
    assert features_of(data) == [{"5": 1, "6": 2}, {"8": 1}]


def test_vw_importance_tags_namespaces_and_bare_features():
    data = read_bytes(
        "a.vw",
        b"cat 2.5 'first|size:2 tall:3 wide |c red\r\n\ndog second|c red:4\n'third| x\nemu| x x\n",
    )
    assert labels_of(data) == [{"cat"}, {"dog"}, set(), {"emu"}]
    assert features_of(data)[:2] == [{"size^tall": 6, "size^wide": 2, "c^red": 1}, {"c^red": 4}]
    assert data.weights.tolist() == [2.5, 1, 1, 1]
    assert data.notes.duplicate_features == 1
    assert data.notes.rows_without_labels == 1


def test_integer_names_are_sorted_as_numbers_and_a_test_file_follows_the_training_file():
    train = read_bytes("a.vw", b"10 | 128:1 2:1\n9 | 1:5\n")
    test = read_bytes("b.vw", b"9 | 2:7 300:1\n11 | 1:1\n")
    assert train.label_ids == ["9", "10"]
    assert train.feature_names == ["1", "2", "128"]
    aligned = test.align_features(train.feature_names).align_labels(train.label_ids)
    assert aligned.X.toarray().tolist() == [[0, 7, 0], [1, 0, 0]]
    assert aligned.Y.toarray().tolist() == [[1, 0], [0, 0]]
    assert aligned.dropped_labels.tolist() == [0, 1]
    assert (aligned.notes.unseen_labels, aligned.notes.unseen_features) == (1, 1)


def test_names_beside_a_repository_file(tmp_path):
    (tmp_path / "labels.txt").write_text("red\nround\n")
    (tmp_path / "features.txt").write_text("w\nx\ny\n")
    data = read(writing.write(tmp_path, "train.txt.gz", b"1 3 2\n1 2:1\n"))
    assert (data.label_ids, data.feature_names) == (["red", "round"], ["w", "x", "y"])


def test_very_long_lines_and_many_chunks(tmp_path, monkeypatch):
    row = b"1,2 " + b" ".join(b"%d:1" % i for i in range(200_000)) + b"\n"
    monkeypatch.setattr(
        "rembrandt.data.compressed.line_chunks.__defaults__",
        (lambda *_: None, 1000, None),
        raising=True,
    )
    data = read(writing.write(tmp_path, "a.txt.zst", row + b"3 1:1\n" * 500))
    assert data.X.shape == (501, 200_000)
    assert data.X.nnz == 200_500


@pytest.mark.parametrize(("name", "between"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_table_rows_longer_than_a_chunk(tmp_path, monkeypatch, name, between):
    monkeypatch.setattr(
        "rembrandt.data.compressed.line_chunks.__defaults__",
        (lambda *_: None, 1000, None),
        raising=True,
    )
    lengths = [3] * 1000 + [5_000] + [4] * 1000 + [200_000, 1]
    rows = "".join(f"{'w' * length}{between}label-{i}\n" for i, length in enumerate(lengths))
    data = read(
        writing.write(tmp_path, name, f"text{between}label\n{rows}".encode()),
        text="text",
        labels="label",
    )
    assert [len(text) for text in data.texts] == lengths
    assert data.n_labels == len(lengths)


@pytest.mark.parametrize(
    ("data", "texts", "labels"),
    [
        (b'text,label\na"x,b\n', ['a"x'], ["b"]),
        (b'text,label\n"a"x,b\n', ["ax"], ["b"]),
        (b'text,label\n"a ""q"" b",x\n', ['a "q" b'], ["x"]),
        (b'text,label\r\n"c\r\n\r\nd",e\r\n', ["c\r\n\r\nd"], ["e"]),
        (b"text,label\ra,b\rc,d", ["a", "c"], ["b", "d"]),
        (b'\n\n"te\nxt",text,label\n1,a,b\n\n2,,\n', ["a", ""], ["b"]),
    ],
)
def test_quotes_and_newlines_in_csv(data, texts, labels):
    found = read_bytes("a.csv", data, text="text", labels="label")
    assert (found.texts, found.label_ids) == (texts, labels)


def test_quotes_in_tsv_belong_to_the_text():
    data = read_bytes(
        "a.tsv", b'a\tb\tlabel\n"open\t\tx\nsay "so"\tend"\ty\n', text=("a", "b"), labels="label"
    )
    assert data.texts == ['"open', 'say "so" end"']
    assert data.task == "multiclass"


def test_fasttext_labels_after_the_text_do_not_stay_in_it():
    data = read_bytes(
        "a.txt", b"__label__a some text __label__b\n\nnothing here\n", format="fasttext"
    )
    assert data.texts == ["some text", "nothing here"]
    assert labels_of(data) == [{"a", "b"}, set()]


def test_unlabelled_table():
    data = read_bytes("a.jsonl", b'{"t": "x"}\n{"t": null}\n', text="t", unlabelled=True)
    assert data.texts == ["x", ""]
    assert data.Y.shape == (2, 0)
    assert data.notes.rows_without_features == 1
