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
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

SUFFIXES = (".gz", ".xz", ".zst")
CHUNK = 8 << 20
THREADS = min(4, os.cpu_count() or 1)  # more would wait for the decompression
LONGEST_LINE = 1 << 26  # bytes
INPUT = 1 << 11  # bytes decompressed at a time: four of them can expand to 128 KB
XZ_MEMORY = 1 << 28  # bytes; xz -9 needs a quarter of it, and a file can ask for 4 GB
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

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
            message = "this line is not UTF-8 text; convert the file, for instance with iconv"
            raise self.error(message, error.start) from error

    def error(self, message: str, position: int) -> DataError:
        """An error at a byte of the chunk."""
        return DataError(message, self.path, self.line + self.data.count(b"\n", 0, position))

    def word(self, position: int, longest: int = 40) -> str:
        """The word at a byte of the chunk, quoted for a message."""
        words = self.data[position : position + 4 * longest].split(maxsplit=1)
        word = words[0].decode("utf-8", "replace") if words else ""
        return repr(word if len(word) <= longest else word[:longest] + "…")


def plain_suffix(path: Path) -> str:
    """The suffix that tells the format: ``.tsv`` for ``train.tsv.gz``."""
    return (Path(path.stem) if path.suffix.lower() in SUFFIXES else path).suffix.lower()


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
        raise DataError(f"{memory.ran_out(error)}", path) from error
    except OSError as error:
        raise DataError(
            f"the file cannot be read ({error}); check its permissions and the disk", path
        ) from error


def line_chunks(path: Path, report: Report = silent, size: int = CHUNK) -> Iterator[Chunk]:
    """The file in chunks of whole lines; a line longer than ``size`` makes its chunk longer, up to
    a limit.
    """
    total = path.stat().st_size if path.exists() else 0
    line = 1
    with open_bytes(path) as (content, raw):
        rest = content.read(len(BYTE_ORDER_MARK)).removeprefix(
            BYTE_ORDER_MARK
        )  # the beginning of a line
        while block := content.read(size):
            report(f"Reading {path.name}", raw.tell(), total)
            block = rest + block
            cut = block.rfind(b"\n") + 1
            if cut:
                yield Chunk(block[:cut], path, line)
                line += block.count(b"\n", 0, cut)
            rest = block[cut:]
            if len(rest) > LONGEST_LINE:
                found = f"this line is longer than {LONGEST_LINE:,} bytes"
                raise DataError(
                    f"{found}; expected one example per line. Check the format", path, line
                )
        if rest:
            yield Chunk(rest, path, line)


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first decompressed bytes, to detect the format from."""
    with open_bytes(path) as (content, _):
        return content.read(size).removeprefix(BYTE_ORDER_MARK)


def in_threads(
    items: Iterable[Item], work: Callable[[Item], Result], threads: int = THREADS
) -> Iterator[tuple[Item, Result]]:
    """Apply ``work`` to items in threads and yield item and result in order, with few of them in
    memory at a time.
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
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.open(raw)  # type: ignore[return-value]
    if magic == b"\xfd7zXZ\x00":
        xz = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
        return io.BufferedReader(_Frames(raw, xz, lzma.LZMAError, b"\0"), CHUNK)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        import zstandard  # other files do not need it

        zst = zstandard.ZstdDecompressor().decompressobj
        return io.BufferedReader(_Frames(raw, zst, zstandard.ZstdError), CHUNK)
    return raw


class _Frames(io.RawIOBase):
    """All frames of a file, in bounded memory. The libraries' own readers are unbounded, or miss a
    truncated file.
    """

    def __init__(
        self,
        raw: BinaryIO,
        start: Callable[[], Any],
        failure: type[Exception],
        padding: bytes = b"",
    ) -> None:
        """``start()`` decompresses a frame; ``padding`` may be between frames."""
        self._raw, self._start, self._failure, self._padding = raw, start, failure, padding
        self._frame: Any = None
        self._input = self._output = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            self._input = self._input or self._raw.read(INPUT)
            if not self._input:
                if self._frame is not None:
                    raise EOFError("the last frame does not end")
                return 0
            if self._frame is None:
                self._input = self._input.lstrip(self._padding)
                self._frame = self._start() if self._input else None
                continue
            try:
                self._output = self._frame.decompress(self._input)
            except self._failure as error:
                raise EOFError(str(error)) from error
            self._input = self._frame.unused_data  # empty within a frame
            self._frame = None if self._frame.eof else self._frame
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count
