"""The format of fastText: one example a line, ``__label__a __label__b and then the text``."""

import re
from collections.abc import Iterator
from pathlib import Path

from rembrandt.data.batches import Batch, Ids, datasets
from rembrandt.data.compressed import line_chunks
from rembrandt.data.dataset import Dataset
from rembrandt.progress import Report

# A label may be anywhere in the line, as for fastText itself. It must not stay in the text.
_LABEL = re.compile(r"(?<!\S)__label__(\S+)")


def fasttext_parts(path: Path, report: Report, rows: float) -> Iterator[Dataset]:
    """Read texts and their labels in parts of about ``rows`` examples; empty lines are skipped."""
    return datasets(path, _batches(path, report), rows, "lines like '__label__red a red apple'")


def _batches(path: Path, report: Report) -> Iterator[Batch]:
    for chunk in line_chunks(path, report):
        lines = [line for line in chunk.text().split("\n") if line.strip()]
        labels = Ids.of_lists([_LABEL.findall(line) for line in lines])
        yield Batch(labels, [_LABEL.sub("", line).strip() for line in lines])
