"""Every fused kernel does what its plain torch form does: on a GPU, or in Triton's interpreter."""

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'rembrandt[gpu]'")
if not torch.cuda.is_available():
    os.environ.setdefault(
        "TRITON_INTERPRET", "1"
    )  # the same kernels, one program after the other, on the CPU
pytest.importorskip("triton", reason="triton is not installed: it comes with torch's CUDA builds")

from torch.testing import assert_close  # noqa: E402

from rembrandt.engines import torch_kernels as plain  # noqa: E402
from rembrandt.engines import triton_kernels as fused  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, COLUMNS = 11, 100


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(plain, "_fused", lambda *_: None)
    monkeypatch.setattr(fused, "BLOCK", 32)


def random(*shape, dtype=torch.float32, seed=0, wider=7):
    """A block that is part of a wider one, as a chunk of labels is."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    drawn = torch.randn(*shape[:-1], shape[-1] + wider, generator=generator)
    return drawn.to(DEVICE, dtype)[..., : shape[-1]]


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_probabilities(dtype, softmax):
    P, bias = random(ROWS, COLUMNS, dtype=dtype), random(COLUMNS) - 4
    normalizers = plain.log_sums(P, bias) if softmax else None
    expected = P.float()
    plain.probabilities_(expected, bias, normalizers)
    fused.probabilities_(P, bias, normalizers)
    assert_close(P.float(), expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_log_sums(dtype):
    P, bias = 20 * random(ROWS, COLUMNS, dtype=dtype), random(COLUMNS)
    assert_close(fused.log_sums(P, bias), plain.log_sums(P, bias), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ahead(dtype, some):
    Q, V = random(ROWS, COLUMNS), random(ROWS, COLUMNS, seed=1)
    kept = torch.tensor([1, 4, 9], device=DEVICE) if some else None
    assert_close(
        fused.ahead(Q, V, kept, 0.9, dtype),
        plain.ahead(Q, V, kept, 0.9, dtype),
        rtol=1e-2,
        atol=1e-6,
    )


@pytest.mark.parametrize("penalized", [False, True])
@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_advance(dtype, some, penalized):
    kept = torch.tensor([1, 4, 9], device=DEVICE) if some else None
    G = random(3 if some else ROWS, COLUMNS, dtype=dtype, seed=2, wider=0)
    length, penalty = random(COLUMNS).abs(), random(COLUMNS).abs() if penalized else None
    both = []
    for kernels in (plain, fused):
        state = [random(ROWS, COLUMNS, seed=seed).clone() for seed in (3, 4, 5)]
        point = None if some else torch.full((ROWS, COLUMNS), 7.0, device=DEVICE)
        step = plain.Step(G, kept, length, 0.9, penalty)
        kernels.advance_(plain.Iterates(*state, point), step, 6)
        both.append(state if some else [*state, point])
    for values, expected in zip(both[1], both[0], strict=True):
        assert_close(values, expected, rtol=1e-5, atol=1e-5)
