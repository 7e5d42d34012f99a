"""The Extreme Classification Repository's format, and multilabel svmlight, which is the same without a header.

A header ``n d c`` (examples, features, labels), then one example a line: ``l1,l2 f:v f:v``. An example without
labels starts with a space. Ids count from zero. Names are taken from ``features.txt`` and ``labels.txt`` beside the
file when the header fits them. A first line of one word (as in Kaggle's LSHTC files) is passed over.
"""

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rembrandt.data import numeric
from rembrandt.data.compressed import decode, in_order, line_chunks
from rembrandt.data.dataset import Dataset, Notes
from rembrandt.data.sparse import MOST_LABELS, feature_rows, label_rows
from rembrandt.errors import DataError, RembrandtWarning
from rembrandt.progress import Report, silent

_HEADER = re.compile(rb"\s*([0-9]+)\s+([0-9]+)\s+([0-9]+)\s*")
_TITLE = re.compile(rb"\s*[A-Za-z_]+\s*")


@dataclass(frozen=True)
class Header:
    n_examples: int
    n_features: int
    n_labels: int


@dataclass(frozen=True)
class Rows:
    """What one chunk of lines holds, and where its parser stopped."""

    starts: NDArray[np.int64]
    per_row_labels: NDArray[np.int64]
    per_row_features: NDArray[np.int64]
    labels: NDArray[np.int32]
    features: NDArray[np.int32]
    values: NDArray[np.float32]
    error: int
    position: int


def read_repository(
    path: Path,
    label_names: Sequence[str] | None = None,
    n_features: int | None = None,
    report: Report = silent,
) -> Dataset:
    """Read a file with or without a header; ``label_names`` names the ids, ``n_features`` widens X."""
    return next(repository_parts(path, label_names, n_features, report))


def repository_parts(
    path: Path,
    label_names: Sequence[str] | None = None,
    n_features: int | None = None,
    report: Report = silent,
    rows: float = math.inf,
) -> Iterator[Dataset]:
    """The file in parts of about ``rows`` examples; without a header each is as wide as its own ids."""
    chunks = line_chunks(path, report)
    first = next(chunks, b"")
    header, first, line = _take_header(path, first)
    limits = (header.n_labels, header.n_features) if header else (MOST_LABELS, numeric.LARGEST_ID + 1)
    if label_names is not None:
        limits = (min(limits[0], len(label_names)), limits[1])
    if n_features is not None:
        limits = (limits[0], min(limits[1], n_features))
    feature_names = None
    if header:
        feature_names = _names_beside(path, "features.txt", header.n_features)
        label_names = label_names or _names_beside(path, "labels.txt", header.n_labels)
        if label_names is not None and len(label_names) < header.n_labels:
            raise _too_few_names(path, label_names, header.n_labels)
        # One list for all parts: whoever puts them together knows it again.
        label_names = list(label_names) if label_names is not None else [str(i) for i in range(header.n_labels)]

    parts: list[Rows] = []
    n_rows, waiting = 0, 0
    for chunk, parsed in in_order(_chain(first, chunks), lambda chunk: parse_chunk(chunk, *limits)):
        if parsed.error != numeric.FINE:
            raise _explain(path, chunk, line, parsed, limits)
        n_rows += parsed.starts.size
        waiting += parsed.starts.size
        if header and n_rows > header.n_examples:
            extra = int(parsed.starts[parsed.starts.size - (n_rows - header.n_examples)])
            raise DataError(
                f"the header says {header.n_examples:,} examples, but more follow; correct the header or the rows",
                path,
                line + chunk.count(b"\n", 0, extra),
            )
        line += chunk.count(b"\n")
        parts.append(parsed)
        if waiting >= rows:
            yield _assemble(path, parts, header, label_names, feature_names, n_features)
            waiting = 0
    if header and n_rows < header.n_examples:
        raise DataError(
            f"the header says {header.n_examples:,} examples, but the file ends after {n_rows:,}; "
            "the file was cut short or the header is wrong",
            path,
            line,
        )
    if n_rows == 0:
        raise DataError("there are no examples in this file; expected lines like '3,5 0:1 7:0.5'", path)
    if waiting:
        yield _assemble(path, parts, header, label_names, feature_names, n_features)


