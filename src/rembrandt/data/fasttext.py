"""fastText's format: one example a line, ``__label__a __label__b and then the text``."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.data.compressed import decode, line_chunks
from rembrandt.data.dataset import Dataset, Notes
from rembrandt.data.sparse import Vocabulary, label_rows
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

# A label may stand anywhere in the line, as for fastText itself; left in the text it would give the answer away.
_LABEL = re.compile(r"(?<!\S)__label__(\S+)")


def read_fasttext(path: Path, report: Report = silent) -> Dataset:
    """Read texts and their labels; empty lines are passed over."""
    return next(fasttext_parts(path, report))


def fasttext_parts(path: Path, report: Report = silent, rows: float = math.inf) -> Iterator[Dataset]:
    """The file in parts of about ``rows`` examples."""
    names = Vocabulary()
    texts: list[str] = []
    ids: list[Any] = []
    per_row: list[Any] = []
    line, parts = 1, 0
    for chunk in line_chunks(path, report):
        lines = [row for row in decode(chunk, path, line).split("\n") if row.strip()]
        line += chunk.count(b"\n")
        found = [_LABEL.findall(row) for row in lines]
        texts.extend(_LABEL.sub("", row).strip() for row in lines)
        per_row.append(np.array([len(labels) for labels in found], np.int64))
        ids.append(names.add(label for labels in found for label in labels))
        if len(texts) >= rows:
            yield _assemble(names, texts, ids, per_row)
            names, texts, ids, per_row = Vocabulary(), [], [], []
            parts += 1
    if texts:
        yield _assemble(names, texts, ids, per_row)
    elif parts == 0:
        raise DataError("there are no examples in this file; expected lines like '__label__red a red apple'", path)


def _assemble(names: Vocabulary, texts: list[str], ids: list[Any], per_row: list[Any]) -> Dataset:
    wanted, place = names.in_order()
    Y, repeated = label_rows(np.concatenate(per_row), place[np.concatenate(ids)], len(wanted))
    return Dataset.build(Y, texts=texts, label_names=wanted, notes=Notes(duplicate_labels=repeated))
