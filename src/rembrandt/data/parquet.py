"""Columns of Parquet files as texts or lists of texts.

A file of a few hundred bytes can describe billions of values: repeated values are stored with their
number, long ones once in a dictionary, and pages are compressed. So the sizes that the file states
are checked before anything is read, and equal values share one text in memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from rembrandt.data.compressed import open_bytes
from rembrandt.data.parquet_footer import ColumnSize, FooterError, column_sizes
from rembrandt.errors import DataError
from rembrandt.progress import Report

_BATCH_ROWS = 10_000  # few enough that the cells of a batch take little memory

# Values take memory even where they are stored with their number.
_MAX_REPEATED_VALUES = 1 << 24  # of a column, allowed in any file
_MAX_VALUES_PER_BYTE = 64  # a file with more values needs bytes in proportion

_MAX_EXPANDED_BYTES = 1 << 28  # of a column, allowed in any file
_MAX_EXPANSION = 256  # a column with more bytes needs a file in proportion

# Kinds of text, which Arrow can read as numbers in a dictionary.
_TEXT_KINDS = ("STRING", "NONE", "JSON", "ENUM")


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """An open Parquet file; errors of Arrow become a ``DataError``."""
    try:
        with open_bytes(path) as (_, raw):
            metadata = pa.parquet.read_metadata(raw)
            raw.seek(0)
            texts = _text_paths(metadata)
            with pa.parquet.ParquetFile(raw, metadata=metadata, read_dictionary=texts) as file:
                yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise not_whole(path, str(error)) from error


def _text_paths(metadata: Any) -> list[str]:
    """The paths of the columns of text."""
    paths = []
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type in _TEXT_KINDS:
            paths.append(column.path)
    return paths


def checked_batches(
    path: Path, file: Any, n_rows: int, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield batches of rows whose texts are UTF-8, and whose numbers of values in dictionaries and
    lists are in range.

    Arrow does not look at them when it reads, and other functions rely on them.
    """
    for batch in file.iter_batches(batch_size=n_rows, columns=columns):
        check_values(path, batch)
        yield batch