def parse_chunk(chunk: bytes, n_labels: int, n_features: int) -> Rows:
    """Parse whole lines. Every array is made as long as the separators in the chunk allow, then cut."""
    most_rows = chunk.count(b"\n") + 1
    most_labels = chunk.count(b",") + most_rows
    most_features = chunk.count(b":")
    starts, per_row_labels, per_row_features = (np.empty(most_rows, np.int64) for _ in range(3))
    labels = np.empty(most_labels, np.int32)
    features = np.empty(most_features, np.int32)
    values = np.empty(most_features, np.float32)
    rows, a, b, error, position = numeric.parse_rows(
        np.frombuffer(chunk, np.uint8),
        n_labels,
        n_features,
        starts,
        per_row_labels,
        per_row_features,
        labels,
        features,
        values,
    )
    return Rows(
        starts[:rows],
        per_row_labels[:rows],
        per_row_features[:rows],
        labels[:a],
        features[:b],
        values[:b],
        error,
        position,
    )


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _take_header(path: Path, chunk: bytes) -> tuple[Header | None, bytes, int]:
    """The header if there is one, the chunk after it, and the number of the line that this starts with."""
    top, _, rest = chunk.partition(b"\n")
    match = _HEADER.fullmatch(top)
    if match:
        if max(map(len, match.groups())) > 18:
            raise DataError(
                "the header's numbers are too large to be counts; expected 'examples features labels'", path, 1
            )
        header = Header(*map(int, match.groups()))
        if header.n_labels > MOST_LABELS or header.n_features > numeric.LARGEST_ID + 1:
            raise DataError(
                f"the header says {header.n_features:,} features and {header.n_labels:,} labels; at most "
                f"{numeric.LARGEST_ID + 1:,} and {MOST_LABELS:,} can be read. Correct the header",
                path,
                1,
            )
        return header, rest, 2
    if _TITLE.fullmatch(top):
        return None, rest, 2
    return None, chunk, 1


def _assemble(
    path: Path,
    parts: list[Rows],
    header: Header | None,
    label_names: Sequence[str] | None,
    feature_names: list[str] | None,
    n_features: int | None,
) -> Dataset:
    labels = np.concatenate([part.labels for part in parts])
    features = np.concatenate([part.features for part in parts])
    values = np.concatenate([part.values for part in parts])
    per_row_labels = np.concatenate([part.per_row_labels for part in parts])
    per_row_features = np.concatenate([part.per_row_features for part in parts])
    parts.clear()  # the pieces are as large as the whole

    if header:
        d, c = header.n_features, header.n_labels
    else:
        d = int(features.max(initial=-1)) + 1
        c = int(labels.max(initial=-1)) + 1
    if label_names is not None and len(label_names) < c:
        raise _too_few_names(path, label_names, c)
    names = label_names if isinstance(label_names, list) else [*(label_names or map(str, range(c)))]
    X, repeated_features = feature_rows(per_row_features, features, values, max(d, n_features or 0))
    Y, repeated_labels = label_rows(per_row_labels, labels, len(names))
    return Dataset.build(
        Y,
        X,
        label_names=names,
        feature_names=feature_names if X.shape[1] == d else None,
        task="multilabel" if header else None,
        notes=Notes(duplicate_features=repeated_features, duplicate_labels=repeated_labels),
    )


def _too_few_names(path: Path, names: Sequence[str], c: int) -> DataError:
    return DataError(f"{len(names):,} label names were given for {c:,} labels; give one for each", path, 1)


def _names_beside(path: Path, name: str, expected: int) -> list[str] | None:
    """The names in a companion file, when it has exactly one different name for each id."""
    companion = path.with_name(name)
    if not companion.is_file():
        return None
    names = decode(companion.read_bytes(), companion, 1).replace("\r\n", "\n").removesuffix("\n").split("\n")
    if len(names) == len(set(names)) == expected:
        return names
    warnings.warn(
        f"{companion} has {len(names):,} lines ({len(set(names)):,} different) where the header of {path.name} says "
        f"{expected:,}; ids are used as names. Correct the file, or move it away.",
        RembrandtWarning,
        stacklevel=2,
    )
    return None


def _explain(path: Path, chunk: bytes, line: int, rows: Rows, limits: tuple[int, int]) -> DataError:
    at = rows.position
    word = numeric.word_at(chunk, at)
    n_labels, n_features = limits
    return DataError(
        {
            numeric.BAD_LABEL: f"{word} is not a label; expected ids such as '3' or '3,5', counted from zero",
            numeric.BAD_FEATURE: f"{word} is not a feature; expected 'id:value' with an id of zero or more",
            numeric.BAD_VALUE: f"{word} has no finite number as its value; expected 'id:value' such as '7:0.5'",
            numeric.LABEL_BEYOND: f"label {word} is beyond the {n_labels:,} labels allowed; "
            f"ids go from 0 to {n_labels - 1:,}. Correct the header or the row",
            numeric.FEATURE_BEYOND: f"feature {word} is beyond the {n_features:,} features allowed; "
            f"ids go from 0 to {n_features - 1:,}. Correct the header or the row",
        }[rows.error],
        path,
        line + chunk.count(b"\n", 0, at),
    )
