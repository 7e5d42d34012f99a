"""The format of fastText: one example a line, ``__label__a __label__b and then the text``."""

import re
from collections.abc import Iterator
from pathlib import Path

from rembrandt.data.batches import Batch, Ids
from rembrandt.data.compressed import line_chunks
from rembrandt.progress import Report

# A label may be anywhere in the line, as for fastText itself. It must not stay in the text.
_LABEL = re.compile(r"(?<!\S)__label__(\S+)")


def fasttext_batches(path: Path, report: Report, encoding: str | None = None) -> Iterator[Batch]:
    """Read texts and their labels; empty lines are skipped."""
    for chunk in line_chunks(path, report, encoding=encoding):
        lines = chunk.text().split("\n")
        texts = []
        labels = []
        for line in lines:
            if line.strip():
                texts.append(_LABEL.sub("", line).strip())
                labels.append(_LABEL.findall(line))
        yield Batch(Ids.of_lists(labels), texts)
