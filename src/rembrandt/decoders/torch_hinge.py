"""The sparse part's classifiers on a device: all labels against all examples, a block of labels at a time.

The objective is that of `linalg/hinge.py`, ``½‖w‖² + Σ Cᵢ max(0, 1 − yᵢ wᵀxᵢ)²`` over the features that a label's own
examples have, and so is its minimum. There one label after the other goes through its examples; here a block of labels
takes accelerated gradient steps together, each label with a step length and a momentum of its own, until its gradient
is small beside the first one. Labels that are done leave the block.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.engines.torch_memory import halving
from rembrandt.engines.torch_place import TorchPlace
from rembrandt.engines.torch_products import Csr, Tensor, multiply
from rembrandt.linalg.sparse import as_csr
from rembrandt.progress import Report, silent

MOST = 2048  # labels of a block
SHARE = 0.5  # of the free memory that a block may take
BLOCKS = 12  # tall arrays that a block has at a time
STEPS = 300  # at most
TOLERANCE = 1e-2  # of a gradient beside the first one, where its label is done
EASE = 0.9  # a step's curvature estimate after a step that was short enough
DONE = 0.75  # of the labels still open: below, the block is made narrower


def hinge_weights(
    X: sparse.csr_array,
    rows: sparse.csr_array,
    costs: NDArray[np.float32],
    threshold: float,
    place: TorchPlace,
    report: Report = silent,
) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """Weights, labels × features, without those below ``threshold``, and biases; ``rows`` are each label's examples."""
    size = rows.shape[0]
    found: dict[int, tuple[sparse.csr_array, NDArray[np.float32]]] = {}

    def work(labels: slice) -> None:
        examples = placed[len(found) % len(placed)]
        found[labels.start] = _pruned(examples.fit(as_csr(rows[labels])), threshold)
        report(f"{size:,} sparse classifiers", labels.stop, size)

    with place.exactly():
        placed = [_Examples(X, costs, device) for device in dict.fromkeys(place.devices)]
        width = int(SHARE * place.available() / (4 * BLOCKS * (X.shape[0] + X.shape[1])))
        halving(work, slice(0, size), min(MOST, max(1, width)), "the sparse part")
    parts = [found[start] for start in sorted(found)]
    return as_csr(sparse.vstack([weights for weights, _ in parts])), np.concatenate([bias for _, bias in parts])


class _Examples:
    """``[X, 1]`` and the rows' costs on a device."""

    def __init__(self, X: sparse.csr_array, costs: NDArray[np.float32], device: torch.device) -> None:
        self.X = Csr.of(X, device, torch.float32).with_constant()
        self.Xt = self.X.transposed()
        self.costs = torch.as_tensor(costs, dtype=torch.float32, device=device)[:, None]

    def fit(self, rows: sparse.csr_array) -> Tensor:
        """Weights of a block of labels, features and the bias by labels."""
        mine = Csr.of(rows, self.costs.device, torch.float32)
        out = torch.zeros((self.X.shape[1], rows.shape[0]), device=self.costs.device)
        for labels, weights in _descend(self, mine):
            out[:, labels] = weights
        return out


class _State:
    """A block of labels on its way: weights and margins now and a step ago, and what each label's next step needs."""

    def __init__(self, examples: _Examples, mine: Csr) -> None:
        n, size = examples.X.shape[0], mine.shape[0]
        device = examples.costs.device
        self.labels = torch.arange(size, device=device)
        self.sign = torch.full((n, size), -1.0, device=device)
        self.sign[mine.columns.long(), mine.row_of_entry().long()] = 1.0
        self.support = multiply(examples.Xt, (self.sign > 0).float()) != 0
        self.support[-1] = True  # the bias
        # From a bias of −1 no negative example counts: what a label has to learn at first is its own examples.
        self.W = torch.zeros((examples.X.shape[1], size), device=device)
        self.W[-1] = -1.0
        self.M = torch.full((n, size), -1.0, device=device)
        self.W_before, self.M_before = self.W.clone(), self.M.clone()
        self.curvature = 1 + 4 * (examples.costs * (self.sign > 0)).sum(dim=0)
        self.momentum = torch.ones(size, device=device)
        self.objective = self.loss(examples, self.W, self.M)[0]
        self.first: Tensor | None = None  # squared length of the first gradient
        self.open = torch.ones(size, dtype=torch.bool, device=device)

    def loss(self, examples: _Examples, W: Tensor, M: Tensor) -> tuple[Tensor, Tensor]:
        """The objective of each label, and the hinge of each example."""
        hinge = torch.clamp(1 - self.sign * M, min=0)
        return 0.5 * _squares(W) + _squares(examples.costs.sqrt() * hinge), hinge

    def keep(self, chosen: Tensor) -> None:
        """Go on with the labels ``chosen`` alone."""
        for name, value in vars(self).items():
            setattr(self, name, value[..., chosen].contiguous())


def _descend(examples: _Examples, mine: Csr) -> Iterator[tuple[Tensor, Tensor]]:
    """Labels of the block and their weights, as they are done."""
    state = _State(examples, mine)
    for step in range(STEPS):
        _step(examples, state)
        if step % 8 == 7:
            n_open = int(state.open.sum())
            if n_open <= DONE * len(state.labels):
                yield state.labels[~state.open], state.W[:, ~state.open]
                state.keep(torch.nonzero(state.open)[:, 0])
            if n_open == 0:
                return
    yield state.labels, state.W


def _step(examples: _Examples, state: _State) -> None:
    """One gradient step of every label from the point ahead of it; where it was too long, half as long next time."""
    after = 0.5 * (1 + torch.sqrt(1 + 4 * state.momentum**2))
    ahead = (state.momentum - 1) / after
    V = torch.lerp(state.W, state.W_before, -ahead)
    at_V, hinge = state.loss(examples, V, torch.lerp(state.M, state.M_before, -ahead))
    G = V + multiply(examples.Xt, -2 * examples.costs * state.sign * hinge)
    G *= state.support
    length = _squares(G)
    if state.first is None:
        state.first = length
    W = V - G / state.curvature
    M = multiply(examples.X, W)
    objective = state.loss(examples, W, M)[0]
    short_enough = objective <= at_V - 0.5 * length / state.curvature + 1e-6 * at_V.abs()
    onward = short_enough & (objective <= state.objective)  # momentum that leads uphill is dropped
    state.open &= length > TOLERANCE**2 * state.first
    state.W_before, state.M_before = state.W, state.M
    state.W, state.M = torch.where(short_enough, W, state.W), torch.where(short_enough, M, state.M)
    state.objective = torch.where(short_enough, objective, state.objective)
    state.momentum = torch.where(onward, after, torch.ones_like(after))
    state.curvature = torch.where(short_enough, torch.clamp(EASE * state.curvature, min=1.0), 2 * state.curvature)


def _squares(A: Tensor) -> Tensor:
    return (A * A).sum(dim=0)


def _pruned(W: Tensor, threshold: float) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """Weights by labels without the small ones, and the biases, in this process's memory."""
    weights, bias = W[:-1].T, W[-1]
    label, feature = torch.nonzero((weights.abs() >= threshold) & (weights != 0), as_tuple=True)
    counts = torch.bincount(label, minlength=len(bias)).cpu().numpy()
    values, features = weights[label, feature].cpu().numpy(), feature.cpu().numpy().astype(np.int32)
    shape = (len(bias), W.shape[0] - 1)
    return sparse.csr_array((values, features, np.append(0, np.cumsum(counts))), shape=shape), bias.cpu().numpy()
