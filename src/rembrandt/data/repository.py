"""The format of the Extreme Classification Repository, and multilabel svmlight, which is the same
without a header.

A header ``n d c`` (examples, features, labels), then one example a line: ``l1,l2 f:v f:v``. An
example without labels starts with a space. Ids count from zero. Names are taken from
``features.txt`` and ``labels.txt`` next to the file when the header fits them. A first line of one
word (as in the LSHTC files of Kaggle) is skipped.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rembrandt.data import numeric
from rembrandt.data.arrays import MAX_LABELS, Numbers
from rembrandt.data.batches import Batch, Columns, Ids
from rembrandt.data.compressed import Chunk, in_threads, line_chunks
from rembrandt.errors import DataError, RembrandtWarning
from rembrandt.progress import Report

_HEADER = re.compile(rb"\s*([0-9]+)\s+([0-9]+)\s+([0-9]+)\s*")
_TITLE = re.compile(rb"\s*[A-Za-z_]+\s*")
MOST_FEATURES = numeric.LARGEST_ID + 1


@dataclass(frozen=True)
class Header:
    """What the first line says."""

    n_examples: int
    n_features: int
    n_labels: int


def repository_batches(
    path: Path, label_names: Sequence[str] | None, n_features: int | None, report: Report
) -> tuple[Iterator[Batch], Columns]:
    """Read the rows and what is known about columns; ``label_names`` names the ids, ``n_features``
    widens X.
    """
    chunks = line_chunks(path, report)
    header, first = _take_header(next(chunks, Chunk(b"", path, 1)))
    names, feature_names = None if label_names is None else list(label_names), None
    most_labels, most_features = (
        (header.n_labels, header.n_features) if header else (MAX_LABELS, MOST_FEATURES)
    )
    if header:
        if names is not None and len(names) < most_labels:
            raise DataError(
                f"{len(names):,} label names for {most_labels:,} labels; give one for each", path, 1
            )
        names = names or _companion_names(path, "labels.txt", most_labels) or Numbers(most_labels)  # type: ignore[assignment]
        if (n_features or 0) <= most_features:
            feature_names = _companion_names(path, "features.txt", most_features)
    width = max(header.n_features if header else 0, n_features or 0)
    most_labels = min(most_labels, most_labels if names is None else len(names))
    most_features = min(most_features, most_features if n_features is None else n_features)
    batches = _batches(chain([first], chunks), header, most_labels, most_features)
    return batches, Columns(names, feature_names, width)


def _batches(
    chunks: Iterator[Chunk], header: Header | None, most_labels: int, most_features: int
) -> Iterator[Batch]:
    n_rows = 0
    for chunk, found in in_threads(
        chunks, lambda chunk: numeric.parse_rows(chunk.data, most_labels, most_features)
    ):
        if found.error != numeric.FINE:
            raise _explain(chunk, found, most_labels, most_features)
        n_rows += found.starts.size
        if header and n_rows > header.n_examples:
            raise chunk.error(
                f"the header says {header.n_examples:,} examples, but more follow; correct the "
                "header or the rows",
                int(found.starts[header.n_examples - n_rows]),
            )
        labels, features = Ids(found.counts[0], found.labels), Ids(found.counts[1], found.features)
        yield Batch(
            labels, features=features, values=found.values, task="multilabel" if header else None
        )
    if header and n_rows < header.n_examples:
        raise chunk.error(
            f"the header says {header.n_examples:,} examples, but the file ends after {n_rows:,}; "
            "the file was cut short or the header is wrong",
            len(chunk.data),
        )


def _take_header(chunk: Chunk) -> tuple[Header | None, Chunk]:
    """The header if there is one, and the chunk without the first line if that is not an
    example.
    """
    top, _, rest = chunk.data.partition(b"\n")
    match = _HEADER.fullmatch(top)
    if not match and not _TITLE.fullmatch(top):
        return None, chunk
    after = Chunk(rest, chunk.path, 2)
    if not match:
        return None, after
    numbers = [int(number) for number in match.groups() if len(number) <= 18]
    if len(numbers) < 3 or numbers[1] > MOST_FEATURES or numbers[2] > MAX_LABELS:
        most = f"{MOST_FEATURES:,} features and {MAX_LABELS:,} labels"
        raise chunk.error(
            f"the numbers of the header are too large; at most {most} can be read. Correct the "
            "header",
            0,
        )
    return Header(*numbers), after


def _companion_names(path: Path, name: str, expected: int) -> list[str] | None:
    """The names in a companion file, when it has exactly one distinct name for each id."""
    companion = path.with_name(name)
    if not companion.is_file():
        return None
    names = (
        Chunk(companion.read_bytes(), companion, 1)
        .text()
        .replace("\r\n", "\n")
        .removesuffix("\n")
        .split("\n")
    )
    if len(names) == len(set(names)) == expected:
        return names
    warnings.warn(
        f"{companion} has {len(names):,} lines ({len(set(names)):,} distinct) where the header of "
        f"{path.name} says "
        f"{expected:,}; ids are used as names. Correct the file, or move it away.",
        RembrandtWarning,
        stacklevel=2,
    )
    return None


def _explain(chunk: Chunk, found: numeric.NumericRows, n_labels: int, n_features: int) -> DataError:
    word = chunk.word(found.position)
    messages = {
        numeric.BAD_LABEL: (
            f"{word} is not a label; expected ids such as '3' or '3,5', counted from zero"
        ),
        numeric.BAD_FEATURE: (
            f"{word} is not a feature; expected 'id:value' with an id of zero or more"
        ),
        numeric.BAD_VALUE: (
            f"{word} has no finite number as its value; expected 'id:value' such as '7:0.5'"
        ),
        numeric.LABEL_BEYOND: f"label {word} is beyond the {n_labels:,} labels allowed; "
        f"ids go from 0 to {n_labels - 1:,}. Correct the header or the row",
        numeric.FEATURE_BEYOND: f"feature {word} is beyond the {n_features:,} features allowed; "
        f"ids go from 0 to {n_features - 1:,}. Correct the header or the row",
    }
    return chunk.error(messages[found.error], found.position)
