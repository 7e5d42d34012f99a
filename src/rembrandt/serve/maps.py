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

MAX_LABELS = 200_000  # on a map
_NICENESS = 19  # the lowest priority; predictions come first

# Of all labels (c × 2, NaN for labels that are not on the map), or an error message.
Positions = NDArray[Any] | str


async def compute_map(served: ServedModel) -> Positions:
    """Compute the map with ``rembrandt map`` in another process, so that it does not slow down
    predictions.
    """
    with tempfile.TemporaryDirectory(prefix="rembrandt-map-") as folder:
        file = Path(folder) / "map.npz"
        error = await _run_map_command(served.path, file)
        if error is not None:
            log.warning("no map of %s: %s", served.name, error)
            return error or "the map could not be computed"
        with np.load(file, allow_pickle=False) as arrays:
            columns = arrays["columns"]
            positions = arrays["positions"]
    n_labels = len(served.labels.index)
    if columns.max(initial=0) >= n_labels or not served.is_current():
        return "the folder of the model holds another version now; reload the model"
    result = np.full((n_labels, 2), np.nan, dtype=np.float32)
    result[columns] = positions
    return result


async def _run_map_command(model: Path, file: Path) -> str | None:
    """Write the map of a model to a file; return None, or what the command says about its failure,
    which may be nothing.
    """
    arguments = ["--quiet", "--output", str(file), "--labels", str(MAX_LABELS)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rembrandt",
        "map",
        str(model),
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"REMBRANDT_NUM_THREADS": str(n_threads())},
    )
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if not process.returncode:
        return None
    _, _, last_line = errors.decode(errors="replace").strip().rpartition("\n")
    return last_line.removeprefix("error: ")


class LabelMaps:
    """The map of the latest version of each model."""

    def __init__(
        self, compute: Callable[[ServedModel], Awaitable[Positions]] = compute_map
    ) -> None:
        self._compute = compute
        self._one_at_a_time = asyncio.Lock()
        # By model: version and computation.
        self._tasks: dict[str, tuple[str, asyncio.Task[Positions]]] = {}

    def start(self, served: ServedModel) -> None:
        """Begin to compute the map of a model; the computation for an older version is
        cancelled.
        """
        if served.name in self._tasks:
            _, older_task = self._tasks[served.name]
            older_task.cancel()
        task = asyncio.create_task(self._run(served))
        self._tasks[served.name] = (served.version, task)

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
        all_positions = self._positions(served)
        if all_positions is None:
            message = "the map is being computed; try again soon"
            return _map_document(served, "working", message)
        if isinstance(all_positions, str):
            return _map_document(served, "missing", all_positions)
        by_frequency = served.labels.by_frequency
        is_mapped = np.isfinite(all_positions[by_frequency, 0])
        columns = by_frequency[is_mapped][:limit]
        positions = np.round(all_positions[columns].astype(np.float64), 3)
        return _map_document(served, "ready", "", columns, positions)

    def _positions(self, served: ServedModel) -> Positions | None:
        """Return the result for this version of a model; None if it is not finished."""
        version, task = self._tasks.get(served.name, ("", None))
        if version != served.version or task is None or not task.done():
            return None
        return task.result()

    async def _run(self, served: ServedModel) -> Positions:
        async with self._one_at_a_time:
            return await self._compute(served)


def _map_document(
    served: ServedModel,
    state: str,
    message: str,
    columns: NDArray[np.int64] | None = None,
    positions: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """Return a map as JSON, without labels if no columns are given."""
    if columns is None or positions is None:
        columns = np.empty(0, np.int64)
        positions = np.empty((0, 2))
    labels = served.labels
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
