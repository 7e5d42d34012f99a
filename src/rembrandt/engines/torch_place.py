"""Devices that torch drives: GPUs, or the processor where a test or a trial wants the same path."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt import memory
from rembrandt.engines.centring import Centred
from rembrandt.engines.protocol import Engine
from rembrandt.engines.torch import TorchEngine
from rembrandt.engines.torch_memory import halving, too_small
from rembrandt.engines.torch_products import Csr, Tensor, multiply, tensor
from rembrandt.errors import SettingsError
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse

ROW_BYTES = 1 << 31  # rows that are mapped at a time, in float64
SPARSE_ROWS = 1 << 18  # rows that go to the device at a time to be projected


@dataclass(frozen=True)
class TorchPlace:
    """One or more devices. Blocks live on the first; the labels of a decoder are shared among all."""

    devices: tuple[torch.device, ...]
    compute: torch.dtype  # of the decoder's large products; sums are in float32 and so are the weights

    @property
    def device(self) -> str:
        return ",".join(str(device) for device in self.devices)

    @property
    def first(self) -> torch.device:
        return self.devices[0]

    def asarray(self, x: Any) -> Tensor:
        return tensor(x, self.first) if isinstance(x, np.ndarray) else torch.as_tensor(x, device=self.first)

    def to_numpy(self, x: Any) -> NDArray[Any]:
        return x.cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)

    def engine(self, X: Matrix, Y: sparse.csr_array, weights: NDArray[Any] | None, center: bool) -> Engine:
        engine = TorchEngine(X, Y, weights, devices=self.devices, constant=True)
        return Centred(engine) if center else engine

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def exactly(self) -> Iterator[None]:
        matmul = torch.backends.cuda.matmul
        before = matmul.allow_tf32, matmul.allow_bf16_reduced_precision_reduction
        matmul.allow_tf32 = False  # with ten bits an inner product of a basis with itself is not definite
        matmul.allow_bf16_reduced_precision_reduction = False  # sums of the decoder's products are in float32
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise too_small("this work") from error
        finally:
            matmul.allow_tf32, matmul.allow_bf16_reduced_precision_reduction = before

    def project(self, X: Matrix, W: Tensor) -> Tensor:
        out = torch.empty((X.shape[0], W.shape[1]), dtype=W.dtype, device=W.device)

        def work(rows: slice) -> None:
            out[rows] = self._rows(X[rows], W.dtype) @ W[:-1] if not is_sparse(X) else self.times(X[rows], W[:-1])
            out[rows] += W[-1]

        halving(work, slice(0, X.shape[0]), SPARSE_ROWS, "a projection")
        return out

    def times(self, Y: sparse.csr_array, V: Tensor) -> Tensor:
        return multiply(Csr.of(as_csr(Y), V.device, V.dtype), V)

    def times_t(self, Y: sparse.csr_array, U: Tensor) -> Tensor:
        return multiply(Csr.of(as_csr(Y), U.device, U.dtype).transposed(), U)

    def row_spans(self, n: int, width: int) -> Iterator[slice]:
        return spans(n, max(8192, ROW_BYTES // (8 * max(1, width))))

    def available(self) -> int:
        if self.first.type != "cuda":
            return memory.available()
        return min(_free(device) for device in self.devices)

    def _rows(self, X: NDArray[Any], dtype: torch.dtype) -> Tensor:
        return tensor(X, self.first).to(dtype)


def torch_place(device: str) -> TorchPlace | None:
    """The devices of a name such as ``cuda:0,cuda:1``; None where ``auto`` finds no GPU."""
    if device == "auto":
        if not torch.cuda.is_available():
            return None
        device = "cuda"
    devices = tuple(_device(name.strip(), device) for name in device.split(","))
    kinds = {one.type for one in devices}
    if len(kinds) > 1:
        raise SettingsError(f"device={device!r} mixes kinds of devices: name GPUs only, such as 'cuda:0,cuda:1'")
    return TorchPlace(devices, torch.bfloat16 if kinds == {"cuda"} else torch.float32)


def _device(name: str, given: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(
            f"device={given!r} is no device: use 'cpu', 'cuda', 'cuda:1', 'cuda:0,cuda:1' or 'auto'"
        ) from error
    if device.type not in ("cpu", "cuda"):
        raise SettingsError(f"device={given!r} is not supported: use 'cpu', 'cuda', 'cuda:1' or 'auto'")
    if device.type == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise SettingsError(
            f"device={given!r} finds no GPU that torch {torch.__version__} can use: install torch with CUDA "
            "(pip install 'rembrandt[gpu]') and a driver for it, or use device='cpu'"
        )
    index = 0 if device.index is None else device.index
    if index >= torch.cuda.device_count():
        known = ", ".join(f"cuda:{i}" for i in range(torch.cuda.device_count()))
        raise SettingsError(f"device={given!r} is not there: this machine has {known}")
    return torch.device("cuda", index)


def _free(device: torch.device) -> int:
    """What the device has free, and what torch holds for itself of it without using it."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
