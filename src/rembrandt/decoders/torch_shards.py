"""What the logistic fit keeps on devices: the features of rows, the true labels of batches, the weights of labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.whitening import Whitening
from rembrandt.linalg.blocks import spans

Tensor = torch.Tensor

GRAIN = 1024  # labels: chunks are cut at multiples of it
ROWS = 1 << 16  # rows mapped at a time


class Features:
    """The whitened features of rows on a device, with columns of zeros to fill up; made again where they do not fit."""

    def __init__(
        self, whitening: Whitening, H: Tensor, dtype: torch.dtype, columns: int, device: torch.device, stored: bool
    ) -> None:
        self.whitening, self.H, self.dtype, self.columns, self.device = whitening, H, dtype, columns, device
        self.F: Tensor | None = None
        if stored:
            self.F = torch.zeros((H.shape[0], columns), dtype=dtype, device=device)
            for rows in spans(H.shape[0], ROWS):
                self.F[rows, : whitening.size + 1] = whitening(H[rows]).to(device, dtype)

    def rows(self, index: Tensor) -> Tensor:
        if self.F is not None:
            return self.F[index]
        seen = torch.zeros((len(index), self.columns), dtype=self.dtype, device=self.device)
        seen[:, : self.whitening.size + 1] = self.whitening(self.H[index.to(self.H.device)]).to(self.device, self.dtype)
        return seen


@dataclass
class Truth:
    """The true labels of every batch as (row, label) pairs, by batch and label."""

    rows: Tensor
    labels: Tensor
    cuts: list[list[int]]  # of each batch: where its labels begin that are at or above each multiple of the grain

    @classmethod
    def of(cls, Y: tuple[Tensor, Tensor], order: Tensor, width: int) -> "Truth":
        """For the rows of ``order``, a batch in each, out of the row starts and columns of a CSR matrix ``Y``."""
        starts, columns = Y
        rows, device = order.reshape(-1), order.device
        counts = starts[rows + 1] - starts[rows]
        total = int(counts.sum())
        entry = torch.repeat_interleave(torch.arange(len(rows), device=device), counts, output_size=total)
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
        """The pairs of a batch within ``labels``, counted from its start; it is cut at multiples of the grain."""
        cuts = self.cuts[batch]
        pairs = slice(cuts[labels.start // GRAIN], cuts[-(-labels.stop // GRAIN)])
        return self.rows[pairs], self.labels[pairs] - labels.start


def _index(x: NDArray[Any], device: torch.device) -> Tensor:
    return torch.as_tensor(x.astype(np.int64), device=device)


class Shard:
    """The labels that one device works on: their weights, where those are going, and the best so far.

    At ``home`` between epochs: the device itself, or the processor's memory where the device cannot hold all shards.
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
        self.Q, self.velocity, self.mean, self.best = start, torch.zeros_like(start), start.clone(), start.clone()
        self.longest = torch.as_tensor(longest[labels], dtype=start.dtype, device=device)
        self.curvature = torch.as_tensor(curvature[labels], dtype=start.dtype, device=device)
        self.truth: Truth | None = None
        self.point: Tensor | None = None  # where the next gradient is taken, when it is taken on all features

    def begin(self, order: Tensor, scale: float) -> None:
        """Before an epoch: on the device, with the mean at zero."""
        self.point = None
        self.truth = Truth.of(self.Y, order, self.width)
        self.step = scale * self.longest
        self.Q, self.velocity = self.Q.to(self.device), self.velocity.to(self.device)
        self.mean = self.mean.zero_() if self.mean.device == self.device else torch.zeros_like(self.Q)

    def end(self, steps: int) -> None:
        self.mean /= steps
        self.Q, self.velocity, self.mean = (x.to(self.home) for x in (self.Q, self.velocity, self.mean))
        self.truth = self.point = None
