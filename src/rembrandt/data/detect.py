"""The formats, how to read them, and their detection from a file's name and first lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rembrandt.data.compressed import head, plain_suffix
from rembrandt.data.corrections import is_corrections
from rembrandt.errors import DataError

FORMATS = (
    "vw",
    "repository",
    "svmlight",
    "fasttext",
    "csv",
    "tsv",
    "jsonl",
    "json",
    "xlsx",
    "parquet",
    "npz",
    "corrections",
    "lines",
)

_SUFFIXES = {
    ".vw": "vw",
    ".svmlight": "svmlight",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".parquet": "parquet",
    ".npz": "npz",
}

_UNREADABLE = {
    ".xls": "this is the format of Excel before 2007; save the sheet as .xlsx or .csv",
    ".ods": "sheets of OpenDocument cannot be read; save the sheet as .xlsx or .csv",
}


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file; see `rembrandt.read`."""

    format: str = "auto"
    text: str | Sequence[str] | None = None
    labels: str | Path | None = None
    label_separator: str | None = None
    verbatim_labels: bool = False
    id: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    unlabelled: bool = False
    label_ids: Sequence[str] | None = None
    n_features: int | None = None


_COMPARED_LINES = 20  # lines that all have to look like rows of features

_HEADER = re.compile(rb"\s*\d+\s+\d+\s+\d+\s*")
_NUMERIC_ROW = re.compile(rb"(?:\d+(?:,\s*\d+)*)?\s+\d+:\S+")
_VW_ROW = re.compile(rb"[^|\s]*(?:\s+[^|\s]+){0,2}\s*\|")
_NUMBERS = re.compile(rb"[\d,\s]*(?:\s\S+:[-+.\d]\S*\s*)*")


def is_sparse_text(path: Path, encoding: str | None = None) -> bool:
    """Whether the first lines are rows of features, and not only texts that look like rows."""
    *whole_lines, last_line = head(path, encoding=encoding).split(b"\n")
    lines = [line for line in whole_lines[:_COMPARED_LINES] if line.strip()]
    if not lines:
        lines = [last_line]
    if all(map(_NUMBERS.fullmatch, lines)):
        return True
    return len(lines) > 1 and all(b"|" in line for line in lines)


def detect(path: Path, encoding: str | None = None) -> str:
    """Return the format of a file, one of ``FORMATS``; plain lines of text are not detected."""
    suffix = plain_suffix(path)
    if suffix in _UNREADABLE:
        raise DataError(_UNREADABLE[suffix], path)
    by_name = _SUFFIXES.get(suffix)
    if by_name in ("npz", "parquet", "xlsx"):
        return by_name
    if is_corrections(path):
        return "corrections"
    lines = [line for line in head(path, encoding=encoding).split(b"\n") if line.strip()]
    if by_name in ("json", "jsonl"):  # both names are used for both formats
        is_array = bool(lines) and lines[0].lstrip().startswith(b"[")
        return "json" if is_array else "jsonl"
    lines = lines[:2]  # the first one may be a header
    is_numeric = any(_NUMERIC_ROW.match(line) for line in lines)
    # Kaggle calls its numeric files .csv, so that name alone is uninformative.
    if by_name and not (by_name == "csv" and is_numeric):
        return by_name
    if any(line.startswith(b"__label__") for line in lines):
        return "fasttext"
    if is_numeric or (lines and _HEADER.fullmatch(lines[0])):
        return "repository"
    if lines and _VW_ROW.match(lines[0]):
        return "vw"
    raise DataError(
        "the format is not clear from the name or the first lines; set format to one of "
        f"{', '.join(FORMATS)}",
        path,
        parameter="format",
    )
