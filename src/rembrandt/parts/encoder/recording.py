"""Steps of a training that a GPU records once and replays.

A step of a small network is about a thousand kernels of a few microseconds each, and Python takes
longer to launch them than a GPU takes to run them. So a GPU records the kernels of a step as a
graph, one for each shape of a batch, and launches all of them at once from then on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class BatchShape:
    """Number of columns of a batch, with padding."""

    n_tokens: int
    n_labels: int


# Computes a step in place, with the rows of a batch on the device. It may depend on the host by the
# shape alone, and must not wait for the device.
Compute = Callable[[torch.Tensor, BatchShape], None]


class Steps:
    """Steps that are computed as they come."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    def take(self, rows: torch.Tensor, shape: BatchShape) -> None:
        """Take a step with the rows of a batch."""
        self._compute(rows, shape)


class RecordedSteps(Steps):
    """Steps that are recorded at the first batch of each shape, and replayed from then on.

    The first step of all is computed as it comes: libraries and the optimizer prepare themselves in
    it, which cannot be recorded. So are batches with fewer rows than the others.
    """

    def __init__(self, compute: Compute, batch_size: int, device: torch.device) -> None:
        super().__init__(compute)
        # Recorded kernels read the rows of a batch from here.
        self._rows = torch.zeros(batch_size, dtype=torch.int64, device=device)
        self._graphs: dict[BatchShape, Any] = {}
        # Graphs never run at the same time and leave nothing for each other in this memory.
        self._memory = torch.cuda.graph_pool_handle()
        self._is_prepared = False

    def take(self, rows: torch.Tensor, shape: BatchShape) -> None:
        if not self._is_prepared or len(rows) < len(self._rows):
            self._compute(rows, shape)
            self._is_prepared = True
            return
        self._rows.copy_(rows)
        if shape not in self._graphs:
            self._graphs[shape] = self._recorded(shape)
        self._graphs[shape].replay()

    def _recorded(self, shape: BatchShape) -> Any:
        """Record the step of a shape, without taking it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory):
            self._compute(self._rows, shape)
        return graph
