"""Classifiers of all labels against all examples on a device, a block of labels at a time.

The objective is that of `linalg/hinge.py`, ``½‖w‖² + Σ Cᵢ max(0, 1 − yᵢ wᵀxᵢ)²`` over the features that a label's own
examples have. Instead of coordinate descent for one label after the other, a block of labels takes Newton steps
together: the loss is quadratic over the examples inside the margin, so a step is a linear system, solved by conjugate
gradients with the same two sparse products for all labels. Every label has its own step length, and leaves the block
when its gradient is small relative to what its own examples add to the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.engines.hinge import InMemory, LocalHinge, Nodes, Weights
from rembrandt.engines.torch_memory import halving
from rembrandt.engines.torch_products import Csr, Tensor
from rembrandt.linalg.sparse import as_csr
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.engines.torch_place import TorchPlace

MOST = 2048  # labels of a block
SHARE = 0.5  # of the free memory that a block may take
BLOCKS = 12  # tall arrays of a block
STEPS = 30  # Newton steps, at most
INNER = 10  # iterations of conjugate gradients per step
ENOUGH = 0.3  # relative residual at which conjugate gradients end
SHORTER = (0.5, 0.25, 0.1, 0.03, 0.01)  # step lengths tried when a full step increases the loss
TOLERANCE = 3e-3  # of a gradient, relative to what the label's own examples add to the first one
DONE = 0.75  # fraction of labels not done below which the block is made narrower


@dataclass(frozen=True)
class TorchHinge:
    """Nodes that learn from all examples are fitted on the devices of ``place``, others on the CPU.

    Below the first level the examples of a node are too few for a device to be faster.
    """

    place: TorchPlace
    X: sparse.csr_array

    def fit(self, nodes: Nodes, report: Report) -> Weights:
        if nodes.pools.shape[0] > 1:
            return LocalHinge(InMemory(self.X)).fit(nodes, report)
        found: dict[int, Weights] = {}

        def work(labels: slice) -> None:
            examples = on_devices[len(found) % len(on_devices)]
            found[labels.start] = _pruned(examples.fit(as_csr(nodes.rows[labels])), nodes.threshold)
            report(f"{nodes.size:,} tree nodes", labels.stop, nodes.size)

        with self.place.session():
            on_devices = [_Examples(self.X, nodes.costs, device) for device in dict.fromkeys(self.place.devices)]
            width = int(SHARE * self.place.available() / (4 * BLOCKS * sum(self.X.shape)))
            halving(work, slice(0, nodes.size), min(MOST, max(1, width)), "the trees")
        parts = [found[start] for start in sorted(found)]
        return as_csr(sparse.vstack([weights for weights, _ in parts])), np.concatenate([bias for _, bias in parts])


class _Examples:
    """``[X, 1]`` and the rows' costs on a device."""

    def __init__(self, X: sparse.csr_array, costs: NDArray[np.float32], device: torch.device) -> None:
        self.X = Csr.of(X, device, torch.float32).with_constant()
        self.costs = torch.as_tensor(costs, dtype=torch.float32, device=device)[:, None]

    def fit(self, rows: sparse.csr_array) -> Tensor:
        """Return the weights of a block of labels, (features and bias) × labels."""
        mine = Csr.of(rows, self.costs.device, torch.float32)
        out = torch.zeros((self.X.shape[1], rows.shape[0]), device=self.costs.device)
        for labels, weights in _descend(self, mine):
            out[:, labels] = weights
        return out


class _State:
    """The weights of a block of labels, and the margins of all examples."""

    def __init__(self, examples: _Examples, mine: Csr) -> None:
        n, size = examples.X.shape[0], mine.shape[0]
        device = examples.costs.device
        self.labels = torch.arange(size, device=device)
        self.sign = torch.full((n, size), -1.0, device=device)
        self.sign[mine.columns.long(), mine.row_of_entry().long()] = 1.0
        own = 2 * (examples.X.T @ (examples.costs * (self.sign > 0)))  # gradient from a label's own examples
        self.support = own != 0
        self.support[-1] = True  # the bias
        self.goal = TOLERANCE**2 * _squares(own)
        self.W = torch.zeros((examples.X.shape[1], size), device=device)
        self.margins = torch.zeros((n, size), device=device)
        self.open = torch.ones(size, dtype=torch.bool, device=device)

    def hinge(self, margins: Tensor) -> Tensor:
        """Distance of each example from the right side of its margin."""
        return torch.clamp(1 - self.sign * margins, min=0)

    def keep(self, chosen: Tensor) -> None:
        """Keep the labels ``chosen``."""
        for name, value in vars(self).items():
            setattr(self, name, value[..., chosen].contiguous())


