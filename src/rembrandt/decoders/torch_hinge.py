"""The sparse part's classifiers on a device: all labels against all examples, a block of labels at a time.

The objective is that of `linalg/hinge.py`, ``½‖w‖² + Σ Cᵢ max(0, 1 − yᵢ wᵀxᵢ)²`` over the features that a label's own
examples have, and so is its minimum. There one label after the other goes through its examples; here a block of labels
takes Newton's steps together: the loss is quadratic over the examples inside the margin, so that a step is a linear
system, solved by conjugate gradients that are the same two sparse products for all labels. Every label has a step
length of its own, and leaves the block when its gradient is small beside what its own examples add to it at first.
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
STEPS = 30  # of Newton's, at most
INNER = 10  # of conjugate gradients for each
ENOUGH = 0.3  # of the residual, where conjugate gradients end
SHORTER = (0.5, 0.25, 0.1, 0.03, 0.01)  # parts of a step that are tried where a whole one leads uphill
TOLERANCE = 3e-3  # of a gradient, beside what the label's own examples add to the first one, where it is done
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
    """A block of labels on its way: their weights and the margins of all examples."""

    def __init__(self, examples: _Examples, mine: Csr) -> None:
        n, size = examples.X.shape[0], mine.shape[0]
        device = examples.costs.device
        self.labels = torch.arange(size, device=device)
        self.sign = torch.full((n, size), -1.0, device=device)
        self.sign[mine.columns.long(), mine.row_of_entry().long()] = 1.0
        own = 2 * multiply(examples.Xt, examples.costs * (self.sign > 0))  # a label's examples' part of the gradient
        self.support = own != 0
        self.support[-1] = True  # the bias
        self.goal = TOLERANCE**2 * _squares(own)
        self.W = torch.zeros((examples.X.shape[1], size), device=device)
        self.margins = torch.zeros((n, size), device=device)
        self.open = torch.ones(size, dtype=torch.bool, device=device)

    def hinge(self, margins: Tensor) -> Tensor:
        """How far each example is on the wrong side of its margin."""
        return torch.clamp(1 - self.sign * margins, min=0)

    def keep(self, chosen: Tensor) -> None:
        """Go on with the labels ``chosen`` alone."""
        for name, value in vars(self).items():
            setattr(self, name, value[..., chosen].contiguous())


def _descend(examples: _Examples, mine: Csr) -> Iterator[tuple[Tensor, Tensor]]:
    """Labels of the block and their weights, as they are done."""
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
    """One step of Newton's for every label that is not done."""
    hinge = state.hinge(state.margins)
    G = state.W - 2 * multiply(examples.Xt, examples.costs * state.sign * hinge)
    G *= state.support
    state.open &= _squares(G) > state.goal
    D, along = _direction(examples, state, 2 * examples.costs * (hinge > 0), -G * state.open)
    step = _step_length(examples, state, D, along)
    state.W += step * D
    state.margins += step * along


def _direction(examples: _Examples, state: _State, curvature: Tensor, R: Tensor) -> tuple[Tensor, Tensor]:
    """``D`` with ``(I + XᵀCX) D = R``, nearly, over each label's features; and ``XD``."""
    D, along = torch.zeros_like(R), torch.zeros_like(state.margins)
    P, rr = R.clone(), _squares(R)
    goal = ENOUGH**2 * rr
    for _ in range(INNER):
        XP = multiply(examples.X, P)
        HP = (P + multiply(examples.Xt, curvature * XP)) * state.support
        step = _ratio(rr, (P * HP).sum(dim=0)) * (rr > goal)  # whatever the other labels of the block still need
        D += step * P
        along += step * XP
        R = R - step * HP
        rr, before = _squares(R), rr
        if bool((rr <= goal).all()):
            break
        P = R + _ratio(rr, before) * P
    return D, along


def _step_length(examples: _Examples, state: _State, D: Tensor, along: Tensor) -> Tensor:
    """The part of a step that leads each label lowest: the whole of it, as a rule."""

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
    """``a / b``, and zero where ``b`` is."""
    return torch.where(b > 0, a / torch.where(b > 0, b, 1.0), 0.0)


def _pruned(W: Tensor, threshold: float) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """Weights by labels without the small ones, and the biases, in this process's memory."""
    weights, bias = W[:-1].T, W[-1]
    label, feature = torch.nonzero((weights.abs() >= threshold) & (weights != 0), as_tuple=True)
    counts = torch.bincount(label, minlength=len(bias)).cpu().numpy()
    values, features = weights[label, feature].cpu().numpy(), feature.cpu().numpy().astype(np.int32)
    shape = (len(bias), W.shape[0] - 1)
    return sparse.csr_array((values, features, np.append(0, np.cumsum(counts))), shape=shape), bias.cpu().numpy()
