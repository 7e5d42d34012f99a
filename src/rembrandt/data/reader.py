"""One function that reads every format."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rembrandt.data.batches import datasets
from rembrandt.data.compressed import head, line_chunks
from rembrandt.data.corrections import correction_batches, is_corrections
from rembrandt.data.dataset import Dataset
from rembrandt.data.detect import FORMATS, ReadOptions, detect
from rembrandt.data.encodings import check_encoding
from rembrandt.data.frames import is_frame
from rembrandt.data.separators import check_labels
from rembrandt.data.store import Store, is_store
from rembrandt.errors import DataError, kind_of
from rembrandt.linalg.blocks import spans
from rembrandt.progress import Report, silent

TABLES = ("csv", "tsv", "jsonl", "json", "xlsx", "parquet")  # formats with named columns
ENCODED = ("csv", "tsv", "jsonl", "json", "fasttext", "lines")  # formats that are texts


def read(
    path: Any,
    format: str = "auto",
    *,
    text: str | Sequence[str] | None = None,
    labels: str | Path | None = None,
    label_separator: str | None = None,
    verbatim_labels: bool = False,
    id: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    unlabelled: bool = False,
    label_ids: Sequence[str] | None = None,
    n_features: int | None = None,
    report: Report = silent,
) -> Dataset:
    """Read a file of examples or a table in memory, or open a store.

    Files may be compressed (``.gz``, ``.xz``, ``.zst``). Rows without features or labels are kept
    and counted in ``notes``. Values of a feature that is repeated within a row are added. Errors
    have the file and the line.

    Parameters
    ----------
    path : str, Path or table
        The file, or the folder of a store; or a data frame of pandas or polars, a table of Arrow or
        a data set of Hugging Face.
    format : {"auto", "vw", "repository", "svmlight", "fasttext", "csv", "tsv", "jsonl", \
            "json", "xlsx", "parquet", "npz", "corrections", "lines"}, default="auto"
        The format of the file; "auto" detects it from the name and the first lines. "lines" is one
        unlabelled text per line; "corrections" are the answers of people to suggestions.
    text : str or sequence of str, default=None
        For tables, the column of the text, or several columns, which are joined by a space. In JSON
        and Parquet it may be a path, such as ``doc.title``. None chooses columns with names such as
        text, title and abstract, if there is no doubt; ``columns`` of the result has the choice.
    labels : str or Path, default=None
        For tables, the column of the labels, None for one with a name such as labels, tags or
        subjects; for "npz", the file of the label matrix.
    label_separator : str, default=None
        For tables, what separates several labels in a cell; None means that a cell is one label, or
        a list such as ``["a", "b"]``.
    verbatim_labels : bool, default=False
        Take the labels as they are, also where they look like several labels joined by a separator.
    id : str, default=None
        For tables, the column that identifies an example; it becomes ``ids``.
    delimiter : str, default=None
        For "csv", what separates cells; None chooses a comma, a semicolon or a tab by the first
        line.
    encoding : str, default=None
        For texts, the encoding, such as "cp1252"; None is UTF-8, or UTF-16 with a byte order mark.
    unlabelled : bool, default=False
        For tables and "npz", whether there are no labels, as in data to predict.
    label_ids : sequence of str, default=None
        For formats where labels are numbers, the identifiers that replace them, in order.
    n_features : int, default=None
        For "repository" and "svmlight", the number of features, where the file does not say.
    report : callable, default=silent
        Called with stage, done and total while the file is read.

    Returns
    -------
    Dataset
        The examples. The rows of a store stay on disk.

    Examples
    --------
    >>> import tempfile
    >>> from rembrandt import read
    >>> with tempfile.NamedTemporaryFile("w", suffix=".svm") as file:
    ...     _ = file.write("0,2 0:1 3:0.5\\n1 2:1\\n")
    ...     file.flush()
    ...     data = read(file.name)
    >>> data.X.shape, data.Y.shape, data.task
    ((2, 4), (2, 3), 'multilabel')
    """
    options = ReadOptions(
        format=format,
        text=text,
        labels=labels,
        label_separator=label_separator,
        verbatim_labels=verbatim_labels,
        id=id,
        delimiter=delimiter,
        encoding=encoding,
        unlabelled=unlabelled,
        label_ids=label_ids,
        n_features=n_features,
    )
    if is_frame(path):
        return _read_frame(path, options, report)
    if not isinstance(path, str | os.PathLike):
        raise DataError(
            f"the source is {kind_of(path)}; give the path of a file, or a table in memory: of "
            "pandas, polars, Arrow or Hugging Face datasets"
        )
    return next(read_parts(Path(path), options, report))


def _read_frame(frame: Any, options: ReadOptions, report: Report) -> Dataset:
    """Read a table in memory."""
    from rembrandt.data.table import frame_batches

    for parameter in ("delimiter", "encoding"):
        if getattr(options, parameter) is not None:
            message = f"a table in memory has no {parameter}; leave it out"
            raise DataError(message, parameter=parameter)
    batches, columns = frame_batches(frame, options, report)
    name = Path(type(frame).__name__)
    data = next(datasets(name, batches, math.inf, "at least one row", columns))
    if not options.unlabelled and not options.verbatim_labels:
        check_labels(data, name, options.label_separator)
    return data


def read_parts(
    path: str | Path, options: ReadOptions, report: Report = silent, rows: float = math.inf
) -> Iterator[Dataset]:
    """Read as `read` does, in parts of at most ``rows`` examples, each with names of its own.

    One part is in memory at a time. The same file is always cut in the same way.
    """
    is_checked = options.unlabelled or options.verbatim_labels or is_store(path)
    is_checked = is_checked or is_corrections(Path(path))  # their labels are lists
    for data in _datasets(Path(path), options, report, rows):
        if not is_checked:  # the first part stands for all
            check_labels(data, path, options.label_separator)
            is_checked = True
        if data.n_examples <= rows:
            yield data
        else:
            yield from _cut(data, int(rows))


def _cut(data: Dataset, rows: int) -> Iterator[Dataset]:
    """Cut a dataset into parts of ``rows`` examples."""
    for span in spans(data.n_examples, rows):
        yield _examples_at(data, span)


def _examples_at(data: Dataset, span: slice) -> Dataset:
    """Consecutive examples; the first ones have the counts of duplicates of all.

    Duplicates were removed when the file was read, so they cannot be counted in each part.
    """
    examples = data.rows(np.arange(span.start, span.stop))
    if span.start > 0:
        return examples
    notes = replace(
        examples.notes,
        duplicate_features=data.notes.duplicate_features,
        duplicate_labels=data.notes.duplicate_labels,
    )
    return replace(examples, notes=notes)


def _datasets(path: Path, options: ReadOptions, report: Report, rows: float) -> Iterator[Dataset]:
    """Datasets of about ``rows`` examples: readers stop where a chunk of lines ends."""
    if options.format != "auto" and options.format not in FORMATS:
        raise DataError(
            f"there is no format {options.format!r}; choose from {', '.join(FORMATS)}, or auto",
            path,
            parameter="format",
        )
    if path.is_dir() and is_store(path):
        return iter([Store(path).dataset()])
    if options.format != "npz" and not head(path, 1):
        raise DataError("the file is empty; expected at least one example", path)
    check_encoding(options.encoding, path)
    kind = options.format
    if kind == "auto":
        kind = detect(path, options.encoding)
    _check_options(path, kind, options)

    # Readers are imported when they are needed: numba and pyarrow take long to load.
    if kind == "npz":
        from rembrandt.data.npz import read_npz

        labels = None if options.labels is None else Path(options.labels)
        return iter([read_npz(path, labels, options.label_ids, options.unlabelled)])
    if kind == "lines":
        return iter([_read_lines(path, report, options.encoding)])
    if kind == "corrections":
        batches = correction_batches(path, report)
        return datasets(path, batches, rows, "a line for each corrected text")
    if kind in ("repository", "svmlight"):
        from rembrandt.data.repository import repository_batches

        batches, columns = repository_batches(path, options.label_ids, options.n_features, report)
        return datasets(path, batches, rows, "lines like '3,5 0:1 7:0.5'", columns)
    if kind == "vw":
        from rembrandt.data.vw import vw_batches

        batches = vw_batches(path, report)
        return datasets(path, batches, rows, "lines like '3 | height:0.5 red'")
    if kind == "fasttext":
        from rembrandt.data.fasttext import fasttext_batches

        batches = fasttext_batches(path, report, options.encoding)
        return datasets(path, batches, rows, "lines like '__label__red a red apple'")
    from rembrandt.data.table import table_batches

    batches, columns = table_batches(path, kind, options, report)
    return datasets(path, batches, rows, "at least one row below the column names", columns)


def _check_options(path: Path, kind: str, options: ReadOptions) -> None:
    """Refuse options that a file of this format cannot have."""
    if options.id is not None and kind not in TABLES:
        raise DataError(
            f"a {kind} file has no columns to take ids from; use {', '.join(TABLES)}",
            path,
            parameter="id",
        )
    if options.delimiter is not None and kind != "csv":
        raise DataError(
            f"a {kind} file has no other delimiter; leave it out", path, parameter="delimiter"
        )
    if options.encoding is not None and kind not in ENCODED:
        raise DataError(
            f"a {kind} file is read without an encoding; leave it out, or convert the file",
            path,
            parameter="encoding",
        )
    if kind == "lines" and not options.unlabelled:
        raise DataError(
            "plain lines have no labels; use a table or fastText's format",
            path,
            parameter="format",
        )
    names_columns = kind in TABLES or kind in ("vw", "fasttext", "corrections")
    if names_columns and (options.label_ids is not None or options.n_features is not None):
        raise DataError(
            f"a {kind} file names its own labels and features; "
            "match them with Dataset.align_labels",
            path,
        )


def _read_lines(path: Path, report: Report, encoding: str | None) -> Dataset:
    """Read one text per line.

    An empty line is an empty text, so that predictions and lines correspond.
    """
    texts: list[str] = []
    for chunk in line_chunks(path, report, encoding=encoding):
        lines = chunk.text().removesuffix("\n").split("\n")
        texts.extend(line.strip() for line in lines)
    no_labels = sp.csr_array((len(texts), 0), dtype="float32")
    return Dataset.build(no_labels, texts=texts, label_ids=[])
