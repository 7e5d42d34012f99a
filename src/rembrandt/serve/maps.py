"""Maps of the labels, computed in the background after a model is loaded."""

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.threads import n_threads
from rembrandt.serve.registry import ServedModel

log = logging.getLogger("rembrandt.serve")

MAX_LABELS = 200_000
_NICENESS = 10  # predictions come first
_WORKING = "the map is being computed; try again soon"

Positions = NDArray[Any] | str  # of all labels (c × 2, NaN for labels that are not on the map), or an error message


async def compute_map(served: ServedModel) -> Positions:
    """Compute the map with ``rembrandt map`` in another process, so that it does not slow down predictions."""
    with tempfile.TemporaryDirectory(prefix="rembrandt-map-") as folder:
        file = Path(folder) / "map.npz"
        command = [sys.executable, "-m", "rembrandt", "map", str(served.path), "--quiet"]
        process = await asyncio.create_subprocess_exec(
            *command,
            *("--output", str(file), "--labels", str(MAX_LABELS)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"REMBRANDT_NUM_THREADS": str(max(1, n_threads() // 2))},
        )
        if hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        try:
            _, errors = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            message = errors.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("error: ")
            log.warning("no map of %s: %s", served.name, message)
            return message or "the map could not be computed"
        with np.load(file, allow_pickle=False) as found:
            columns, positions = found["columns"], found["positions"]
    n_labels = len(served.labels.ids)
    if columns.max(initial=0) >= n_labels or not served.is_current():
        return "the folder of the model holds another version now; reload the model"
    result = np.full((n_labels, 2), np.nan, dtype=np.float32)
    result[columns] = positions
    return result


class LabelMaps:
    """The map of the latest version of each model."""

    def __init__(self, compute: Callable[[ServedModel], Awaitable[Positions]] = compute_map) -> None:
        self._compute = compute
        self._one_at_a_time = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._found: dict[str, tuple[str, Positions]] = {}  # by model: version and map

    def start(self, served: ServedModel) -> None:
        """Begin to compute the map of a model; the computation for an older version is cancelled."""
        if (older := self._tasks.get(served.name)) is not None:
            older.cancel()
        self._tasks[served.name] = asyncio.create_task(self._run(served))

    async def close(self) -> None:
        """Cancel what is not finished."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def document(self, served: ServedModel, limit: int) -> dict[str, Any]:
        """Return the most frequent labels and their positions as JSON, or the reason why there is no map."""
        version, found = self._found.get(served.name, ("", _WORKING))
        labels = served.labels
        state, message, columns, positions = "ready", "", np.empty(0, np.int64), np.empty((0, 2))
        if version != served.version:
            state, message = "working", _WORKING
        elif isinstance(found, str):
            state, message = "missing", found
        else:
            columns = labels.by_frequency[np.isfinite(found[labels.by_frequency, 0])][:limit]
            positions = np.round(found[columns].astype(np.float64), 3)
        return {
            "model": served.name,
            "state": state,
            "message": message,
            "label": [labels.ids[column] for column in columns],
            "name": [labels.names[column] for column in columns],
            "count": labels.counts[columns].tolist(),
            "x": positions[:, 0].tolist(),
            "y": positions[:, 1].tolist(),
        }

    async def _run(self, served: ServedModel) -> None:
        async with self._one_at_a_time:
            self._found[served.name] = (served.version, await self._compute(served))
