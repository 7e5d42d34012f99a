"""Presets on a device and on the CPU."""

import pytest
from benchmarks.peers import prepare

from benchmarks import gpu_presets
from rembrandt.data.generated import labelled_documents
from tests.devices import as_on_a_gpu  # noqa: F401  and one thread for torch


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("preset", ["fast", "balanced", "best"])
def test_a_preset_on_two_devices(tmp_path, monkeypatch, capsys, preset):
    prepare.write("tiny", *labelled_documents(1200, n_topics=5, labels_per_topic=5), tmp_path)
    monkeypatch.setattr(gpu_presets, "prepared", lambda name: tmp_path)
    [row] = gpu_presets.main(["tiny"], [preset], "cpu,cpu")
    # The CPU stops the regression of the embedding early, where another device solves it exactly.
    assert row["same"] > 0.9
    assert row["cpu"]["p@1"] > 0.5
    assert abs(row["cpu"]["p@1"] - row["cpu,cpu"]["p@1"]) < 0.02
    assert f"tiny, {preset}: cpu,cpu " in capsys.readouterr().out
