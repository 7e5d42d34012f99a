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
            self.F = torch.zeros((H.shape[0], columns), dtype=dtype, device=device)
            for rows in spans(H.shape[0], MAPPED_BLOCK_ROWS):
                self.F[rows, : whitening.size + 1] = whitening(H[rows]).to(device, dtype)

    def rows(self, index: Tensor) -> Tensor:
        """Return the features of some rows."""
        if self.F is not None:
            return self.F[index]
        padded = torch.zeros((len(index), self.columns), dtype=self.dtype, device=self.device)
        white = self.whitening(self.H[index.to(self.H.device)])
        padded[:, : self.whitening.size + 1] = white.to(self.device, self.dtype)
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
        position = torch.repeat_interleave(
            torch.arange(len(rows), device=device), counts, output_size=n_pairs
        )
        pairs_before = torch.cumsum(counts, 0) - counts
        # From the number of a pair to its entry in Y, for each row.
        shifts = starts[rows] - pairs_before
        labels = columns[torch.arange(n_pairs, device=device) + shifts[position]]
        # Sorted by batch and label.
        keys, by_key = torch.sort(position // batch_rows * width + labels)
        n_grains = -(-width // GRAIN)
        edges = torch.clamp(torch.arange(n_grains + 1, device=device) * GRAIN, max=width)
        edge_keys = torch.arange(n_batches, device=device)[:, None] * width + edges
        cuts = torch.searchsorted(keys, edge_keys.reshape(-1)).view(edge_keys.shape)
        return cls((position % batch_rows)[by_key], labels[by_key], cuts.tolist())

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
        self.device = device
        self.home = home
        self.labels = labels
        self.chunk = chunk
        self.width = labels.stop - labels.start
        if self.width < Y.shape[1]:
            Y = Y[:, labels]
        self.Y = (_index(Y.indptr, device), _index(Y.indices, device))
        self.Q = start
        self.velocity = torch.zeros_like(start)
        self.mean = start.clone()
        self.best = start.clone()
        self.longest = torch.as_tensor(longest[labels], dtype=start.dtype, device=device)
        self.curvature = torch.as_tensor(curvature[labels], dtype=start.dtype, device=device)
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
