"""Every wrong file gets an error of ours that names the place."""

import contextlib
import lzma
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rembrandt.data import Dataset, catalogue, compressed, read
from rembrandt.data.detect import FORMATS
from rembrandt.errors import DataError, RembrandtWarning
from rembrandt.features import counting, terms
from tests.data import writing

TABLE = {"text": "text", "labels": "label"}

CASES = [
    # name, content, options, line, what the message says
    ("a.txt", b"", {}, None, "empty"),
    ("a.csv", b"", TABLE, None, "empty"),
    ("a.parquet", b"", TABLE, None, "empty"),
    ("a.vw", b"\n\n", {}, None, "no examples"),
    ("a.txt", b"2 5 3\n", {}, 2, "ends after 0"),
    ("a.txt", b"3 5 3\n0 1:1\n1 1:1\n", {}, 4, "says 3 examples, but the file ends after 2"),
    ("a.txt", b"1 5 3\n0 1:1\n\n1 1:1\n", {}, 4, "says 1 examples, but more follow"),
    ("a.txt", b"1 5 3\n0 1:1 5:1\n", {}, 2, "feature '5:1' is beyond the 5 features"),
    ("a.txt", b"1 5 3\n0,3 1:1\n", {}, 2, "label '3' is beyond the 3 labels"),
    ("a.txt", b"999999999999 5 5\n0 1:1\n", {}, 3, "says 999,999,999,999 examples"),
    ("a.txt", b"1 999999999999 999999999999\n0 1:1\n", {}, 1, "Correct the header"),
    ("a.txt", b"1 5 " + b"9" * 5000 + b"\n0 1:1\n", {}, 1, "too large"),
    ("a.svm", b"0 1:1\n1 -4:1\n", {}, 2, "'-4:1' is not a feature.*zero or more"),
    ("a.svm", b"0 1:1\n1 4:nan\n", {}, 2, "'4:nan' has no finite number"),
    ("a.svm", b"0 1:1\n1 4:inf\n", {}, 2, "'4:inf' has no finite number"),
    ("a.svm", b"0 1:1\n1 4:1e39\n", {}, 2, "'4:1e39' has no finite number"),
    ("a.svm", b"0 1:1\n1 4:1x\n", {}, 2, "'4:1x' has no finite number"),
    ("a.svm", b"0 1:1\n1 4:\n", {}, 2, "'4:' has no finite number"),
    ("a.svm", b"0 1:1\n1 word\n", {}, 2, "'word' is not a feature"),
    ("a.svm", b"0 1:1\n1,x 1:1\n", {}, 2, "'x' is not a label"),
    ("a.svm", b"0 1:1\n1 99999999999999999999999:1\n", {}, 2, "is beyond"),
    ("a.svm", b"0 1:1\n999999999999 1:1\n", {}, 2, "is beyond"),
    ("a.svm", b"0 1:1\n\xff 1:1\n", {}, 2, "is not a label"),
    ("a.vw", b"1 | a\n2 | a:nan\n", {}, 2, "'a:nan' has no finite number"),
    ("a.vw", b"1 | a\n2 | a:1:2\n", {}, 2, "'a:1:2' has no finite number"),
    ("a.vw", b"1 | a\n2 | :1\n", {}, 2, "':1' has no name"),
    ("a.vw", b"1 | a\n2 a b\n", {}, 2, "'a' is not an importance"),
    ("a.vw", b"1 | a\n2\n", {}, 2, "no '|' after '2'"),
    ("a.vw", b"1 | a\n2 1 0 | a\n", {}, 2, "'0' is one word too many"),
    ("a.vw", b"1 | a\n2 -1 | a\n", {}, 2, "'-1' is not an importance"),
    ("a.vw", b"1 | a\n2 |n:x a\n", {}, 2, "'n:x' has no finite number"),
    ("a.vw", b"1 | a\n2 | \xff\n", {}, 2, "not UTF-8"),
    ("a.txt", b"__label__a b\n\n__label__a \xff\n", {}, 3, "not UTF-8"),
    ("a.tsv", b"text\tlabel\na\tb\n\xff\tc\n", TABLE, 3, "not UTF-8"),
    ("a.tsv", b"text\tlabel\na\tb\nc\n", TABLE, 3, "expected 2 columns, found 1"),
    ("a.csv", b"text,label\na,b\nc,d,e\n", TABLE, 3, "expected 2 columns, found 3"),
    ("a.tsv", b"text\tlabel\na\tb\n\n\nc\n", TABLE, 5, "expected 2 columns, found 1"),
    ("a.csv", b'text,label\n"a\nb",b\n"a\nb",b\nc\n', TABLE, 6, "expected 2 columns, found 1"),
    ("a.tsv", b"text\tlabel\n", TABLE, None, "no examples"),
    ("a.tsv", b"title\tmesh\na\tb\n", TABLE, 1, "no column 'text'; the columns are title, mesh"),
    ("a.csv", b"text,text,label\na,b,c\n", TABLE, 1, "two columns are called 'text'"),
    ("a.tsv", b"title\tmesh\na\tb\n", {}, None, "column with the labels.*title, mesh"),
    (
        "a.tsv",
        b"title\tmesh\na\tb\n",
        {"text": "title"},
        None,
        "column with the labels.*title, mesh",
    ),
    ("a.jsonl", b'{"text": "a", "label": "b"}\n\n{oops}\n', TABLE, 3, "not JSON"),
    ("a.jsonl", b'{"text": "a", "label": "b"}\n[1]\n', TABLE, 2, "expected one object"),
    ("a.jsonl", b'{"text": "a", "label": {}}\n', TABLE, 1, "'label' holds a structure"),
    ("a.jsonl", b'{"text": "\\ud800", "label": "a"}\n', TABLE, 1, "surrogate"),
    ("a.jsonl", b'{"title": "a"}\n', TABLE, None, "no row has 'text'; the names found are title"),
    ("a.parquet", b"PAR1 not really", TABLE, None, "not a whole Parquet file"),
    ("a.jsonl", b"[" * 200_000 + b"\n", TABLE, 1, "expected an object"),
    ("a.npz", b"nothing", {"labels": "a.npz"}, None, "not an .npz file"),
    ("a.npz", b"nothing", {}, None, "name it, as in"),
    ("a.xyz", b"what is this\n", {}, None, "set format to one of"),
    ("a.txt", b"1 | a\n", {"format": "word"}, None, "no format 'word'; choose from"),
    ("a.vw", b"1 | a\n", {"label_ids": ["a"]}, None, "names its own labels"),
    ("a.tsv", b"text\tlabel\na\tb\n", {**TABLE, "label_separator": ""}, None, "separator is empty"),
]


