"""The passes of conjugate gradients over tall blocks on a GPU, with the column sums that go with them: a trip each."""

import torch
import triton
import triton.language as tl

Tensor = torch.Tensor

ROWS, STEPS = 16, 64  # rows that a program reads at a time, and how often
COLUMNS = 128


@triton.jit
def _dots(
    A, B, out, rows, width, a_stride, b_stride, factor, SHIFT: tl.constexpr, ROWS: tl.constexpr, STEPS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of A·B over some rows, for each column; with SHIFT after ``A += factor · B``."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for step in range(STEPS):
        row = (tl.program_id(0) * STEPS + step) * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        at = row.to(tl.int64)[:, None]
        here = A + at * a_stride + column[None, :]
        a = tl.load(here, mask=inside, other=0.0)
        b = tl.load(B + at * b_stride + column[None, :], mask=inside, other=0.0)
        if SHIFT:
            a += factor * b
            tl.store(here, a, mask=inside)
        total += tl.sum(a * b, 0)
    tl.store(out + tl.program_id(0).to(tl.int64) * width + column, total, mask=column < width)


@triton.jit
def _advance(
    Z, R, P, AP, alpha, out, rows, width, z_stride, r_stride, p_stride, ap_stride, ROWS: tl.constexpr,
    STEPS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """``Z += αP``, ``R −= αAP``, and sums of R² over some rows."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    step_length = tl.load(alpha + column, mask=column < width, other=0.0)[None, :]
    total = tl.zeros((COLUMNS,), tl.float32)
    for step in range(STEPS):
        row = (tl.program_id(0) * STEPS + step) * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        at = row.to(tl.int64)[:, None]
        z = Z + at * z_stride + column[None, :]
        r = R + at * r_stride + column[None, :]
        p = tl.load(P + at * p_stride + column[None, :], mask=inside, other=0.0)
        ap = tl.load(AP + at * ap_stride + column[None, :], mask=inside, other=0.0)
        tl.store(z, tl.load(z, mask=inside, other=0.0) + step_length * p, mask=inside)
        left = tl.load(r, mask=inside, other=0.0) - step_length * ap
        tl.store(r, left, mask=inside)
        total += tl.sum(left * left, 0)
    tl.store(out + tl.program_id(0).to(tl.int64) * width + column, total, mask=column < width)


def serves(*blocks: Tensor) -> bool:
    """Whether these kernels work on the blocks: float32, rows one after the other."""
    return all(A.is_cuda and A.dtype == torch.float32 and A.stride(1) == 1 for A in blocks)


def column_dots(A: Tensor, B: Tensor) -> Tensor:
    return _summed(A, B, 0.0, False)


def shifted_dots(A: Tensor, B: Tensor, factor: float) -> Tensor:
    """``A += factor · B`` in place, then the inner product of each column of ``A`` with that of ``B``."""
    return _summed(A, B, factor, True)


def advance(Z: Tensor, R: Tensor, P: Tensor, AP: Tensor, alpha: Tensor) -> Tensor:
    """``Z += αP`` and ``R −= αAP`` in place; the squared lengths of the new residuals."""
    grid, out = _plan(Z)
    strides = (block.stride(0) for block in (Z, R, P, AP))
    _advance[grid](Z, R, P, AP, alpha, out, *Z.shape, *strides, ROWS, STEPS, COLUMNS)
    return out.sum(dim=0, dtype=torch.float64)


def _summed(A: Tensor, B: Tensor, factor: float, shift: bool) -> Tensor:
    grid, out = _plan(A)
    _dots[grid](A, B, out, *A.shape, A.stride(0), B.stride(0), factor, shift, ROWS, STEPS, COLUMNS)
    return out.sum(dim=0, dtype=torch.float64)


def _plan(A: Tensor) -> tuple[tuple[int, int], Tensor]:
    rows = triton.cdiv(A.shape[0], ROWS * STEPS)
    return (rows, triton.cdiv(A.shape[1], COLUMNS)), torch.empty((rows, A.shape[1]), dtype=A.dtype, device=A.device)
