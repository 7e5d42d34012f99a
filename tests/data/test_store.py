"""Stores: the same examples as in the file, whatever the shards; stopped, resumed, grown, damaged,
and full disks.
"""

import json
import os
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rembrandt.data import convert as converting
from rembrandt.data import read, shard
from rembrandt.data.convert import convert
from rembrandt.data.store import MANIFEST, PROGRESS, TEXT, Store
from rembrandt.errors import DataError, OutputExistsError, RembrandtError
from rembrandt.features.text import TextFeatures
from rembrandt.storage import arrays
from rembrandt.storage.locks import locked

ROWS = ["3,5 0:1 7:0.5", "1 2:2", " 4:1", "0,3 0:1 2:1 9:-2", "2 ", "5 9:1", "4,1 1:0.25"]


@pytest.fixture
def numeric(tmp_path):
    path = tmp_path / "train.svm"
    path.write_text("\n".join(ROWS) + "\n")
    return path


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "train.tsv"
    lines = [f"word{i % 7} word{i % 3} shared\tl{i % 5}|l{i % 2}" for i in range(60)]
    path.write_text("\n".join(["body\ttags", *lines]) + "\n")
    return path


TABLE = {"text": "body", "labels": "tags", "label_separator": "|"}


def same(found, expected):
    """The same examples; labels are in the order in which they were met."""
    found_Y = found.align_labels(expected.label_ids).Y
    assert set(found.label_ids) == set(expected.label_ids)
    assert (found.X[:] != expected.X).nnz == (found_Y != expected.Y).nnz == 0
    assert found.task == expected.task


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_holds_what_the_file_holds(numeric, tmp_path, rows):
    store = convert([numeric], tmp_path / "store", rows=rows)
    assert len(store.shards) == -(-len(ROWS) // rows)
    same(store.dataset(), read(numeric))
    assert Store(store.path).manifest.notes == read(numeric).notes


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(-7, 6), max_size=12), st.slices(7))
def test_rows_are_those_of_a_matrix(numeric, tmp_path, chosen, part):
    path = tmp_path / "store"
    X = (Store(path) if path.exists() else convert([numeric], path, rows=2)).dataset().X
    whole = read(numeric).X
    positions = np.array([i % 7 for i in chosen], dtype=np.int64)
    assert (X[positions] != whole[positions]).nnz == 0
    assert (X[part] != whole[np.arange(7)[part]]).nnz == 0


def test_named_features_and_weights(tmp_path):
    first, second = tmp_path / "a.vw", tmp_path / "b.vw"
    first.write_text("x 2 |a big:2 red\ny |a red\n")
    second.write_text("z |a small big:3\nx 0.5 |\n")
    store = convert([first, second], tmp_path / "store", rows=1)
    data = store.dataset()
    assert data.feature_names == ["a^big", "a^red", "a^small"] and data.label_ids == [
        "x",
        "y",
        "z",
    ]
    assert data.X[:].toarray().tolist() == [[2, 1, 0], [0, 1, 0], [3, 0, 1], [0, 0, 0]]
    assert data.weights.tolist() == [2, 1, 1, 0.5]


@pytest.mark.parametrize(
    "given", [None, TextFeatures(weighting="hashed", n_features=64), TextFeatures(analyzer="char")]
)
def test_texts_become_the_features_that_they_are_in_memory(texts, tmp_path, given):
    store = convert([texts], tmp_path / "store", rows=11, text_features=given, **TABLE)
    whole = read(texts, **TABLE)
    features = TextFeatures(**({} if given is None else given.get_params()))
    same(store.dataset(), replace(whole, X=features.fit_transform(whole.texts), texts=None))
    assert store.text.to_config() == features.to_config()
    assert (store.text.transform(["word1 shared"]) != features.transform(["word1 shared"])).nnz == 0


def test_learned_terms_are_used_as_they_are(texts, tmp_path):
    features = TextFeatures().fit(["word1 word2 word1", "word1 word2"])
    assert convert([texts], tmp_path / "store", text_features=features, **TABLE).d == 2


