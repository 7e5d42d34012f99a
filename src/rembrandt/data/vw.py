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
    found = vw_parser.parse(chunk.data)
    labels = _ids(chunk, found.counts[0], found.labels, found.label_spans)
    features = _ids(chunk, found.counts[1], found.features, found.feature_spans)
    return Batch(labels, None, features, found.values, found.weights), found.error, found.position


def _ids(chunk: Chunk, counts: Any, hashes: Any, spans: Any) -> Ids:
    """Ids into the distinct names; each is spelled where it occurs first."""
    ids = Vocabulary().learn(hashes)
    first = spans[np.unique(ids, return_index=True)[1]].tolist()
    try:
        return Ids(counts, ids, [_spelled(chunk.data, *span).decode("utf-8") for span in first])
    except UnicodeDecodeError:
        chunk.text()  # raises, with the line
        raise


def _spelled(data: bytes, *span: int) -> bytes:
    *namespace, start, end = span
    prefix = data[slice(*namespace)] if namespace else b""
    return prefix + b"^" + data[start:end] if prefix else data[start:end]
