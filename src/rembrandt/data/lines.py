"""Plain lines of text: one text per line, without labels."""

from pathlib import Path

from scipy.sparse import csr_array

from rembrandt.data.compressed import decode, line_chunks
from rembrandt.data.dataset import Dataset
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent


def read_lines(path: Path, unlabelled: bool, report: Report = silent) -> Dataset:
    """Read one text per line; an empty line is an empty text, so that rows and lines have the same numbers."""
    if not unlabelled:
        raise DataError("plain lines have no labels; use a table or fastText's format", path, parameter="format")
    texts: list[str] = []
    for chunk in line_chunks(path, report):
        texts.extend(line.strip() for line in decode(chunk, path, len(texts) + 1).removesuffix("\n").split("\n"))
    return Dataset.build(csr_array((len(texts), 0), dtype="float32"), texts=texts, label_names=[])