def test_appending_adds_examples_labels_and_no_words(texts, tmp_path):
    convert([texts], tmp_path / "store", rows=20, **TABLE)
    before = Store(tmp_path / "store")
    more = tmp_path / "more.tsv"
    more.write_text("body\ttags\nshared novelty\tl1|fresh\n")
    store = convert([more], tmp_path / "store", append=True, **TABLE)
    assert (store.n, store.d, store.c) == (before.n + 1, before.d, before.c + 1)
    assert store.label_ids == [*before.label_ids, "fresh"]
    assert store.dataset().X[store.n - 1 :].nnz == 1
    assert (store.dataset().X[: before.n] != before.dataset().X[:]).nnz == 0


def test_goes_on_where_it_was_stopped(texts, tmp_path, monkeypatch):
    undisturbed = convert([texts], tmp_path / "whole", rows=9, **TABLE)
    written = []

    def failing(folder, name, *rest):
        if len(written) == 3:
            raise KeyboardInterrupt
        return recording(folder, name, *rest)

    def recording(folder, name, *rest):
        written.append(name)
        return shard.write_shard(folder, name, *rest)

    monkeypatch.setattr(converting, "write_shard", failing)
    with pytest.raises(KeyboardInterrupt):
        convert([texts], tmp_path / "store", rows=9, **TABLE)
    with pytest.raises(DataError, match="not finished; run its command again"):
        Store(tmp_path / "store")
    monkeypatch.setattr(converting, "write_shard", recording)
    resumed = convert([texts], tmp_path / "store", rows=9, **TABLE)
    assert len(written) == len(set(written)) == 7, "no shard was written twice"
    assert [e.sha256 for e in resumed.manifest.shards] == [
        e.sha256 for e in undisturbed.manifest.shards
    ]
    assert resumed.label_ids == undisturbed.label_ids


def test_a_failed_append_leaves_the_store_as_it_was(numeric, tmp_path):
    convert([numeric], tmp_path / "store", rows=2)
    bad = tmp_path / "bad.svm"
    bad.write_text("1 0:1\nx 0:1\n")
    with pytest.raises(DataError, match="line 2"):
        convert([bad], tmp_path / "store", append=True)
    same(Store(tmp_path / "store").dataset(), read(numeric))
    bad.write_text("1 0:1\n2 0:1\n")
    assert convert([bad], tmp_path / "store", append=True).n == len(ROWS) + 2


def test_what_is_there_is_not_replaced(numeric, texts, tmp_path):
    with pytest.raises(DataError, match="no store to append to"):
        convert([numeric], tmp_path / "store", append=True)
    convert([numeric], tmp_path / "store")
    with pytest.raises(OutputExistsError, match="--append"):
        convert([numeric], tmp_path / "store")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(OutputExistsError, match="thesis"):
        convert([numeric], tmp_path / "other")
    with pytest.raises(DataError, match="make a store for it"):
        convert([texts], tmp_path / "store", append=True, **TABLE)


def test_two_writers_are_one_too_many(numeric, tmp_path):
    convert([numeric], tmp_path / "store")
    with locked(tmp_path / "store"), pytest.raises(RembrandtError, match="another process"):
        convert([numeric], tmp_path / "store", append=True)


def test_a_full_disk_loses_nothing(numeric, tmp_path, monkeypatch):
    write = arrays._write

    def full(file, digest, data):
        if "000002" in file.name:
            raise OSError(28, "No space left on device")
        write(file, digest, data)

    monkeypatch.setattr(arrays, "_write", full)
    with pytest.raises(
        RembrandtError, match=r"000002.safetensors: the disk is full; files .* are unchanged"
    ):
        convert([numeric], tmp_path / "store", rows=2)
    assert len(json.loads((tmp_path / "store" / PROGRESS).read_text())["shards"]) == 2
    monkeypatch.undo()
    same(convert([numeric], tmp_path / "store", rows=2).dataset(), read(numeric))


def flip(path, at):
    body = bytearray(path.read_bytes())
    body[at] ^= 1
    path.write_bytes(body)


