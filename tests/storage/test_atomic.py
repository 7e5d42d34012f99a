"""A file or folder appears complete or not at all, and what was there before survives every
failure.
"""

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rembrandt.errors import OutputExistsError, StorageError
from rembrandt.storage import atomic
from rembrandt.storage.atomic import atomic_file, atomic_folder, interrupted, remove_partial_files

FAILURES = [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]


def replaceable(path):
    return None


def save_file(path, contents, failure=None):
    with atomic_file(path) as file:
        file.write(contents)
        if failure is not None:
            raise failure


def save_folder(path, contents, failure=None, may_replace=replaceable):
    with atomic_folder(path, may_replace) as folder:
        (folder / "file").write_bytes(contents)
        if failure is not None:
            raise failure


def read(path):
    return (path / "file" if path.is_dir() else path).read_bytes()


both = pytest.mark.parametrize("save", [save_file, save_folder])


@pytest.fixture
def old(tmp_path, request):
    """A path with something complete, alone in its folder."""
    save = request.getfixturevalue("save")
    save(tmp_path / "old", b"old")
    return tmp_path / "old"


def is_unchanged(path):
    return read(path) == b"old" and list(path.parent.iterdir()) == [path]


@both
def test_replaces_what_is_there(save, old):
    save(old, b"new")
    assert read(old) == b"new" and list(old.parent.iterdir()) == [old]


@both
@pytest.mark.parametrize("failure", FAILURES)
def test_failure_while_writing_changes_nothing(save, old, failure):
    for path in (old, old.with_name("another")):
        with pytest.raises((StorageError, KeyboardInterrupt)) as caught:
            save(path, b"new", failure)
        if isinstance(failure, OSError):
            assert f"could not write {path}: the disk is full; files" in str(caught.value)
        assert is_unchanged(old)


@both
@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("which", [0, 1])
def test_failure_of_any_rename_changes_nothing(save, old, monkeypatch, failure, which):
    rename, calls = Path.rename, []

    def fail(self, target):
        calls.append(target)
        if len(calls) == which % (2 if save is save_folder else 1) + 1:
            raise failure
        return rename(self, target)

    monkeypatch.setattr(atomic, "exchange", lambda first, second: False)
    monkeypatch.setattr(Path, "rename", fail)
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises((StorageError, KeyboardInterrupt)):
        save(old, b"new")
    assert is_unchanged(old)


@both
def test_an_error_of_another_file_passes(save, old, tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        save(
            old,
            b"new",
            FileNotFoundError(errno.ENOENT, "No such file", str(tmp_path.parent / "elsewhere")),
        )
    assert is_unchanged(old)


@both
def test_the_new_one_has_the_usual_permissions(save, tmp_path):
    save(tmp_path / "new", b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert (tmp_path / "new").stat().st_mode == (
        tmp_path / save.__name__.removeprefix("save_")
    ).stat().st_mode


@pytest.mark.parametrize("save", [save_folder])
def test_an_existing_folder_may_be_refused(save, old):
    with pytest.raises(OutputExistsError, match="already exists; choose"):
        save(old, b"new", may_replace=None)
    with pytest.raises(OutputExistsError, match="not overwritten: it is mine; choose"):
        save(old, b"new", may_replace=lambda path: "it is mine")
    assert is_unchanged(old)


@pytest.mark.parametrize("save", [save_folder])
def test_links_are_followed_and_parents_made(save, old, tmp_path):
    (tmp_path / "link").symlink_to("old")
    save(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and read(old) == b"new"
    save(tmp_path / "a" / "b", b"deep")
    assert read(tmp_path / "a" / "b") == b"deep"


def test_what_a_crash_leaves_is_found(tmp_path):
    (tmp_path / ".model.old-12345678").mkdir()
    assert interrupted(tmp_path / "model") == [tmp_path / ".model.old-12345678"]
    for name in (".shard.part-12345678", "shard", ".mine"):
        (tmp_path / name).touch()
    remove_partial_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".mine",
        ".model.old-12345678",
        "shard",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names in one step")
@pytest.mark.parametrize("save", [save_folder])
def test_a_folder_is_replaced_in_one_step(save, old, monkeypatch):
    def fail(self, target):
        raise AssertionError("a rename of its own")

    monkeypatch.setattr(Path, "rename", fail)
    save(old, b"new")
    assert read(old) == b"new" and list(old.parent.iterdir()) == [old]


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("save", [save_folder])
def test_what_killed_saves_left_is_removed(save, old, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(atomic, "exchange", lambda first, second: False)
    for name in (".old.new-0123abcd", ".old.old-0123abcd"):
        (old.parent / name / "within").mkdir(parents=True)
    (old.parent / ".old.new-mine").mkdir()
    save(old, b"new")
    assert read(old) == b"new" and sorted(old.parent.iterdir()) == [
        old.parent / ".old.new-mine",
        old,
    ]


def test_a_folder_that_appears_while_another_is_written_is_kept(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(OutputExistsError, match="already exists"), atomic_folder(path) as folder:
        (folder / "file").write_bytes(b"late")
        path.mkdir()
        (path / "file").write_bytes(b"early")
    assert read(path) == b"early" and list(tmp_path.iterdir()) == [path]


def test_one_process_writes_a_folder_at_a_time(tmp_path):
    path = tmp_path / "model"
    with atomic_folder(path) as folder:
        (folder / "file").write_bytes(b"first")
        with pytest.raises(StorageError, match="in use by another process"):
            save_folder(path, b"second")
    assert read(path) == b"first" and list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
@both
def test_a_disk_that_is_really_full(save, old):
    """The operating system refuses to write more than a limit."""
    script = f"""
        import resource, signal, sys
        from pathlib import Path
        from rembrandt.errors import StorageError
        from tests.storage.test_atomic import {save.__name__} as save
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            save(Path(sys.argv[1]), bytes(1_000_000))
        except StorageError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(old)]
    answer = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert "File too large; files that were complete before are unchanged" in answer.stdout
    assert is_unchanged(old)
