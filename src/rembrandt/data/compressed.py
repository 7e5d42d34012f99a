"""Bytes of files, compressed or not, in chunks of whole lines that know where they are."""

import gzip
import io
import lzma
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from rembrandt import memory
from rembrandt.data.encodings import as_utf8, suggestion
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

SUFFIXES = (".gz", ".xz", ".zst")

CHUNK_BYTES = 8 << 20  # read at a time: enough for compiled parsers, and little memory
HEAD_BYTES = 1 << 16  # from which a format is detected
MAX_LINE_BYTES = 1 << 26  # a longer line is another format, such as a binary one
INPUT_BYTES = 1 << 11  # decompressed at a time: four bytes can expand to 128 KB
XZ_MEMORY_BYTES = 1 << 28  # xz -9 needs a quarter of it, and a file can ask for 4 GB
N_THREADS = min(4, os.cpu_count() or 1)  # more would wait for the decompression

_SHOWN_BYTES = 200  # of a line that cannot be decoded

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

Item = TypeVar("Item")
Result = TypeVar("Result")


class Chunk(NamedTuple):
    """Whole lines of a file."""

    data: bytes
    path: Path
    line: int  # number of the first line

    def text(self) -> str:
        """The lines as text."""
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            start = self.data.rfind(b"\n", 0, error.start) + 1
            line = self.data[start : start + _SHOWN_BYTES]
            message = f"this line is not UTF-8 text; {suggestion(line)}"
            number = self.line + self.data.count(b"\n", 0, error.start)
            raise DataError(message, self.path, number, "encoding") from error

    def error(self, message: str, position: int) -> DataError:
        """An error at a byte of the chunk."""
        return DataError(message, self.path, self.line + self.data.count(b"\n", 0, position))

    def word(self, position: int, longest: int = 40) -> str:
        """The word at a byte of the chunk, quoted for a message."""
        words = self.data[position : position + 4 * longest].split(maxsplit=1)
        word = ""
        if words:
            word = words[0].decode("utf-8", "replace")
        if len(word) > longest:
            word = word[:longest] + "…"
        return repr(word)


def plain_suffix(path: Path) -> str:
    """The suffix that tells the format: ``.tsv`` for ``train.tsv.gz``."""
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        suffix = Path(path.stem).suffix.lower()
    return suffix


@contextmanager
def open_bytes(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file as ``(content, raw)``: decompressed bytes, and the file that they come from.

    Compression is detected from the first bytes. Errors while the content is read become a
    ``DataError``.
    """
    try:
        with path.open("rb") as raw:
            yield _decompressed(raw), raw
    except FileNotFoundError as error:
        raise DataError("there is no such file; check the path", path) from error
    except IsADirectoryError as error:
        raise DataError("this is a folder; name one file inside it", path) from error
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(
            f"the compressed data is damaged or cut short ({error}); fetch the file again", path
        ) from error
    except MemoryError as error:
        raise DataError(memory.ran_out(error), path) from error
    except OSError as error:
        raise DataError(
            f"the file cannot be read ({error}); check its permissions and the disk", path
        ) from error


def line_chunks(
    path: Path,
    report: Report = silent,
    size: int = CHUNK_BYTES,
    encoding: str | None = None,
) -> Iterator[Chunk]:
    """The file in chunks of whole lines, as UTF-8.

    A line longer than ``size`` bytes makes its chunk longer, up to a limit.
    """
    total = path.stat().st_size if path.exists() else 0
    line = 1
    line_start = b""
    with open_bytes(path) as (encoded, raw):
        content = as_utf8(encoded, encoding, path)
        while block := content.read(size):
            report(f"Reading {path.name}", raw.tell(), total)
            block = line_start + block
            cut = block.rfind(b"\n") + 1
            if cut:
                yield Chunk(block[:cut], path, line)
                line += block.count(b"\n", 0, cut)
            line_start = block[cut:]
            if len(line_start) > MAX_LINE_BYTES:
                raise DataError(
                    f"this line is longer than {MAX_LINE_BYTES:,} bytes; expected one example per "
                    "line. Check the format",
                    path,
                    line,
                )
        if line_start:
            yield Chunk(line_start, path, line)


def head(path: Path, size: int = HEAD_BYTES, encoding: str | None = None) -> bytes:
    """The first decompressed bytes as UTF-8, to detect the format from."""
    with open_bytes(path) as (content, _):
        return as_utf8(content, encoding, path).read(size)


def in_threads(
    items: Iterable[Item], work: Callable[[Item], Result], threads: int = N_THREADS
) -> Iterator[tuple[Item, Result]]:
    """Apply ``work`` to items in threads, and yield items and results in order.

    Few of them are in memory at a time.
    """
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > threads:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()


def _decompressed(raw: BinaryIO) -> BinaryIO:
    """The content of a file, which is the file itself if it is not compressed."""
    magic = raw.read(len(_XZ_MAGIC))
    raw.seek(0)
    if magic.startswith(_GZIP_MAGIC):
        return gzip.open(raw)  # type: ignore[return-value]
    if magic == _XZ_MAGIC:
        start_xz = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)
        frames = _Frames(raw, start_xz, lzma.LZMAError, padding=b"\0")
        return io.BufferedReader(frames, CHUNK_BYTES)
    if magic.startswith(_ZSTD_MAGIC):
        import zstandard  # other files do not need it

        start_zstd = zstandard.ZstdDecompressor().decompressobj
        frames = _Frames(raw, start_zstd, zstandard.ZstdError)
        return io.BufferedReader(frames, CHUNK_BYTES)
    return raw


class _Frames(io.RawIOBase):
    """All frames of a file, in bounded memory.

    The libraries' own readers are unbounded, or miss a truncated file.
    """

    def __init__(
        self,
        raw: BinaryIO,
        start: Callable[[], Any],
        failure: type[Exception],
        padding: bytes = b"",
    ) -> None:
        """``start()`` decompresses a frame; ``padding`` may be between frames."""
        self._raw = raw
        self._start = start
        self._failure = failure
        self._padding = padding
        self._frame: Any = None  # the decompressor of the present frame
        self._input = b""
        self._output = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            if not self._input:
                self._input = self._raw.read(INPUT_BYTES)
            if not self._input:
                if self._frame is not None:
                    raise EOFError("the last frame does not end")
                return 0
            if self._frame is None:
                self._input = self._input.lstrip(self._padding)
                if self._input:
                    self._frame = self._start()
                continue
            try:
                self._output = self._frame.decompress(self._input)
            except self._failure as error:
                raise EOFError(str(error)) from error
            self._input = self._frame.unused_data  # empty within a frame
            if self._frame.eof:
                self._frame = None
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count
