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
from torch.nn.functional import softplus

from rembrandt.engines.descent import MIN_BATCH_ROWS, MIN_EPOCH_STEPS, LogisticProblem
from rembrandt.engines.torch_kernels import (
    Iterates,
    Step,
    advance_,
    ahead,
    log_sums,
    probabilities_,
)
from rembrandt.engines.torch_memory import halving
from rembrandt.engines.torch_shards import GRAIN, AllLabels, Features, Shard, Truth
from rembrandt.errors import MemoryEstimateError
from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import as_numpy, spans

if TYPE_CHECKING:
    from rembrandt.engines.torch_backend import TorchBackend

Tensor = torch.Tensor
Kept = list[Indices | None]  # features kept in each batch, None for all

# Rows of a step, at most, unless the settings ask for more.
MAX_BATCH_ROWS = 16_384
# Steps of an epoch that suffice; larger batches keep a device busy.
ENOUGH_EPOCH_STEPS = 50
# Bytes of a chunk's logits.
LOGIT_BYTES = 1 << 30
# Products of an epoch that take longer than a hundredth of a second in full precision.
MANY_PRODUCTS = 10**11
# Features are padded to multiples of this: tensor cores are slow on rows of odd length.
ALIGNED = 64
# Share of the free memory up to which the features of all rows are stored.
STORED_FEATURES_SHARE = 0.35
# Share of the free memory up to which all labels are on the device; beyond it shards take turns,
WEIGHTS_SHARE = 0.75
# each with this share.
TURN_SHARE = 0.4


