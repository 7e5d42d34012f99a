"""The fused steps of conjugate gradients against the same steps one by one."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'rembrandt[gpu]'")
if not torch.cuda.is_available():
    os.environ.setdefault(
        "TRITON_INTERPRET", "1"
    )  # the same kernels, one program after the other, on the CPU
pytest.importorskip("triton", reason="triton is not installed: it comes with torch's CUDA builds")

from rembrandt.linalg import triton_columns as fused  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(1, 1), (7, 130), (513, 3), (1030, 9)]


def blocks(shape: tuple[int, int], count: int) -> list[torch.Tensor]:
    rng = np.random.default_rng(0)
    return [
        torch.as_tensor(rng.standard_normal(shape), dtype=torch.float32, device=DEVICE)
        for _ in range(count)
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_dots_of_columns(shape: tuple[int, int]) -> None:
    A, B = blocks(shape, 2)
    torch.testing.assert_close(
        fused.column_dots(A, B), (A.double() * B.double()).sum(dim=0), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_advance(shape: tuple[int, int]) -> None:
    Z, R, P, AP, alpha = blocks(shape, 5)
    alpha = alpha[0].contiguous()
    expected_Z, expected_R = Z + alpha * P, R - alpha * (AP + 0.3 * P)
    left = fused.advance(Z, R, P, AP, alpha, 0.3)
    torch.testing.assert_close(Z, expected_Z)
    torch.testing.assert_close(R, expected_R, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(left, (expected_R.double() ** 2).sum(dim=0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_bend(shape: tuple[int, int]) -> None:
    P, AP = blocks(shape, 2)
    expected = (P.double() * (AP.double() + 0.3 * P.double())).sum(dim=0)
    torch.testing.assert_close(fused.bend(P, AP, 0.3), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_redirect(shape: tuple[int, int]) -> None:
    P, R, beta = blocks(shape, 3)
    expected = R + beta[0] * P
    fused.redirect(P, R, beta[0].contiguous())
    torch.testing.assert_close(P, expected)


def test_only_float32_rows_that_lie_one_after_the_other_are_taken() -> None:
    (A,) = blocks((4, 3), 1)
    assert fused.usable(A)
    assert not fused.usable(A.double())
    assert not fused.usable(A.T)
