"""The passes of the logistic fit over large blocks on a device, each in one pass through memory by
Triton.

The plain torch form of each is the reference, and runs on the CPU or without Triton.
"""

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


def advance_(
    Q: Tensor, velocity: Tensor, mean: Tensor, gradient: Tensor, kept: Tensor | None, step: Tensor,
    momentum: float, penalty: Tensor | None, point: Tensor | None = None, constant: int = -1,
) -> None:  # fmt: skip
    """Take the step of a batch in place: ``velocity``, then ``Q``, then the sum of iterates
    ``mean``.

    ``penalty`` is the L2 penalty of each label; ``kept`` are the rows of the gradient. ``point`` is
    set to the point of the next gradient, with a zero in the row ``constant``.
    """
    if kernels := _fused(Q, velocity):
        kernels.advance_(
            Q, velocity, mean, gradient, kept, step, momentum, penalty, point, constant
        )
        return
    slope = gradient.to(Q.dtype)
    if penalty is not None:
        slope = slope + penalty * ahead(Q, velocity, kept, momentum, Q.dtype)
    slope = slope * step
    velocity *= momentum
    if kept is None:
        velocity -= slope
    else:
        velocity.index_add_(0, kept, slope, alpha=-1)
    Q += velocity
    mean += Q
    if point is not None:
        point.copy_(ahead(Q, velocity, None, momentum, point.dtype))
        point[constant] = 0
