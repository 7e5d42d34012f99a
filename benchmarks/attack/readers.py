"""Damaged and generated files of every format and compression.

A damaged file gives a dataset that is consistent, or an error that names the file. A generated file
gives what its generator wrote: the rows are compared with a reference that never goes through the
package's parsers.
"""

import csv
import gzip
import io
import json
import lzma
import random
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp
import zstandard

from benchmarks.attack.harness import Case, Difference
from benchmarks.attack.mutations import damaged_bytes
from rembrandt.data import Dataset, read
from rembrandt.errors import DataError

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data, 1),
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
SUFFIXES = {"repository": ".txt", "svmlight": ".svm", "fasttext": ".txt", "lines": ".txt"}
SUFFIXES |= {"corrections": ".jsonl"}
TABLES = ("csv", "tsv", "jsonl", "parquet")
Rows = list[tuple[list[str], Any]]  # labels, and a text or {feature: value}
LETTERS = "abcxyz019 _-.;'#äß日\u202e\u0301"


def _rows(rng: random.Random, numeric: bool) -> Rows:
    def word() -> str:
        return "".join(rng.choices(LETTERS.replace(" ", ""), k=rng.randint(1, 8)))

    rows: Rows = []
    for _ in range(rng.randint(1, 12)):
        labels = list(
            dict.fromkeys(
                str(rng.randint(0, 30)) if numeric else word() for _ in range(rng.randint(0, 4))
            )
        )
        if numeric:
            exponent = rng.choice([0, 0, 5, -5, 30, -30])
            content: Any = {
                str(rng.randint(0, 60)): rng.gauss(0, 1) * 10**exponent
                for _ in range(rng.randint(0, 6))
            }
        else:
            content = " ".join(word() for _ in range(rng.randint(1, 6)))
        rows.append((labels, content))
    return rows


def _number(rng: random.Random, value: float) -> str:
    """A number in one of the spellings that parsers have to know."""
    return rng.choice([repr(value), f"{value:.12e}", f"{value:+.17g}", f"{value:.9E}"])


def _numeric(rows: Rows, rng: random.Random, header: bool) -> bytes:
    lines = [f"{len(rows)} 61 31"] if header else []
    for labels, features in rows:
        blank = rng.choice([" ", "  ", "\t"])
        entries = blank.join(f"{name}:{_number(rng, value)}" for name, value in features.items())
        lines.append(
            rng.choice([",", ", "]).join(labels) + blank + entries + rng.choice(["", " ", "\r"])
        )
    return "\n".join([*lines, ""]).encode()


def _vw(rows: Rows, rng: random.Random) -> bytes:
    lines = []
    for labels, features in rows:
        entries = " ".join(f"f{name}:{_number(rng, value)}" for name, value in features.items())
        importance = rng.choice(["", "1 ", "1.0 "]) if labels else ""  # a first word is a label
        lines.append(
            f"{','.join(labels)} {importance}{rng.choice(['', chr(39) + 'tag'])}|n {entries}"
        )
    return "\n".join([*lines, ""]).encode()


def _table(rows: Rows, delimiter: str) -> bytes:
    text = io.StringIO()
    if delimiter == "\t":  # without quoting
        text.write(
            "text\ttags\n" + "".join(f"{content}\t{'|'.join(labels)}\n" for labels, content in rows)
        )
    else:
        writer = csv.writer(text)
        writer.writerows(
            [("text", "tags"), *((content, "|".join(labels)) for labels, content in rows)]
        )
    return text.getvalue().encode()


def _write(folder: Path, format: str, rows: Rows, rng: random.Random) -> tuple[Path, bytes]:
    """The file that rows are written to, not compressed, and its bytes; arrays have a second file
    of labels.
    """
    path = folder / f"input{SUFFIXES.get(format, '.' + format)}"
    match format:
        case "repository" | "svmlight":
            data = _numeric(rows, rng, format == "repository")
        case "vw":
            data = _vw(rows, rng)
        case "fasttext":
            data = "".join(
                " ".join(f"__label__{x}" for x in labels) + f" {text}\n" for labels, text in rows
            ).encode()
        case "csv" | "tsv":
            data = _table(rows, "," if format == "csv" else "\t")
        case "jsonl":
            data = "".join(
                json.dumps({"text": text, "tags": labels}) + "\n" for labels, text in rows
            ).encode()
        case "corrections":
            data = "".join(
                json.dumps({"text": text, "labels": labels, "rejected": ["no"]}) + "\n"
                for labels, text in rows
            ).encode()
        case "lines":
            data = "".join(f"{text}\n" for _, text in rows).encode()
        case "parquet":
            buffer = io.BytesIO()
            tags = pa.array([labels for labels, _ in rows], pa.list_(pa.string()))
            pa.parquet.write_table(
                pa.table({"text": [text for _, text in rows], "tags": tags}), buffer
            )
            data = buffer.getvalue()
        case _:
            data = _npz(folder, rows, rng)
    return path, data


