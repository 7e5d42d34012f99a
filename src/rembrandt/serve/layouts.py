"""Maps of the labels, drawn up in the background once a model is loaded."""

import asyncio
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.threads import n_threads
from rembrandt.serve.registry import Served

log = logging.getLogger("rembrandt.serve")

_WORKING = "the map is being drawn up; ask again soon"


class Layouts:
    """One map for each model, of its latest version."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._drawn: dict[str, tuple[str, NDArray[Any] | str]] = {}  # version, and places or what went wrong

    def begin(self, served: Served) -> None:
        """Draw this model's map; one of an older version is given up."""
        if (older := self._tasks.get(served.name)) is not None:
            older.cancel()
        self._tasks[served.name] = asyncio.create_task(self._draw(served))

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def document(self, served: Served, limit: int) -> dict[str, Any]:
        """The map as it stands: the most frequent labels with their places, or why there is none."""
        version, found = self._drawn.get(served.name, ("", _WORKING))
        columns, places = np.empty(0, np.int64), np.empty((0, 2))
        state, message = "ready", ""
        if version != served.version:
            state, message = "working", _WORKING
        elif isinstance(found, str):
            state, message = "missing", found
        else:
            columns = served.labels.by_frequency[np.isfinite(found[served.labels.by_frequency, 0])][:limit]
            places = np.round(found[columns].astype(np.float64), 3)
        chosen = columns.tolist()
        return {
            "model": served.name,
            "state": state,
            "message": message,
            "label": [served.labels.ids[column] for column in chosen],
            "name": [served.labels.names[column] for column in chosen],
            "count": served.labels.counts[columns].tolist(),
            "x": places[:, 0].tolist(),
            "y": places[:, 1].tolist(),
        }

    async def _draw(self, served: Served) -> None:
        async with self._one_at_a_time:
            self._drawn[served.name] = (served.version, await draw(served))


async def draw(served: Served) -> NDArray[Any] | str:
    """A place for each label from a process of its own, or a sentence that says why there is none."""
    with tempfile.TemporaryDirectory(prefix="rembrandt-map-") as folder:
        output = Path(folder) / "places.npy"
        command = [sys.executable, "-m", "rembrandt.serve.drawing", str(served.path), str(output)]
        threads = {"REMBRANDT_NUM_THREADS": str(max(1, n_threads() // 2))}
        process = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE, env={**os.environ, **threads}
        )
        try:
            _, said = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if not output.exists():
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            log.warning("no map of %s: %s", served.name, last)
            return last or "the map could not be drawn up"
        places = np.load(output, allow_pickle=False)
    if places.shape != (served.model.n_labels, 2) or not served.is_current():
        return "the model's folder holds another version by now; reload the model"
    return places
