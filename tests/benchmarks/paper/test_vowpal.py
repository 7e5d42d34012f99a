"""Vowpal Wabbit: its input, and the message if it is not installed."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.paper.experiment import Request, SkippedError

from benchmarks.paper import aloi, vowpal
from rembrandt.data import Dataset


def test_rows_are_written_as_vowpal_wabbit_reads_them(tmp_path: Path) -> None:
    data = Dataset.from_arrays(
        np.array([[0, 2.5, 1], [3, 0, 0], [0, 0, 0]]), [["b"], ["a"], []], label_names=["a", "b"]
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
    assert found.error < 0.7 and found.rate in grid.rates and found.passes in grid.passes and found.seconds > 0
    assert found.nodes_per_class in grid.nodes_per_class
