"""Parquet files that are small and describe much are bounded before they are read."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from rembrandt import read
from rembrandt.data import parquet
from rembrandt.data.vectors import read_vectors
from rembrandt.errors import DataError

TABLE = {"text": "text", "labels": "label"}


def repeated(value, n):
    """A column with the same value many times, which takes a few bytes in a file."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([value]))


def listed(values):
    """A column with all values in the list of one row."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def written(path, **columns):
    pa.parquet.write_table(pa.table(columns), path, compression="zstd")
    return path


def test_a_list_of_millions_in_a_few_bytes(tmp_path):
    n = parquet._MAX_REPEATED_VALUES + 1
    path = written(tmp_path / "a.parquet", text=["a"], label=listed(repeated("x", n)))
    assert path.stat().st_size < 1000
    with pytest.raises(DataError, match=r"a\.parquet: column 'label.* expands to 16,777,217 val"):
        read(path, **TABLE)


@pytest.mark.parametrize(
    "columns",
    [
        {"text": repeated("a", 5000), "label": repeated("x", 5000)},
        {"text": ["a"], "label": listed(pa.nulls(5000))},
        {"text": ["a"], "label": listed(pa.array(np.zeros(5000, np.int8)))},
        {"text": ["a" * 1_000_000], "label": ["x"]},
    ],
)
def test_columns_that_expand_are_refused(tmp_path, monkeypatch, columns):
    monkeypatch.setattr(parquet, "_MAX_REPEATED_VALUES", 1000)
    monkeypatch.setattr(parquet, "_MAX_VALUES_PER_BYTE", 1)
    monkeypatch.setattr(parquet, "_MAX_EXPANDED_BYTES", 100_000)
    monkeypatch.setattr(parquet, "_MAX_EXPANSION", 2)
    path = written(tmp_path / "a.parquet", **columns)
    with pytest.raises(DataError, match=r"expands to .* bytes; check the file"):
        read(path, **TABLE)
    other = written(tmp_path / "b.parquet", **columns, short=["b"] * len(columns["text"]))
    with pytest.raises(DataError, match="expands"):
        read(other, **TABLE)


def test_columns_that_are_not_read_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_MAX_EXPANDED_BYTES", 100_000)
    monkeypatch.setattr(parquet, "_MAX_EXPANSION", 2)
    long = ["a" * 1_000_000, ""]
    path = written(tmp_path / "a.parquet", text=["a", "b"], label=["x", "y"], texts=long)
    assert read(path, **TABLE).texts == ["a", "b"]


def test_vectors_that_expand_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_MAX_REPEATED_VALUES", 1000)
    monkeypatch.setattr(parquet, "_MAX_VALUES_PER_BYTE", 1)
    path = written(tmp_path / "v.parquet", v=listed(pa.array(np.zeros(5000, np.float32))))
    with pytest.raises(DataError, match="expands to 5,000 values"):
        read_vectors(path)
    path = written(tmp_path / "t.parquet", v=["one", "two"])
    with pytest.raises(DataError, match="vectors are not numbers"):
        read_vectors(path)


@pytest.mark.parametrize(
    "label",
    [
        listed(listed(repeated("x", 50))),
        pa.array([{"a": 1}]),
        pa.array([[{"a": 1}]]),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    ],
)
def test_structures_are_refused_before_they_are_read(tmp_path, label):
    path = written(tmp_path / "a.parquet", text=["a"], label=label)
    with pytest.raises(DataError, match="column 'label' holds a structure"):
        read(path, **TABLE)


def test_long_values_in_a_dictionary_are_in_memory_once(tmp_path):
    n = 3 * parquet._BATCH_ROWS
    path = written(tmp_path / "a.parquet", text=repeated("y" * 100_000, n), label=repeated("x", n))
    texts = read(path, **TABLE).texts
    assert len(texts) == n and texts[0] == texts[-1] == "y" * 100_000
    assert len({id(text) for text in texts}) <= 3  # one for each batch, and not 3 GB


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_cells_of_every_type(tmp_path, use_dictionary):
    columns = {
        "text": pa.array(["a", None, "ä", ""]),
        "large": pa.array(["b", None, "ö", ""], pa.large_string()),
        "bytes": pa.array([b"c", None, "ü".encode(), b""]),
        "whole": pa.array([1, None, 3, 4], pa.int16()),
        "real": pa.array([1.5, None, float("nan"), 4.0]),
        "coded": pa.array(["d", None, "d", "e"]).dictionary_encode(),
        "yes": pa.array([True, None, False, True]),
    }
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table(columns), path, use_dictionary=use_dictionary)
    cells = next(parquet.parquet_cells(path, list(columns), lambda *_: None))
    assert cells == {
        "text": ["a", None, "ä", ""],
        "large": ["b", None, "ö", ""],
        "bytes": ["c", None, "ü", ""],
        "whole": ["1", None, "3", "4"],
        "real": ["1.5", None, None, "4"],
        "coded": ["d", None, "d", "e"],
        "yes": ["true", None, "false", "true"],
    }


@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_lists_of_every_type(tmp_path, kind, use_dictionary):
    columns = {
        "texts": pa.array([["a", "b", None], None, [], ["a"]], kind(pa.string())),
        "whole": pa.array([[1, 2], None, [], [None]], kind(pa.int64())),
        "real": pa.array([[float("nan"), 2.5], None, [], [1]], kind(pa.float64())),
        "fixed": pa.array([["a", "b"], None, ["c", None], ["d", "d"]], pa.list_(pa.string(), 2)),
    }
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table(columns), path, use_dictionary=use_dictionary)
    cells = next(parquet.parquet_cells(path, list(columns), lambda *_: None))
    assert cells == {
        "texts": [["a", "b", None], None, [], ["a"]],
        "whole": [["1", "2"], None, [], [None]],
        "real": [[None, "2.5"], None, [], ["1"]],
        "fixed": [["a", "b"], None, ["c", None], ["d", "d"]],
    }


@pytest.mark.parametrize("change", [0x10, 0x21, 0xFF])
def test_a_damaged_byte_anywhere_is_refused_or_read(tmp_path, change):
    """Arrow ends the process if it is asked for the sizes of some damaged files, and gives numbers
    beyond the end of a dictionary.
    """
    columns = {"text": ["a", "b", "c"], "label": [["x", "y"], [], ["z"]]}
    whole = written(tmp_path / "whole.parquet", **columns).read_bytes()
    path = tmp_path / "damaged.parquet"
    n_refused = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= change
        path.write_bytes(damaged)
        try:
            data = read(path, **TABLE)
        except DataError as error:
            n_refused += 1
            assert "damaged.parquet" in str(error)
        else:
            assert data.Y.shape == (len(data.texts), len(data.label_ids))
    assert n_refused > 0


def test_numbers_beyond_the_dictionary_are_refused():
    indices = pa.array([0, 7], pa.int32())
    wrong = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    batch = pa.record_batch([wrong], ["text"])

    class File:
        def iter_batches(self, batch_size, columns):
            yield batch

    with pytest.raises(DataError, match=r"a.parquet: column 'text' .*damaged .*out of bounds"):
        next(parquet.checked_batches(Path("a.parquet"), File(), 10))
