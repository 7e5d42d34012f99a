"""fastText's format: one example a line, ``__label__a __label__b and then the text``."""

import re
from pathlib import Path

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
    names = Vocabulary()
    texts: list[str] = []
    ids, per_row = [], []
    line = 1
    for chunk in line_chunks(path, report):
        rows = [row for row in decode(chunk, path, line).split("\n") if row.strip()]
        line += chunk.count(b"\n")
        found = [_LABEL.findall(row) for row in rows]
        texts.extend(_LABEL.sub("", row).strip() for row in rows)
        per_row.append(np.array([len(labels) for labels in found], np.int64))
        ids.append(names.add(label for labels in found for label in labels))
    if not texts:
        raise DataError("there are no examples in this file; expected lines like '__label__red a red apple'", path)
    wanted, place = names.in_order()
    Y, repeated = label_rows(np.concatenate(per_row), place[np.concatenate(ids)], len(wanted))
    return Dataset.build(Y, texts=texts, label_names=wanted, notes=Notes(duplicate_labels=repeated))
