"""The Triton product against SciPy's: on a GPU where there is one, else in Triton's interpreter."""

import os

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'rembrandt[gpu]'")
if not torch.cuda.is_available():
    os.environ.setdefault(
        "TRITON_INTERPRET", "1"
    )  # the same kernels, one program after the other, on the CPU
pytest.importorskip("triton", reason="triton is not installed: it comes with torch's CUDA builds")

from rembrandt.engines import triton_spmm  # noqa: E402
from rembrandt.engines.triton_spmm import SplitCsr, column_plans  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def split(A: sparse.csr_array) -> SplitCsr:
    arrays = (A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data.astype(np.float32))
    return SplitCsr(*(torch.as_tensor(a, device=DEVICE) for a in arrays), A.shape[1])


@pytest.mark.parametrize("width", [1, 7, 130, 520])
@pytest.mark.parametrize("piece", [4, 1024])
def test_product_agrees_with_scipy(width: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_spmm, "PIECE", piece)
    rng = np.random.default_rng(width)
    A = sparse.random_array((12, 30), density=0.3, rng=rng, dtype=np.float32, format="csr")
    A = sparse.csr_array(
        sparse.vstack([A, np.zeros((1, 30), dtype=np.float32), np.ones((1, 30), dtype=np.float32)])
    )
    Z = rng.standard_normal((30, width)).astype(np.float32)
    product = (split(A) @ torch.as_tensor(Z, device=DEVICE)).cpu().numpy()
    np.testing.assert_allclose(product, A @ Z, rtol=1e-5, atol=1e-5)


def test_a_block_that_is_a_view_of_another_is_read_where_it_lies() -> None:
    rng = np.random.default_rng(0)
    A = sparse.random_array((9, 20), density=0.4, rng=rng, dtype=np.float32, format="csr")
    Z = rng.standard_normal((40, 20)).astype(np.float32)
    product = (split(A) @ torch.as_tensor(Z, device=DEVICE).T).cpu().numpy()
    np.testing.assert_allclose(product, A @ Z.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [0, 1, 16, 65, 128, 511, 512, 520, 640, 820, 1100])
def test_plans_cover_every_column_once(width: int) -> None:
    covered = [i for columns, _ in column_plans(width) for i in range(columns.start, columns.stop)]
    assert covered == list(range(width))
