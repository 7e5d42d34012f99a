"""Maps are computed in another process; errors there become messages."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rembrandt.data import Dataset
from rembrandt.serve.maps import LabelMaps, compute_map
from rembrandt.serve.registry import ServedModel


def test_every_label_gets_a_position(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openTSNE")
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "1")
    served = ServedModel("words", model)
    positions: Any = asyncio.run(compute_map(served))
    assert positions.shape == (len(served.labels.index.names), 2) and np.isfinite(positions).all()
    assert np.ptp(positions, axis=0).min() > 0


def test_an_error_becomes_a_message(model: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(model, tmp_path / "gone"))
    served = ServedModel("gone", path)
    shutil.rmtree(path)
    message: Any = asyncio.run(compute_map(served))
    assert "is not a model" in message and not message.startswith("error")


def test_the_document_has_the_state_of_a_map(model: Path) -> None:
    served = ServedModel("words", model)
    positions: Any = "no map can be computed"

    async def main() -> list[dict[str, Any]]:
        async def compute(wanted: ServedModel) -> Any:
            return positions

        maps = LabelMaps(compute)
        before = maps.document(served, 3)
        maps.start(served)
        while (after := maps.document(served, 3))["state"] == "working":
            await asyncio.sleep(0.001)
        served.version += " and a newer one"
        newer = maps.document(served, 3)
        await maps.close()
        return [before, after, newer]

    before, after, newer = asyncio.run(main())
    assert before["state"] == newer["state"] == "working"
    assert after | {"model": ""} == {
        "model": "",
        "state": "missing",
        "message": "no map can be computed",
        **{name: [] for name in ("label", "name", "count", "x", "y")},
    }
    first, *others = served.labels.by_frequency[:4].tolist()
    positions = np.arange(2.0 * len(served.labels.index.names)).reshape(-1, 2)
    positions[first] = np.nan  # the most frequent label is not on the map
    ready = asyncio.run(main())[1]
    assert ready["state"] == "ready" and ready["label"] == [
        served.labels.index.names[i] for i in others
    ]
    assert [*zip(ready["x"], ready["y"], strict=True)] == [tuple(positions[i]) for i in others]


def test_the_map_over_http(client: httpx.Client, documents: Dataset) -> None:
    document = client.get("/v1/map", params={"limit": 7}).json()
    assert (
        document["state"] == "ready"
        and len(document["x"]) == len(document["y"]) == len(document["label"]) == 7
    )
    assert set(document["label"]) <= set(documents.label_ids) and document["count"] == sorted(
        document["count"], reverse=True
    )