def _npz(folder: Path, rows: Rows, rng: random.Random) -> bytes:
    X, Y = np.zeros((len(rows), 61)), np.zeros((len(rows), 31))
    for i, (labels, features) in enumerate(rows):
        Y[i, [int(label) for label in labels]] = 1
        X[i, [int(name) for name in features]] = list(features.values())
    sp.save_npz(folder / "labels.npz", sp.csr_array(Y))
    buffer = io.BytesIO()
    kind = rng.choice([sp.csr_array, sp.csc_array, sp.coo_array, sp.dia_array, sp.bsr_array])
    sp.save_npz(buffer, kind(X), compressed=rng.random() < 0.5)
    return buffer.getvalue()


def _read(path: Path, format: str) -> Dataset:
    options: dict[str, Any] = {"text": "text", "labels": "tags"} if format in TABLES else {}
    if format in ("csv", "tsv"):
        options["label_separator"] = "|"
    if format == "npz":
        options["labels"] = path.with_name("labels.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read(path, format, unlabelled=format == "lines", **options)


FORMATS = (
    "repository",
    "svmlight",
    "vw",
    "fasttext",
    "csv",
    "tsv",
    "jsonl",
    "lines",
    "parquet",
    "npz",
)
NUMERIC = ("repository", "svmlight", "vw", "npz")


def _chosen(rng: random.Random, formats: Sequence[str] = FORMATS) -> tuple[str, str]:
    format = rng.choice(formats)
    return format, "" if format in ("parquet", "npz") else rng.choice(list(COMPRESSORS))


def damaged_files(root: Path) -> Case:
    """A case damages the text of a file, or its compressed bytes."""

    def case(numbers: np.random.Generator, root: Path) -> str:
        rng = random.Random(int(numbers.integers(1 << 62)))
        # Of two corrections of a text the last one counts, so only damaged ones are tried here.
        format, ending = _chosen(rng, (*FORMATS, "corrections"))
        path, data = _write(root, format, _rows(rng, format in NUMERIC), rng)
        path = path.with_name(path.name + ending)
        if ending and rng.random() < 0.3:
            data = damaged_bytes(COMPRESSORS[ending](data), numbers)
        else:
            data = COMPRESSORS[ending](damaged_bytes(data, numbers))
        path.write_bytes(data)
        try:
            _check(_read(path, format))
        except DataError as error:
            if root.name not in str(error):
                raise Difference(f"the message does not name the file: {error}") from error
            raise
        finally:
            path.unlink()
        return "read"

    return case


def _check(data: Dataset) -> None:
    """A dataset whose parts contradict each other is a difference."""
    n, c = data.Y.shape
    data.Y.check_format(full_check=True)
    sound = n == data.n_examples > 0 and len(data.label_ids) == c and bool((data.Y.data == 1).all())
    if data.X is None:
        sound = sound and data.texts is not None and len(data.texts) == n
    else:
        data.X.check_format(full_check=True)
        sound = sound and data.X.shape[0] == n and bool(np.isfinite(data.X.data).all())
    if not sound:
        raise Difference("the parts of the dataset contradict each other")


def generated_files(root: Path) -> Case:
    """A case writes rows in a format and compares what is read with the rows."""

    def case(numbers: np.random.Generator, root: Path) -> str:
        rng = random.Random(int(numbers.integers(1 << 62)))
        format, ending = _chosen(rng)
        rows = _rows(rng, format in NUMERIC)
        path, data = _write(root, format, rows, rng)
        path = path.with_name(path.name + ending)
        path.write_bytes(COMPRESSORS[ending](data))
        try:
            _compare(_read(path, format), rows, format)
        finally:
            path.unlink()
        return "equal"

    return case


def _compare(data: Dataset, rows: Rows, format: str) -> None:
    _check(data)
    Y, names = data.Y, data.label_ids
    labels = [
        {names[j] for j in Y.indices[Y.indptr[i] : Y.indptr[i + 1]]} for i in range(Y.shape[0])
    ]
    if format != "lines" and labels != [set(own) for own, _ in rows]:
        raise Difference(f"labels of {format}: {labels} for {rows}")
    if data.X is None:
        if data.texts != [text for _, text in rows]:
            raise Difference(f"texts of {format}: {data.texts} for {rows}")
        return
    X, features = data.X, data.feature_names
    for i, (_, expected) in enumerate(rows):
        found = {}
        for j in range(X.indptr[i], X.indptr[i + 1]):
            name = (
                str(X.indices[j])
                if features is None
                else features[X.indices[j]].removeprefix("n^f")
            )
            found[name] = X.data[j]
        for name in found.keys() | expected.keys():
            wanted = np.float32(expected.get(name, 0.0))
            if abs(found.get(name, np.float32(0)) - wanted) > abs(np.spacing(wanted)):
                raise Difference(
                    f"feature {name} of {format} is {found.get(name)} instead of {wanted}"
                )