def check_values(path: Path, table: pa.RecordBatch | pa.Table) -> None:
    """Refuse columns whose values cannot be."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowException as error:
            raise DataError(
                f"column {name!r} has values that are no text in UTF-8, or damaged ({error}); "
                "choose another column, or write the file again",
                path,
            ) from error


def check_sizes(path: Path, file: Any, wanted: list[str] | None = None) -> None:
    """Refuse columns that would take far more memory than the size of the file lets expect.

    None stands for all columns.
    """
    schema = file.metadata.schema
    file_bytes = path.stat().st_size
    max_values = max(_MAX_REPEATED_VALUES, _MAX_VALUES_PER_BYTE * file_bytes)
    max_bytes = max(_MAX_EXPANDED_BYTES, _MAX_EXPANSION * file_bytes)
    for number, size in enumerate(_stated_sizes(path)):
        if number >= file.metadata.num_columns:
            raise not_whole(path, "it has more columns than its schema")
        column_path = schema.column(number).path
        if wanted is not None and not any(_is_within(column_path, name) for name in wanted):
            continue
        if size.n_values > max_values or size.n_bytes > max_bytes:
            raise DataError(
                f"column {column_path!r} expands to {size.n_values:,} values and "
                f"{size.n_bytes:,} bytes from a file of {file_bytes:,} bytes; check the file, or "
                "write it without repetitions",
                path,
            )


def _stated_sizes(path: Path) -> list[ColumnSize]:
    with open_bytes(path) as (_, raw):
        try:
            return column_sizes(raw)
        except FooterError as error:
            raise not_whole(path, str(error)) from error


def not_whole(path: Path, reason: str) -> DataError:
    """Return the error of a damaged file."""
    return DataError(f"this is not a whole Parquet file ({reason}); write or fetch it again", path)


def _is_within(column_path: str, name: str) -> bool:
    """Whether a leaf of the schema belongs to a column."""
    return column_path == name or column_path.startswith(f"{name}.")


def parquet_cells(path: Path, wanted: list[str], report: Report) -> Iterator[dict[str, list[Any]]]:
    """The wanted columns of batches of rows, as texts or lists of texts."""
    distinct = list(dict.fromkeys(wanted))
    with open_parquet(path) as file:
        for name in distinct:
            _check_type(path, _type_at(file.schema_arrow, name), name)
        check_sizes(path, file, distinct)
        done = 0
        for batch in checked_batches(path, file, _BATCH_ROWS, distinct):
            done += batch.num_rows
            report(f"Reading {path.name}", done, file.metadata.num_rows)
            yield {name: _as_cells(path, _column_at(batch, name), name) for name in wanted}


def column_paths(schema: Any) -> list[str]:
    """The names of the columns, and those within structures joined by dots."""
    names = []
    for field in schema:
        names.append(field.name)
        if pa.types.is_struct(field.type):
            names += [f"{field.name}.{inner}" for inner in column_paths(field.type)]
    return names


def _type_at(schema: Any, name: str) -> pa.DataType:
    """The type of the column with this name or path."""
    fields = schema
    for position in range(len(name) + 1):
        if position == len(name) or name[position] == ".":
            head, rest = name[:position], name[position + 1 :]
            if fields.get_field_index(head) >= 0:
                field_type = fields.field(head).type
                return _type_at(field_type, rest) if rest else field_type
    raise KeyError(name)


def _column_at(batch: Any, name: str) -> pa.Array:
    """The column with this name or path; a value of a missing structure is missing."""
    if name in batch.schema.names:
        return batch.column(name)
    for column in batch.schema.names:
        if name.startswith(f"{column}."):
            values = batch.column(column)
            rest = name.removeprefix(f"{column}.")
            return _field_at(values, rest)
    raise KeyError(name)


def _field_at(values: pa.Array, name: str) -> pa.Array:
    """The field of a structure with this name or path."""
    for field in values.type:
        if name == field.name:
            return pc.struct_field(values, [name])
        if name.startswith(f"{field.name}."):
            inner = pc.struct_field(values, [field.name])
            return _field_at(inner, name.removeprefix(f"{field.name}."))
    raise KeyError(name)


def _check_type(path: Path, column_type: pa.DataType, name: str) -> None:
    """Refuse structures, and lists of lists."""
    if _is_list(column_type):
        column_type = column_type.value_type
    if pa.types.is_nested(column_type):
        raise DataError(
            f"column {name!r} holds a structure ({column_type}); expected a text, a number or a "
            "list of them",
            path,
        )


def _is_list(column_type: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_list(column_type)
        or types.is_large_list(column_type)
        or types.is_fixed_size_list(column_type)
    )


def _as_cells(path: Path, column: pa.Array, name: str) -> list[Any]:
    """A column of Arrow as texts or lists of texts; NaN is missing."""
    try:
        if not _is_list(column.type):
            return _as_texts(column)
        texts = _as_texts(column.flatten())
        lengths = pc.list_value_length(column).to_pylist()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(
            f"column {name!r} cannot be read as text ({error}); choose another column", path
        ) from error
    cells: list[Any] = []
    start = 0
    for length in lengths:
        if length is None:
            cells.append(None)
        else:
            cells.append(texts[start : start + length])
            start += length
    return cells


def _as_texts(column: pa.Array) -> list[str | None]:
    """Values as texts; those of a dictionary are made once."""
    types = pa.types
    if types.is_dictionary(column.type):
        distinct = np.array([*_as_texts(column.dictionary), None], dtype=object)
        numbers = pc.fill_null(column.indices, len(distinct) - 1).to_numpy()
        return distinct[numbers].tolist()
    if types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    return pc.cast(column, pa.large_string()).to_pylist()
