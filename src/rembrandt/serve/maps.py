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
_NICENESS = 19  # the lowest priority; predictions come first

Positions = (
    NDArray[Any] | str
)  # of all labels (c × 2, NaN for labels that are not on the map), or an error message


async def compute_map(served: ServedModel) -> Positions:
    """Compute the map with ``rembrandt map`` in another process, so that it does not slow down
    predictions.
    """
    with tempfile.TemporaryDirectory(prefix="rembrandt-map-") as folder:
        file = Path(folder) / "map.npz"
        arguments = ["--quiet", "--output", str(file), "--labels", str(MAX_LABELS)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rembrandt", "map", str(served.path), *arguments),
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
            message = (
                errors.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("error: ")
            )
            log.warning("no map of %s: %s", served.name, message)
            return message or "the map could not be computed"
        with np.load(file, allow_pickle=False) as found:
            columns, positions = found["columns"], found["positions"]
    n_labels = len(served.labels.index)
    if columns.max(initial=0) >= n_labels or not served.is_current():
        return "the folder of the model holds another version now; reload the model"
    result = np.full((n_labels, 2), np.nan, dtype=np.float32)
    result[columns] = positions
    return result


class LabelMaps:
    """The map of the latest version of each model."""

    def __init__(
        self, compute: Callable[[ServedModel], Awaitable[Positions]] = compute_map
    ) -> None:
        self._compute = compute
        self._one_at_a_time = asyncio.Lock()
        self._tasks: dict[
            str, tuple[str, asyncio.Task[Positions]]
        ] = {}  # by model: version and computation

    def start(self, served: ServedModel) -> None:
        """Begin to compute the map of a model; the computation for an older version is
        cancelled.
        """
        if served.name in self._tasks:
            self._tasks[served.name][1].cancel()
        self._tasks[served.name] = served.version, asyncio.create_task(self._run(served))

    async def close(self) -> None:
        """Cancel what is not finished."""
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def document(self, served: ServedModel, limit: int) -> dict[str, Any]:
        """Return the most frequent labels and their positions as JSON, or the reason why there is
        no map.
        """
        version, task = self._tasks.get(served.name, ("", None))
        labels = served.labels
        state, message, columns, positions = "ready", "", np.empty(0, np.int64), np.empty((0, 2))
        if version != served.version or task is None or not task.done():
            state, message = "working", "the map is being computed; try again soon"
        elif isinstance(found := task.result(), str):
            state, message = "missing", found
        else:
            columns = labels.by_frequency[np.isfinite(found[labels.by_frequency, 0])][:limit]
            positions = np.round(found[columns].astype(np.float64), 3)
        return {
            "model": served.name,
            "state": state,
            "message": message,
            "label": [labels.index.spelled(column) for column in columns.tolist()],
            "name": [labels.index.title(column) for column in columns.tolist()],
            "count": labels.counts[columns].tolist(),
            "x": positions[:, 0].tolist(),
            "y": positions[:, 1].tolist(),
        }

    async def _run(self, served: ServedModel) -> Positions:
        async with self._one_at_a_time:
            return await self._compute(served)
