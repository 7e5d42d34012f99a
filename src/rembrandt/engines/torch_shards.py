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

# Chunks of labels are cut at multiples of this.
GRAIN = 1024
# Rows mapped at a time.
MAPPED_BLOCK_ROWS = 1 << 16


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
        self.whitening = whitening
        self.H = H
        self.dtype = dtype
        self.columns = columns
        self.device = device
        self.F: Tensor | None = None
        if stored:
            n = H.shape[0]
            self.F = torch.zeros((n, columns), dtype=dtype, device=device)
            for rows in spans(n, MAPPED_BLOCK_ROWS):
                white = whitening(H[rows])
                self.F[rows, : white.shape[1]] = white.to(device, dtype)

    def rows(self, index: Tensor) -> Tensor:
        """Return the features of some rows."""
        if self.F is not None:
            return self.F[index]
        H = self.H[index.to(self.H.device)]
        white = self.whitening(H)
        shape = (len(index), self.columns)
        padded = torch.zeros(shape, dtype=self.dtype, device=self.device)
        padded[:, : white.shape[1]] = white.to(self.device, self.dtype)
        return padded


@dataclass
class Truth:
    """The true labels of every batch as (row, label) pairs, by batch and label."""

    rows: Tensor
    labels: Tensor
    cuts: list[list[int]]  # of each batch: where the labels from each multiple of the grain start

    @classmethod
    def of(cls, Y: tuple[Tensor, Tensor], order: Tensor, width: int) -> "Truth":
        """Return the pairs for the batches in the rows of ``order``; ``Y`` are the row starts and
        columns of a CSR matrix.
        """
        starts, columns = Y
        n_batches, batch_rows = order.shape
        device = order.device
        rows = order.reshape(-1)
        counts = starts[rows + 1] - starts[rows]
        n_pairs = int(counts.sum())
        # For each pair the position of its row in ``rows``.
        positions = torch.arange(len(rows), device=device)
        position = torch.repeat_interleave(positions, counts, output_size=n_pairs)
        pairs_before = torch.cumsum(counts, 0) - counts
        # From the number of a pair to its entry in Y, for each row.
        shifts = starts[rows] - pairs_before
        pairs = torch.arange(n_pairs, device=device)
        labels = columns[pairs + shifts[position]]
        # Sorted by batch and label.
        batch = position // batch_rows
        keys, by_key = torch.sort(batch * width + labels)
        n_grains = -(-width // GRAIN)
        edges = torch.arange(n_grains + 1, device=device) * GRAIN
        edges = torch.clamp(edges, max=width)
        batches = torch.arange(n_batches, device=device)
        edge_keys = batches[:, None] * width + edges
        cuts = torch.searchsorted(keys, edge_keys.reshape(-1))
        row_in_batch = position % batch_rows
        return cls(
            rows=row_in_batch[by_key],
            labels=labels[by_key],
            cuts=cuts.view(edge_keys.shape).tolist(),
        )

    def within(self, batch: int, labels: slice) -> tuple[Tensor, Tensor]:
        """Return the pairs of a batch within ``labels``, relative to its start, which is a multiple
        of the grain.
        """
        cuts = self.cuts[batch]
        first_grain = labels.start // GRAIN
        end_grain = -(-labels.stop // GRAIN)
        pairs = slice(cuts[first_grain], cuts[end_grain])
        return self.rows[pairs], self.labels[pairs] - labels.start


def _index(x: NDArray[Any], device: torch.device) -> Tensor:
    return torch.as_tensor(x.astype(np.int64), device=device)


@dataclass(frozen=True)
class AllLabels:
    """What the steps of all labels depend on."""

    Y: sparse.csr_array
    longest: NDArray[Any]
    curvature: NDArray[Any]


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
        of_all: AllLabels,
        start: Tensor,  # columns × labels, at home
        chunk: int,
    ) -> None:
        self.device = device
        self.home = home
        self.labels = labels
        self.chunk = chunk
        self.width = labels.stop - labels.start
        Y = of_all.Y
        if self.width < Y.shape[1]:
            Y = Y[:, labels]
        starts = _index(Y.indptr, device)
        columns = _index(Y.indices, device)
        self.Y = (starts, columns)
        self.Q = start
        self.velocity = torch.zeros_like(start)
        self.mean = start.clone()
        self.best = start.clone()
        longest = of_all.longest[labels]
        curvature = of_all.curvature[labels]
        self.longest = torch.as_tensor(longest, dtype=start.dtype, device=device)
        self.curvature = torch.as_tensor(curvature, dtype=start.dtype, device=device)
        self.truth: Truth | None = None
        self.point: Tensor | None = None  # point of the next gradient, without dropout

    def begin(self, order: Tensor, scale: float) -> None:
        """Start an epoch: move to the device, with a mean of zero."""
        self.point = None
        self.truth = Truth.of(self.Y, order, self.width)
        self.step = scale * self.longest
        self.Q = self.Q.to(self.device)
        self.velocity = self.velocity.to(self.device)
        if self.mean.device == self.device:
            self.mean.zero_()
        else:
            self.mean = torch.zeros_like(self.Q)

    def end(self, steps: int) -> None:
        """End an epoch: move home."""
        self.mean /= steps
        self.Q = self.Q.to(self.home)
        self.velocity = self.velocity.to(self.home)
        self.mean = self.mean.to(self.home)
        self.truth = None
        self.point = None
