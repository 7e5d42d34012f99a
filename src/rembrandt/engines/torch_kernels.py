"""The passes over large blocks that the logistic fit makes on a device: one trip through memory each.

Every function has a plain torch form, which is the reference and what runs where Triton is not.
"""

import torch

Tensor = torch.Tensor


def probabilities_(P: Tensor, bias: Tensor, normalizers: Tensor | None) -> None:
    """Logits ``P`` without their bias turned into probabilities, in place: sigmoid, or softmax with its normalizers."""
    P += bias
    if normalizers is None:
        torch.sigmoid_(P)
    else:
        P -= normalizers[:, None]
        torch.exp_(P)


def ahead(Q: Tensor, velocity: Tensor, kept: Tensor | None, momentum: float, dtype: torch.dtype) -> Tensor:
    """``Q + momentum · velocity`` on the rows ``kept``: where the gradient is taken."""
    if kept is None:
        return torch.add(Q, velocity, alpha=momentum).to(dtype)
    return torch.add(Q[kept], velocity[kept], alpha=momentum).to(dtype)


def advance_(
    Q: Tensor,
    velocity: Tensor,
    mean: Tensor,
    gradient: Tensor,
    kept: Tensor | None,
    step: Tensor,
    momentum: float,
    penalty: Tensor | None,
) -> None:
    """The step of a batch, in place: ``velocity``, then ``Q``, then the sum of iterates ``mean``.

    ``penalty`` is what each label's weights are drawn to zero by; ``kept`` are the rows that the gradient is about.
    """
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
