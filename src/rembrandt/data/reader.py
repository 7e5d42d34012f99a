"""One function that reads every format."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rembrandt.data.compressed import head
from rembrandt.data.dataset import Dataset
from rembrandt.data.detect import FORMATS, detect
from rembrandt.data.store import Store, is_store
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent


def read(
    path: str | Path,
    format: str = "auto",
    *,
    text: str | Sequence[str] | None = None,
    labels: str | Path | None = None,
    label_separator: str | None = None,
    unlabelled: bool = False,
    label_names: Sequence[str] | None = None,
    n_features: int | None = None,
    report: Report = silent,
) -> Dataset:
    """Read a file of examples; it may be compressed (``.gz``, ``.xz``, ``.zst``). A store is opened, not read.

    Parameters
    ----------
    path : the file, or the folder of a store.
    format : "vw", "repository", "svmlight", "fasttext", "csv", "tsv", "jsonl", "parquet", "npz", or "lines" for one
        unlabelled text per line; "auto" goes by the file's name and first lines.
    text : for tables, the column of the text, or several, which are joined by a space.
    labels : for tables, the column of the labels; for "npz", the file of the label matrix.
    label_separator : for tables, what separates several labels in a cell; without it a cell is one label.
    unlabelled : for tables, "npz" and "lines", whether there are no labels, as in data to predict.
    label_names : for formats where labels are numbers, their names in order.
    n_features : for "repository" and "svmlight", how many features there are, where the file does not say.
    report : told how far the reading is.

    A row without features or labels is kept and counted in ``notes``. A feature that is repeated within a row has its
    values added. Anything malformed raises ``DataError``, which names the file and the line.
    """
    return next(
        read_parts(
            path,
            format,
            text=text,
            labels=labels,
            label_separator=label_separator,
            unlabelled=unlabelled,
            label_names=label_names,
            n_features=n_features,
            report=report,
        )
    )


def read_parts(
    path: str | Path,
    format: str = "auto",
    *,
    text: str | Sequence[str] | None = None,
    labels: str | Path | None = None,
    label_separator: str | None = None,
    unlabelled: bool = False,
    label_names: Sequence[str] | None = None,
    n_features: int | None = None,
    report: Report = silent,
    rows: float = math.inf,
) -> Iterator[Dataset]:
    """As `read`, in parts of about ``rows`` examples, one of them in memory at a time; each has its own names.

    The same file is always cut in the same places.
    """
    path = Path(path)
    if format != "auto" and format not in FORMATS:
        message = f"there is no format {format!r}; choose from {', '.join(FORMATS)}, or auto"
        raise DataError(message, path, parameter="format")
    if path.is_dir() and is_store(path):
        return iter([Store(path).dataset()])
    if format != "npz" and not path.is_file():
        raise DataError("this is a folder; name one file inside it" if path.is_dir() else "there is no such file", path)
    if format != "npz" and not head(path, 1):
        raise DataError("the file is empty; expected at least one example", path)
    kind = detect(path) if format == "auto" else format

    # Each reader is imported when it is needed: numba and pyarrow take a while to load.
    if kind == "npz":
        from rembrandt.data.npz import read_npz

        whole = read_npz(path, None if labels is None else Path(labels), label_names, unlabelled)
        if whole.n_examples <= rows:
            return iter([whole])
        n, step = whole.n_examples, int(rows)
        return (whole.rows(range(start, min(start + step, n))) for start in range(0, n, step))
    if kind in ("repository", "svmlight"):
        from rembrandt.data.repository import repository_parts

        return repository_parts(path, label_names, n_features, report, rows)
    if label_names is not None or n_features is not None:
        raise DataError(
            f"a {kind} file names its own labels and features; use Dataset.align_labels to match them", path
        )
    if kind == "vw":
        from rembrandt.data.vw import vw_parts

        return vw_parts(path, report, rows)
    if kind == "fasttext":
        from rembrandt.data.fasttext import fasttext_parts

        return fasttext_parts(path, report, rows)
    if kind == "lines":
        from rembrandt.data.lines import read_lines

        return iter([read_lines(path, unlabelled, report)])
    from rembrandt.data.table import table_parts

    column = None if labels is None else str(labels)
    return table_parts(path, kind, text, column, label_separator, unlabelled, report, rows)
