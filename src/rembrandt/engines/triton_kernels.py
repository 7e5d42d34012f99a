"""The passes of `torch_kernels`, each as one kernel that reads and writes everything once."""

import torch
import triton
import triton.language as tl

from rembrandt.engines.torch_kernels import Iterates, Step

Tensor = torch.Tensor

# Columns of a row per program.
BLOCK = 2048


@triton.jit
def _probabilities(
    P, bias, normalizers, columns, stride, SOFTMAX: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    z = tl.load(P + row * stride + at, mask=inside, other=0.0).to(tl.float32)
    z += tl.load(bias + at, mask=inside, other=0.0)
    if SOFTMAX:
        p = tl.exp(z - tl.load(normalizers + row))
    else:
        p = 1.0 / (1.0 + tl.exp(-z))
    tl.store(P + row * stride + at, p.to(P.dtype.element_ty), mask=inside)


@triton.jit
def _log_sums(P, bias, out, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        z = tl.load(P + row * stride + at, mask=inside, other=0.0).to(tl.float32)
        z = tl.where(inside, z + tl.load(bias + at, mask=inside, other=0.0), -float("inf"))
        higher = tl.maximum(top, tl.max(z, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(z - higher), axis=0)
        top = higher
    tl.store(out + row, top + tl.log(total))


@triton.jit
def _ahead(
    Q, V, kept, out, momentum, columns, stride, out_stride, KEPT: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    source = row
    if KEPT:
        source = tl.load(kept + row)
    q = tl.load(Q + source * stride + at, mask=inside, other=0.0)
    v = tl.load(V + source * stride + at, mask=inside, other=0.0)
    tl.store(out + row * out_stride + at, (q + momentum * v).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _advance(
    Q, V, M, G, position, step, penalty, momentum, columns, stride, g_stride,
    point, p_stride, constant,
    KEPT: tl.constexpr, PENALTY: tl.constexpr, POINT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    here = row * stride + at
    q = tl.load(Q + here, mask=inside, other=0.0)
    v = tl.load(V + here, mask=inside, other=0.0)
    m = tl.load(M + here, mask=inside, other=0.0)
    source = row
    if KEPT:
        source = tl.load(position + row)
    v *= momentum
    if source >= 0:  # a row that was not kept has no gradient
        g = tl.load(G + source * g_stride + at, mask=inside, other=0.0).to(tl.float32)
        if PENALTY:
            g += tl.load(penalty + at, mask=inside, other=0.0) * (q + v)
        v -= tl.load(step + at, mask=inside, other=0.0) * g
    q += v
    tl.store(V + here, v, mask=inside)
    tl.store(Q + here, q, mask=inside)
    tl.store(M + here, m + q, mask=inside)
    if POINT:
        next_point = tl.where(row == constant, 0.0, q + momentum * v)
        tl.store(point + row * p_stride + at, next_point.to(point.dtype.element_ty), mask=inside)


def probabilities_(P: Tensor, bias: Tensor, normalizers: Tensor | None) -> None:
    is_softmax = normalizers is not None
    if normalizers is None:
        # A kernel takes some pointer where there is none; it does not read it.
        normalizers = bias
    _probabilities[_grid(P)](P, bias, normalizers, P.shape[1], P.stride(0), is_softmax, BLOCK)


def log_sums(P: Tensor, bias: Tensor) -> Tensor:
    out = torch.empty(P.shape[0], dtype=torch.float32, device=P.device)
    _log_sums[(P.shape[0],)](P, bias, out, P.shape[1], P.stride(0), BLOCK)
    return out


def ahead(
    Q: Tensor, velocity: Tensor, kept: Tensor | None, momentum: float, dtype: torch.dtype
) -> Tensor:
    n_rows = Q.shape[0] if kept is None else len(kept)
    out = torch.empty((n_rows, Q.shape[1]), dtype=dtype, device=Q.device)
    # A kernel takes some pointer where there is none; it does not read it.
    kept_rows = Q if kept is None else kept
    _ahead[_grid(out)](
        Q,
        velocity,
        kept_rows,
        out,
        momentum,
        Q.shape[1],
        Q.stride(0),
        out.stride(0),
        kept is not None,
        BLOCK,
    )
    return out


def advance_(iterates: Iterates, step: Step, constant: int) -> None:
    Q = iterates.Q
    # A kernel takes some pointer where there is none, here that of the lengths; it does not read
    # it.
    position = step.length
    if step.kept is not None:
        # Where the gradient of each row is, -1 where it has none.
        position = torch.full((Q.shape[0],), -1, dtype=torch.int64, device=Q.device)
        position[step.kept] = torch.arange(len(step.kept), device=Q.device)
    penalty = step.length
    if step.penalty is not None:
        penalty = step.penalty
    point = step.length
    point_stride = 0
    if iterates.point is not None:
        point = iterates.point
        point_stride = point.stride(0)
    _advance[_grid(Q)](
        Q,
        iterates.velocity,
        iterates.sum,
        step.gradient,
        position,
        step.length,
        penalty,
        step.momentum,
        Q.shape[1],
        Q.stride(0),
        step.gradient.stride(0),
        point,
        point_stride,
        constant,
        step.kept is not None,
        step.penalty is not None,
        iterates.point is not None,
        BLOCK,
    )


def _grid(A: Tensor) -> tuple[int, int]:
    return A.shape[0], triton.cdiv(A.shape[1], BLOCK)