@pytest.mark.parametrize(("name", "content", "options", "line", "message"), CASES)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_message_names_file_line_and_remedy(
    tmp_path, name, content, options, line, message, ending
):
    if ending and name.endswith((".npz", ".parquet")):
        pytest.skip("these compress themselves")
    path = writing.write(tmp_path, name + ending, content)
    with pytest.raises(DataError, match=message) as caught:
        read(path, **options)
    assert str(caught.value).startswith(f"{path}, line {line}: " if line else f"{path}: ")


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_compressed_file_cut_short(tmp_path, ending):
    path = writing.write(
        tmp_path, "a.vw" + ending, b"".join(b"%d | f%d:1\n" % (i, i * i) for i in range(5000))
    )
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="damaged or cut short") as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_compressed_table_cut_short(tmp_path, ending):
    rows = b"".join(b"text %d\tlabel\n" % (i * i) for i in range(5000))
    path = writing.write(tmp_path, "a.tsv" + ending, b"text\tlabel\n" + rows)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="damaged or cut short"):
        read(path, **TABLE)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(DataError, match=r"gone\.vw: there is no such file"):
        read(tmp_path / "gone.vw")
    with pytest.raises(DataError, match="this is a folder"):
        read(tmp_path)


def test_companion_that_does_not_fit_is_said(tmp_path):
    (tmp_path / "labels.txt").write_text("red\n")
    path = writing.write(tmp_path, "train.txt", b"1 3 2\n1 2:1\n")
    with pytest.warns(RembrandtWarning, match=r"labels\.txt has 1 lines"):
        assert read(path).label_ids == ["0", "1"]


def test_npz_with_indices_outside(tmp_path):
    X = sp.csr_array(np.eye(3))
    sp.save_npz(tmp_path / "Y.npz", X)
    np.savez(
        tmp_path / "X.npz",
        format="csr",
        shape=(3, 3),
        data=X.data,
        indices=X.indices + 7,
        indptr=X.indptr,
    )
    with pytest.raises(DataError, match=r"X\.npz: this is not a sparse matrix"):
        read(tmp_path / "X.npz", labels=tmp_path / "Y.npz")


def test_npz_of_an_absurd_shape_is_refused_before_it_is_made(tmp_path):
    sp.save_npz(tmp_path / "X.npz", sp.csr_array(np.eye(3)))
    sp.save_npz(tmp_path / "Y.npz", sp.csr_array((3, 10**12)))
    with pytest.raises(DataError, match=r"Y\.npz: .* 3 × 1,000,000,000,000, and it has 0 entries"):
        read(tmp_path / "X.npz", labels=tmp_path / "Y.npz")
    sp.save_npz(tmp_path / "Y.npz", sp.coo_array((10**14, 3)))
    with pytest.raises(DataError, match=r"Y\.npz: this is not a sparse matrix"):
        read(tmp_path / "X.npz", labels=tmp_path / "Y.npz")


