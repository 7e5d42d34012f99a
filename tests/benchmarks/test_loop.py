"""The simulated loop on made-up texts; ``python -m benchmarks.loop`` runs it on real ones."""

import numpy as np
import pytest

from benchmarks import loop
from rembrandt.data.generated import labelled_documents


def test_the_loop_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "START", 100)
    monkeypatch.setattr(loop, "BATCH", 20)
    train, test = labelled_documents(500, n_topics=4, labels_per_topic=5)
    curves = {}
    for order in loop.ORDERS:
        curve = loop.simulate(train, test, order, rounds=1, pool=200, seed=0)
        assert len(curve) == 2 and all(0 <= value <= 100 for value in curve)
        curves[order] = [curve]
    assert curves["suggest"][0][0] == curves["random"][0][0]  # both start with the same texts
    lines = loop.table("made up", curves)
    assert lines[0] == "| made up: texts | 100 | 120 |"
    difference = np.array(curves["suggest"]) - np.array(curves["random"])
    assert f"{difference[0, 1]:+.2f} on average" in lines[-1]
