"""Fine-tuning: the network and the weights of the labels, trained together.

The loss is the binary cross-entropy, summed over all labels and averaged over the examples of a
batch. The rate rises over the first steps and then stays, and the mean of the last weights is the
result of an epoch: so any epoch may be the last. After the epochs at the full rate it may fall to
zero, which helps where a constant rate does not come to rest.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.errors import (
    MemoryEstimateError,
    RembrandtError,
    RembrandtWarning,
    StorageError,
)
from rembrandt.metrics.hits import hits
from rembrandt.metrics.ranking import ndcg
from rembrandt.parts.encoder.head import Head
from rembrandt.parts.encoder.network import Network
from rembrandt.parts.encoder.recording import BatchShape, RecordedSteps, Steps
from rembrandt.parts.encoder.tokens import Tokens, training_batches
from rembrandt.parts.encoder.torch_network import (
    DeviceTokens,
    build_module,
    encode_tokens,
    gather_padded,
    pooled,
)
from rembrandt.progress import Report, logger, silent
from rembrandt.storage.arrays import Arrays, checked, finite, positive
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints

# Epochs in which the rate rises: the first steps, in which the weights of the labels learn fastest,
# would disturb the network. Counted in epochs, so that the first epoch, which may be the best, has
# half of its steps at the full rate whatever the number of rows is.
WARM_UP_EPOCHS = 0.5
# Epochs in which the mean of the last weights forgets. It takes the place of a rate that decays, so
# it should cover many steps; and it stands for one epoch, so the weights of the epoch before should
# count for little in it (e⁻², a seventh).
AVERAGED_EPOCHS = 0.5
# Epochs in which the rate falls to zero, for each one at the full rate before.
DECAY_SHARE = 0.5
# Share of the dimensions of a vector that are dropped before the head.
DROPOUT = 0.1
# Largest norm of the gradient of the network.
LARGEST_GRADIENT = 1.0
# Weight decay of the network.
DECAY = 0.01
# Epochs without a better one, after which fine-tuning stops.
PATIENCE = 3
# Labels that are ranked to measure an epoch, and rows that are ranked at a time.
MEASURED_LABELS = 5
RANKED_ROWS = 512
# Steps from which the time of a fit on the CPU is estimated, and minutes that are worth a warning.
TIMED_STEPS = 5
SLOW_MINUTES = 5
# Name of the steps in checkpoints.
EPOCH_STAGE = "epoch"


@dataclass(frozen=True)
class TrainingRows:
    """Examples as tokens with their labels."""

    tokens: Tokens
    Y: sparse.csr_array
    weights: NDArray[np.float32] | None = None  # of the rows, one on average


@dataclass(frozen=True)
class Recipe:
    """How a network is fine-tuned."""

    max_epochs: int  # at the full rate
    batch_size: int
    network_rate: float
    head_rate: float
    seed: int
    # Epochs after those, in which the rate falls to zero; None tries them, and keeps them if they
    # are better on the stopping rows.
    decay_epochs: int | None = 0


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned network and head, and how it went."""

    weights: dict[str, NDArray[np.float32]]
    head_weights: NDArray[np.float32]
    head_bias: NDArray[np.float32]
    epochs: int  # at the full rate, after which these weights were reached
    decay_epochs: int  # after those, in which the rate fell to zero
    qualities: tuple[float, ...]  # of each epoch at the full rate, and of the decay if there is one
    losses: tuple[float, ...]  # of each epoch, averaged over its batches


