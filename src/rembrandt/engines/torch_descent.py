"""The steps of the logistic fit on devices: labels in shards, one for each device, and a shard's
logits in chunks.

Features and products are in bfloat16 where there are many of them on a GPU, weights and sums in
float32. The biases are not part of the product: they are much larger than what the features add,
and are added in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.engines.descent import LogisticProblem
from rembrandt.engines.torch_kernels import advance_, ahead, log_sums, probabilities_
from rembrandt.engines.torch_memory import halving
from rembrandt.engines.torch_shards import GRAIN, Features, Shard, Truth
from rembrandt.errors import MemoryEstimateError
from rembrandt.linalg.blocks import as_numpy, spans

if TYPE_CHECKING:
    from rembrandt.engines.torch_place import TorchPlace

Tensor = torch.Tensor

LARGEST_BATCH = 16_384
LOGIT_BYTES = 1 << 30  # of a chunk's logits
LARGE = (
    10**11
)  # products of an epoch that take longer than a hundredth of a second in full precision
ALIGNED = 64  # features: tensor cores are slow on rows of odd length


class TorchDescent:
    """On devices: every step in chunks of labels, to bound the logits in memory."""

    def __init__(self, place: TorchPlace, problem: LogisticProblem) -> None:
        whitening, H, Y, w = problem.whitening, problem.H, problem.Y, problem.weights
        self.place, self.whitening, self.settings, self.host_w = (
            place,
            whitening,
            problem.settings,
            w,
        )
        large = place.first.type == "cuda" and Y.shape[0] * Y.shape[1] * whitening.size >= LARGE
        half = large if place.compute is None else place.compute == torch.bfloat16
        self.compute = torch.bfloat16 if half else H.dtype
        self.constant = whitening.size  # the row of the weights that holds the bias
        free = place.available()
        self.batch = self._batch(problem.n_train, Y.shape[1], free)
        self.columns = whitening.size + 1
        if self.compute == torch.bfloat16:
            self.columns += 1 + (-self.columns - 1) % ALIGNED  # at least one column of zeros
        stored = Y.shape[0] * self.columns * self.compute.itemsize <= 0.35 * free
        devices = dict.fromkeys(place.devices)
        self.features = {
            d: Features(whitening, H, self.compute, self.columns, d, stored) for d in devices
        }
        self.w = {d: torch.as_tensor(w, device=d) for d in devices}
        self.shards = self._shards(Y, problem.rates, H.dtype, free)
        # All shards are on their devices at the same time, unless they take turns.
        together = self.shards[0].home == self.shards[0].device
        self.groups = [self.shards] if together else [[shard] for shard in self.shards]

    def _batch(self, n_train: int, c: int, free: int) -> int:
        """Rows of a step: fifty steps an epoch suffice, and large steps keep a device busy."""
        wanted = max(self.settings.batch, min(LARGEST_BATCH, n_train // 50))
        if self.settings.multiclass:  # all logits of a batch exist at once
            wanted = min(wanted, free // (6 * c * self.compute.itemsize))
        return max(1, min(wanted, max(32, n_train // 20), n_train))

    def _shards(
        self, Y: sparse.csr_array, rates: NDArray[Any], dtype: torch.dtype, free: int
    ) -> list[Shard]:
        """One shard for each device; more, which take turns, when a device cannot hold its
        share.
        """
        c, devices = Y.shape[1], self.place.devices
        size = self.columns * dtype.itemsize  # of one label's weights
        turns = 1
        if 4 * size * c / len(devices) > 0.75 * free:
            turns = -(-int(3 * size * c / len(devices)) // max(1, int(0.4 * free)))
            if self.settings.multiclass or turns > c:
                raise MemoryEstimateError(
                    f"a softmax over {c:,} classes of {self.columns:,} features needs about "
                    f"{4 * size * c / 2**30:.1f} GiB for its weights, and {free / 2**30:.1f} GiB "
                    "are free on "
                    f"{self.place.device}: use fewer n_random_features, decoder='ridge', or more "
                    "devices."
                )
        count = min(c, turns * len(devices))
        longest = self.settings.longest(rates, self.batch, self.whitening.size)
        prior = torch.as_tensor(self.settings.prior(rates), dtype=dtype)
        chunk = max(1, LOGIT_BYTES // (self.batch * self.compute.itemsize * GRAIN)) * GRAIN
        shards = []
        for at, (first, last) in enumerate(
            pairwise(np.linspace(0, c, count + 1).astype(int).tolist())
        ):
            device = devices[at % len(devices)]
            home = device if turns == 1 else torch.device("cpu")
            start = torch.zeros((self.columns, last - first), dtype=dtype, device=home)
            start[self.constant] = prior[first:last].to(home)
            curvature = rates * (1 - rates)
            shards.append(
                Shard(device, home, slice(first, last), Y, start, longest, curvature, chunk)
            )
        return shards

    def epoch(
        self, order: NDArray[np.int64], kept: list[NDArray[np.int64] | None], scale: float
    ) -> None:
        s = self.settings
        rows = {d: torch.as_tensor(order, device=d) for d in self.features}
        some = {d: self._filled(kept, d) for d in self.features}
        for group in self.groups:
            for shard in group:
                shard.begin(rows[shard.device], scale * (1 - s.momentum))
                if kept[0] is None:
                    shard.point = self._point(shard, slice(0, shard.width), None, self.constant)
            used = dict.fromkeys(shard.device for shard in group)
            for i in range(len(order)):
                batches = {d: self._seen(d, rows[d][i], some[d][i], i) for d in used}
                if s.multiclass:
                    self._softmax_step(group, batches)
                    continue
                for shard in group:
                    self._independent_step(shard, batches[shard.device])
            for shard in group:
                shard.end(len(order))

    def _independent_step(self, shard: Shard, batch: _Batch) -> None:
        """Independent labels: chunk by chunk, in smaller chunks after memory ran out."""

        def work(grains: slice) -> None:
            labels = slice(grains.start * GRAIN, min(grains.stop * GRAIN, shard.width))
            self._descend(shard, batch, labels, self._logits(shard, batch, labels), None)

        whole = slice(0, -(-shard.width // GRAIN))
        shard.chunk = GRAIN * halving(
            work, whole, shard.chunk // GRAIN, f"a step on {self.batch:,} examples"
        )

    def _softmax_step(self, group: list[Shard], batches: dict[torch.device, _Batch]) -> None:
        """Softmax: all logits first, for their normalizers, then the steps."""
        chunks = [(shard, labels) for shard in group for labels in spans(shard.width, shard.chunk)]
        logits = [self._logits(shard, batches[shard.device], labels) for shard, labels in chunks]
        sums = [
            log_sums(P, self._bias(*chunk)).to(self.place.first)
            for P, chunk in zip(logits, chunks, strict=True)
        ]
        normalizers = reduce(torch.logaddexp, sums)
        for shard, labels in chunks:  # each block of logits is freed after its step
            self._descend(
                shard, batches[shard.device], labels, logits.pop(0), normalizers.to(shard.device)
            )

    def _bias(self, shard: Shard, labels: slice) -> Tensor:
        at = (self.constant, labels)
        return torch.add(shard.Q[at], shard.velocity[at], alpha=self.settings.momentum)

    def _logits(self, shard: Shard, batch: _Batch, labels: slice) -> Tensor:
        """Logits without the bias."""
        if shard.point is not None:
            return batch.seen @ shard.point[:, labels]
        return batch.seen @ self._point(shard, labels, batch.kept, batch.constant)

    def _point(self, shard: Shard, labels: slice, kept: Tensor | None, constant: int) -> Tensor:
        """The point at which the gradient is taken, on the features kept, without the bias."""
        Q, velocity = shard.Q[:, labels], shard.velocity[:, labels]
        point = ahead(Q, velocity, kept, self.settings.momentum, self.compute)
        point[constant] = 0
        return point

    def _descend(
        self, shard: Shard, batch: _Batch, labels: slice, P: Tensor, normalizers: Tensor | None
    ) -> None:
        """Take the step of a chunk of labels with the logits ``P``."""
        assert shard.truth is not None
        s, bias = self.settings, self._bias(shard, labels)
        at, label = shard.truth.within(batch.index, labels)
        # The residual 1 − p of a true label may be small: compute it from the logit, not from a
        # rounded p.
        z = P[at, label].to(bias.dtype) + bias[label]
        missed = -torch.sigmoid(-z) if normalizers is None else torch.expm1(z - normalizers[at])
        probabilities_(P, bias, normalizers)
        P[at, label] = missed.to(P.dtype)
        slope = batch.weighted.T @ P
        penalty = s.l2 * shard.curvature[labels] if s.l2 else None
        Q, velocity, mean = shard.Q[:, labels], shard.velocity[:, labels], shard.mean[:, labels]
        point = None if shard.point is None else shard.point[:, labels]
        advance_(
            Q,
            velocity,
            mean,
            slope,
            batch.kept,
            shard.step[labels],
            s.momentum,
            penalty,
            point,
            self.constant,
        )

    def loss(self, rows: NDArray[np.int64]) -> float:
        total = torch.zeros((), dtype=torch.float64, device=self.place.first)
        for part in spans(len(rows), self.batch):
            total += self._loss(rows[part])
        return float(total) / max(1e-300, float(self.host_w[rows].sum()))

    def _loss(self, rows: NDArray[np.int64]) -> Tensor:
        """Weighted sum of the losses of ``rows`` at the mean."""
        first, multiclass = self.place.first, self.settings.multiclass
        sums = torch.full(
            (len(rows),), -float("inf") if multiclass else 0.0, dtype=torch.float64, device=first
        )
        hits = torch.zeros(len(rows), dtype=torch.float64, device=first)
        for shard in self.shards:
            chosen = torch.as_tensor(rows, device=shard.device)
            seen, truth = (
                self.features[shard.device].rows(chosen),
                Truth.of(shard.Y, chosen[None], shard.width),
            )
            for labels in spans(shard.width, shard.chunk):
                mean = shard.mean[:, labels].to(shard.device)
                point = mean.to(self.compute, copy=True)
                point[self.constant] = 0
                P = (seen @ point).to(mean.dtype).add_(mean[self.constant])
                at, label = truth.within(0, labels)
                hits.index_add_(0, at.to(first), P[at, label].double().to(first))
                if multiclass:
                    sums = torch.logaddexp(sums, torch.logsumexp(P, dim=1).double().to(first))
                else:
                    sums += (
                        torch.nn.functional.softplus(P).sum(dim=1, dtype=torch.float64).to(first)
                    )
        return self.w[first][torch.as_tensor(rows, device=first)] @ (sums - hits)

    def keep(self) -> None:
        for shard in self.shards:
            shard.best.copy_(shard.mean)

    def restart(self) -> None:
        for shard in self.shards:
            shard.Q.copy_(shard.best)
            shard.velocity.zero_()

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            name: np.hstack([as_numpy(getattr(shard, name)) for shard in self.shards])
            for name in ("Q", "velocity", "best")
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        for shard in self.shards:
            for name, array in state.items():
                getattr(shard, name).copy_(torch.as_tensor(array[:, shard.labels]))

    def result(self) -> tuple[Tensor, Tensor]:
        """Return the result on the first device, or in host memory when the device cannot hold
        it.
        """
        home = self.shards[0].home if len(self.groups) > 1 else self.place.first
        c = self.shards[-1].labels.stop
        weights = torch.empty(
            (self.whitening.size, c), dtype=self.shards[0].best.dtype, device=home
        )
        bias = torch.empty(c, dtype=weights.dtype, device=home)
        for shard in self.shards:
            for labels in spans(shard.width, shard.chunk):
                into = slice(shard.labels.start + labels.start, shard.labels.start + labels.stop)
                found = self.whitening.undo(shard.best[:, labels].to(self.place.first))
                weights[:, into], bias[into] = (x.to(home) for x in found)
        return weights, bias

    def _filled(self, kept: list[NDArray[np.int64] | None], device: torch.device) -> list[Any]:
        """For each batch its features and the constant, padded with the column of zeros to an
        aligned number.
        """
        if kept[0] is None:
            return [None] * len(kept)
        fill = -(len(kept[0]) + 1) % ALIGNED if self.columns > self.constant + 1 else 0
        tail = [self.constant] + [self.constant + 1] * fill
        table = np.stack([np.append(np.asarray(chosen), tail) for chosen in kept])
        self.n_kept = len(kept[0])
        return list(torch.as_tensor(table, device=device))

    def _seen(self, device: torch.device, rows: Tensor, kept: Tensor | None, index: int) -> _Batch:
        seen, constant = self.features[device].rows(rows), self.constant
        if kept is not None:
            constant = self.n_kept
            seen = seen[:, kept]
            seen *= 1 / (1 - self.settings.dropout)  # keeps the expected length of a row
            seen[:, constant] = 1
        w = self.w[device][rows]
        return _Batch(index, seen, seen * (w / w.sum())[:, None].to(seen.dtype), kept, constant)


@dataclass(frozen=True)
class _Batch:
    """The rows of a step: features, features times each row's share of the weight, and which
    features these are.
    """

    index: int
    seen: Tensor
    weighted: Tensor
    kept: Tensor | None
    constant: int  # position of the constant among the features
