"""A file of labelled examples cut into a training and a test part.

The parts have the rows of the file as they are, with all their columns.
"""

import csv
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.cells import Table
from rembrandt.data.compressed import line_chunks, plain_suffix
from rembrandt.data.detect import ReadOptions, detect
from rembrandt.data.examples import numbered
from rembrandt.data.json_rows import array_rows, line_rows
from rembrandt.data.parquet import check_sizes, checked_batches, open_parquet
from rembrandt.data.reader import read_parts
from rembrandt.data.splits import RowIndices, draw_rows, latest_rows
from rembrandt.errors import DataError
from rembrandt.kernels import kernel
from rembrandt.progress import Report, silent
from rembrandt.storage.atomic import atomic_file

# The suffix of the parts of a file of each format that can be split.
SUFFIXES = {
    "csv": ".csv",
    "tsv": ".tsv",
    "xlsx": ".csv",
    "jsonl": ".jsonl",
    "json": ".jsonl",
    "parquet": ".parquet",
    "fasttext": ".txt",
}
PARTS = ("train", "test")

ROUNDING = 0.5  # examples by which a part may have more or less of a label than its share

_BATCH_ROWS = 10_000


def stratified_rows(
    Y: sparse.csr_array, fraction: float, seed: int
) -> tuple[RowIndices, RowIndices]:
    """Split rows so that every label has about the same share of its examples in the second part.

    It follows iterative stratification (Sechidis, Tsoumakas and Vlahavas, 2011), in one pass: rows
    with the rarest labels come first, and each row goes where its most uneven label is wanted.
    Where all of its labels are even up to rounding, the sizes of the parts decide, so that rare
    labels do not make one of them small.

    Parameters
    ----------
    Y : csr_array of shape (n, c)
        Ones where a row has a label.
    fraction : float
        Share of the rows in the second part.
    seed : int
        Seed of the order of rows with equally rare labels.

    Returns
    -------
    first, second : ndarray
        Indices of the rows, sorted.
    """
    n, c = Y.shape
    counts = np.bincount(Y.indices, minlength=c)
    rarest = np.full(n, n + 1)  # rows without labels come last
    has_labels = np.diff(Y.indptr) > 0
    starts = Y.indptr[:-1][has_labels]
    if len(starts):
        rarest[has_labels] = np.minimum.reduceat(counts[Y.indices], starts)
    order = np.random.default_rng(seed).permutation(n)
    order = order[np.argsort(rarest[order], kind="stable")]
    left = counts.astype(np.int64)
    wanted = fraction * left
    is_second = np.zeros(n, dtype=np.bool_)
    _assign(order, Y.indptr, Y.indices, fraction, left, wanted, is_second)
    return np.flatnonzero(~is_second), np.flatnonzero(is_second)


@kernel()
def _assign(
    order: Any, indptr: Any, indices: Any, fraction: float, left: Any, wanted: Any, is_second: Any
) -> None:
    """Write whether each row is in the second part.

    ``left`` are the examples of each label that have no part yet, all at first, and ``wanted`` how
    many of them belong into the second part.
    """
    n = len(order)
    rows_wanted = np.rint(fraction * n)
    row_share = rows_wanted / n
    for done in range(n):
        row = order[done]
        start = indptr[row]
        stop = indptr[row + 1]
        # Above zero where more of what is left is wanted in the second part than its share.
        lack = rows_wanted - row_share * (n - done)
        largest = ROUNDING
        for position in range(start, stop):
            label = indices[position]
            label_lack = wanted[label] - fraction * left[label]
            if abs(label_lack) > largest:
                largest = abs(label_lack)
                lack = label_lack
        is_second[row] = lack > 0
        rows_wanted -= is_second[row]
        for position in range(start, stop):
            label = indices[position]
            left[label] -= 1
            wanted[label] -= is_second[row]


