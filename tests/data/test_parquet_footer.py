"""Sizes of columns, read from the end of Parquet files, against those of Arrow."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rembrandt.data.parquet_footer import FooterError, column_sizes

VALUES = st.one_of(
    st.lists(st.text(max_size=20), min_size=1, max_size=30),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=30),
    st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=30),
    st.lists(st.fixed_dictionaries({"a": st.booleans(), "b": st.text()}), min_size=1, max_size=30),
)


def written(columns, **options) -> bytes:
    file = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def sizes(data: bytes) -> list[tuple[int, int]]:
    return [(size.n_values, size.n_bytes) for size in column_sizes(io.BytesIO(data))]


def sizes_of_arrow(data: bytes) -> list[tuple[int, int]]:
    metadata = pa.parquet.read_metadata(io.BytesIO(data))
    totals = np.zeros((metadata.num_columns, 2), dtype=np.int64)
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            totals[column] += (chunk.num_values, chunk.total_uncompressed_size)
    return [tuple(total) for total in totals.tolist()]


@given(
    values=st.lists(VALUES, min_size=1, max_size=4),
    row_group_size=st.integers(1, 40),
    compression=st.sampled_from(["none", "zstd", "snappy"]),
)
def test_sizes_are_those_of_arrow(values, row_group_size, compression):
    n_rows = min(len(column) for column in values)
    columns = {f"c{i}": column[:n_rows] for i, column in enumerate(values)}
    data = written(
        columns,
        row_group_size=row_group_size,
        compression=compression,
        write_page_index=True,
    )
    assert sizes(data) == sizes_of_arrow(data)


def test_many_columns_and_no_rows():
    data = written({f"column {i}": [1.5, None] for i in range(40)})
    assert sizes(data) == sizes_of_arrow(data)
    empty = written({"a": pa.array([], pa.string())})
    assert sum(n_values for n_values, _ in sizes(empty)) == 0


@given(st.data())
def test_damaged_descriptions_give_sizes_or_an_error(data):
    file = bytearray(written({"a": ["x", "y"], "b": [[1], [2, 3]]}))
    n_footer_bytes = int.from_bytes(file[-8:-4], "little")
    start = len(file) - 8 - n_footer_bytes
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(start, len(file) - 5))
        file[position] = data.draw(st.integers(0, 255))
    try:
        for n_values, n_bytes in sizes(bytes(file)):
            assert n_values >= 0 and n_bytes >= 0
    except FooterError:
        pass


def ended(footer: bytes) -> bytes:
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "last bytes"),
        (b"PAR1", "last bytes"),
        (b"PAR1\xff\xff\xff\x7fPAR1", "longer than the file"),
        (ended(b"\x15"), "cut short"),
        (ended(b"\x18\x05ab"), "cut short"),
        (ended(b"\x15" + b"\xff" * 20), "does not end"),
        (ended(b"\x1e"), "unknown type"),
        (ended(b"\x1c" * 1000), "nested too deeply"),
        (ended(b"\x19\x19" + b"\x19" * 1000), "nested too deeply"),
        (ended(b"\x49\x15\x02\x00"), "list of other values"),
        # the file, its row groups, a chunk, and its metadata with -1 values
        (ended(b"\x49\x1c\x19\x1c\x3c\x56\x01\x00\x00\x00\x00"), "negative size"),
    ],
)
def test_what_is_wrong_is_said(file, message):
    with pytest.raises(FooterError, match=message):
        column_sizes(io.BytesIO(file))
