"""Examples for a verb: from a file, from standard input, or from a data set that is known by name."""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rembrandt.errors import DataError
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.data import Dataset

STANDARD_INPUT = "-"
LINES = "lines"
TEXT_FORMATS = ("fasttext", "csv", "tsv", "jsonl", "parquet", LINES)


@dataclass(frozen=True)
class Reading:
    """Where in a file its texts and labels are; None is what was not said."""

    format: str | None = None
    text: tuple[str, ...] | None = None
    labels: str | None = None
    label_separator: str | None = None

    @classmethod
    def given(
        cls, format: str | None, text: Sequence[str] | None, labels: str | None = None, separator: str | None = None
    ) -> Reading:
        """What the options say."""
        columns = tuple(name.strip() for part in text or () for name in part.split(",") if name.strip())
        between = "\t" if separator == "\\t" else separator
        return cls(None if format == "auto" else format, columns or None, labels, between)

    @classmethod
    def remembered(cls, facts: Mapping[str, Any]) -> Reading:
        """What a model keeps of the reading of its training data."""
        known = {field.name: facts.get(field.name) for field in fields(cls)}
        known["text"] = None if known["text"] is None else tuple(known["text"])
        return cls(**known)

    def or_else(self, other: Reading) -> Reading:
        """What this one says, and what ``other`` says where this one does not."""
        said = {name: value for name, value in asdict(self).items() if value is not None}
        return Reading(**{**asdict(other), **said})

    def to_remember(self) -> dict[str, Any]:
        """What holds for other files as well, as JSON: the labels of an ``npz`` file are a file of their own."""
        return {**asdict(self), "labels": None if self.format == "npz" or _is_npz(self.labels) else self.labels}


def read_training(source: str, reading: Reading, report: Report) -> tuple[Dataset, Reading]:
    """Labelled examples, and how they were found."""
    if is_known_set(source):
        return _read_known(source, "train", report)
    with _as_file(source) as path:
        return read_file(path, reading, report), reading


def read_examples(
    source: str, reading: Reading, report: Report, *, texts: bool, n_features: int | None, unlabelled: bool = False
) -> Dataset:
    """Examples for a model that takes texts, or else features of which there are ``n_features``."""
    if is_known_set(source):
        return _read_known(source, "test", report)[0]
    with _as_file(source) as path:
        format = reading.format or _detected(path, texts and unlabelled)
        width = n_features if format in ("repository", "svmlight") else None
        found = Reading(format, reading.text, None if unlabelled else reading.labels, reading.label_separator)
        return read_file(path, found, report, unlabelled=unlabelled, n_features=width)


def read_file(
    path: Path, reading: Reading, report: Report, *, unlabelled: bool = False, n_features: int | None = None
) -> Dataset:
    """The examples in a file."""
    from rembrandt.data import read

    if reading.format == LINES:
        if not unlabelled:
            raise DataError("plain lines hold no labels; give a table or fastText's format", path)
        return _read_lines(path, report)
    if reading.format == "npz" and unlabelled:
        return _read_matrix(path)
    return read(
        path,
        reading.format or "auto",
        text=reading.text,
        labels=reading.labels,
        label_separator=reading.label_separator,
        unlabelled=unlabelled,
        n_features=n_features,
        report=report,
    )


def is_known_set(source: str) -> bool:
    """Whether this is the name of a data set; a file of that name goes first."""
    from rembrandt.data.catalogue import ENTRIES

    return source in ENTRIES and not Path(source).exists()


def _read_known(name: str, part: Literal["train", "test"], report: Report) -> tuple[Dataset, Reading]:
    from rembrandt.data import catalogue

    options = dict(catalogue.ENTRIES[name].options)
    options.pop("format")  # a file's own name tells it
    text = options.pop("text", None)
    reading = Reading(text=text if text is None else tuple(text), **options)
    return catalogue.load(name, part, report=report), reading


def _read_lines(path: Path, report: Report) -> Dataset:
    """One text per line, an empty line being an empty text, so that answers and lines go together."""
    from scipy.sparse import csr_array

    from rembrandt.data import Dataset
    from rembrandt.data.compressed import line_chunks

    texts: list[str] = []
    for chunk in line_chunks(path, report):
        texts.extend(line.strip() for line in chunk.text().removesuffix("\n").split("\n"))
    if not texts:
        raise DataError("there is nothing in it; expected one text per line", path)
    return Dataset.build(csr_array((len(texts), 0), dtype="float32"), texts=texts, label_names=[])


def _read_matrix(path: Path) -> Dataset:
    """The features in an ``npz`` file without those of labels."""
    from scipy.sparse import csr_array, load_npz

    from rembrandt.data import Dataset

    try:
        X = csr_array(load_npz(path))
        X.check_format(full_check=True)
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"this is not a sparse matrix ({error}); write it with scipy.sparse.save_npz", path) from error
    return Dataset.from_arrays(X, csr_array((X.shape[0], 0), dtype="float32"))


def _detected(path: Path, lines_are_texts: bool) -> str:
    """The format, where whatever is not a format of texts may stand for plain lines of it."""
    from rembrandt.data.detect import detect

    try:
        format = detect(path) if path.is_file() else "auto"
    except DataError:
        if not lines_are_texts:
            raise
        return LINES
    return LINES if lines_are_texts and format not in (*TEXT_FORMATS, "auto") else format


@contextmanager
def _as_file(source: str) -> Iterator[Path]:
    """The file named, or a copy of standard input: the readers look at a file's beginning first."""
    if source != STANDARD_INPUT:
        yield Path(source)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield path


def _is_npz(labels: str | None) -> bool:
    return labels is not None and labels.endswith(".npz")
