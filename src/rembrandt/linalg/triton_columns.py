"""The steps of conjugate gradients between products, each in one pass through a GPU's memory.

A block of LSHTC's size has 3.4 GB, and a step is bound by how often it is read. Sums over columns
are taken in float32 over ``PROGRAM_ROWS`` rows and in float64 over those partial sums, in a fixed
order.
"""

from typing import Any

import torch
import triton
import triton.language as tl

Tensor = torch.Tensor

# Rows that one program sums: few enough for float32.
PROGRAM_ROWS = 512

# Rows that a program holds at a time.
TILE_ROWS = 4

# Columns of one program.
PROGRAM_COLUMNS = 128


def column_dots(A: Tensor, B: Tensor) -> Tensor:
    """``Σ A ∘ B`` over rows."""
    return bend(A, B, 0.0)


def advance(Z: Tensor, R: Tensor, P: Tensor, AP: Tensor, alpha: Tensor, strength: float) -> Tensor:
    """``Z += αP`` and ``R −= α(AP + λP)`` in place; return the squared norms of the new ``R``."""
    n, width = Z.shape
    grid = _grid(Z)
    partial = _partial_sums(Z)
    _advance[grid](
        Z,
        R,
        P,
        AP,
        alpha,
        strength,
        partial,
        n,
        width,
        Z.stride(0),
        R.stride(0),
        P.stride(0),
        AP.stride(0),
        ROWS=PROGRAM_ROWS,
        TILE=TILE_ROWS,
        COLUMNS=PROGRAM_COLUMNS,
    )
    return partial.sum(dim=0, dtype=torch.float64)


def bend(P: Tensor, AP: Tensor, strength: float) -> Tensor:
    """``Pᵀ(AP + λP)`` of each column."""
    n, width = P.shape
    grid = _grid(P)
    partial = _partial_sums(P)
    _bend[grid](
        P,
        AP,
        strength,
        partial,
        n,
        width,
        P.stride(0),
        AP.stride(0),
        ROWS=PROGRAM_ROWS,
        TILE=TILE_ROWS,
        COLUMNS=PROGRAM_COLUMNS,
    )
    return partial.sum(dim=0, dtype=torch.float64)


def redirect(P: Tensor, R: Tensor, beta: Tensor) -> None:
    """``P = R + βP`` in place."""
    n, width = P.shape
    grid = _grid(P)
    _redirect[grid](
        P,
        R,
        beta,
        n,
        width,
        P.stride(0),
        R.stride(0),
        ROWS=PROGRAM_ROWS,
        TILE=TILE_ROWS,
        COLUMNS=PROGRAM_COLUMNS,
    )


def usable(*blocks: Any) -> bool:
    """Return whether the kernels apply: float32 blocks in row-major order."""
    for block in blocks:
        if block.dtype != torch.float32 or block.stride(1) != 1:
            return False
        if block.numel() == 0:
            return False
    return True


def _grid(A: Tensor) -> tuple[int, int]:
    """Return the number of programs over the rows and over the columns."""
    n_over_rows = triton.cdiv(A.shape[0], PROGRAM_ROWS)
    n_over_columns = triton.cdiv(A.shape[1], PROGRAM_COLUMNS)
    return n_over_rows, n_over_columns


def _partial_sums(A: Tensor) -> Tensor:
    """Return an empty array for the sums of the columns that each program takes."""
    n_over_rows, _ = _grid(A)
    return torch.empty((n_over_rows, A.shape[1]), dtype=torch.float32, device=A.device)


@triton.jit
def _advance(
    Z,
    R,
    P,
    AP,
    alpha,
    strength,
    partial,
    n,
    width,
    z_row,
    r_row,
    p_row,
    ap_row,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    step = tl.load(alpha + columns, mask=columns < width, other=0.0)[None, :]
    total = tl.zeros((TILE, COLUMNS), tl.float32)
    for first in range(0, ROWS, TILE):
        row = tl.program_id(0).to(tl.int64) * ROWS + first + tl.arange(0, TILE)
        inside = (row < n)[:, None] & (columns < width)[None, :]
        z_at = Z + row[:, None] * z_row + columns[None, :]
        r_at = R + row[:, None] * r_row + columns[None, :]
        p = tl.load(P + row[:, None] * p_row + columns[None, :], mask=inside, other=0.0)
        ap = tl.load(AP + row[:, None] * ap_row + columns[None, :], mask=inside, other=0.0)
        tl.store(z_at, tl.load(z_at, mask=inside, other=0.0) + step * p, mask=inside)
        r = tl.load(r_at, mask=inside, other=0.0) - step * (ap + strength * p)
        tl.store(r_at, r, mask=inside)
        total += r * r
    tl.store(
        partial + tl.program_id(0).to(tl.int64) * width + columns,
        tl.sum(total, 0),
        mask=columns < width,
    )


@triton.jit
def _bend(
    P,
    AP,
    strength,
    partial,
    n,
    width,
    p_row,
    ap_row,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((TILE, COLUMNS), tl.float32)
    for first in range(0, ROWS, TILE):
        row = tl.program_id(0).to(tl.int64) * ROWS + first + tl.arange(0, TILE)
        inside = (row < n)[:, None] & (columns < width)[None, :]
        p = tl.load(P + row[:, None] * p_row + columns[None, :], mask=inside, other=0.0)
        ap = tl.load(AP + row[:, None] * ap_row + columns[None, :], mask=inside, other=0.0)
        total += p * (ap + strength * p)
    tl.store(
        partial + tl.program_id(0).to(tl.int64) * width + columns,
        tl.sum(total, 0),
        mask=columns < width,
    )


@triton.jit
def _redirect(
    P,
    R,
    beta,
    n,
    width,
    p_row,
    r_row,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    turn = tl.load(beta + columns, mask=columns < width, other=0.0)[None, :]
    for first in range(0, ROWS, TILE):
        row = tl.program_id(0).to(tl.int64) * ROWS + first + tl.arange(0, TILE)
        inside = (row < n)[:, None] & (columns < width)[None, :]
        at = P + row[:, None] * p_row + columns[None, :]
        r = tl.load(R + row[:, None] * r_row + columns[None, :], mask=inside, other=0.0)
        tl.store(at, r + turn * tl.load(at, mask=inside, other=0.0), mask=inside)
