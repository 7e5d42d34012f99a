"""What the columns of a Parquet file expand to, read from the end of the file.

Arrow knows these sizes, too, but some versions end the process when they are asked for those of a
damaged file. The end of a Parquet file is a structure of Thrift in its compact protocol, of which
the few fields below are read and all others are skipped.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAGIC = b"PAR1"
TAIL_BYTES = 8  # the length of the structure in four bytes, and the magic ones
MAX_DEPTH = 64  # of structures within structures
MAX_VARINT_BITS = 64

# Types of the compact protocol.
STOP = 0
TRUE = 1
FALSE = 2
BYTE = 3
INTEGERS = (4, 5, 6)
DOUBLE = 7
BINARY = 8
LIST = 9
SET = 10
MAP = 11
STRUCT = 12
UUID = 13
FIXED_BYTES = {BYTE: 1, DOUBLE: 8, UUID: 16}

# Fields of the structures of Parquet.
ROW_GROUPS = 4  # of the file
CHUNKS = 1  # of a row group, one for each column
CHUNK_METADATA = 3  # of a chunk
N_VALUES = 5  # of its metadata
N_UNCOMPRESSED_BYTES = 6


class FooterError(ValueError):
    """The end of a file is not that of a Parquet file."""


@dataclass
class ColumnSize:
    """What a column of a file, or a chunk of it, expands to."""

    n_values: int = 0
    n_bytes: int = 0


def column_sizes(file: BinaryIO) -> list[ColumnSize]:
    """Return the sizes of the columns that have values, in the order of the schema."""
    reader = _Reader(_footer(file))
    sizes: list[ColumnSize] = []
    for field, kind in reader.fields():
        if field == ROW_GROUPS and kind == LIST:
            sizes = _sizes_of_groups(reader)
        else:
            reader.skip(kind)
    return sizes


def _footer(file: BinaryIO) -> bytes:
    n_file_bytes = file.seek(0, os.SEEK_END)
    file.seek(max(0, n_file_bytes - TAIL_BYTES))
    tail = file.read(TAIL_BYTES)
    if len(tail) < TAIL_BYTES or not tail.endswith(MAGIC):
        raise FooterError("the last bytes are not those of a Parquet file")
    n_bytes = int.from_bytes(tail[:4], "little")
    if n_bytes > n_file_bytes - TAIL_BYTES:
        raise FooterError("its description is longer than the file")
    file.seek(n_file_bytes - TAIL_BYTES - n_bytes)
    return file.read(n_bytes)


def _sizes_of_groups(reader: "_Reader") -> list[ColumnSize]:
    """Add up the chunks of each column in all row groups."""
    sizes: list[ColumnSize] = []
    for _ in reader.structs():
        chunks: list[ColumnSize] = []
        for field, kind in reader.fields():
            if field == CHUNKS and kind == LIST:
                chunks = [_size_of_chunk(reader) for _ in reader.structs()]
            else:
                reader.skip(kind)
        n_missing = len(chunks) - len(sizes)
        sizes += [ColumnSize() for _ in range(n_missing)]
        for size, chunk in zip(sizes, chunks, strict=False):
            size.n_values += chunk.n_values
            size.n_bytes += chunk.n_bytes
    return sizes


def _size_of_chunk(reader: "_Reader") -> ColumnSize:
    size = ColumnSize()
    for field, kind in reader.fields():
        if field == CHUNK_METADATA and kind == STRUCT:
            size = _size_in_metadata(reader)
        else:
            reader.skip(kind)
    return size


def _size_in_metadata(reader: "_Reader") -> ColumnSize:
    size = ColumnSize()
    for field, kind in reader.fields():
        if field == N_VALUES and kind in INTEGERS:
            size.n_values = reader.count()
        elif field == N_UNCOMPRESSED_BYTES and kind in INTEGERS:
            size.n_bytes = reader.count()
        else:
            reader.skip(kind)
    return size


class _Reader:
    """Reads values of the compact protocol, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._depth = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of a structure, which the caller reads or skips."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FooterError("its description is nested too deeply")
        number = 0
        while True:
            header = self._byte()
            kind = header & 0x0F
            if kind == STOP:
                break
            step = header >> 4
            if step > 0:
                number += step
            else:
                number = self._signed()
            yield number, kind
        self._depth -= 1

    def structs(self) -> Iterator[None]:
        """Yield once for each structure of a list, which the caller reads."""
        n_items, kind = self._list_header()
        if kind != STRUCT and n_items > 0:
            raise FooterError("its description has a list of other values where columns belong")
        for _ in range(n_items):
            yield

    def count(self) -> int:
        """Return a number of something."""
        number = self._signed()
        if number < 0:
            raise FooterError("its description has a negative size")
        return number

    def skip(self, kind: int) -> None:
        """Go to the end of a value."""
        if kind in (TRUE, FALSE):  # the type is the value
            return
        if kind in FIXED_BYTES:
            self._advance(FIXED_BYTES[kind])
        elif kind in INTEGERS:
            self._varint()
        elif kind == BINARY:
            self._advance(self._varint())
        elif kind in (LIST, SET):
            n_items, item_kind = self._list_header()
            for _ in range(n_items):
                self._skip_item(item_kind)
        elif kind == MAP:
            self._skip_map()
        elif kind == STRUCT:
            for _, field_kind in self.fields():
                self.skip(field_kind)
        else:
            raise FooterError("its description has values of an unknown type")

    def _skip_map(self) -> None:
        n_items = self._varint()
        if n_items == 0:
            return
        kinds = self._byte()
        for _ in range(n_items):
            self._skip_item(kinds >> 4)
            self._skip_item(kinds & 0x0F)

    def _skip_item(self, kind: int) -> None:
        """Go to the end of a value in a list: there truth values take a byte."""
        if kind in (TRUE, FALSE):
            kind = BYTE
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FooterError("its description is nested too deeply")
        self.skip(kind)
        self._depth -= 1

    def _list_header(self) -> tuple[int, int]:
        header = self._byte()
        n_items = header >> 4
        if n_items == 0x0F:
            n_items = self._varint()
        return n_items, header & 0x0F

    def _signed(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        number = 0
        for shift in range(0, MAX_VARINT_BITS, 7):
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise FooterError("its description has a number that does not end")

    def _byte(self) -> int:
        if self._position >= len(self._data):
            raise FooterError("its description is cut short")
        byte = self._data[self._position]
        self._position += 1
        return byte

    def _advance(self, n_bytes: int) -> None:
        if n_bytes > len(self._data) - self._position:
            raise FooterError("its description is cut short")
        self._position += n_bytes
