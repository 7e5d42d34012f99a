"""The state of a logistic fit on devices: features of rows, true labels of batches, weights of
labels.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.engines.whitening import Whitening
from rembrandt.linalg.blocks import spans

Tensor = torch.Tensor

GRAIN = 1024  # labels: chunks are cut at multiples of it
ROWS = 1 << 16  # rows mapped at a time


class Features:
    """Whitened features on a device, padded with columns of zeros; computed on access when they do
    not fit.
    """

    def __init__(
        self,
        whitening: Whitening,
        H: Tensor,
        dtype: torch.dtype,
        columns: int,
        device: torch.device,
        stored: bool,
    ) -> None:
        self.whitening, self.H, self.dtype, self.columns, self.device = (
            whitening,
            H,
            dtype,
            columns,
            device,
        )
        self.F: Tensor | None = None
        if stored:
            self.F = torch.zeros((H.shape[0], columns), dtype=dtype, device=device)
            for rows in spans(H.shape[0], ROWS):
                self.F[rows, : whitening.size + 1] = whitening(H[rows]).to(device, dtype)

    def rows(self, index: Tensor) -> Tensor:
        if self.F is not None:
            return self.F[index]
        seen = torch.zeros((len(index), self.columns), dtype=self.dtype, device=self.device)
        seen[:, : self.whitening.size + 1] = self.whitening(self.H[index.to(self.H.device)]).to(
            self.device, self.dtype
        )
        return seen


@dataclass
class Truth:
    """The true labels of every batch as (row, label) pairs, by batch and label."""

    rows: Tensor
    labels: Tensor
    cuts: list[list[int]]  # of each batch: where the labels from each multiple of the grain start

    @classmethod
    def of(cls, Y: tuple[Tensor, Tensor], order: Tensor, width: int) -> "Truth":
        """Pairs for the batches in the rows of ``order``; ``Y`` are the row starts and columns of a
        CSR matrix.
        """
        starts, columns = Y
        rows, device = order.reshape(-1), order.device
        counts = starts[rows + 1] - starts[rows]
        total = int(counts.sum())
        entry = torch.repeat_interleave(
            torch.arange(len(rows), device=device), counts, output_size=total
        )
        before = torch.cumsum(counts, 0) - counts
        labels = columns[torch.arange(total, device=device) - before[entry] + starts[rows[entry]]]
        keys, at = torch.sort(entry // order.shape[1] * width + labels)
        edges = torch.clamp(torch.arange(-(-width // GRAIN) + 1, device=device) * GRAIN, max=width)
        wanted = torch.arange(order.shape[0], device=device)[:, None] * width + edges
        return cls(
            (entry % order.shape[1])[at],
            labels[at],
            torch.searchsorted(keys, wanted.reshape(-1)).view(wanted.shape).tolist(),
        )

    def within(self, batch: int, labels: slice) -> tuple[Tensor, Tensor]:
        """Pairs of a batch within ``labels``, relative to its start, which is a multiple of the
        grain.
        """
        cuts = self.cuts[batch]
        pairs = slice(cuts[labels.start // GRAIN], cuts[-(-labels.stop // GRAIN)])
        return self.rows[pairs], self.labels[pairs] - labels.start


def _index(x: NDArray[Any], device: torch.device) -> Tensor:
    return torch.as_tensor(x.astype(np.int64), device=device)


class Shard:
    """The labels of one device: their weights, velocities, the mean of an epoch and the best mean.

    Between epochs they are at ``home``: the device, or host memory when the device cannot hold all
    shards.
    """

    def __init__(
        self,
        device: torch.device,
        home: torch.device,
        labels: slice,
        Y: sparse.csr_array,
        start: Tensor,  # columns × labels, at home
        longest: NDArray[Any],
        curvature: NDArray[Any],
        chunk: int,
    ) -> None:
        self.device, self.home, self.labels, self.chunk = device, home, labels, chunk
        self.width = labels.stop - labels.start
        own = Y[:, labels] if self.width < Y.shape[1] else Y
        self.Y = _index(own.indptr, device), _index(own.indices, device)
        self.Q, self.velocity, self.mean, self.best = (
            start,
            torch.zeros_like(start),
            start.clone(),
            start.clone(),
        )
        self.longest = torch.as_tensor(longest[labels], dtype=start.dtype, device=device)
        self.curvature = torch.as_tensor(curvature[labels], dtype=start.dtype, device=device)
        self.truth: Truth | None = None
        self.point: Tensor | None = None  # point of the next gradient, without dropout

    def begin(self, order: Tensor, scale: float) -> None:
        """Start an epoch: move to the device, with a mean of zero."""
        self.point = None
        self.truth = Truth.of(self.Y, order, self.width)
        self.step = scale * self.longest
        self.Q, self.velocity = self.Q.to(self.device), self.velocity.to(self.device)
        self.mean = (
            self.mean.zero_() if self.mean.device == self.device else torch.zeros_like(self.Q)
        )

    def end(self, steps: int) -> None:
        """End an epoch: move home."""
        self.mean /= steps
        self.Q, self.velocity, self.mean = (
            x.to(self.home) for x in (self.Q, self.velocity, self.mean)
        )
        self.truth = self.point = None
