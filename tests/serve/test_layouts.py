"""Maps are drawn by a process of their own; what goes wrong there is a sentence."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rembrandt import load
from rembrandt.data import Dataset
from rembrandt.serve import drawing
from rembrandt.serve.layouts import Layouts, draw
from rembrandt.serve.registry import Served


def test_every_label_gets_a_place(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openTSNE")
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "1")  # so few labels are no work for several
    drawing.draw(model, tmp_path / "places.npy")
    places = np.load(tmp_path / "places.npy")
    assert places.shape == (len(load(model).classes_), 2) and np.isfinite(places).all()
    assert np.ptp(places, axis=0).min() > 0


def test_a_map_that_cannot_be_drawn_is_a_sentence(model: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(model, tmp_path / "gone"))
    served = Served("gone", path)
    shutil.rmtree(path)
    said: Any = asyncio.run(draw(served))
    assert "is not a model" in said


def test_what_is_known_of_a_map_is_told(model: Path) -> None:
    served = Served("words", model)
    layouts = Layouts()
    assert layouts.document(served, 5)["state"] == "working"
    layouts._drawn["words"] = (served.version, "no map can be drawn")
    assert layouts.document(served, 5) | {"model": ""} == {
        "model": "",
        "state": "missing",
        "message": "no map can be drawn",
        **{name: [] for name in ("label", "name", "count", "x", "y")},
    }
    layouts._drawn["words"] = ("an older version", "no map can be drawn")
    assert layouts.document(served, 5)["state"] == "working"
    places = np.arange(2.0 * served.model.n_labels).reshape(-1, 2)
    places[served.labels.by_frequency[0]] = np.nan  # the most frequent label has no place
    layouts._drawn["words"] = (served.version, places)
    found = layouts.document(served, 3)
    assert found["state"] == "ready" and found["label"] == [
        served.labels.ids[i] for i in served.labels.by_frequency[1:4]
    ]
    assert [*zip(found["x"], found["y"], strict=True)] == [tuple(places[i]) for i in served.labels.by_frequency[1:4]]


def test_the_map_over_http(client: httpx.Client, documents: Dataset) -> None:
    found = client.get("/v1/map", params={"limit": 7}).json()
    assert found["state"] == "ready" and len(found["x"]) == len(found["y"]) == len(found["label"]) == 7
    assert set(found["label"]) <= set(documents.label_names) and found["count"] == sorted(found["count"], reverse=True)
