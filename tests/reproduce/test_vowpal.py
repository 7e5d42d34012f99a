"""The peers: what they are given, and what is said where they are not installed."""

from pathlib import Path

import numpy as np
import pytest

from rembrandt.data import Dataset
from rembrandt.reproduce import aloi, vowpal
from rembrandt.reproduce.experiment import SkippedError


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
    train, test = aloi.read(small, aloi.QUICK, lambda *_: None)
    grid = vowpal.Grid((0.5,), (1, 5), room=(1, 2))
    found = vowpal.measure(system, train, test, grid)
    assert found.error < 0.7 and found.rate in grid.rates and found.passes in grid.passes and found.seconds > 0
    assert found.room in grid.room