def split_file(
    path: Path,
    folder: Path,
    options: ReadOptions,
    fraction: float = 0.2,
    groups: str | None = None,
    times: str | None = None,
    seed: int = 0,
    report: Report = silent,
) -> dict[str, tuple[Path, int]]:
    """Write the parts of a file into a folder.

    Parameters
    ----------
    path : Path
        The file: a table, or fastText's format.
    folder : Path
        Where ``train`` and ``test`` are written, with the suffix of their format.
    options : ReadOptions
        How to read the file.
    fraction : float, default=0.2
        Approximate share of the examples in the test part.
    groups : str, default=None
        A column: rows with the same value stay together.
    times : str, default=None
        A column of numbers or dates: the latest rows are the test part.
    seed : int, default=0
        Seed of the split.
    report : callable, default=silent
        Receives the progress.

    Returns
    -------
    dict
        The file of each part and its number of rows.
    """
    kind = options.format
    if kind == "auto":
        kind = detect(path, options.encoding)
    if kind not in SUFFIXES:
        raise DataError(
            f"a {kind} file cannot be split; give a table ({', '.join(SUFFIXES)})",
            path,
            parameter="format",
        )
    if not 0 < fraction < 1:
        raise DataError(
            f"fraction is {fraction:g}; give a share between 0 and 1", parameter="fraction"
        )
    column = groups or times
    data = next(read_parts(path, replace(options, format=kind, id=column), report))
    if groups is not None:
        first, second = draw_rows(
            data.n_examples, fraction, seed, groups=numbered("groups", data.ids, data.n_examples)
        )
    elif times is not None:
        order = numbered("times", data.ids, data.n_examples)
        assert order is not None
        first, second = latest_rows(order, fraction, data.n_examples)
    else:
        first, second = stratified_rows(data.Y, fraction, seed)
    if not len(first) or not len(second):
        raise DataError(
            f"one part of the {data.n_examples:,} examples would be empty; give another fraction",
            path,
            parameter="fraction",
        )
    is_second = np.zeros(data.n_examples, dtype=np.bool_)
    is_second[second] = True
    folder.mkdir(parents=True, exist_ok=True)
    targets = [folder / f"{part}{SUFFIXES[kind]}" for part in PARTS]
    with ExitStack() as stack:
        files = [stack.enter_context(atomic_file(target)) for target in targets]
        _write(path, kind, options, is_second, files)
    counts = (len(first), len(second))
    return dict(zip(PARTS, zip(targets, counts, strict=True), strict=True))


def part_paths(path: Path, folder: Path, options: ReadOptions) -> list[Path]:
    """The files that `split_file` writes."""
    kind = options.format
    if kind == "auto" and path.is_file():
        kind = detect(path, options.encoding)
    suffix = SUFFIXES.get(kind, plain_suffix(path))
    return [folder / f"{part}{suffix}" for part in PARTS]


def _write(
    path: Path, kind: str, options: ReadOptions, is_second: NDArray[np.bool_], files: list[BinaryIO]
) -> None:
    """Write the rows of the file to the parts they belong to."""
    if kind == "parquet":
        _write_parquet(path, is_second, files)
        return
    masks = (~is_second, is_second)
    n_written = 0
    for header, rows in _row_batches(path, kind, options):
        for file, mask in zip(files, masks, strict=True):
            if n_written == 0:
                file.write(header)
            chosen = compress(rows, mask[n_written : n_written + len(rows)].tolist())
            file.writelines(chosen)
        n_written += len(rows)


def _row_batches(
    path: Path, kind: str, options: ReadOptions
) -> Iterator[tuple[bytes, list[bytes]]]:
    """The header of a file, and batches of its rows, as they are written."""
    if kind == "fasttext":
        for chunk in line_chunks(path, encoding=options.encoding):
            lines = chunk.text().split("\n")
            yield b"", [f"{line}\n".encode() for line in lines if line.strip()]
        return
    if kind in ("json", "jsonl"):
        read_rows = array_rows if kind == "json" else line_rows
        encoded = (
            f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")
            for _, row in read_rows(path, encoding=options.encoding)
        )
        for rows in _batched(encoded):
            yield b"", rows
        return
    table = Table(path, kind, options.delimiter, options.encoding)
    to_line = _Line(table.used_delimiter(), is_quoted=kind != "tsv")
    table_lines = (to_line(cells) for cells in table.rows_of_any_length() if cells)
    header = next(table_lines)
    for rows in _batched(table_lines):
        yield header, rows


def _batched(rows: Iterator[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


class _Line:
    """Turns cells into a line of a table."""

    def __init__(self, delimiter: str, is_quoted: bool) -> None:
        self.delimiter = delimiter
        self._line = ""
        self._writer = csv.writer(self, delimiter=delimiter, lineterminator="\n")
        self._is_quoted = is_quoted

    def write(self, line: str) -> None:
        self._line = line

    def __call__(self, cells: list[str]) -> bytes:
        if self._is_quoted:
            self._writer.writerow(cells)
            return self._line.encode()
        return f"{self.delimiter.join(cells)}\n".encode()


def _write_parquet(path: Path, is_second: NDArray[np.bool_], files: list[BinaryIO]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    masks = (~is_second, is_second)
    n_written = 0
    with open_parquet(path) as source, ExitStack() as stack:
        check_sizes(path, source)
        writers = [
            stack.enter_context(pa.parquet.ParquetWriter(file, source.schema_arrow))
            for file in files
        ]
        for batch in checked_batches(path, source, _BATCH_ROWS):
            rows = slice(n_written, n_written + batch.num_rows)
            for writer, mask in zip(writers, masks, strict=True):
                writer.write_batch(batch.filter(pa.array(mask[rows])))
            n_written += batch.num_rows
