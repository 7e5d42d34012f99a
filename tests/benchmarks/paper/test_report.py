"""The report depends on results.json alone."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.paper.runner import read_results

from benchmarks.paper import aloi, report
from rembrandt.errors import RembrandtError


def test_results_are_all_that_a_report_needs(
    quick: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aloi, "plan", None)
    monkeypatch.setattr(aloi, "read", None)
    shutil.copy(quick[0] / "results.json", tmp_path)
    written = report.write(tmp_path)
    assert [file.name for file in written] == [
        "report.md",
        "aloi-error-by-rank.png",
        "aloi-spectrum.png",
        "aloi-cost.png",
    ]
    for file in written:
        assert file.read_bytes() == (quick[0] / file.name).read_bytes()


def test_every_number_comes_from_the_results(quick: tuple[Path, str]) -> None:
    document = read_results(quick[0] / "results.json")
    row = next(row for row in document["rows"] if row["metric"] == aloi.ERROR)
    row["value"], row["seconds"] = 12.34, 56.78
    assert "| RE+LR | 9.7 | 12.3 | 300 | 56.8 |" in report.markdown(document)


def test_what_was_not_measured_has_a_dash(quick: tuple[Path, str], tmp_path: Path) -> None:
    document = read_results(quick[0] / "results.json")
    document["rows"] = [row for row in document["rows"] if row["metric"] == aloi.ERROR]
    document["experiments"]["aloi"]["skipped"] = {"OAA": "it is not here"}
    said = report.markdown(document)
    assert "| RE+LR |" in said and ".png" not in said and "Cost of a pass" not in said
    assert "| RE+LR | model size (bytes) | 255,600 | – |" in said
    assert "- OAA: it is not here." in said
    assert report.draw(document, tmp_path) == []


def test_a_report_without_its_plotting_library_is_refused_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        report, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name)
    )
    with pytest.raises(RembrandtError, match=r"rembrandt\[report\]"):
        report.check_plotting()