EYE = {"shape": (3, 3), "data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4)}
COO = {"shape": (3, 3), "data": np.ones(3), "row": np.arange(3), "col": np.arange(3)}
DIA = {"shape": (3, 3), "data": np.ones((1, 3)), "offsets": np.array([0])}


@pytest.mark.parametrize(
    ("format", "arrays"),
    [
        ("csc", EYE | {"indices": np.array([0, 10**9, 2])}),
        ("csc", EYE | {"indices": np.array([0, 3, 2])}),
        ("csc", EYE | {"indptr": np.array([0, 10**9, 2, 3])}),
        (
            "csc",
            EYE
            | {"indptr": np.array([0, 5, 0, 0]), "indices": np.empty(0, int), "data": np.empty(0)},
        ),
        ("csr", EYE | {"data": np.ones(3) * 1j}),
        ("csr", EYE | {"data": np.array(["a", "b", "c"])}),
        ("csc", EYE | {"shape": (10**10, 3)}),
        ("csr", EYE | {"shape": (-3, 3)}),
        ("bsr", EYE | {"data": np.ones((3, 1, 1)), "indices": np.array([0, 7, 2])}),
        ("bsr", EYE | {"data": np.ones((3, 0, 0))}),
        ("coo", COO | {"row": np.array([0, 1, -2])}),
        ("coo", COO | {"shape": (10**10, 3)}),
        ("coo", {"shape": (3,), "data": np.ones(3), "coords": np.arange(3)[None]}),
        ("dia", DIA | {"offsets": np.array([2**31 - 2])}),
        ("lil", {"shape": (3, 3)}),
    ],
)
def test_npz_that_compiled_code_would_follow_anywhere(tmp_path, format, arrays):
    np.savez(tmp_path / "X.npz", format=format, _is_array=True, **arrays)
    with pytest.raises(DataError, match=r"X\.npz: this is not a sparse matrix"):
        read(tmp_path / "X.npz", unlabelled=True)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz_of_every_format(tmp_path, format):
    X = sp.random_array((20, 15), density=0.2, rng=np.random.default_rng(0), format=format)
    sp.save_npz(tmp_path / "X.npz", X)
    np.testing.assert_array_equal(
        read(tmp_path / "X.npz", unlabelled=True).X.toarray(), X.toarray().astype(np.float32)
    )


def test_npz_with_damaged_bytes(tmp_path):
    sp.save_npz(
        tmp_path / "X.npz", sp.random_array((50, 40), density=0.2, rng=np.random.default_rng(0))
    )
    whole = (tmp_path / "X.npz").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        (tmp_path / "X.npz").write_bytes(damaged)
        with contextlib.suppress(DataError):
            assert read(tmp_path / "X.npz", unlabelled=True).X.shape == (50, 40)


def test_parquet_that_is_not_utf8(tmp_path):
    column = pa.array([b"fine", b"\xff\xfe"], pa.binary()).view(pa.string())
    pa.parquet.write_table(pa.table({"text": column, "label": ["a", "b"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: column 'text' .*UTF-8"):
        read(tmp_path / "a.parquet", **TABLE)


def test_a_small_file_that_decompresses_to_much(tmp_path):
    """Run-length blocks of zstandard stand for 32,768 times their size."""
    path = tmp_path / "a.vw.zst"
    path.write_bytes(zstandard.ZstdCompressor(level=3).compress(bytes(600 << 20)))
    assert path.stat().st_size < 100_000
    script = """
        import resource, sys
        from pathlib import Path
        from rembrandt.data.compressed import head
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert head(Path(sys.argv[1]), 1) == b"\\0"
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(answer.stdout) < 150_000  # kilobytes
    with pytest.raises(DataError, match="line 1: this line is longer than"):
        read(path)


def test_streams_of_xz_and_a_dictionary_of_4_gigabytes(tmp_path):
    """Streams may follow each other with zeros between them. A header that asks for much memory is
    refused.
    """
    first, second = lzma.compress(b"a | x\n"), lzma.compress(b"b | y\n")
    path = tmp_path / "a.vw.xz"
    path.write_bytes(first + bytes(4) + second + bytes(8))
    assert read(path).label_ids == ["a", "b"]
    header = bytearray(first[12 : 12 + 4 * first[12]])  # of the block, without its checksum
    assert (
        header[2:4] == b"\x21\x01"
    )  # LZMA2 with one byte of properties, the size of the dictionary
    header[4] = 40
    path.write_bytes(
        first[:12] + header + zlib.crc32(header).to_bytes(4, "little") + first[16 + 4 * first[12] :]
    )
    with pytest.raises(DataError, match="Memory usage limit"):
        read(path)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_line_without_an_end(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 10_000)
    path = writing.write(tmp_path, "a.svm" + ending, b"0 1:1\n1 " + b"2:1 " * 5_000)
    for chunk in (100, compressed.CHUNK_BYTES):
        with pytest.raises(
            DataError, match=r"line 2: this line is longer than 10,000 bytes; expected"
        ):
            list(compressed.line_chunks(path, size=chunk))


def test_memory_that_runs_out_is_said(tmp_path, monkeypatch):
    path = writing.write(tmp_path, "a.svm", b"0 1:1\n")

    def full(raw):
        raise MemoryError

    monkeypatch.setattr(compressed, "_decompressed", full)
    with pytest.raises(DataError, match=r"a\.svm: memory ran out .*GiB is free.*data convert"):
        read(path)


def test_labels_that_do_not_occur_cost_nothing(tmp_path):
    path = writing.write(tmp_path, "a.svm", b"16777215 0:1\n")
    tracemalloc.start()
    try:
        data = read(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    assert data.Y.shape == (1, 16_777_216) and data.label_ids[-1] == "16777215"
    assert data.label_ids[1:3] == ["1", "2"] and data.label_ids != ["0"]


def names_in_one_slot(n):
    """Names whose unseeded hashes agree in their last bits, found by undoing the last steps of the
    hash.
    """
    found, block = [], 1 << 20
    start = 0
    while len(found) < n:
        names = [f"{i:x}" for i in range(start, start + block)]
        hashes = terms.hash_each(names)
        found += [names[i] for i in np.flatnonzero(hashes & np.uint64(0x3FF) == 0)]
        start += block
    return found[:n]


def test_chosen_names_do_not_share_a_slot():
    hashes = terms.hash_each(names_in_one_slot(1000))
    probes = []
    for _ in range(3):
        table = counting.Vocabulary()
        table.learn(hashes)
        mask = np.uint64(len(table._keys) - 1)
        mixed = hashes * table._factor
        probes.append(len(np.unique((mixed ^ (mixed >> np.uint64(32))) & mask)))
        assert table.numbers(hashes).tolist() == list(range(1000))
    assert min(probes) > 500 and len(np.unique(hashes & mask)) < 4


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        ([[1.0, np.nan]], [[1, 0]], "nan at row 0, column 1"),
        ([[1.0]], np.array([[0.5]]), "other than 0 and 1"),
        ([[1.0], [2.0]], np.array([[1.0]]), "Y has 1 rows but there are 2 examples"),
        ([["a"]], ["b"], "matrix of numbers"),
        ([[1j]], ["b"], "complex"),
        ([1.0, 2.0], ["a", "b"], "2-D"),
        ([[1.0]], None, "there is no Y"),
        (None, ["a"], "give X or texts"),
    ],
)
def test_arrays_that_are_wrong(X, Y, message):
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(X, Y)


def test_catalogue_says_where_a_missing_set_comes_from(tmp_path, monkeypatch):
    monkeypatch.delenv("REMBRANDT_DATA", raising=False)
    with pytest.raises(DataError, match="no data set 'alio'"):
        catalogue.load("alio")
    with pytest.raises(
        DataError,
        match=r"aloi is not here; it comes from .*randembed.* put aloi/train",
    ):
        catalogue.load("aloi", "test", folder=tmp_path)
    with pytest.raises(DataError, match=r"nvd-versions is not here; it comes from the National"):
        catalogue.get("nvd-versions")
    assert not any(entry.present for entry in catalogue.available(tmp_path))


# Compressed files by their first bytes, then the ways in which files that are read further begin.
BEGINNINGS = [b"", b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"]
BEGINNINGS += [
    b"a\tl\n",
    b"a,l\n",
    b'{"a": "b", "l": 1}\n',
    b"2 9 9\n1 2:3\n",
    b"1 | a:1 ",
    b"__label__a ",
]


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(FORMATS),
    st.binary(max_size=120)
    | st.text("0123456789 ,:|.-+e\n\r\t_label'\"{}[]a", max_size=80).map(str.encode),
    st.sampled_from(BEGINNINGS),
)
def test_any_bytes_give_a_dataset_or_our_error(format, data, beginning):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        path.write_bytes(beginning + data)
        for chosen in (format, "auto"):
            try:
                result = read(path, chosen, text="a", labels=path if format == "npz" else "l")
            except DataError as error:
                assert str(path) in str(error)
            else:
                assert result.Y.shape[0] == result.n_examples > 0
