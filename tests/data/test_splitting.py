"""Files that are split into parts: labels keep their shares, rows stay what they are."""

import gzip
import json
import time

import numpy as np
import pytest
from scipy import sparse

from rembrandt import read
from rembrandt.data.detect import ReadOptions
from rembrandt.data.splitting import split_file, stratified_rows
from rembrandt.errors import DataError


def label_matrix(n=4000, c=300, seed=0):
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, c + 1)
    columns = rng.choice(c, size=(n, 3), p=popularity / popularity.sum())
    rows = np.repeat(np.arange(n), 3)
    Y = sparse.csr_array((np.ones(3 * n), (rows, columns.ravel())), shape=(n, c))
    Y.sum_duplicates()
    return Y


def test_labels_keep_their_shares():
    Y = label_matrix()
    first, second = stratified_rows(Y, 0.2, 0)
    assert np.array_equal(np.sort(np.append(first, second)), np.arange(4000))
    assert len(second) == pytest.approx(800, rel=0.05)
    counts = np.asarray(Y.sum(axis=0)).ravel()
    held = np.asarray(Y[second].sum(axis=0)).ravel()
    random = np.asarray(Y[np.random.default_rng(0).permutation(4000)[:800]].sum(axis=0)).ravel()
    frequent = counts >= 5

    def error(part):
        return np.abs(part[frequent] - 0.2 * counts[frequent]).mean()

    assert error(held) < 0.5 * error(random)
    assert (held[counts >= 10] > 0).all()


def test_rare_labels_do_not_make_the_second_part_small():
    Y = sparse.csr_array(sparse.hstack([label_matrix(1000, 10), sparse.eye_array(1000)]))
    assert len(stratified_rows(Y, 0.2, 0)[1]) == pytest.approx(200, rel=0.05)
    assert len(stratified_rows(sparse.csr_array(sparse.eye_array(1000)), 0.2, 0)[1]) == 200


def test_a_split_depends_on_the_seed_alone():
    Y = label_matrix(300, 20)
    assert np.array_equal(stratified_rows(Y, 0.3, 1)[1], stratified_rows(Y, 0.3, 1)[1])
    assert not np.array_equal(stratified_rows(Y, 0.3, 1)[1], stratified_rows(Y, 0.3, 2)[1])


def test_rows_without_labels_are_split_too():
    Y = sparse.csr_array((100, 3))
    assert len(stratified_rows(Y, 0.2, 0)[1]) == 20


def test_many_rows_take_little_time():
    Y = label_matrix(100_000, 10_000)
    stratified_rows(Y[:10], 0.2, 0)  # compiles
    start = time.process_time()
    stratified_rows(Y, 0.2, 0)
    assert time.process_time() - start < 2


ROWS = [
    {"title": f'a "{i}"\nline, \u00fc', "tags": ["a", "b"][i % 2], "year": 2000 + i, "more": [i]}
    for i in range(40)
]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl.gz", "a.json", "a.parquet"])
def test_rows_keep_all_columns(tmp_path, name):
    path = tmp_path / name
    if name == "a.parquet":
        import pyarrow as pa
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), path)
    elif name == "a.csv":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame(ROWS).to_csv(path, index=False)
    elif name == "a.json":
        path.write_text(json.dumps(ROWS))
    else:
        path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode()))
    parts = split_file(path, tmp_path / "parts", ReadOptions(), times="year")
    assert [n for _, n in parts.values()] == [32, 8]
    whole = read(path)
    for (part, _), rows in zip(parts.values(), (slice(0, 32), slice(32, 40)), strict=True):
        data = read(part, text="title", labels="tags")
        assert data.texts == whole.texts[rows]
        assert read(part, text="title", labels="year").label_ids == [
            str(row["year"]) for row in ROWS[rows]
        ]


def test_files_of_fasttext_are_split(tmp_path):
    path = tmp_path / "a.txt"
    lines = [f"__label__{'ab'[i % 2]} text {i}" for i in range(20)]
    path.write_text("\n".join(lines))
    parts = split_file(path, tmp_path, ReadOptions(), fraction=0.5)
    written = [file.read_text().splitlines() for file, _ in parts.values()]
    assert sorted(written[0] + written[1]) == sorted(lines)
    assert len(written[1]) == 10
    assert 4 <= sum("__label__a" in line for line in written[1]) <= 6


@pytest.mark.parametrize(
    ("options", "fraction", "message"),
    [
        ({}, 0, "give a share between 0 and 1"),
        ({}, 0.001, "one part of the 3 examples would be empty"),
        ({"format": "svmlight"}, 0.2, "a svmlight file cannot be split"),
    ],
)
def test_what_cannot_be_split(tmp_path, options, fraction, message):
    path = tmp_path / "a.csv"
    path.write_text("text,tags\na,b\nc,d\ne,b\n")
    with pytest.raises(DataError, match=message):
        split_file(path, tmp_path / "parts", ReadOptions(**options), fraction)
    assert not (tmp_path / "parts" / "train.csv").exists()
