"""Character encodings of text files: all readers get UTF-8.

UTF-16 is recognized by its byte order mark. Other encodings have none, so they are named.
"""

import codecs
import io
from pathlib import Path
from typing import Any, BinaryIO

from rembrandt.errors import DataError

BYTE_ORDER_MARK = codecs.BOM_UTF8
READ_BYTES = 1 << 20  # decoded at a time

_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_SUGGESTED = "cp1252"  # of Windows in western Europe: what most files are that are not UTF-8


def check_encoding(encoding: str | None, path: Path) -> None:
    """Refuse the name of an encoding that does not exist or is not one of text."""
    if encoding is None:
        return
    try:
        known = codecs.lookup(encoding)
    except (LookupError, ValueError) as error:
        raise DataError(
            f"there is no encoding {encoding!r}; common ones are utf-8, utf-16, cp1252 and latin-1",
            path,
            parameter="encoding",
        ) from error
    if not known._is_text_encoding:
        raise DataError(
            f"{encoding!r} is not an encoding of text; common ones are utf-8, utf-16, cp1252 and "
            "latin-1",
            path,
            parameter="encoding",
        )


def as_utf8(content: BinaryIO, encoding: str | None, path: Path) -> BinaryIO:
    """Return a stream of UTF-8 bytes without a byte order mark.

    The encoding is that of the byte order mark, or else the given one, or else UTF-8. Bytes that
    are taken to be UTF-8 are not checked here, so that errors can name their line.
    """
    check_encoding(encoding, path)
    start = content.read(len(BYTE_ORDER_MARK))
    if start == BYTE_ORDER_MARK:
        return content
    used = "utf-8" if encoding is None else codecs.lookup(encoding).name
    for mark, marked in _MARKS.items():
        if start.startswith(mark):
            start = start.removeprefix(mark)
            used = marked
    if used == "utf-8" and content.seekable():
        content.seek(0)
        return content
    if used == "utf-8":
        return io.BufferedReader(_Joined(start, content), READ_BYTES)
    return io.BufferedReader(_Recoded(start, content, used, path), READ_BYTES)


def suggestion(data: bytes) -> str:
    """What to do about a line that is not UTF-8."""
    try:
        shown = data.decode(_SUGGESTED).strip()
    except UnicodeDecodeError:
        return "set encoding to that of the file, or convert it, for instance with iconv"
    return f"set encoding to that of the file; as {_SUGGESTED} the line begins {shown[:40]!r}"


class _Joined(io.RawIOBase):
    """Bytes that were read, and then the rest of a stream."""

    def __init__(self, start: bytes, content: BinaryIO) -> None:
        self._start = start
        self._content = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._start or self._content.read(len(buffer))
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        self._start = data[count:]
        return count


class _Recoded(io.RawIOBase):
    """A stream in another encoding as UTF-8."""

    def __init__(self, start: bytes, content: BinaryIO, encoding: str, path: Path) -> None:
        self._input = start
        self._content = content
        self._encoding = encoding
        self._path = path
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._output = b""
        self._line = 1  # of the end of the output
        self._is_complete = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output and not self._is_complete:
            self._decode()
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def _decode(self) -> None:
        data = self._input or self._content.read(READ_BYTES)
        self._input = b""
        self._is_complete = not data
        try:
            text = self._decoder.decode(data, final=self._is_complete)
        except UnicodeError as error:
            raise DataError(
                f"the text after this line is not {self._encoding} ({error}); set encoding to that "
                "of the file",
                self._path,
                self._line,
                "encoding",
            ) from error
        self._line += text.count("\n")
        self._output = text.encode("utf-8", "surrogatepass")