def test_damage_is_named(numeric, tmp_path):
    def damaged(name, harm):
        folder = tmp_path / name
        convert([numeric], folder, rows=4)
        harm(folder)
        with pytest.raises(DataError) as caught:
            _ = Store(folder).dataset()
        return str(caught.value)

    name = "shard-0000-000001.safetensors"
    assert f"{name}: its contents do not match" in damaged("flipped", lambda f: flip(f / name, 30))
    cut = damaged("cut", lambda f: (f / name).write_bytes((f / name).read_bytes()[:-4]))
    assert name in cut and "bytes instead of" in cut
    assert "missing; restore" in damaged("gone", lambda f: (f / name).unlink())

    def edit(**changes):
        return lambda f: (f / MANIFEST).write_text(
            json.dumps(json.loads((f / MANIFEST).read_text()) | changes)
        )

    assert "install Rembrandt" in damaged("newer", edit(format_version=3))
    assert "convert the data again" in damaged("older", edit(format_version=1))
    assert "does not describe" in damaged("stranger", edit(format="else"))
    assert "contradict" in damaged("narrow", edit(n_labels=2))
    assert "one distinct name for each" in damaged("wide", edit(n_labels=20))
    assert "the store is damaged" in damaged("none", edit(shards=3))
    assert "the store is damaged" in damaged("entry", edit(shards=[{"file": "../x"}]))
    outside = {"file": "../x", "n": 1, "d": 1, "c": 1, "nonzeros": [1, 1], "has_weights": False}
    outside |= {"bytes": 1, "sha256": "", "source": [0, 0]}
    assert "entry of a shard" in damaged("outside", edit(shards=[outside]))
    assert "JSON" in damaged("garbage", lambda f: (f / MANIFEST).write_text("{"))
    assert "not a store" in damaged("absent", lambda f: (f / MANIFEST).unlink())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
@pytest.mark.parametrize("is_pipe", [True, False])
def test_what_is_no_regular_file_is_refused(numeric, tmp_path, is_pipe):
    """A pipe without a writer is not waited for, and a device without an end is not read."""
    store = convert([numeric], tmp_path / "store", rows=4)

    def replace_file(name):
        (store.path / name).unlink()
        if is_pipe:
            os.mkfifo(store.path / name)
        else:
            (store.path / name).symlink_to("/dev/zero")

    entry = store.shards[0].entry
    replace_file(entry.file)
    emptied = replace(entry, bytes=0)  # as many as a pipe says that it has
    replace(store.manifest, shards=(emptied, *store.manifest.shards[1:])).write(store.path)
    with pytest.raises(DataError, match=rf"{entry.file}: this shard of the store is missing"):
        Store(store.path)
    replace_file(MANIFEST)
    with pytest.raises(DataError, match=rf"{MANIFEST} is not a regular file"):
        Store(store.path)


def test_damaged_text_features_are_named(texts, tmp_path):
    store = convert([texts], tmp_path / "store", **TABLE)
    flip(store.path / TEXT, 40)
    with pytest.raises(DataError, match=r"text\.safetensors: .* its contents do not match"):
        _ = Store(store.path).text
    (store.path / TEXT).unlink()
    with pytest.raises(DataError, match=r"text\.safetensors: the text features cannot be read"):
        _ = Store(store.path).text


@pytest.mark.parametrize(
    "names", [{"labels.utf8": np.array([255, 255], np.uint8)}, {"labels.ends": np.array([9.5])}, {}]
)
def test_names_are_checked_even_where_the_check_sum_holds(numeric, tmp_path, names):
    store = convert([numeric], tmp_path / "store")
    entry = store.shards[0].entry
    kept = {name: np.array(a) for name, a in arrays.read_arrays(store.path / entry.file).items()}
    kept = kept | names if names else {name: a for name, a in kept.items() if name != "labels.ends"}
    size, sha256 = arrays.write_arrays(store.path / entry.file, kept)
    replace(store.manifest, shards=(replace(entry, bytes=size, sha256=sha256),)).write(store.path)
    with pytest.raises(DataError, match="name"):
        _ = Store(store.path).label_ids


