"""A file that only grows: lines that are on disk before their writer is told so."""

import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from rembrandt.errors import StorageError
from rembrandt.storage.atomic import fsync_folder, write_errors
from rembrandt.storage.locks import locked_by

_BLOCK_BYTES = 1 << 16  # read at a time, from the end of the file backwards
# Writes go to the end of the file. A link is not followed: it could lead to any file.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


class AppendOnlyFile:
    """Lines at the end of a file, which one process writes at a time.

    `append` returns when its lines are on disk. If it fails, the file is as it was before. A
    process that is killed while it writes leaves an incomplete last line, which nobody was told is
    on disk; it is removed when the file is opened the next time.

    Parameters
    ----------
    path : Path
        The file; it is created if it does not exist.
    max_bytes : int
        Size that the file must not exceed.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._resources = ExitStack()
        lock = path.with_name(f".{path.name}.lock")
        self._resources.enter_context(locked_by(lock, path, remove=True))
        try:
            with write_errors(path):
                is_new = not path.exists()
                self._descriptor = os.open(path, _FLAGS, 0o666)
                self._resources.callback(os.close, self._descriptor)
                self.n_removed_bytes = self._remove_incomplete_line()
                if is_new:
                    fsync_folder(path.absolute().parent)
        except BaseException:
            self.close()
            raise

    def append(self, lines: Iterable[bytes]) -> None:
        """Write lines, without their ends, and force them to disk."""
        data = b"".join(line + b"\n" for line in lines)
        size = os.fstat(self._descriptor).st_size
        if size + len(data) > self.max_bytes:
            raise StorageError(
                f"{self.path} would grow beyond {self.max_bytes:,} bytes; start the service with "
                "another file"
            )
        with write_errors(self.path):
            try:
                self._write(data)
                os.fsync(self._descriptor)
            except BaseException:
                # Nobody was told that these lines are on disk.
                with suppress(OSError):
                    os.ftruncate(self._descriptor, size)
                raise

    def close(self) -> None:
        """Close the file and release its lock."""
        self._resources.close()

    def _write(self, data: bytes) -> None:
        """Write all of the bytes; the system may take them in several pieces."""
        rest = memoryview(data)
        while rest:
            n_written = os.write(self._descriptor, rest)
            rest = rest[n_written:]

    def _remove_incomplete_line(self) -> int:
        """Remove what follows the last line end; return its number of bytes."""
        size = os.fstat(self._descriptor).st_size
        end = self._end_of_lines(size)
        if end < size:
            os.ftruncate(self._descriptor, end)
            os.fsync(self._descriptor)
        return size - end

    def _end_of_lines(self, size: int) -> int:
        """Return the position after the last line end, 0 if there is none."""
        stop = size
        while stop > 0:
            start = max(0, stop - _BLOCK_BYTES)
            os.lseek(self._descriptor, start, os.SEEK_SET)
            block = os.read(self._descriptor, stop - start)
            position = block.rfind(b"\n")
            if position >= 0:
                return start + position + 1
            stop = start
        return 0
