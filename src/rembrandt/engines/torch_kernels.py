"""The passes of the logistic fit over large blocks on a device, each in one pass through memory by
Triton.

The plain torch form of each is the reference, and runs on the CPU or without Triton.
"""

from dataclasses import dataclass
from typing import Any

import torch

from rembrandt.linalg.blocks import has_triton

Tensor = torch.Tensor


def _fused(A: Tensor, weights: Tensor) -> Any:
    """Return the kernels for ``A``, or None: they need a GPU, weights in float32 and row-major
    order.
    """
    row_major = A.stride(1) == 1
    if not (A.is_cuda and weights.dtype == torch.float32 and row_major and has_triton()):
        return None
    from rembrandt.engines import triton_kernels

    return triton_kernels


def probabilities_(P: Tensor, bias: Tensor, normalizers: Tensor | None) -> None:
    """Turn logits ``P`` without their bias into probabilities in place: sigmoid, or softmax with
    its normalizers.
    """
    if kernels := _fused(P, bias):
        kernels.probabilities_(P, bias, normalizers)
        return
    P += bias
    if normalizers is None:
        torch.sigmoid_(P)
    else:
        P -= normalizers[:, None]
        torch.exp_(P)


def log_sums(P: Tensor, bias: Tensor) -> Tensor:
    """``log Σ exp`` of each row of logits ``P``, without their bias."""
    if kernels := _fused(P, bias):
        sums: Tensor = kernels.log_sums(P, bias)
        return sums
    return torch.logsumexp(P.to(bias.dtype) + bias, dim=1)


def ahead(
    Q: Tensor, velocity: Tensor, kept: Tensor | None, momentum: float, dtype: torch.dtype
) -> Tensor:
    """``Q + momentum · velocity`` on the rows ``kept``: the point of the gradient."""
    if kernels := _fused(Q, velocity):
        point: Tensor = kernels.ahead(Q, velocity, kept, momentum, dtype)
        return point
    if kept is None:
        return torch.add(Q, velocity, alpha=momentum).to(dtype)
    return torch.add(Q[kept], velocity[kept], alpha=momentum).to(dtype)


@dataclass(frozen=True)
class Iterates:
    """The weights of some labels during an epoch, features × labels."""

    Q: Tensor
    velocity: Tensor
    sum: Tensor  # of the iterates so far
    point: Tensor | None = None  # of the next gradient, where all features are kept


@dataclass(frozen=True)
class Step:
    """What a batch changes the weights of some labels by."""

    gradient: Tensor  # features kept × labels
    kept: Tensor | None  # features, all when None
    length: Tensor  # of each label
    momentum: float
    penalty: Tensor | None = None  # L2 penalty of each label


def advance_(iterates: Iterates, step: Step, constant: int) -> None:
    """Take the step of a batch in place: the velocity, then Q, then the sum of iterates, then the
    point of the next gradient, with a zero in the row ``constant``.
    """
    Q = iterates.Q
    velocity = iterates.velocity
    point = iterates.point
    if kernels := _fused(Q, velocity):
        kernels.advance_(iterates, step, constant)
        return
    slope = step.gradient.to(Q.dtype)
    if step.penalty is not None:
        slope = slope + step.penalty * ahead(Q, velocity, step.kept, step.momentum, Q.dtype)
    slope = slope * step.length
    velocity *= step.momentum
    if step.kept is None:
        velocity -= slope
    else:
        velocity.index_add_(0, step.kept, slope, alpha=-1)
    Q += velocity
    iterates.sum.add_(Q)
    if point is not None:
        point.copy_(ahead(Q, velocity, None, step.momentum, point.dtype))
        point[constant] = 0
