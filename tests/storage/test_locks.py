"""A folder has one writing process at a time."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from rembrandt.errors import StorageError
from rembrandt.storage.locks import LOCK, locked, locked_by


def test_one_process_at_a_time(tmp_path):
    folder = tmp_path / "a" / "b"
    with (
        locked(folder),
        pytest.raises(StorageError, match=f"another process .process {os.getpid()}.; wait"),
        locked(folder),
    ):
        pass
    with locked(folder):
        pass


def test_a_killed_process_releases_its_lock(tmp_path):
    script = """
        import os, sys
        from pathlib import Path
        from rembrandt.storage.locks import locked
        with locked(Path(sys.argv[1])):
            os._exit(1)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], check=False)
    with locked(tmp_path):
        pass


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_lock_does_not_write_through_a_link(tmp_path, link):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "folder").mkdir()
    getattr(tmp_path / "folder" / LOCK, link)(victim)
    with pytest.raises(StorageError, match="choose another folder"), locked(tmp_path / "folder"):
        pass
    assert victim.read_text() == "precious"


def test_a_lock_that_is_removed_is_still_exclusive(tmp_path):
    """Threads take and remove the same lock; a lock on a deleted file must not count."""
    holders, most = [], []

    def work(_):
        taken = 0
        for _ in range(200):
            try:
                with locked_by(tmp_path / "lock", tmp_path, remove=True):
                    holders.append(1)
                    most.append(len(holders))
                    holders.pop()
                    taken += 1
            except StorageError:
                pass
        return taken

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) > 0
    assert max(most) == 1 and list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(StorageError, match="choose another folder"),
        locked(tmp_path / "file" / "folder"),
    ):
        pass
