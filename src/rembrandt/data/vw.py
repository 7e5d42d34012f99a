"""Vowpal Wabbit text: ``label [importance] ['tag]|namespace name:value name ...``.

Labels and features keep their names, a feature of a namespace as ``namespace^name``. Several labels are joined by
commas. A feature without a value counts 1, and ``|namespace:2`` doubles the values in it. A word that touches the bar
is a tag, as in Vowpal Wabbit, unless it is the only one: then it is the label.

Compiled code reads each chunk of lines and numbers its names, so Python sees the distinct names of a chunk only.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rembrandt.data import vw_parser
from rembrandt.data.batches import Batch, Ids, datasets
from rembrandt.data.compressed import Chunk, in_threads, line_chunks
from rembrandt.data.dataset import Dataset
from rembrandt.data.numeric import FINE
from rembrandt.progress import Report

_EXPLANATIONS = {
    vw_parser.BAD_IMPORTANCE: "{} is not an importance; expected a finite number of zero or more after the label",
    vw_parser.BAD_VALUE: "{} has no finite number as its value; expected 'name:value', or only 'name'",
    vw_parser.NO_NAME: "{} has no name before its colon; expected 'name:value'",
    vw_parser.NO_BAR: "there is no '|' after {}; expected 'label | name:value name:value'",
    vw_parser.TOO_MANY_WORDS: "{} is one word too many before the '|'; expected label, importance and tag at most",
    vw_parser.BAD_NAMESPACE: "{} has no finite number as the value of its namespace; expected '|name:value' or '|name'",
}


def vw_parts(path: Path, report: Report, rows: float) -> Iterator[Dataset]:
    """Read a file in parts of about ``rows`` examples, each over its own labels and features."""
    return datasets(path, _batches(path, report), rows, "lines like '3 | height:0.5 red'")


def _batches(path: Path, report: Report) -> Iterator[Batch]:
    for chunk, found in in_threads(line_chunks(path, report), lambda chunk: vw_parser.parse(chunk.data)):
        if found.error != FINE:
            raise chunk.error(_EXPLANATIONS[found.error].format(chunk.word(found.position)), found.position)
        names = _names(chunk, found.feature_spans)
        prefixes = [name + "^" if name else "" for name in _names(chunk, found.namespace_spans)]
        if any(prefixes):
            groups = found.feature_spans[:, 2].tolist()
            names = [prefixes[group] + name for group, name in zip(groups, names, strict=True)]
        yield Batch(
            Ids(found.counts[0], found.labels, _names(chunk, found.label_spans)),
            features=Ids(found.counts[1], found.features, names),
            values=found.values,
            weights=found.weights,
        )


def _names(chunk: Chunk, spans: Any) -> list[str]:
    try:
        return [chunk.data[start:end].decode("utf-8") for start, end, _ in spans.tolist()]
    except UnicodeDecodeError:
        chunk.text()  # raises, with the line
        raise
