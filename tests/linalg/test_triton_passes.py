"""The fused passes of conjugate gradients do what the plain ones do: on a GPU, or in Triton's interpreter."""

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'rembrandt[gpu]'")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # the same kernels, one program after the other, on the CPU
pytest.importorskip("triton", reason="triton is not installed: it comes with torch's CUDA builds")

from torch.testing import assert_close  # noqa: E402

from rembrandt.linalg import triton_passes  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _small_programs(monkeypatch):
    for name, value in (("ROWS", 4), ("STEPS", 2), ("COLUMNS", 16)):
        monkeypatch.setattr(triton_passes, name, value)


def blocks(count, rows=37, width=21):
    """Blocks of different strides: some are columns of wider ones."""
    generator = torch.Generator().manual_seed(0)
    wide = [torch.randn(rows, width + extra, generator=generator).to(DEVICE) for extra in range(count)]
    return [block[:, :width] for block in wide]


def test_column_dots():
    A, B = blocks(2)
    assert_close(triton_passes.column_dots(A, B), (A.double() * B.double()).sum(dim=0), rtol=1e-5, atol=1e-5)


def test_shifted_dots():
    A, B = blocks(2)
    expected = A + 0.3 * B
    found = triton_passes.shifted_dots(A, B, 0.3)
    assert_close(A, expected)
    assert_close(found, (expected.double() * B.double()).sum(dim=0), rtol=1e-5, atol=1e-5)


def test_advance():
    Z, R, P, AP = blocks(4)
    alpha = torch.linspace(-1, 1, Z.shape[1], device=DEVICE)
    expected_Z, expected_R = Z + alpha * P, R - alpha * AP
    found = triton_passes.advance(Z, R, P, AP, alpha)
    assert_close(Z, expected_Z)
    assert_close(R, expected_R)
    assert_close(found, (expected_R.double() ** 2).sum(dim=0), rtol=1e-5, atol=1e-5)