class TorchDescent:
    """On devices: every step in chunks of labels, to bound the logits in memory."""

    def __init__(self, backend: TorchBackend, problem: LogisticProblem) -> None:
        self.backend = backend
        self.whitening = problem.whitening
        self.settings = problem.settings
        self.host_weights = problem.weights
        self.compute = self._compute_type(problem)
        # The row of the weights that holds the bias.
        self.constant = self.whitening.size
        self.columns = self.whitening.size + 1
        if self.compute == torch.bfloat16:
            # At least one column of zeros.
            self.columns += 1 + (-self.columns - 1) % ALIGNED
        free = backend.available()
        self.batch = self._batch(problem, free)
        feature_bytes = problem.Y.shape[0] * self.columns * self.compute.itemsize
        self.features: dict[torch.device, Features] = {}
        self.weights: dict[torch.device, Tensor] = {}
        for device in dict.fromkeys(backend.devices):
            self.features[device] = Features(
                whitening=self.whitening,
                H=problem.H,
                dtype=self.compute,
                columns=self.columns,
                device=device,
                stored=feature_bytes <= STORED_FEATURES_SHARE * free,
            )
            self.weights[device] = torch.as_tensor(problem.weights, device=device)
        n_turns = self._turns(problem, free)
        self.shards = self._shards(problem, n_turns)
        # All shards are on their devices at the same time, unless they take turns.
        together = self.shards[0].home == self.shards[0].device
        if together:
            self.groups = [self.shards]
        else:
            self.groups = [[shard] for shard in self.shards]

    def _compute_type(self, problem: LogisticProblem) -> torch.dtype:
        """Return the type of features and products: bfloat16 on GPUs with many products."""
        if self.backend.compute is None:
            n, c = problem.Y.shape
            has_many_products = n * c * self.whitening.size >= MANY_PRODUCTS
            on_gpu = self.backend.first.type == "cuda"
            use_half = on_gpu and has_many_products
        else:
            use_half = self.backend.compute == torch.bfloat16
        if use_half:
            return torch.bfloat16
        dtype: torch.dtype = problem.H.dtype
        return dtype

    def _batch(self, problem: LogisticProblem, free: int) -> int:
        """Return the rows of a step: fifty steps an epoch suffice, and large steps keep a device
        busy.
        """
        n_train = problem.n_train
        enough_rows = min(MAX_BATCH_ROWS, n_train // ENOUGH_EPOCH_STEPS)
        rows = max(self.settings.batch, enough_rows)
        if self.settings.multiclass:
            # All logits of a batch exist at once.
            row_bytes = 6 * problem.Y.shape[1] * self.compute.itemsize
            rows = min(rows, free // row_bytes)
        max_rows = max(MIN_BATCH_ROWS, n_train // MIN_EPOCH_STEPS)
        rows = min(rows, max_rows, n_train)
        return max(1, rows)

    def _shards(self, problem: LogisticProblem, n_turns: int) -> list[Shard]:
        """Return ``n_turns`` shards for each device."""
        c = problem.Y.shape[1]
        rates = problem.rates
        dtype = problem.H.dtype
        devices = self.backend.devices
        of_all = AllLabels(
            Y=problem.Y,
            longest=self.settings.longest(rates, self.batch, self.whitening.size),
            curvature=rates * (1 - rates),
        )
        prior = torch.as_tensor(self.settings.prior(rates), dtype=dtype)
        grain_bytes = self.batch * self.compute.itemsize * GRAIN
        n_grains = max(1, LOGIT_BYTES // grain_bytes)
        n_shards = min(c, n_turns * len(devices))
        cuts = np.linspace(0, c, n_shards + 1).astype(int).tolist()
        shards = []
        for number, (first, last) in enumerate(pairwise(cuts)):
            device = devices[number % len(devices)]
            home = device
            if n_turns > 1:
                home = torch.device("cpu")
            shape = (self.columns, last - first)
            start = torch.zeros(shape, dtype=dtype, device=home)
            start[self.constant] = prior[first:last].to(home)
            shard = Shard(
                device=device,
                home=home,
                labels=slice(first, last),
                of_all=of_all,
                start=start,
                chunk=n_grains * GRAIN,
            )
            shards.append(shard)
        return shards

    def _turns(self, problem: LogisticProblem, free: int) -> int:
        """Return how many shards a device holds one after the other: one where all labels fit."""
        c = problem.Y.shape[1]
        label_bytes = self.columns * problem.H.dtype.itemsize
        n_devices = len(self.backend.devices)
        # Weights, velocities, the mean of an epoch, and the best mean.
        if 4 * label_bytes * c / n_devices <= WEIGHTS_SHARE * free:
            return 1
        # Of shards that take turns, the best mean stays in host memory.
        needed = int(3 * label_bytes * c / n_devices)
        available = max(1, int(TURN_SHARE * free))
        turns = -(-needed // available)
        if self.settings.multiclass or turns > c:
            raise MemoryEstimateError(
                f"a softmax over {c:,} classes of {self.columns:,} features needs about "
                f"{4 * label_bytes * c / 2**30:.1f} GiB for its weights, and "
                f"{free / 2**30:.1f} GiB are free on {self.backend.device}: use fewer "
                "n_random_features, decoder='ridge', or more devices."
            )
        return turns

    def epoch(self, order: Indices, kept: Kept, scale: float) -> None:
        rows = {}
        kept_features = {}
        for device in self.features:
            rows[device] = torch.as_tensor(order, device=device)
            kept_features[device] = self._filled(kept, device)
        step = scale * (1 - self.settings.momentum)
        for group in self.groups:
            for shard in group:
                shard.begin(rows[shard.device], step)
                if kept[0] is None:
                    all_labels = slice(0, shard.width)
                    shard.point = self._point(shard, all_labels, None, self.constant)
            group_devices = dict.fromkeys(shard.device for shard in group)
            for number in range(len(order)):
                batches = {}
                for device in group_devices:
                    batches[device] = self._read_batch(
                        device=device,
                        index=number,
                        rows=rows[device][number],
                        kept=kept_features[device][number],
                    )
                self._step(group, batches)
            for shard in group:
                shard.end(len(order))

    def _step(self, group: list[Shard], batches: Batches) -> None:
        """Take the step of a batch for all labels of some shards."""
        if self.settings.multiclass:
            self._softmax_step(group, batches)
            return
        for shard in group:
            self._independent_step(shard, batches[shard.device])

    def _independent_step(self, shard: Shard, batch: _Batch) -> None:
        """Independent labels: chunk by chunk, in smaller chunks after memory ran out."""

        def work(grains: slice) -> None:
            stop = min(grains.stop * GRAIN, shard.width)
            labels = slice(grains.start * GRAIN, stop)
            logits = self._logits(shard, batch, labels)
            self._descend(shard, batch, labels, logits, None)

        n_grains = -(-shard.width // GRAIN)
        chunk_grains = halving(
            work,
            slice(0, n_grains),
            shard.chunk // GRAIN,
            f"a step on {self.batch:,} examples",
        )
        shard.chunk = GRAIN * chunk_grains

    def _softmax_step(self, group: list[Shard], batches: Batches) -> None:
        """Softmax: all logits first, for their normalizers, then the steps."""
        chunks = []
        for shard in group:
            chunks += [(shard, labels) for labels in spans(shard.width, shard.chunk)]
        blocks = []
        for shard, labels in chunks:
            blocks.append(self._logits(shard, batches[shard.device], labels))
        sums = []
        for logits, (shard, labels) in zip(blocks, chunks, strict=True):
            block_sums = log_sums(logits, self._bias(shard, labels))
            sums.append(block_sums.to(self.backend.first))
        normalizers = reduce(torch.logaddexp, sums)
        for shard, labels in chunks:
            # Taken off the list, so that each block of logits is freed after its step.
            logits = blocks.pop(0)
            on_device = normalizers.to(shard.device)
            self._descend(shard, batches[shard.device], labels, logits, on_device)

    def _bias(self, shard: Shard, labels: slice) -> Tensor:
        """Return the biases at the point at which the gradient is taken."""
        bias = shard.Q[self.constant, labels]
        velocity = shard.velocity[self.constant, labels]
        return torch.add(bias, velocity, alpha=self.settings.momentum)

    def _logits(self, shard: Shard, batch: _Batch, labels: slice) -> Tensor:
        """Return the logits without the bias."""
        if shard.point is not None:
            point = shard.point[:, labels]
        else:
            point = self._point(shard, labels, batch.kept, batch.constant)
        return batch.features @ point

    def _point(self, shard: Shard, labels: slice, kept: Tensor | None, constant: int) -> Tensor:
        """Return the point at which the gradient is taken, on the features kept, without the
        bias.
        """
        Q = shard.Q[:, labels]
        velocity = shard.velocity[:, labels]
        point = ahead(Q, velocity, kept, self.settings.momentum, self.compute)
        point[constant] = 0
        return point

    def _descend(
        self,
        shard: Shard,
        batch: _Batch,
        labels: slice,
        P: Tensor,
        normalizers: Tensor | None,
    ) -> None:
        """Take the step of a chunk of labels with the logits ``P``."""
        assert shard.truth is not None
        bias = self._bias(shard, labels)
        row, label = shard.truth.within(batch.index, labels)
        # The residual 1 − p of a true label may be small: compute it from the logit, not from a
        # rounded p.
        true_logits = P[row, label].to(bias.dtype)
        z = true_logits + bias[label]
        if normalizers is None:
            missed = -torch.sigmoid(-z)
        else:
            missed = torch.expm1(z - normalizers[row])
        probabilities_(P, bias, normalizers)
        P[row, label] = missed.to(P.dtype)
        slope = batch.weighted.T @ P
        penalty = None
        if self.settings.l2:
            penalty = self.settings.l2 * shard.curvature[labels]
        point = None
        if shard.point is not None:
            point = shard.point[:, labels]
        iterates = Iterates(
            Q=shard.Q[:, labels],
            velocity=shard.velocity[:, labels],
            sum=shard.mean[:, labels],
            point=point,
        )
        step = Step(
            gradient=slope,
            kept=batch.kept,
            length=shard.step[labels],
            momentum=self.settings.momentum,
            penalty=penalty,
        )
        advance_(iterates, step, self.constant)

    def loss(self, rows: Indices) -> float:
        total = torch.zeros((), dtype=torch.float64, device=self.backend.first)
        for span in spans(len(rows), self.batch):
            total += self._loss(rows[span])
        total_weight = float(self.host_weights[rows].sum())
        return float(total) / max(1e-300, total_weight)

    def _loss(self, rows: Indices) -> Tensor:
        """Return the weighted sum of the losses of ``rows`` at the mean."""
        first = self.backend.first
        multiclass = self.settings.multiclass
        true_logits = torch.zeros(len(rows), dtype=torch.float64, device=first)
        normalizers = torch.zeros_like(true_logits)
        if multiclass:
            # The logarithm of an empty sum.
            normalizers.fill_(-float("inf"))
        for shard in self.shards:
            shard_rows = torch.as_tensor(rows, device=shard.device)
            features = self.features[shard.device].rows(shard_rows)
            truth = Truth.of(shard.Y, shard_rows[None], shard.width)
            for labels in spans(shard.width, shard.chunk):
                P = self._logits_at_mean(shard, features, labels)
                row, label = truth.within(0, labels)
                of_pairs = P[row, label].double()
                true_logits.index_add_(0, row.to(first), of_pairs.to(first))
                if multiclass:
                    chunk_sums = torch.logsumexp(P, dim=1).double()
                    normalizers = torch.logaddexp(normalizers, chunk_sums.to(first))
                else:
                    chunk_sums = softplus(P).sum(dim=1, dtype=torch.float64)
                    normalizers += chunk_sums.to(first)
        rows_on_first = torch.as_tensor(rows, device=first)
        weights = self.weights[first][rows_on_first]
        return weights @ (normalizers - true_logits)

    def _logits_at_mean(self, shard: Shard, features: Tensor, labels: slice) -> Tensor:
        """Return the logits of a chunk of labels at the mean of the epoch, with the bias."""
        mean = shard.mean[:, labels].to(shard.device)
        point = mean.to(self.compute, copy=True)
        point[self.constant] = 0
        logits = features @ point
        logits = logits.to(mean.dtype)
        return logits.add_(mean[self.constant])

    def keep(self) -> None:
        for shard in self.shards:
            shard.best.copy_(shard.mean)

    def restart(self) -> None:
        for shard in self.shards:
            shard.Q.copy_(shard.best)
            shard.velocity.zero_()

    def state(self) -> dict[str, Array]:
        state = {}
        for name in ("Q", "velocity", "best"):
            blocks = [as_numpy(getattr(shard, name)) for shard in self.shards]
            state[name] = np.hstack(blocks)
        return state

    def restore(self, state: dict[str, Array]) -> None:
        for shard in self.shards:
            for name, array in state.items():
                block = torch.as_tensor(array[:, shard.labels])
                getattr(shard, name).copy_(block)

    def result(self) -> tuple[Tensor, Tensor]:
        """Return the result on the first device, or in host memory when the device cannot hold
        it.
        """
        home = self.backend.first
        if len(self.groups) > 1:
            home = self.shards[0].home
        c = self.shards[-1].labels.stop
        dtype = self.shards[0].best.dtype
        shape = (self.whitening.size, c)
        weights = torch.empty(shape, dtype=dtype, device=home)
        bias = torch.empty(c, dtype=dtype, device=home)
        for shard in self.shards:
            first = shard.labels.start
            for labels in spans(shard.width, shard.chunk):
                chunk = shard.best[:, labels].to(self.backend.first)
                chunk_weights, chunk_bias = self.whitening.undo(chunk)
                into = slice(first + labels.start, first + labels.stop)
                weights[:, into] = chunk_weights.to(home)
                bias[into] = chunk_bias.to(home)
        return weights, bias

    def _filled(self, kept: Kept, device: torch.device) -> list[Any]:
        """Return for each batch its features and the constant, padded with the column of zeros to
        an aligned number.
        """
        if kept[0] is None:
            return [None] * len(kept)
        self.n_kept = len(kept[0])
        n_zeros = 0
        if self.columns > self.constant + 1:
            n_zeros = -(self.n_kept + 1) % ALIGNED
        column_of_zeros = self.constant + 1
        tail = [self.constant] + [column_of_zeros] * n_zeros
        filled = [np.append(np.asarray(features), tail) for features in kept]
        table = np.stack(filled)
        return list(torch.as_tensor(table, device=device))

    def _read_batch(
        self,
        device: torch.device,
        index: int,
        rows: Tensor,
        kept: Tensor | None,
    ) -> _Batch:
        """Return the features of a batch, and the same times each row's share of the weight."""
        features = self.features[device].rows(rows)
        constant = self.constant
        if kept is not None:
            constant = self.n_kept
            features = features[:, kept]
            # Keeps the expected length of a row.
            features *= 1 / (1 - self.settings.dropout)
            features[:, constant] = 1
        weights = self.weights[device][rows]
        shares = weights / weights.sum()
        shares = shares[:, None].to(features.dtype)
        return _Batch(
            index=index,
            features=features,
            weighted=features * shares,
            kept=kept,
            constant=constant,
        )


@dataclass(frozen=True)
class _Batch:
    """The rows of a step: features, features times each row's share of the weight, and which
    features these are.
    """

    index: int
    features: Tensor
    weighted: Tensor
    kept: Tensor | None
    constant: int  # position of the constant among the features


Batches = dict[torch.device, _Batch]
