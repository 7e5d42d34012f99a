"""Examples for a command: from a file, from standard input, or from a data set that is known by
name.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from rembrandt.cli.options import DATA, flag, option
from rembrandt.errors import DataError, RembrandtWarning
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.data import Dataset

STANDARD_INPUT = "-"
# The formats of the library; importing them would slow down every command.
Format = Literal[
    "auto",
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
]
FORMATS = get_args(Format)[1:]


def _columns(arguments: list[str] | None) -> list[str] | None:
    """Return the names in lists that are separated by commas; None if there is none."""
    names = []
    for argument in arguments or ():
        names += [name.strip() for name in argument.split(",") if name.strip()]
    return names or None


def _tabs(separator: str | None) -> str | None:
    return "\t" if separator == "\\t" else separator


@dataclass(frozen=True)
class TextReading:
    """Options that say how to read examples without labels; None where nothing was said."""

    format: Annotated[
        Format | None, option(f"{', '.join(FORMATS)}; detected by default.", DATA, metavar="NAME")
    ] = None
    text: Annotated[
        list[str] | None,
        option("Text columns, separated by commas.", DATA, metavar="COLUMNS", callback=_columns),
    ] = None
    delimiter: Annotated[
        str | None,
        option("Delimiter of a CSV file; detected by default.", DATA, metavar="C", callback=_tabs),
    ] = None
    encoding: Annotated[
        str | None,
        option(
            "Encoding of a text file, such as cp1252; UTF-8 or UTF-16 by default.",
            DATA,
            metavar="E",
        ),
    ] = None
    vectors: Annotated[
        Path | None,
        option(
            "Dense vectors next to the texts, one per example: .npy or .parquet.",
            DATA,
            metavar="FILE",
        ),
    ] = None


@dataclass(frozen=True)
class Reading(TextReading):
    """Options that say how to read labelled examples."""

    labels: Annotated[
        str | None,
        option("Label column of a table, or the file of labels of npz.", DATA, metavar="COLUMN"),
    ] = None
    label_separator: Annotated[
        str | None,
        option(
            "Separator of labels in a cell; by default a cell is one label.",
            DATA,
            metavar="S",
            callback=_tabs,
        ),
    ] = None
    verbatim_labels: Annotated[
        bool | None,
        flag(
            "--verbatim-labels",
            "Take labels as they are, even if they look like several in one.",
            DATA,
        ),
    ] = None

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Reading:
        return cls(**{field.name: facts.get(field.name) for field in fields(cls)})

    def to_json(self) -> dict[str, Any]:
        """Return what holds for other files too: the labels of an npz file are another file."""
        facts = asdict(self)
        facts["vectors"] = None
        facts["encoding"] = None  # read in the wrong one, a file in UTF-8 would be no error
        has_file_of_labels = self.format == "npz" or (self.labels or "").endswith(".npz")
        if has_file_of_labels:
            facts["labels"] = None
        return facts

    def overridden_by(self, reading: TextReading) -> Reading:
        """Return these options with those that ``reading`` sets in their place."""
        changes = {name: value for name, value in vars(reading).items() if value is not None}
        return replace(self, **changes)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `rembrandt.read`."""
        arguments = dict(vars(self))
        del arguments["vectors"]
        arguments["format"] = self.format or "auto"
        arguments["verbatim_labels"] = bool(self.verbatim_labels)
        return arguments


def read_training(
    source: str, reading: Reading, report: Report, id: str | None = None
) -> tuple[Dataset, Reading]:
    """Return labelled examples and how they were read; the values of the column ``id`` are their
    ids.
    """
    from rembrandt.data import catalogue, read

    if is_data_set(source):
        if id is not None:
            message = f"the data set {source} has no column {id!r}; name a file"
            raise DataError(message, parameter=["groups", "time"])
        data = catalogue.load(source, "train", report=report)
        return _with_vectors(data, reading), data_set_reading(source)
    with as_file(source) as path:
        data = read(path, **reading.arguments(), id=id, report=report)
        if data.columns is not None:
            columns = data.columns
            reading = replace(reading, text=list(columns.text), labels=columns.labels)
        return _with_vectors(data, reading), reading


