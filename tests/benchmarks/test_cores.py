"""A fit on one core and on more, measured in processes of their own."""

import json

import pytest

cores = pytest.importorskip("benchmarks.cores")


def test_a_fit_in_a_process_uses_no_more_cores_than_it_may(real_data, tmp_path, capsys):
    n_cores = min(2, len(cores.usable_cores()))
    output = tmp_path / "cores.json"
    words = ["cooking", "--rows", "600", "--preset", "fast", "--output", str(output)]
    results = cores.main(cores.parsed([*words, "--cores", "1", str(n_cores)]))
    alone = results["cooking"]["1"]
    assert 0 < alone["at_work"] < 1.1
    assert alone["cpu"] > 0 and alone["wall"] > 0
    assert json.loads(output.read_text()) == results
    assert "cooking" in capsys.readouterr().out


def test_cores_that_the_machine_has_not_are_named(monkeypatch, capsys):
    monkeypatch.setattr(cores, "usable_cores", lambda: [0])
    monkeypatch.setattr(cores, "measured", lambda *_: {"wall": 2.0, "cpu": 2.0, "at_work": 1.0})
    results = cores.main(cores.parsed(["cooking", "--cores", "1", "64"]))
    assert list(results["cooking"]) == ["1"]
    assert "64  there are 1" in capsys.readouterr().out