def fine_tune(
    network: Network,
    head: Head,
    rows: TrainingRows,
    recipe: Recipe,
    device: torch.device,
    stopping: TrainingRows | None = None,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Tuned:
    """Train the network and the head; return the weights after the best epoch at the full rate or
    after the decay that follows the last one, whichever is better; without stopping rows, those at
    the end.
    """
    with _enough_memory(), _repeatable(recipe.seed, device), _without_kept_memory(device):
        return _trained(
            _Run(network, head, rows, recipe, device, report), stopping, report, checkpoints
        )


def _trained(
    run: "_Run", stopping: TrainingRows | None, report: Report, checkpoints: Checkpoints
) -> Tuned:
    """Train to the end; the tensors of the run are freed then."""
    try:
        run.resume(checkpoints)
        while not run.is_done:
            run.train_epoch()
            if stopping is not None and (run.full_rate_epochs is None or run.is_done):
                run.judge(stopping)
            if run.full_rate_epochs is None and run.is_at_rest:
                run.begin_decay()
            if not run.is_done:
                checkpoints.step(EPOCH_STAGE, run.epoch, run.state_arrays, run.state_facts())
        report("fine-tuning", run.epoch, run.epoch)
        return run.result()
    finally:
        run.forget_steps()


@contextmanager
def _repeatable(seed: int, device: torch.device) -> Iterator[None]:
    """Draw random numbers from this seed, and leave those of others alone."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


@contextmanager
def _enough_memory() -> Iterator[None]:
    """Say what to do where the memory of a device ends, as it may where others use it too."""
    try:
        yield
    except torch.OutOfMemoryError as cause:
        raise MemoryEstimateError(
            "the memory of the device does not hold the fine-tuning of the encoder; use a smaller "
            "batch_size or fewer max_tokens of the encoder, or training='frozen'",
            {"encoder_batch_size": "a smaller batch_size of the encoder"},
        ) from cause


@contextmanager
def _without_kept_memory(device: torch.device) -> Iterator[None]:
    """Give memory back that torch keeps on a device, for whatever comes next."""
    try:
        yield
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()


class _Run:
    """State of a running fine-tuning."""

    def __init__(
        self,
        network: Network,
        head: Head,
        rows: TrainingRows,
        recipe: Recipe,
        device: torch.device,
        report: Report,
    ) -> None:
        self.network = network
        self.recipe = recipe
        self.device = device
        self.report = report
        self.rng = np.random.default_rng(recipe.seed)
        self.module = build_module(network).to(device)
        n_labels, width = head.weights.shape
        self.head = torch.nn.Linear(width, n_labels, device=device)
        self.head.weight.data.copy_(torch.from_numpy(head.weights))
        self.head.bias.data.copy_(torch.from_numpy(head.bias))
        self.tokens = DeviceTokens(rows.tokens, network, device)
        self.labels = _DeviceLabels(rows.Y, device)
        self.row_weights = None
        if rows.weights is not None:
            self.row_weights = torch.from_numpy(rows.weights).to(device)
        self.n_batches = -(-rows.tokens.n // recipe.batch_size)
        self.network_parameters = list(self.module.parameters())
        self.parameters = [*self.network_parameters, *self.head.parameters()]
        self.optimizer = self._new_optimizer()
        # Sum of the losses of the batches of an epoch.
        self.total_loss = torch.zeros((), device=device)
        self.steps = Steps(self._compute_step)
        if device.type == "cuda":
            batch_size = min(recipe.batch_size, rows.tokens.n)
            self.steps = RecordedSteps(self._compute_step, batch_size, device)
        self.means = [parameter.detach().clone() for parameter in self.parameters]
        self.best: list[torch.Tensor] | None = None
        self.best_epoch = 0  # 0 before any is measured
        self.epoch = 0
        self.step = 0
        # Epochs before and in the decay, once it has begun.
        self.full_rate_epochs: int | None = None
        self.decay_epochs = 0
        self.qualities: list[float] = []
        self.losses: list[float] = []

    def forget_steps(self) -> None:
        """Drop the steps, which hold the run in turn: its tensors would stay on the device until a
        garbage collection, beside those of the next fit.
        """
        del self.steps

    @property
    def is_at_rest(self) -> bool:
        """Whether more epochs at the full rate would not help, or are not asked for."""
        since_best = len(self.qualities) - self.best_epoch
        return self.epoch >= self.recipe.max_epochs or since_best >= PATIENCE

    @property
    def is_done(self) -> bool:
        if self.full_rate_epochs is None:
            return False
        return self.epoch >= self.full_rate_epochs + self.decay_epochs

    def begin_decay(self) -> None:
        """Let the rate fall to zero from now on."""
        self.full_rate_epochs = self.epoch
        self.decay_epochs = self._usual_decay()
        if self.recipe.decay_epochs is not None:
            self.decay_epochs = self.recipe.decay_epochs

    def _usual_decay(self) -> int:
        return max(1, round(DECAY_SHARE * self.epoch))

    def _new_optimizer(self) -> torch.optim.AdamW:
        """Return the optimizer. On a GPU its kernels read the rates from the device, so that steps
        that are replayed take the present ones.
        """
        is_gpu = self.device.type == "cuda"
        groups: list[dict[str, Any]] = [
            {"params": self.network_parameters, "weight_decay": DECAY},
            {"params": list(self.head.parameters()), "weight_decay": 0.0},
        ]
        if is_gpu:
            for group in groups:
                group["lr"] = torch.zeros((), device=self.device)
        return torch.optim.AdamW(groups, fused=is_gpu, capturable=is_gpu)

    def _set_rates(self) -> None:
        """Set the rates of the next step."""
        share = self._rate()
        rates = (self.recipe.network_rate, self.recipe.head_rate)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate * share)
            else:
                group["lr"] = rate * share

    def train_epoch(self) -> None:
        """Take a step for each batch."""
        self.report("fine-tuning", self.epoch, self._most_epochs())
        self.module.train()
        batches = training_batches(self.tokens.lengths, self.recipe.batch_size, self.rng)
        # All rows of the epoch move to the device at once.
        order = torch.from_numpy(np.concatenate(batches)).to(self.device)
        self.total_loss.zero_()
        begun = time.perf_counter()
        start = 0
        for number, rows in enumerate(batches):
            device_rows = order[start : start + len(rows)]
            start += len(rows)
            self._take_step(rows, device_rows)
            if self.step == TIMED_STEPS and self.device.type == "cpu":
                self._warn_if_slow((time.perf_counter() - begun) / (number + 1))
        self.epoch += 1
        loss = float(self.total_loss) / len(batches)
        if not np.isfinite(loss):
            raise RembrandtError(
                f"the encoder diverged in epoch {self.epoch}: its loss is {loss}; use a smaller "
                "learning_rate",
                "learning_rate",
            )
        self.losses.append(loss)
        self.module.eval()

    def _warn_if_slow(self, step_seconds: float) -> None:
        """Say how long fine-tuning takes on the CPU, where that is long."""
        minutes = step_seconds * self.n_batches * self.recipe.max_epochs / 60
        if minutes < SLOW_MINUTES:
            return
        message = (
            f"fine-tuning the encoder on the CPU takes about {minutes:.0f} minutes at most "
            f"({self.recipe.max_epochs} epochs): use a GPU, fewer max_tokens or epochs, or "
            "training='frozen'"
        )
        warnings.warn(RembrandtWarning(message, "encoder"), stacklevel=2)

    def _take_step(self, rows: NDArray[np.int64], device_rows: torch.Tensor) -> None:
        """Take a step with the examples of a batch."""
        self._set_rates()
        shape = BatchShape(self.tokens.width(rows), self.labels.width(rows))
        self.steps.take(device_rows, shape)
        self.step += 1
        self._average()

    def _compute_step(self, rows: torch.Tensor, shape: BatchShape) -> None:
        """Move the weights by a batch, and add its loss to that of the epoch."""
        self.optimizer.zero_grad(set_to_none=True)
        ids, mask = self.tokens.batch(rows, shape.n_tokens)
        with self._autocast():
            vectors = pooled(self.module, self.network, ids, mask)
            logits = self.head(torch.nn.functional.dropout(vectors, DROPOUT))
        row_losses = self.labels.losses(logits, rows, shape.n_labels)
        if self.row_weights is not None:
            row_losses = row_losses * self.row_weights[rows]
        loss = row_losses.mean()
        torch.autograd.backward([loss])
        torch.nn.utils.clip_grad_norm_(self.network_parameters, LARGEST_GRADIENT)
        self.optimizer.step()
        self.total_loss += loss.detach()

    def _autocast(self) -> Any:
        is_gpu = self.device.type == "cuda"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=is_gpu)

    def _most_epochs(self) -> int:
        """Return the number of epochs that may be taken in all."""
        if self.full_rate_epochs is not None:
            return self.full_rate_epochs + self.decay_epochs
        decay_epochs = self.recipe.decay_epochs
        if decay_epochs is None:
            decay_epochs = round(DECAY_SHARE * self.recipe.max_epochs)
        return self.recipe.max_epochs + decay_epochs

    def _rate(self) -> float:
        """Return the share of the full rate that the next step takes."""
        warm_up = max(1.0, WARM_UP_EPOCHS * self.n_batches)
        rising = min(1.0, (self.step + 1) / warm_up)
        if self.full_rate_epochs is None:
            return rising
        n_decaying = self.decay_epochs * self.n_batches
        done = self.step - self.full_rate_epochs * self.n_batches
        return rising * (1 - done / n_decaying)

    def _average(self) -> None:
        """Move the means of the weights towards the weights."""
        horizon = max(1.0, AVERAGED_EPOCHS * self.n_batches)
        share = max(1 / horizon, 1 / self.step)
        with torch.no_grad():
            torch._foreach_lerp_(self.means, [p.detach() for p in self.parameters], share)

    def judge(self, stopping: TrainingRows) -> None:
        """Measure the means of the weights on the stopping rows, and keep them if they are the
        best.
        """
        with self._with_means():
            labels = self._best_labels(stopping)
        hit = hits(stopping.Y, labels)
        n_labels = np.diff(stopping.Y.indptr)
        quality = float((hit[:, 0] + ndcg(hit, n_labels, MEASURED_LABELS)).mean()) / 2
        self.qualities.append(quality)
        logger.info(
            "fine-tuning, epoch %d: loss %.4g, mean of P@1 and nDCG@5 %.2f %% on %d held-out rows",
            self.epoch,
            self.losses[-1],
            100 * quality,
            len(hit),
        )
        if self.best is None or quality > max(self.qualities[:-1], default=-1.0):
            self.best = [mean.clone() for mean in self.means]
            self.best_epoch = self.epoch

    @contextmanager
    def _with_means(self) -> Iterator[None]:
        """Use the means of the weights for a while."""
        kept = [parameter.detach().clone() for parameter in self.parameters]
        self._set_weights(self.means)
        try:
            yield
        finally:
            self._set_weights(kept)

    def _set_weights(self, values: list[torch.Tensor]) -> None:
        with torch.no_grad():
            torch._foreach_copy_([p.detach() for p in self.parameters], values)

    def _best_labels(self, stopping: TrainingRows) -> NDArray[np.int64]:
        def vectors_of(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            with self._autocast():
                return pooled(self.module, self.network, ids, mask)

        vectors = encode_tokens(vectors_of, stopping.tokens, self.network, self.device)
        n_best = min(MEASURED_LABELS, self.head.out_features)
        lists = [np.zeros((0, n_best), dtype=np.int64)]
        with torch.inference_mode():
            for start in range(0, len(vectors), RANKED_ROWS):
                block = torch.from_numpy(vectors[start : start + RANKED_ROWS]).to(self.device)
                lists.append(torch.topk(self.head(block), n_best).indices.cpu().numpy())
        return np.vstack(lists)

    def result(self) -> Tuned:
        """Return the best weights."""
        values = self.means
        epochs = self.epoch
        if self.best is not None:
            values = self.best
            epochs = self.best_epoch
        assert self.full_rate_epochs is not None
        full_rate_epochs = min(epochs, self.full_rate_epochs)
        arrays = [value.float().cpu().numpy() for value in values]
        names = [name for name, _ in self.module.named_parameters()]
        return Tuned(
            weights=dict(zip(names, arrays[:-2], strict=True)),
            head_weights=arrays[-2],
            head_bias=arrays[-1],
            epochs=full_rate_epochs,
            decay_epochs=epochs - full_rate_epochs,
            qualities=tuple(self.qualities),
            losses=tuple(self.losses),
        )

    def _tensors(self) -> dict[str, torch.Tensor]:
        """Return all tensors that the next epochs depend on, by name."""
        tensors = {}
        for number, parameter in enumerate(self.parameters):
            tensors[f"weights.{number}"] = parameter.detach()
            tensors[f"means.{number}"] = self.means[number]
            state = self.optimizer.state[parameter]
            tensors[f"first.{number}"] = state["exp_avg"]
            tensors[f"second.{number}"] = state["exp_avg_sq"]
            if self.best is not None:
                tensors[f"best.{number}"] = self.best[number]
        return tensors

    def state_arrays(self) -> Arrays:
        """Return the state after an epoch as arrays."""
        arrays = {name: tensor.cpu().numpy() for name, tensor in self._tensors().items()}
        arrays["generator"] = torch.get_rng_state().numpy()
        if self.device.type == "cuda":
            arrays["device_generator"] = torch.cuda.get_rng_state(self.device).numpy()
        return arrays

    def state_facts(self) -> dict[str, Any]:
        """Return the rest of the state, as JSON."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "best_epoch": self.best_epoch,
            "full_rate_epochs": self.full_rate_epochs,
            "decay_epochs": self.decay_epochs,
            "qualities": self.qualities,
            "losses": self.losses,
            "generator": self.rng.bit_generator.state,
        }

    def resume(self, checkpoints: Checkpoints) -> None:
        """Continue after the last epoch that was kept."""
        kept = checkpoints.last(EPOCH_STAGE)
        if kept is None:
            return
        arrays, facts = kept
        try:
            self._restore(arrays, facts)
        except (LookupError, TypeError, ValueError, RuntimeError, StorageError) as cause:
            raise StorageError(
                f"the checkpoint of the encoder cannot be used ({cause}); delete it to start again"
            ) from cause

    def _restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        self.rng.bit_generator.state = facts["generator"]
        self.epoch = positive(facts["epoch"], int)
        self.step = positive(facts["step"], int)
        self.best_epoch = positive(facts["best_epoch"], int, or_zero=True)
        if facts["full_rate_epochs"] is not None:
            self.full_rate_epochs = positive(facts["full_rate_epochs"], int)
            self.decay_epochs = positive(facts["decay_epochs"], int)
        self.qualities = [finite(quality) for quality in facts["qualities"]]
        self.losses = [finite(loss) for loss in facts["losses"]]
        for parameter in self.parameters:
            self.optimizer.state[parameter] = {
                "step": torch.tensor(float(self.step), device=self._step_device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        if self.best_epoch:
            self.best = [mean.clone() for mean in self.means]
        for name, tensor in self._tensors().items():
            array = checked(name, arrays, tuple(tensor.shape))
            tensor.copy_(torch.from_numpy(array))
        torch.set_rng_state(torch.from_numpy(checked("generator", arrays, (None,), "u")))
        if self.device.type == "cuda":
            generator = torch.from_numpy(checked("device_generator", arrays, (None,), "u"))
            torch.cuda.set_rng_state(generator, self.device)

    @property
    def _step_device(self) -> torch.device:
        """Where the optimizer counts its steps."""
        return self.device if self.device.type == "cuda" else torch.device("cpu")


class _DeviceLabels:
    """The labels of all rows on a device."""

    def __init__(self, Y: sparse.csr_array, device: torch.device) -> None:
        starts = Y.indptr.astype(np.int64)
        self.sizes = np.diff(starts)
        self._labels = torch.from_numpy(np.append(Y.indices, 0).astype(np.int32)).to(device)
        self._starts = torch.from_numpy(starts[:-1]).to(device)
        self._sizes = torch.from_numpy(self.sizes).to(device)

    def width(self, rows: NDArray[np.int64]) -> int:
        """Return the number of labels of the rows of a batch, with padding: a power of two, so that
        few widths occur.
        """
        most = int(self.sizes[rows].max())
        return 1 << max(most - 1, 0).bit_length()

    def losses(self, logits: torch.Tensor, rows: torch.Tensor, width: int) -> torch.Tensor:
        """Return the cross-entropy of each row, summed over all labels: Σ log(1 + eᶻ) − Σ z of its
        own labels.
        """
        logits = logits.float()
        labels, is_label = gather_padded(
            self._labels, self._starts[rows], self._sizes[rows], width, fill=0
        )
        own_logits = (logits.gather(1, labels) * is_label).sum(dim=1)
        return torch.nn.functional.softplus(logits).sum(dim=1) - own_logits
