"""Presets on a device and on the CPU."""

from benchmarks.peers import prepare

from benchmarks import gpu_presets
from rembrandt.data.generated import labelled_documents


def test_a_preset_on_two_devices(tmp_path, monkeypatch, capsys):
    prepare.write("tiny", *labelled_documents(600, n_topics=5, labels_per_topic=5), tmp_path)
    monkeypatch.setattr(gpu_presets, "prepared", lambda name: tmp_path)
    [row] = gpu_presets.main(["tiny"], ["fast"], "cpu,cpu")
    assert (
        row["same"] > 0.98
        and row["cpu"]["p@1"] > 0.5
        and abs(row["cpu"]["p@1"] - row["cpu,cpu"]["p@1"]) < 0.02
    )
    assert "tiny, fast: cpu,cpu " in capsys.readouterr().out
