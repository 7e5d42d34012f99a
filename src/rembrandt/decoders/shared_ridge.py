"""The ridge decoder of a store: one pass over the rows for what all labels share, one for the labels' own.

The Gram matrix of the mapped rows is a sum over shards, factored once. The rest is apart for each label, so blocks of
labels go to whoever works on the store: a machine makes the mapped rows once for all of its blocks, and gives back
their weights. The solution is that of `RidgeStatistics`, in another order of summation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.decoders.decoder import Decoder
from rembrandt.engines.projected import ProjectedRows, Projection, label_blocks, whole
from rembrandt.engines.shard_products import Data, opened
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.ridge import CholeskyRidge
from rembrandt.linalg.sparse import scale_rows
from rembrandt.linalg.transposed import Transposed
from rembrandt.progress import Report, silent

Array = NDArray[Any]


def fit_shared_ridge(H: ProjectedRows, fourier: FourierMap | None, strength: float, report: Report = silent) -> Decoder:
    """The decoder at ``strength``, relative to the mean squared length of a mapped, centred example."""
    tally, seen = H.executor.tally, H.seen(fourier)
    report("ridge decoder", 0, 2)
    with tally.one_pass():
        factored = _factored(H.moments(fourier), strength)
    report("ridge decoder", 1, 2)
    blocks = label_blocks(H.n_labels)
    with tally.one_pass():
        found = H.executor.in_shares(_solved, blocks, H.data, seen, factored)
    report("ridge decoder", 2, 2)
    weights = np.empty((seen.size, H.n_labels), dtype=np.float32)
    bias = np.empty(H.n_labels, dtype=np.float32)
    while found:  # what was copied is let go of
        own, at_zero = found.pop()
        weights[:, blocks[len(found)]], bias[blocks[len(found)]] = own, at_zero
    return Decoder(weights, bias, "identity", fourier)


@dataclass(frozen=True)
class _Factored:
    """What the regressions of all labels have in common."""

    solver: CholeskyRidge
    mean: Array
    total: float

    @property
    def nbytes(self) -> int:
        return int(self.solver.factor[0].nbytes + self.mean.nbytes)


def _factored(moments: Array, strength: float) -> _Factored:
    total = float(moments[-1, -1])
    mean = moments[-1, :-1] / total
    gram = moments[:-1, :-1] - total * np.outer(mean, mean)
    level = max(strength, 1e-10) * float(np.trace(gram)) / total
    solver = CholeskyRidge(gram, max(level, 1e-300))
    solver.gram = None  # the factor is all that is needed from here on
    return _Factored(solver, mean, total)


def _solved(blocks: Sequence[slice], data: Data, seen: Projection, factored: _Factored) -> list[tuple[Array, Array]]:
    """Weights and biases of each block of labels, from one pass over all rows."""
    labels, solver = whole(blocks), factored.solver
    cross = np.zeros((labels.stop - labels.start, seen.size), dtype=np.float32)
    counts = np.zeros(len(cross))
    for shard in opened(data):
        Y = shard.Y.A[:, labels] if len(cross) < data.n_labels else shard.Y.A
        Y = Y if shard.weights is None else scale_rows(Y, shard.weights)
        counts += np.bincount(Y.indices, Y.data.astype(np.float64), len(cross))
        for rows, Phi in seen.blocks(shard):
            Transposed.of(Y[rows]).add_to(cross, Phi)
    found = []
    for block in blocks:
        own = slice(block.start - labels.start, block.stop - labels.start)
        # Centred on both sides: the intercept is free, and a constant direction cannot swamp the rest.
        B = cross[own].astype(np.float64) - np.outer(counts[own], factored.mean)
        weights = solver.solve(B.T).astype(np.float32)
        found.append((weights, counts[own] / factored.total - factored.mean @ weights.astype(np.float64)))
    return found
