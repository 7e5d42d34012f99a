"""A folder appears complete or not at all, and what was there before survives every failure."""

import errno
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from rembrandt.errors import ModelError, OutputExistsError
from rembrandt.model import load_folder, save_folder, weights

OLD, NEW = {"w": np.zeros(10)}, {"w": np.ones(1000)}


def is_the_old_one(parent: Path) -> bool:
    """Whether the old model is whole and nothing else was left behind."""
    arrays, metadata = load_folder(parent / "model")
    return (
        metadata == {"which": "old"}
        and not arrays["w"].any()
        and [entry.name for entry in parent.iterdir()] == ["model"]
    )


@pytest.fixture
def parent(tmp_path):
    """A folder that holds one model."""
    save_folder(tmp_path / "model", OLD, {"which": "old"})
    return tmp_path


def test_existing_output_is_refused_without_force(parent):
    with pytest.raises(OutputExistsError, match="already exists; choose"):
        save_folder(parent / "model", NEW, {})
    assert is_the_old_one(parent)


def test_force_replaces_a_model_in_use(parent):
    mapped, _ = load_folder(parent / "model")
    save_folder(parent / "model", NEW, {"which": "new"}, force=True)
    arrays, metadata = load_folder(parent / "model")
    assert metadata == {"which": "new"}
    assert arrays["w"].all()
    assert not mapped["w"].any(), "who has the old one open keeps it"
    assert [entry.name for entry in parent.iterdir()] == ["model"]


def test_force_replaces_a_damaged_model(parent):
    card = parent / "model" / "model.json"
    card.write_bytes(card.read_bytes()[:60])
    save_folder(parent / "model", NEW, {}, force=True)
    load_folder(parent / "model")


def test_force_spares_what_is_not_a_model(parent, tmp_path):
    (parent / "model" / "notes.txt").write_text("mine")
    with pytest.raises(OutputExistsError, match=r"notes\.txt"):
        save_folder(parent / "model", NEW, {}, force=True)
    assert (parent / "model" / "notes.txt").exists()

    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputExistsError, match="not a folder"):
        save_folder(tmp_path / "file", NEW, {}, force=True)

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.json").write_text('{"somebody": "else"}')
    with pytest.raises(OutputExistsError, match="not a model"):
        save_folder(tmp_path / "other", NEW, {}, force=True)
    assert (tmp_path / "other" / "model.json").read_text() == '{"somebody": "else"}'


def test_links_are_followed(parent):
    (parent / "link").symlink_to("model")
    save_folder(parent / "link", NEW, {}, force=True)
    assert (parent / "link").is_symlink()
    assert load_folder(parent / "model")[0]["w"].all()


def test_parents_are_made_and_folder_is_as_open_as_others(tmp_path):
    save_folder(tmp_path / "a" / "b", NEW, {})
    assert (tmp_path / "a" / "b").stat().st_mode == (tmp_path / "a").stat().st_mode


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ["model", "fresh"])
def test_failure_while_writing_changes_nothing(parent, monkeypatch, failure, name):
    def fail(file, digest, data):
        file.write(data[: len(data) // 2])
        raise failure

    monkeypatch.setattr(weights, "_write", fail)
    expected = ModelError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        save_folder(parent / name, NEW, {}, force=True)
    if expected is ModelError:
        assert "No space left on device; nothing was changed" in str(caught.value)
    assert is_the_old_one(parent)


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("which", [0, 1])
def test_failure_of_either_rename_changes_nothing(parent, monkeypatch, failure, which):
    rename, calls = Path.rename, []

    def fail(self, target):
        calls.append(target)
        if len(calls) == which + 1:
            raise failure
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises((ModelError, KeyboardInterrupt)):
        save_folder(parent / "model", NEW, {}, force=True)
    assert is_the_old_one(parent)


def test_an_interrupted_swap_is_explained(parent):
    shutil.move(parent / "model", parent / ".model.old-12345678")
    with pytest.raises(ModelError, match=r"interrupted save left it at .*old-12345678, rename that back"):
        load_folder(parent / "model")


def test_a_disk_that_is_really_full(parent):
    """The system itself refuses to write more than a limit: the error comes from a write, not from a stand-in."""
    script = """
        import resource, signal, sys
        import numpy as np
        from rembrandt.errors import ModelError
        from rembrandt.model import save_folder
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            save_folder(sys.argv[1], {"w": np.ones(1_000_000)}, {}, force=True)
        except ModelError as error:
            print(error)
    """
    pytest.importorskip("resource")
    command = [sys.executable, "-c", textwrap.dedent(script), str(parent / "model")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "File too large; nothing was changed" in answer.stdout
    assert is_the_old_one(parent)
