"""Bytes out of files, compressed or not, in chunks that end where a line ends."""

import gzip
import io
import lzma
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import zstandard

from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

SUFFIXES = (".gz", ".xz", ".zst")
CHUNK = 8 << 20
THREADS = min(4, os.cpu_count() or 1)  # more would wait for the decompression
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Result = TypeVar("Result")


def plain_suffix(path: Path) -> str:
    """The suffix that tells the format: ``.tsv`` for ``train.tsv.gz``."""
    name = Path(path.stem) if path.suffix.lower() in SUFFIXES else path
    return name.suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file for reading as ``(content, raw)``: decompressed bytes, and the file that they come from.

    Compression is told by the first bytes, not by the name. Whatever goes wrong while the content is read comes out
    as a ``DataError`` that names the file.
    """
    try:
        with path.open("rb") as raw:
            yield _decompressed(raw), raw
    except FileNotFoundError as error:
        raise DataError("there is no such file; check the path", path) from error
    except IsADirectoryError as error:
        raise DataError("this is a folder; name one file inside it", path) from error
    except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, gzip.BadGzipFile) as error:
        raise DataError(f"the compressed data is damaged or cut short ({error}); fetch the file again", path) from error
    except OSError as error:
        raise DataError(f"the file cannot be read ({error}); check its permissions and the disk", path) from error


def line_chunks(path: Path, report: Report = silent, size: int = CHUNK) -> Iterator[bytes]:
    """The file's bytes in chunks of whole lines; a line longer than a chunk makes that chunk longer."""
    total = path.stat().st_size if path.exists() else 0
    stage = f"Reading {path.name}"
    with open_bytes(path) as (content, raw):
        pieces: list[bytes] = []
        first = True
        while block := content.read(size):
            if first:
                block, first = block.removeprefix(BYTE_ORDER_MARK), False
            report(stage, raw.tell(), total)
            cut = block.rfind(b"\n") + 1
            if cut == 0:
                pieces.append(block)
                continue
            yield b"".join([*pieces, block[:cut]])
            pieces = [block[cut:]]
        last = b"".join(pieces)
        if last:
            yield last


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first decompressed bytes, to tell the format from."""
    with open_bytes(path) as (content, _):
        return content.read(size).removeprefix(BYTE_ORDER_MARK)


def in_order(
    chunks: Iterable[bytes], parse: Callable[[bytes], Result], threads: int = THREADS
) -> Iterator[tuple[bytes, Result]]:
    """Parse chunks in threads and hand them back in file order, only a few of them in memory at once."""
    waiting: deque[tuple[bytes, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(parse, chunk)))
            if len(waiting) > threads:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()


def decode(data: bytes, path: Path, line: int) -> str:
    """The text in ``data``, which begins on ``line`` of the file."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(path, line + data.count(b"\n", 0, error.start)) from error


def not_utf8(path: Path, line: int | None) -> DataError:
    return DataError("this line is not UTF-8 text; convert the file, for instance with iconv", path, line)


def first_line_not_utf8(path: Path) -> int | None:
    """The number of the first line that is not UTF-8, for readers that only learn that there is one."""
    line = 1
    for chunk in line_chunks(path):
        try:
            chunk.decode("utf-8")
        except UnicodeDecodeError as error:
            return line + chunk.count(b"\n", 0, error.start)
        line += chunk.count(b"\n")
    return None


def _decompressed(raw: BinaryIO) -> BinaryIO:
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.open(raw)  # type: ignore[return-value]
    if magic == b"\xfd7zXZ\x00":
        return lzma.open(raw)  # type: ignore[return-value]
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return io.BufferedReader(_ZstandardReader(raw), CHUNK)
    return raw


class _ZstandardReader(io.RawIOBase):
    """Frame after frame of a ``.zst`` file; the library's own reader takes one that was cut short for a whole one."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame: Any = None
        self._input = b""
        self._output = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            self._input = self._input or self._raw.read(1 << 17)
            if not self._input:
                if self._frame is not None:
                    raise EOFError("the last frame does not end")
                return 0
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._output = self._frame.decompress(self._input)
            self._input = b""
            if self._frame.eof:
                self._input, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count
