"""``rembrandt info``: a model described on one screen."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_model_is_described(data: Path, model: Path, run: Run) -> None:
    said = run("info", model).out
    assert "Trained on: 800 examples (texts, " in said and "40 labels" in said
    assert (
        "Chosen: embedding (rank 20, ridge 1, decoder ridge, penalty 0.01)." in said
        and "trees" not in said
    )
    assert "the first label is right for " in said and "Quality: P@1 " in said
    assert "in a table they are in title, body, and labels are in tags, separated by '|'." in said
    assert (
        "learned on held-out examples for the best micro F1" in said and "label embedding" in said
    )
    answer = run("info", model, "--json").json
    assert answer["bytes"] == sum(file.stat().st_size for file in model.iterdir())
    assert answer["trained_on"]["n_examples"] == 800 and answer["quality"]["held_out"] > 0
    assert answer["reading"]["text"] == ["title", "body"]


def test_features_and_what_is_no_model(feature_model: Path, run: Run, tmp_path: Path) -> None:
    assert "The input is 800 features for each example" in run("info", feature_model).out
    assert "not a model" in run("info", tmp_path, code=1).err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes with a name")
@pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
@pytest.mark.parametrize("is_pipe", [True, False])
def test_what_is_no_regular_file_is_refused(
    data: Path, model: Path, run: Run, tmp_path: Path, name: str, is_pipe: bool
) -> None:
    """A pipe without a writer is not waited for, and a device without an end is not read."""
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    (folder / name).unlink()
    if is_pipe:
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero")
    for command in (["info", folder], ["predict", folder, data / "test.tsv"]):
        message = run(*command, code=1).err
        assert name in message
        assert "Traceback" not in message
