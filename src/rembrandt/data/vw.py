"""Vowpal Wabbit text: ``label [importance] ['tag]|namespace name:value name ...``.

Labels and features keep their names, a feature of a namespace as ``namespace^name``. Several labels
are joined by commas. A feature without a value counts 1, and ``|namespace:2`` doubles the values in
it. A word that touches the bar is a tag, as in Vowpal Wabbit, unless it is the only one: then it is
the label.

Compiled code hashes the names in each chunk of lines, so Python sees the distinct names of a chunk
only.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.data import vw_parser
from rembrandt.data.batches import Batch, Ids
from rembrandt.data.compressed import Chunk, in_threads, line_chunks
from rembrandt.data.numeric import FINE
from rembrandt.features.counting import Vocabulary
from rembrandt.progress import Report

_EXPLANATIONS = {
    vw_parser.BAD_IMPORTANCE: (
        "{} is not an importance; expected a finite number of zero or more after the label"
    ),
    vw_parser.BAD_VALUE: (
        "{} has no finite number as its value; expected 'name:value', or only 'name'"
    ),
    vw_parser.NO_NAME: "{} has no name before its colon; expected 'name:value'",
    vw_parser.NO_BAR: "there is no '|' after {}; expected 'label | name:value name:value'",
    vw_parser.TOO_MANY_WORDS: (
        "{} is one word too many before the '|'; expected label, importance and tag at most"
    ),
    vw_parser.BAD_NAMESPACE: (
        "{} has no finite number as the value of its namespace; expected '|name:value' or '|name'"
    ),
}


def vw_batches(path: Path, report: Report) -> Iterator[Batch]:
    """Read labels, features and importances."""
    for chunk, (batch, error, position) in in_threads(line_chunks(path, report), _parsed):
        if error != FINE:
            raise chunk.error(_EXPLANATIONS[error].format(chunk.word(position)), position)
        yield batch


def _parsed(chunk: Chunk) -> tuple[Batch, int, int]:
    """The rows of a chunk, and why and where its parser stopped."""
    rows = vw_parser.parse(chunk.data)
    label_counts, feature_counts = rows.counts
    batch = Batch(
        labels=_ids(chunk, label_counts, rows.labels, rows.label_spans),
        features=_ids(chunk, feature_counts, rows.features, rows.feature_spans),
        values=rows.values,
        weights=rows.weights,
    )
    return batch, rows.error, rows.position


def _ids(chunk: Chunk, counts: Any, hashes: Any, spans: Any) -> Ids:
    """Ids into the distinct names; each is spelled where it occurs first."""
    ids = Vocabulary().learn(hashes)
    _, first = np.unique(ids, return_index=True)
    try:
        names = [_spelled(chunk.data, span) for span in spans[first].tolist()]
    except UnicodeDecodeError:
        chunk.text()  # raises, with the line
        raise
    return Ids(counts, ids, names)


def _spelled(data: bytes, span: list[int]) -> str:
    """The name at a span, which follows the span of the namespace for features."""
    *namespace_span, start, stop = span
    name = data[start:stop]
    namespace = data[slice(*namespace_span)] if namespace_span else b""
    if namespace:
        name = namespace + b"^" + name
    return name.decode("utf-8")
