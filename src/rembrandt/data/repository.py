"""The format of the Extreme Classification Repository, and multilabel svmlight.

The latter is the same without a header.

A header ``n d c`` (examples, features, labels), then one example a line: ``l1,l2 f:v f:v``. An
example without labels starts with a space. Ids count from zero. Names are taken from
``features.txt`` and ``labels.txt`` next to the file when the header fits them. A first line of one
word (as in the LSHTC files of Kaggle) is skipped.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from rembrandt.data import numeric
from rembrandt.data.arrays import MAX_LABELS, Numbers
from rembrandt.data.batches import Batch, Columns, Ids
from rembrandt.data.compressed import Chunk, in_threads, line_chunks
from rembrandt.errors import DataError, RembrandtWarning
from rembrandt.progress import Report

_HEADER = re.compile(rb"\s*([0-9]+)\s+([0-9]+)\s+([0-9]+)\s*")
_TITLE = re.compile(rb"\s*[A-Za-z_]+\s*")
_MAX_DIGITS = 18  # of a number in the header: more do not fit into 64 bits
MAX_FEATURES = numeric.LARGEST_ID + 1


@dataclass(frozen=True)
class Header:
    """What the first line says."""

    n_examples: int
    n_features: int
    n_labels: int


@dataclass(frozen=True)
class Limits:
    """Numbers of labels and features, which ids have to be below."""

    n_labels: int
    n_features: int


def repository_batches(
    path: Path, label_ids: Sequence[str] | None, n_features: int | None, report: Report
) -> tuple[Iterator[Batch], Columns]:
    """Read the rows, and what is known about columns.

    ``label_ids`` replace the numbers of labels, and ``n_features`` is the least width of X.
    """
    chunks = line_chunks(path, report)
    no_lines = Chunk(b"", path, 1)
    header, first = _take_header(next(chunks, no_lines))
    columns = _columns(path, header, label_ids, n_features)
    if header is None:
        limits = Limits(MAX_LABELS, MAX_FEATURES)
    else:
        limits = Limits(header.n_labels, header.n_features)
    if columns.label_ids is not None:
        limits = replace(limits, n_labels=min(limits.n_labels, len(columns.label_ids)))
    if n_features is not None:
        limits = replace(limits, n_features=min(limits.n_features, n_features))
    return _batches(chain([first], chunks), header, limits), columns


def _columns(
    path: Path, header: Header | None, label_ids: Sequence[str] | None, n_features: int | None
) -> Columns:
    """What the header, companion files and the options say about columns."""
    names: Any = None
    if label_ids is not None:
        names = list(label_ids)
    if header is None:
        return Columns(names, None, n_features or 0)
    if names is not None and len(names) < header.n_labels:
        raise DataError(
            f"{len(names):,} label ids for {header.n_labels:,} labels; give one for each", path, 1
        )
    if not names:
        names = _companion_names(path, "labels.txt", header.n_labels)
    if not names:
        names = Numbers(header.n_labels)
    feature_names = None
    if (n_features or 0) <= header.n_features:
        feature_names = _companion_names(path, "features.txt", header.n_features)
    return Columns(names, feature_names, max(header.n_features, n_features or 0))


def _batches(chunks: Iterator[Chunk], header: Header | None, limits: Limits) -> Iterator[Batch]:
    """The rows of each chunk, whose number must be that in the header."""

    def parse(chunk: Chunk) -> numeric.NumericRows:
        return numeric.parse_rows(chunk.data, limits.n_labels, limits.n_features)

    n_rows = 0
    for chunk, rows in in_threads(chunks, parse):
        if rows.error != numeric.FINE:
            raise _explain(chunk, rows, limits)
        n_rows += rows.starts.size
        if header and n_rows > header.n_examples:
            first_extra = rows.starts[header.n_examples - n_rows]
            raise chunk.error(
                f"the header says {header.n_examples:,} examples, but more follow; correct the "
                "header or the rows",
                int(first_extra),
            )
        label_counts, feature_counts = rows.counts
        yield Batch(
            labels=Ids(label_counts, rows.labels),
            features=Ids(feature_counts, rows.features),
            values=rows.values,
            task="multilabel" if header else None,
        )
    if header and n_rows < header.n_examples:
        raise chunk.error(
            f"the header says {header.n_examples:,} examples, but the file ends after {n_rows:,}; "
            "the file was cut short or the header is wrong",
            len(chunk.data),
        )


def _take_header(chunk: Chunk) -> tuple[Header | None, Chunk]:
    """The header if there is one, and the chunk without a first line that is not an example."""
    first_line, _, lines = chunk.data.partition(b"\n")
    match = _HEADER.fullmatch(first_line)
    if not match and not _TITLE.fullmatch(first_line):
        return None, chunk
    examples = Chunk(lines, chunk.path, 2)
    if not match:
        return None, examples
    numbers = [int(number) for number in match.groups() if len(number) <= _MAX_DIGITS]
    if len(numbers) < 3 or numbers[1] > MAX_FEATURES or numbers[2] > MAX_LABELS:
        raise chunk.error(
            f"the numbers of the header are too large; at most {MAX_FEATURES:,} features and "
            f"{MAX_LABELS:,} labels can be read. Correct the header",
            0,
        )
    n_examples, n_features, n_labels = numbers
    return Header(n_examples, n_features, n_labels), examples


def _companion_names(path: Path, name: str, expected: int) -> list[str] | None:
    """The names in a companion file, when it has exactly one distinct name for each id."""
    companion = path.with_name(name)
    if not companion.is_file():
        return None
    content = Chunk(companion.read_bytes(), companion, 1)
    text = content.text().replace("\r\n", "\n")
    names = text.removesuffix("\n").split("\n")
    n_distinct = len(set(names))
    if len(names) == n_distinct == expected:
        return names
    warnings.warn(
        f"{companion} has {len(names):,} lines ({n_distinct:,} distinct) where the header of "
        f"{path.name} says {expected:,}; ids are used as names. Correct the file, or move it away.",
        RembrandtWarning,
        stacklevel=2,
    )
    return None


def _explain(chunk: Chunk, rows: numeric.NumericRows, limits: Limits) -> DataError:
    """The error for a word that the parser could not read."""
    word = chunk.word(rows.position)
    if rows.error == numeric.BAD_LABEL:
        message = f"{word} is not a label; expected ids such as '3' or '3,5', counted from zero"
    elif rows.error == numeric.BAD_FEATURE:
        message = f"{word} is not a feature; expected 'id:value' with an id of zero or more"
    elif rows.error == numeric.BAD_VALUE:
        message = f"{word} has no finite number as its value; expected 'id:value' such as '7:0.5'"
    elif rows.error == numeric.LABEL_BEYOND:
        message = (
            f"label {word} is beyond the {limits.n_labels:,} labels allowed; ids go from 0 to "
            f"{limits.n_labels - 1:,}. Correct the header or the row"
        )
    else:
        message = (
            f"feature {word} is beyond the {limits.n_features:,} features allowed; ids go from 0 "
            f"to {limits.n_features - 1:,}. Correct the header or the row"
        )
    return chunk.error(message, rows.position)