def test_indices_are_checked_even_where_the_check_sum_holds(numeric, tmp_path):
    """Whoever makes up a shard can make up its check sum too; compiled code must not follow its
    indices.
    """
    store = convert([numeric], tmp_path / "store")
    rows = store.shards[0].rows(store.d, store.c)
    X = rows.X.copy()
    X.indices[2] = 1_000_000
    made_up = shard.ShardData(X, rows.Y.copy(), None, store.label_ids)
    entry = shard.write_shard(store.path, store.shards[0].entry.file, made_up, (0, 0))
    replace(store.manifest, shards=(replace(entry, d=store.d),)).write(store.path)
    with pytest.raises(DataError, match="not a sparse matrix"):
        Store(store.path).dataset()


def test_a_shard_travels_by_its_whole_path(numeric, tmp_path, monkeypatch):
    convert([numeric], tmp_path / "store", rows=100)
    monkeypatch.chdir(tmp_path)
    store = Store("store")
    sent = pickle.dumps(store.shards[0])  # as Dask sends it
    monkeypatch.chdir("/")
    assert pickle.loads(sent).rows(store.d, store.c).X.shape[0] == len(ROWS)


def test_a_shard_that_is_truncated_in_use_is_an_error(numeric, tmp_path):
    """The pages of a mapped file beyond its end would end the process."""
    store = convert([numeric], tmp_path / "store")
    rows = store.dataset().X
    before = rows[:].toarray()
    data = next(store.contents())
    os.truncate(store.shards[0].path, 100)
    np.testing.assert_array_equal(data.X.toarray(), before)
    for use in (lambda: rows[:], lambda: rows[[0, 1]], store.labels):
        with pytest.raises(DataError, match=r"(100 bytes|while it was in use).*; restore"):
            use()
    with pytest.raises(DataError, match="bytes instead of"):
        Store(store.path).dataset()


def test_a_shard_that_is_changed_in_place_is_an_error(numeric, tmp_path):
    """Also where the time of the change is put back."""
    store = convert([numeric], tmp_path / "store")
    rows = store.dataset().X
    before = rows[:].toarray()
    path = store.shards[0].path
    contents = path.read_bytes()
    status = path.stat()
    values = store.shards[0]._file.arrays["X.data"]
    at = contents.index(values.tobytes())
    time.sleep(0.02)  # the clock of file systems advances every few milliseconds
    with path.open("r+b") as file:
        file.seek(at)
        file.write((values + 1).tobytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for use in (lambda: rows[:], lambda: rows[[0, 1]], store.labels):
        with pytest.raises(DataError, match="do not match their checksum; restore"):
            use()
    path.write_bytes(contents)
    np.testing.assert_array_equal(rows[:].toarray(), before)


def test_a_shard_that_changes_after_its_check_is_an_error(numeric, tmp_path, monkeypatch):
    """Whatever was read is checked before it is used."""
    store = convert([numeric], tmp_path / "store")
    rows = store.dataset().X
    assert rows[[0, 1]].nnz > 0
    monkeypatch.setattr(arrays.ArrayFile, "check", lambda self, file=None: None)
    monkeypatch.setattr(arrays.ArrayFile, "may_have_changed", lambda self: False)
    path = store.shards[0].path
    contents = path.read_bytes()
    opened = store.shards[0]._file
    for name, changed in (("indices", 2**30), ("indptr", 2**40)):
        array = opened.arrays[f"X.{name}"]
        at = array.ctypes.data - opened._contents.ctypes.data
        damaged = bytearray(contents)
        damaged[at : at + array.nbytes] = np.full_like(array, changed).tobytes()
        with path.open("r+b") as file:
            file.write(damaged)
        for use in (lambda: rows[:], lambda: rows[[0, 1]], lambda: rows[:2]):
            with pytest.raises(DataError, match="rows of X are not a sparse matrix"):
                use()
