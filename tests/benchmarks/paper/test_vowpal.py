"""Vowpal Wabbit: its input, and the message if it is not installed."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from benchmarks.paper.experiment import Request, SkippedError

from benchmarks.paper import aloi, vowpal
from rembrandt.data import Dataset
from rembrandt.progress import silent


def test_rows_are_written_as_vowpal_wabbit_reads_them(tmp_path: Path) -> None:
    data = Dataset.from_arrays(
        np.array([[0, 2.5, 1], [3, 0, 0], [0, 0, 0]]), [["b"], ["a"], []], label_ids=["a", "b"]
    )
    vowpal.write_examples(tmp_path / "rows", data)
    assert (tmp_path / "rows").read_text() == "2 | 2:2.5 3:1\n1 | 1:3\n | \n"


def test_without_it_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vowpal, "find_spec", lambda name: None)
    with pytest.raises(SkippedError, match=r"rembrandt\[bench\]"):
        vowpal.check_installed()


@pytest.mark.parametrize("system", list(vowpal.REDUCTIONS))
def test_it_learns(system: str, small: Path) -> None:
    pytest.importorskip("vowpalwabbit")
    data = aloi.read(Request(small), aloi.QUICK)
    grid = vowpal.Grid((0.5,), (1, 5), nodes_per_class=(1, 2))
    found = vowpal.measure(system, data.train, data.test, grid)
    assert found.error < 0.7 and found.rate in grid.rates and found.seconds > 0
    assert found.passes <= vowpal.MOST_PASSES and found.nodes_per_class <= vowpal.MOST_NODES


@pytest.mark.parametrize(
    ("best", "at_edge"), [((0.25, 40, 4), False), ((4.0, 10, 1), False), ((1.0, 1000, 1), True)]
)
def test_the_grid_is_widened_until_the_best_is_inside(
    best: tuple[float, int, int], at_edge: bool, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def error(
        model: Path, *_: object
    ) -> float:  # smallest at the best setting, which is outside of the grid
        if model.name == "model":
            return 0.5
        (rate, nodes), passes = model.parent.name.split("-"), model.name.split(".")[1]
        values = zip((float(rate), int(passes), int(nodes)), best, strict=True)
        return float(sum(abs(np.log(value / wanted)) for value, wanted in values))

    monkeypatch.setattr(vowpal, "check_installed", lambda: None)
    monkeypatch.setattr(vowpal, "_train", lambda *_: None)
    monkeypatch.setattr(vowpal, "_error", error)
    data = aloi.read(Request(small), aloi.QUICK)
    found = vowpal.measure(
        "LOMtree", data.train, data.test, vowpal.Grid((1.0, 2.0), (5, 10), nodes_per_class=(1, 2))
    )
    assert found.at_edge == at_edge
    expected = (best[0], min(best[1], vowpal.MOST_PASSES), best[2])
    chosen = (found.rate, found.passes, found.nodes_per_class)
    assert chosen[:2] == expected[:2] and chosen[2] in (1, 2, 8)


def test_a_limit_of_time_skips_it(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise subprocess.TimeoutExpired("vw", 1)

    monkeypatch.setattr(vowpal, "check_installed", lambda: None)
    monkeypatch.setattr(vowpal, "_train", late)
    data = aloi.read(Request(small), aloi.QUICK)
    step = vowpal.step("odp", "LOMtree", data.train, data.test, aloi.QUICK_GRID, hours=2)
    with pytest.raises(SkippedError, match="limit of 120 minutes"):
        step.run(silent)


def test_a_limit_of_time_keeps_the_best_setting_so_far(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(
        data: Path, model: Path, options: list[str], rate: float, passes: int, deadline: float
    ) -> None:
        for number in range(1, 4):  # three passes are saved, then the time is over
            model.with_name(f"{model.name}.{number}").touch()
        if data.name == "fit":
            raise subprocess.TimeoutExpired("vw", 1)

    monkeypatch.setattr(vowpal, "check_installed", lambda: None)
    monkeypatch.setattr(vowpal, "_train", train)
    monkeypatch.setattr(vowpal, "_error", lambda model, *_: 1 / int(model.suffix[1:] or 1))
    data = aloi.read(Request(small), aloi.QUICK)
    found = vowpal.measure(
        "OAA", data.train, data.test, vowpal.Grid((0.5,), (1, 2, 3, 4)), limit=60
    )
    assert found.passes == 3 and found.at_edge


def test_an_edge_that_gains_nothing_is_not_widened() -> None:
    grid = vowpal.Grid((1.0, 2.0), (5, 10))
    tried = [
        vowpal.Setting(0.200, 1.0, 5, 1),
        vowpal.Setting(0.199, 1.0, 10, 1),
        vowpal.Setting(0.198, 2.0, 10, 1),
    ]
    assert grid.beyond(tried, 1000) is None  # the standard error is 0.013
    wider = grid.beyond(tried, 10**7)
    assert wider is not None and wider.passes == (10, 20) and wider.rates == (2.0, 4.0)
