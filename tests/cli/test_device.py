"""``--device`` on every verb that works with data."""

from pathlib import Path

import numpy as np

from tests import devices  # noqa: F401  one thread for torch
from tests.cli.conftest import FAST, TABLE, Run

TWO = ("--device", "cpu,cpu")


def test_fit_predict_evaluate_and_embed_on_devices(
    data: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    there = tmp_path / "model"
    run("fit", data / "train.tsv", "-o", there, *TABLE, *FAST, *TWO)
    here, moved, both = (
        run("evaluate", folder, data / "test.tsv", "--json", *device).json
        for folder, device in ((model, ()), (there, ()), (there, TWO))
    )
    assert abs(here["p@1"] - moved["p@1"]) < 0.0101  # two of 200 examples, and rounding
    assert moved["p@5"] == both["p@5"]
    said = [
        run("predict", there, data / "test.tsv", "--json", *device).rows for device in ((), TWO)
    ]
    first = [[answer["labels"][0]["label"] for answer in each] for each in said]
    assert np.mean(np.array(first[0]) == np.array(first[1])) > 0.99
    values = []
    for name, device in (("here", ()), ("there", TWO)):
        run(
            "embed",
            data / "train.tsv",
            "-o",
            tmp_path / f"{name}.npz",
            *TABLE,
            "--n-components",
            5,
            *device,
        )
        values.append(np.load(tmp_path / f"{name}.npz")["singular_values"])
    np.testing.assert_allclose(*values, rtol=1e-3)


def test_a_device_that_is_not_there_is_one_sentence(
    data: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    commands = (
        ("fit", data / "train.tsv", "-o", tmp_path / "model", *TABLE, *FAST),
        ("embed", data / "train.tsv", "-o", tmp_path / "v.npz", *TABLE),
        ("predict", model, data / "test.tsv"),
        ("evaluate", model, data / "test.tsv"),
    )
    for command in commands:
        said = run(*command, "--device", "gpu7", code=1).err
        assert said.count("\n") == 1 and "(option --device)" in said
        assert "device='gpu7' is not a supported device" in said
    assert not (tmp_path / "model").exists()
