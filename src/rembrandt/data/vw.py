"""Vowpal Wabbit text: ``label [importance] ['tag]|namespace name:value name ...``.

Labels and features keep their names, a feature of a namespace as ``namespace^name``. Several labels are joined by
commas. A feature without a value counts 1, and ``|namespace:2`` doubles the values in it. A word that touches the bar
is a tag, as in Vowpal Wabbit, unless it is the only one: then it is the label.

Compiled code reads each chunk of lines and numbers the names it meets; Python only sees each chunk's different names.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rembrandt.data import vw_parser
from rembrandt.data.compressed import decode, in_order, line_chunks
from rembrandt.data.dataset import Dataset, Notes
from rembrandt.data.numeric import FINE, word_at
from rembrandt.data.sparse import Vocabulary, feature_rows, label_rows
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

_EXPLANATIONS = {
    vw_parser.BAD_IMPORTANCE: "{} is not an importance; expected a finite number of zero or more after the label",
    vw_parser.BAD_VALUE: "{} has no finite number as its value; expected 'name:value', or only 'name'",
    vw_parser.NO_NAME: "{} has no name before its colon; expected 'name:value'",
    vw_parser.NO_BAR: "there is no '|' after {}; expected 'label | name:value name:value'",
    vw_parser.TOO_MANY_WORDS: "{} is one word too many before the '|'; expected label, importance and tag at most",
    vw_parser.BAD_NAMESPACE: "{} has no finite number as its namespace's value; expected '|name:value' or '|name'",
}


@dataclass(frozen=True)
class Rows:
    """What one chunk of lines holds: ids into its own different names, and where its parser stopped."""

    per_row_labels: NDArray[np.int64]
    per_row_features: NDArray[np.int64]
    importances: NDArray[np.float32]
    labels: NDArray[np.int32]
    features: NDArray[np.int32]
    values: NDArray[np.float32]
    label_spans: NDArray[np.int64]
    feature_spans: NDArray[np.int64]
    namespace_spans: NDArray[np.int64]
    error: int
    position: int


def read_vw(path: Path, report: Report = silent) -> Dataset:
    """Read a Vowpal Wabbit file, multiclass or multilabel."""
    return next(vw_parts(path, report))


def vw_parts(path: Path, report: Report = silent, rows: float = math.inf) -> Iterator[Dataset]:
    """The file in parts of about ``rows`` examples, each over its own labels and features."""
    part = _Part()
    line, begun = 1, False
    for chunk, parsed in in_order(line_chunks(path, report), parse_chunk):
        if parsed.error != FINE:
            found = word_at(chunk, parsed.position)
            at = line + chunk.count(b"\n", 0, parsed.position)
            raise DataError(_EXPLANATIONS[parsed.error].format(found), path, at)
        labels, features = _decoded(path, chunk, line, parsed.label_spans), _feature_names(path, chunk, line, parsed)
        part.add(parsed, labels, features)
        line += chunk.count(b"\n")
        if part.n_rows >= rows:
            yield part.assembled()
            part, begun = _Part(), True
    if part.n_rows:
        yield part.assembled()
    elif not begun:
        raise DataError("there are no examples in this file; expected lines like '3 | height:0.5 red'", path)


class _Part:
    """Parsed chunks on their way to a dataset."""

    def __init__(self) -> None:
        self.label_names, self.feature_names = Vocabulary(), Vocabulary()
        self.labels: list[NDArray[np.int64]] = []
        self.features: list[NDArray[np.int64]] = []
        self.parts: list[Rows] = []
        self.n_rows = 0

    def add(self, rows: Rows, labels: list[str], features: list[str]) -> None:
        self.labels.append(self.label_names.add(labels)[rows.labels])
        self.features.append(self.feature_names.add(features)[rows.features])
        self.parts.append(rows)
        self.n_rows += rows.per_row_labels.size

    def assembled(self) -> Dataset:
        wanted_labels, label_place = self.label_names.in_order()
        per_row = np.concatenate([part.per_row_labels for part in self.parts])
        Y, repeated_labels = label_rows(per_row, label_place[np.concatenate(self.labels)], len(wanted_labels))
        wanted_features, feature_place = self.feature_names.in_order()
        X, repeated_features = feature_rows(
            np.concatenate([part.per_row_features for part in self.parts]),
            feature_place[np.concatenate(self.features)],
            np.concatenate([part.values for part in self.parts]),
            len(wanted_features),
        )
        weights = np.concatenate([part.importances for part in self.parts])
        return Dataset.build(
            Y,
            X,
            label_names=wanted_labels,
            feature_names=wanted_features,
            weights=None if (weights == 1).all() else weights,
            notes=Notes(duplicate_features=repeated_features, duplicate_labels=repeated_labels),
        )


def _decoded(path: Path, chunk: bytes, line: int, spans: NDArray[np.int64]) -> list[str]:
    try:
        return [chunk[start:end].decode("utf-8") for start, end, _ in spans.tolist()]
    except UnicodeDecodeError:
        decode(chunk, path, line)  # raises, naming the line
        raise


def _feature_names(path: Path, chunk: bytes, line: int, rows: Rows) -> list[str]:
    names = _decoded(path, chunk, line, rows.feature_spans)
    prefixes = [name + "^" if name else "" for name in _decoded(path, chunk, line, rows.namespace_spans)]
    if not any(prefixes):
        return names
    groups = rows.feature_spans[:, 2].tolist()
    return [prefixes[group] + name for group, name in zip(groups, names, strict=True)]


def parse_chunk(chunk: bytes) -> Rows:
    """Parse whole lines. Every array is made as long as the separators in the chunk allow, then cut."""
    buffer = np.frombuffer(chunk, np.uint8)
    most_rows = chunk.count(b"\n") + 1
    most_labels = chunk.count(b",") + most_rows
    most_namespaces = chunk.count(b"|") + 1
    most_features = int(np.count_nonzero(buffer <= 32)) + most_namespaces + 1
    per_row_labels, per_row_features = np.empty(most_rows, np.int64), np.empty(most_rows, np.int64)
    importances = np.empty(most_rows, np.float32)
    labels, features = np.empty(most_labels, np.int32), np.empty(most_features, np.int32)
    values = np.empty(most_features, np.float32)
    label_spans, feature_spans, namespace_spans = (
        np.empty((most, 3), np.int64) for most in (most_labels, most_features, most_namespaces)
    )
    counts, different, error, position = vw_parser.parse(
        buffer,
        per_row_labels,
        per_row_features,
        importances,
        labels,
        features,
        values,
        _slots(most_labels),
        _slots(most_features),
        _slots(most_namespaces),
        label_spans,
        feature_spans,
        namespace_spans,
    )
    n_rows, n_labels, n_features = counts
    return Rows(
        per_row_labels[:n_rows],
        per_row_features[:n_rows],
        importances[:n_rows],
        labels[:n_labels],
        features[:n_features],
        values[:n_features],
        label_spans[: different[0]],
        feature_spans[: different[1]],
        namespace_spans[: different[2]],
        error,
        position,
    )


def _slots(most: int) -> NDArray[np.int32]:
    """An empty hash table that stays at most half full."""
    return np.full(1 << int(2 * most - 1).bit_length(), -1, np.int32)