def read_examples(
    source: str,
    reading: Reading,
    report: Report,
    n_features: int | None,
    unlabelled: bool,
    id: str | None = None,
) -> Dataset:
    """Return examples for a model of ``n_features`` features, or of texts if that is None."""
    from rembrandt.data import catalogue, read

    if is_data_set(source):
        data = catalogue.load(source, "test", report=report)
        return _with_vectors(data, reading)
    with as_file(source) as path:
        lines_are_texts = unlabelled and n_features is None
        format: str | None = reading.format
        if format is None and source == STANDARD_INPUT and lines_are_texts:
            format = _format_of_input(path, reading)
        if format is None:
            format = _detected(path, lines_are_texts, reading.encoding)
        arguments = reading.arguments()
        arguments["format"] = format
        if unlabelled:
            arguments["labels"] = None
        if format != "csv":
            arguments["delimiter"] = None
        if format in ("repository", "svmlight"):
            arguments["n_features"] = n_features
        data = read(path, **arguments, id=id, unlabelled=unlabelled, report=report)
        return _with_vectors(data, reading)


def _with_vectors(data: Dataset, reading: TextReading) -> Dataset:
    """Return the data with the dense vectors that the options name."""
    if reading.vectors is None:
        return data
    from rembrandt.data.vectors import with_vectors

    return with_vectors(data, reading.vectors)


def is_data_set(source: str) -> bool:
    """Return whether this is the name of a data set and not of a file."""
    from rembrandt.data.catalogue import DATA_SETS

    return source in DATA_SETS and not Path(source).exists()


def data_set_reading(name: str) -> Reading:
    """Return how the files of a data set are read; their names tell the format."""
    from rembrandt.data.catalogue import DATA_SETS

    return Reading.from_json({**DATA_SETS[name].options, "format": None})


def _format_of_input(path: Path, reading: Reading) -> str | None:
    """Return the format of texts on standard input, where its first line shows that it is a table.

    Lines that have the same number of cells, without a known name, are read as texts, with a
    warning.
    """
    from rembrandt.data.headers import looks_like_table, table_format

    if not reading.text:
        return None
    format = table_format(path, reading.text, reading.encoding)
    if format is not None:
        columns = " and ".join(map(repr, reading.text))
        typer.echo(
            f"Standard input is read as {format.upper()}, with texts in {columns}.", err=True
        )
        return format
    if looks_like_table(path, reading.encoding):
        message = (
            f"standard input looks like a table, but no line names the column {reading.text[0]!r}: "
            "each line is read as one text; set text and format if it is a table"
        )
        warnings.warn(RembrandtWarning(message, ("text", "format")), stacklevel=2)
    return None


def _detected(path: Path, lines_are_texts: bool, encoding: str | None = None) -> str:
    """Return the format; a file that is in no format may be read as plain lines, but not one of
    features.
    """
    from rembrandt.data.detect import detect, is_sparse_text

    try:
        format = detect(path, encoding) if path.is_file() else "auto"
    except DataError:
        if not lines_are_texts:
            raise
        return "lines"
    sparse_suffixes = (".vw", ".svm", ".svmlight", ".libsvm")
    is_ambiguous = format in ("vw", "repository", "svmlight") and path.suffix not in sparse_suffixes
    if lines_are_texts and is_ambiguous and not is_sparse_text(path, encoding):
        return "lines"
    return format


@contextmanager
def as_file(source: str) -> Iterator[Path]:
    """Yield the named file, or a copy of standard input, because readers read the beginning
    twice.
    """
    if source != STANDARD_INPUT:
        yield Path(source)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield path
