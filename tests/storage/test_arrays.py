"""Round trips of arrays through files, and every way in which a file can be wrong."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file
from scipy import sparse

from rembrandt.errors import StorageError
from rembrandt.storage import arrays as storage
from rembrandt.storage.arrays import (
    ArrayFile,
    as_half,
    file_sha256,
    pack_csr,
    pack_strings,
    positive,
    read_arrays,
    unpack_csr,
    unpack_strings,
    write_arrays,
)

types = st.sampled_from(["f8", "f4", "f2", "i8", "i4", "i1", "u1", "?", ">f4", ">i8"])
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
named_arrays = st.dictionaries(
    st.text(min_size=1, max_size=8), types.flatmap(lambda t: hnp.arrays(t, shapes)), max_size=5
)


@settings(max_examples=50, deadline=None)
@given(named_arrays)
def test_round_trip(tmp_path_factory, arrays):
    path = tmp_path_factory.mktemp("round") / "arrays"
    size, sha256 = write_arrays(path, arrays)
    assert (size, sha256) == (path.stat().st_size, file_sha256(path))
    found = read_arrays(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype.name == array.dtype.name
        assert found[name].flags.aligned and not found[name].flags.writeable
        assert_array_equal(found[name], array, strict=array.dtype.isnative)
    write_arrays(path.with_name("again"), dict(reversed(arrays.items())))
    assert path.with_name("again").read_bytes() == path.read_bytes()


def test_others_can_read_it(tmp_path):
    matrix = np.arange(24.0).reshape(4, 6)
    write_arrays(
        tmp_path / "file",
        {"turned": matrix.T, "thinned": matrix[::2, ::3], "i": np.arange(3, dtype=np.int8)},
    )
    theirs = load_file(tmp_path / "file")
    for name, array in read_arrays(tmp_path / "file").items():
        assert_array_equal(theirs[name], array)
    assert_array_equal(theirs["turned"], matrix.T)
    assert_array_equal(theirs["thinned"], matrix[::2, ::3])


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=[]), max_size=6)))
def test_strings_round_trip(strings):
    assert unpack_strings("s", pack_strings("s", strings)) == strings


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 99))
def test_csr_round_trip(n, m, seed):
    matrix = sparse.random_array((n, m), density=0.4, format="csr", dtype=np.float32, rng=seed)
    found = unpack_csr("m", pack_csr("m", matrix))
    assert found.shape == matrix.shape
    assert found.dtype == np.float32
    assert_array_equal(found.toarray(), matrix.toarray())


@pytest.mark.parametrize(
    ("columns", "values", "size"),
    [(1 << 16, [0.5, -2.0], 4), (1 << 17, [0.5, -2.0], 6), (9, [0.1, 1.0], 6)],
)
def test_csr_takes_few_bytes_where_nothing_is_lost(columns, values, size):
    matrix = sparse.csr_array((np.float32(values), ([0, 1], [0, columns - 1])), shape=(2, columns))
    arrays = pack_csr("m", matrix)
    assert arrays["m.indices"].itemsize + arrays["m.data"].itemsize == size
    found = unpack_csr("m", arrays)
    assert (found.indices.dtype, found.dtype) == (np.int32, np.float32)
    assert (found != matrix).nnz == 0


def test_half_precision_is_clipped():
    assert as_half(np.float32([1e9, -1e9, 0.1, 1 / 4])).tolist() == [
        65504,
        -65504,
        np.float16(0.1),
        0.25,
    ]


def test_private_arrays_do_not_change_the_file(tmp_path):
    path = tmp_path / "file"
    write_arrays(path, {"a": np.zeros(4)})
    before = path.read_bytes()
    file = ArrayFile(path)
    file.prefetch()
    file.arrays["a"][:] = 1
    assert path.read_bytes() == before
    file.release()
    assert file.arrays["a"].shape == (4,)


def test_systems_without_madvise(tmp_path, monkeypatch):
    write_arrays(tmp_path / "file", {"a": np.arange(4)})
    for advice in ("MADV_WILLNEED", "MADV_DONTNEED"):
        monkeypatch.delattr(storage.mmap, advice, raising=False)
    file = ArrayFile(tmp_path / "file")
    file.prefetch()
    file.release()
    assert file.arrays["a"].tolist() == [0, 1, 2, 3]


def test_arrays_of_other_types_are_refused(tmp_path):
    for array in (
        np.array(["text"]),
        np.array([object()]),
        np.zeros(2, dtype=complex),
        np.zeros(2, dtype="u8"),
    ):
        with pytest.raises(StorageError, match="convert it"):
            write_arrays(tmp_path / "file", {"a": array})
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_arrays(tmp_path / "file", {"a": np.zeros(4)})
    assert list(tmp_path.iterdir()) == []


ENTRIES = {
    "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    "b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, "8 bytes, but 16"),
        ({"b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, "does not start where"),
        ({"b": {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]}}, "24 bytes, but 16"),
        ({"b": {"dtype": "F32", "shape": [3], "data_offsets": [8, 16]}}, "its shape says"),
        ({"b": {"dtype": "F32", "shape": [-2], "data_offsets": [16, 8]}}, "its shape says"),
        ({"b": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}, "its shape says"),
        (
            {"b": {"dtype": "F32", "shape": [2] + [1] * 99, "data_offsets": [8, 16]}},
            "impossible shape",
        ),
        (
            {"c": {"dtype": "F32", "shape": [0, 1 << 70], "data_offsets": [16, 16]}},
            "impossible shape",
        ),
        ({"b": {"dtype": "F99", "shape": [2], "data_offsets": [8, 16]}}, "cannot be read"),
        ({"b": {"dtype": [], "shape": [2], "data_offsets": [8, 16]}}, "cannot be read"),
        ({"b": {"dtype": "F32", "shape": ["2"], "data_offsets": [8, 16]}}, "cannot be read"),
        ({"b": {"dtype": "F32", "shape": [2], "data_offsets": [8]}}, "cannot be read"),
        ({"b": []}, "cannot be read"),
    ],
)
def test_headers_that_lie(tmp_path, change, complaint):
    header = json.dumps(change if "a" in change else ENTRIES | change).encode()
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    with pytest.raises(StorageError, match=f"file is damaged: .*{complaint}"):
        read_arrays(tmp_path / "file")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 7,
        b"\xff" * 8,
        (99).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (1).to_bytes(8, "little") + b"{",
        (1 << 20).to_bytes(8, "little") + b"[" * (1 << 20),
    ],
)
def test_files_without_a_header(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(StorageError, match="header"):
        read_arrays(tmp_path / "file")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "hostile"
    write_arrays(path, {"a": np.zeros(3, np.float32), "b": np.zeros((2, 2), np.int8)})
    body = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(body[: data.draw(st.integers(0, len(body)))])
    try:
        found = read_arrays(path)
    except StorageError:
        return
    assert sum(array.nbytes for array in found.values()) <= len(body)


EYE = pack_csr("m", sparse.csr_array(np.eye(3, dtype=np.float32)))


@pytest.mark.parametrize(
    ("change", "shape", "complaint"),
    [
        ({"m.indices": np.array([0, 3, 2], np.int32)}, (3, 3), "outside of their range"),
        ({"m.indices": np.array([0, -1, 2], np.int32)}, (3, 3), "outside of their range"),
        ({"m.indices": np.array([0, 1], np.int32)}, (3, 3), "does not belong there"),
        ({"m.indices": np.array([0.0, 1.0, 2.0])}, (3, 3), "does not belong there"),
        ({"m.indptr": np.array([0, 2, 1, 3], np.int32)}, (3, 3), "do not follow"),
        ({"m.indptr": np.array([1, 1, 2, 3], np.int32)}, (3, 3), "do not follow"),
        ({"m.indptr": np.array([0, 1, 2, 1 << 30], np.int32)}, (3, 3), "does not belong there"),
        ({"m.indptr": np.array([0, 1, 2, -1], np.int32)}, (3, 3), "does not belong there"),
        ({"m.data": np.array([1, np.nan, 1], np.float32)}, (3, 3), "not finite"),
        ({"m.data": np.array([1, np.inf, 1], np.float16)}, (3, 3), "not finite"),
        ({"m.indices": np.array([0, 3, 2], np.uint16)}, (3, 3), "outside of their range"),
        ({"m.data": np.ones((3, 1), np.float32)}, (3, 3), "does not belong there"),
        ({"m.shape": np.array([3, -3])}, (None, None), "outside of their range"),
        ({"m.shape": np.array([3, 2])}, (None, None), "outside of their range"),
        ({"m.shape": np.array([3, 4])}, (3, 3), "3 × 4 and not 3 × 3"),
        ({"m.shape": np.array([2**62, 3])}, (None, 3), "outside of their range"),
    ],
)
def test_a_matrix_that_compiled_code_would_follow_anywhere(change, shape, complaint):
    with pytest.raises(StorageError, match=complaint):
        unpack_csr("m", EYE | change, shape)
    with pytest.raises(StorageError, match="is missing"):
        unpack_csr("n", EYE | change, shape)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (b"abc", [1, 9]),
        (b"abc", [2, 1]),
        (b"abc", [-1, 3]),
        (b"abc", [1, 2]),
        (b"\xff\xff", [1, 2]),
        (b"abc", [[3]]),
    ],
)
def test_strings_that_are_not(text, ends):
    with pytest.raises(StorageError, match="'s"):
        unpack_strings("s", {"s.utf8": np.frombuffer(text, np.uint8), "s.ends": np.array(ends)})


@pytest.mark.parametrize("value", [None, True, "1", -1, float("inf"), float("nan"), 10**301, [], 0])
def test_numbers_that_are_not(value):
    with pytest.raises(StorageError, match="not a number that is valid here"):
        positive(value)
    assert positive(2) == positive(2, int) == positive(2.0) == 2
    assert positive(0, int, or_zero=True) == 0
    assert positive(1e30) == 1e30
    with pytest.raises(StorageError):
        positive(10**30, int)
    with pytest.raises(StorageError):
        positive(2.5, int)