def _descend(examples: _Examples, mine: Csr) -> Iterator[tuple[Tensor, Tensor]]:
    """Iterate over labels of the block and their weights, as they are done."""
    state = _State(examples, mine)
    for _ in range(STEPS):
        _step(examples, state)
        n_open = int(state.open.sum())
        if n_open <= DONE * len(state.labels):
            yield state.labels[~state.open], state.W[:, ~state.open]
            state.keep(torch.nonzero(state.open)[:, 0])
        if n_open == 0:
            return
    yield state.labels, state.W


def _step(examples: _Examples, state: _State) -> None:
    """Take a Newton step for every label that is not done."""
    hinge = state.hinge(state.margins)
    G = state.W - 2 * (examples.X.T @ (examples.costs * state.sign * hinge))
    G *= state.support
    state.open &= _squares(G) > state.goal
    D, along = _direction(examples, state, 2 * examples.costs * (hinge > 0), -G * state.open)
    step = _step_length(examples, state, D, along)
    state.W += step * D
    state.margins += step * along


def _direction(examples: _Examples, state: _State, curvature: Tensor, R: Tensor) -> tuple[Tensor, Tensor]:
    """Approximate solution of ``(I + XᵀCX) D = R`` over each label's features, and ``XD``."""
    D, along = torch.zeros_like(R), torch.zeros_like(state.margins)
    P, rr = R.clone(), _squares(R)
    goal = ENOUGH**2 * rr
    for _ in range(INNER):
        XP = examples.X @ P
        HP = (P + examples.X.T @ (curvature * XP)) * state.support
        step = _ratio(rr, (P * HP).sum(dim=0)) * (rr > goal)  # zero for labels that are done
        D += step * P
        along += step * XP
        R = R - step * HP
        rr, before = _squares(R), rr
        if bool((rr <= goal).all()):
            break
        P = R + _ratio(rr, before) * P
    return D, along


def _step_length(examples: _Examples, state: _State, D: Tensor, along: Tensor) -> Tensor:
    """The step length with the lowest loss of each label; usually one."""

    def loss(step: Tensor | float) -> Tensor:
        hinge = state.hinge(state.margins + step * along)
        return 0.5 * _squares(state.W + step * D) + _squares(examples.costs.sqrt() * hinge)

    best = torch.ones_like(along[0])
    now, lowest = loss(0.0), loss(1.0)
    if bool((lowest <= now).all()):
        return best
    for part in SHORTER:
        found = loss(part)
        best, lowest = torch.where(found < lowest, part, best), torch.minimum(found, lowest)
    return torch.where(lowest <= now, best, 0.0)


def _squares(A: Tensor) -> Tensor:
    return (A * A).sum(dim=0)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """``a / b``, or zero where ``b`` is."""
    return torch.where(b > 0, a / torch.where(b > 0, b, 1.0), 0.0)


def _pruned(W: Tensor, threshold: float) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """Weights by label without the small ones, and the biases, in host memory."""
    weights, bias = W[:-1].T, W[-1]
    label, feature = torch.nonzero((weights.abs() >= threshold) & (weights != 0), as_tuple=True)
    counts = torch.bincount(label, minlength=len(bias)).cpu().numpy()
    values, features = weights[label, feature].cpu().numpy(), feature.cpu().numpy().astype(np.int32)
    shape = (len(bias), W.shape[0] - 1)
    return sparse.csr_array((values, features, np.append(0, np.cumsum(counts))), shape=shape), bias.cpu().numpy()
