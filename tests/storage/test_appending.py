"""Lines are on disk before their writer is told so, and what nobody was told of is removed."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rembrandt.errors import StorageError
from rembrandt.storage import appending
from rembrandt.storage.appending import AppendOnlyFile

LIMIT = 1 << 20


def append(path: Path, *lines: bytes, limit: int = LIMIT) -> int:
    file = AppendOnlyFile(path, limit)
    try:
        file.append(lines)
        return file.n_removed_bytes
    finally:
        file.close()


def test_lines_are_added(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append(path, b"one", b"two")
    append(path, b"three")
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["lines"]  # the lock is gone


@pytest.mark.parametrize("complete", [b"", b"one\n", b"one\n" * 50_000])
def test_an_incomplete_last_line_is_removed(tmp_path: Path, complete: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(complete + b"tw")
    assert append(path, b"three") == 2
    assert path.read_bytes() == complete + b"three\n"


def test_every_write_is_forced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    synced: list[bytes] = []
    monkeypatch.setattr(appending.os, "fsync", lambda _: synced.append(path.read_bytes()))
    append(path, b"one")
    assert synced[-1] == b"one\n"


def test_a_failed_write_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    file = AppendOnlyFile(path, LIMIT)
    file.append([b"one"])
    write = os.write

    def fill_the_disk(descriptor: int, data: memoryview) -> int:
        if len(data) <= 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patched:
        patched.setattr(appending.os, "write", fill_the_disk)
        with pytest.raises(StorageError, match="the disk is full"):
            file.append([b"a longer line"])
    assert path.read_bytes() == b"one\n"
    file.append([b"two"])
    file.close()
    assert path.read_bytes() == b"one\ntwo\n"


def test_the_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append(path, b"12345678", limit=10)
    with pytest.raises(StorageError, match="beyond 10 bytes"):
        append(path, b"1", limit=10)
    assert path.read_bytes() == b"12345678\n"


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    file = AppendOnlyFile(tmp_path / "lines", LIMIT)
    with pytest.raises(StorageError, match="in use by another process"):
        AppendOnlyFile(tmp_path / "lines", LIMIT)
    file.close()


@pytest.mark.skipif(os.name != "posix", reason="links and signals of POSIX")
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine\n")
    (tmp_path / "lines").symlink_to(target)
    with pytest.raises(StorageError):
        append(tmp_path / "lines", b"one")
    assert target.read_bytes() == b"mine\n"


@pytest.mark.skipif(os.name != "posix", reason="links and signals of POSIX")
def test_a_killed_writer_loses_no_confirmed_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from rembrandt.storage.appending import AppendOnlyFile

        file = AppendOnlyFile(Path(sys.argv[1]), 1 << 30)
        number = 0
        while True:
            file.append([b"%d" % number])
            print(number, flush=True)
            number += 1
        """
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        confirmed = [process.stdout.readline() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        confirmed += process.stdout.readlines()
    lines = path.read_text().splitlines()
    assert lines[: len(confirmed)] == [line.strip() for line in confirmed]
    assert len(lines) <= len(confirmed) + 1
