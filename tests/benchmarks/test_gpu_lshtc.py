"""The GPU benchmark on the CPU: its data has the documented shape, and every part runs."""

import json

import numpy as np
import pytest
import torch
from benchmarks.gpu_data import generate

from benchmarks import gpu_lshtc
from tests.devices import as_on_a_gpu  # noqa: F401  and one thread for torch


def test_the_data_has_the_shape_of_lshtc_and_learnable_labels():
    data = generate(0.004, torch.device("cpu"))
    n, d = data.X.shape
    assert (n, d, data.Y.shape[1]) == (7120, 6480, 1300)
    assert data.X.nnz / n == pytest.approx(
        68e6 / 1.78e6, rel=0.2
    ) and data.Y.nnz / n == pytest.approx(3, rel=0.02)
    np.testing.assert_allclose(np.sqrt(data.X.multiply(data.X).sum(axis=1)), 1, atol=1e-5)
    counts = np.sort(np.bincount(data.X.indices, minlength=d))[::-1]
    assert counts[0] > 100 * np.median(counts), "head words and a long tail"
    assert data.held_X.shape[0] == 100
    again = generate(0.004, torch.device("cpu"))
    assert (again.X != data.X).nnz == 0 and (again.Y != data.Y).nnz == 0


@pytest.mark.usefixtures("as_on_a_gpu")
def test_every_part_runs(tmp_path):
    output = tmp_path / "results.json"
    parts = "embed,epoch,job,inference,precision"
    gpu_lshtc.main(
        [
            "--device",
            "cpu,cpu",
            "--scale",
            "0.0004",
            "--epochs",
            "2",
            "--only",
            parts,
            "--output",
            str(output),
        ]
    )
    found = json.loads(output.read_text())
    assert set(parts.split(",")) <= set(found)
    assert found["job"]["p@1"] > 3 / 130, "better than chance"
    assert found["inference"]["same_labels_as_float32"] > 0.99
    assert found["epoch"]["all features"]["flops"] > 0 < found["embed"]["k = 500, q = 1"]["bytes"]


def test_an_unknown_part_is_named(capsys):
    with pytest.raises(SystemExit):
        gpu_lshtc.main(["--only", "everything"])
    assert "there is no part everything; choose from embed, epoch" in capsys.readouterr().err


def test_a_device_without_torch_is_refused():
    with pytest.raises(SystemExit, match="does not use torch"):
        gpu_lshtc.main(["--device", "cpu"])
