"""Devices that torch drives: GPUs, or the CPU in tests of the same code."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt import memory
from rembrandt.data.rows import Rows
from rembrandt.engines.backend import Backend
from rembrandt.engines.descent import Descent, LogisticProblem
from rembrandt.engines.protocol import Engine
from rembrandt.engines.ranking import Ranker
from rembrandt.engines.scaling import with_scaled_rows
from rembrandt.engines.torch import TorchEngine
from rembrandt.engines.torch_descent import TorchDescent
from rembrandt.engines.torch_memory import halving, too_small
from rembrandt.engines.torch_products import Csr, Tensor, tensor
from rembrandt.engines.torch_ranking import TorchRanker
from rembrandt.errors import MemoryEstimateError, SettingsError
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import as_csr, is_sparse

# Bytes of rows that are mapped at a time, in float64.
MAPPED_BLOCK_BYTES = 1 << 31
# Rows mapped at a time, at least: fewer would not fill a device.
MIN_MAPPED_BLOCK_ROWS = 8192
# Rows to predict for at a time.
PREDICT_BLOCK_ROWS = 1 << 16
# Rows that are moved to the device at a time to be projected.
PROJECT_BLOCK_ROWS = 1 << 18


@dataclass(frozen=True)
class TorchBackend(Backend):
    """One or more devices. Blocks are on the first; the labels of a decoder are shared among
    all.
    """

    devices: tuple[torch.device, ...]
    # Of the decoder's products; sums and weights are in float32. None: bfloat16 on GPUs where there
    # are many products.
    compute: torch.dtype | None = None
    on_host: ClassVar[bool] = False

    @property
    def device(self) -> str:
        return ",".join(str(device) for device in self.devices)

    @property
    def first(self) -> torch.device:
        return self.devices[0]

    @contextmanager
    def session(self) -> Iterator[None]:
        matmul = torch.backends.cuda.matmul
        allow_tf32 = matmul.allow_tf32
        allow_bf16_sums = matmul.allow_bf16_reduced_precision_reduction
        # With ten bits a Gram matrix is not definite.
        matmul.allow_tf32 = False
        # Sums of the decoder's products are in float32.
        matmul.allow_bf16_reduced_precision_reduction = False
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise too_small("this work") from error
        finally:
            matmul.allow_tf32 = allow_tf32
            matmul.allow_bf16_reduced_precision_reduction = allow_bf16_sums

    def asarray(self, x: Any) -> Tensor:
        if isinstance(x, np.ndarray):
            return tensor(x, self.first)
        return torch.as_tensor(x, device=self.first)

    def _engine(
        self, rows: Rows, Y: sparse.csr_array, weights: NDArray[Any] | None, row_power: float
    ) -> Engine:
        labels = with_scaled_rows(Y, row_power)
        return TorchEngine(rows[:], labels, weights, devices=self.devices, constant=True)

    def project(self, rows: Rows, W: Tensor) -> Tensor:
        out = torch.empty((rows.shape[0], W.shape[1]), dtype=W.dtype, device=W.device)

        def work(span: slice) -> None:
            X: Any = rows[span]
            if is_sparse(X):
                out[span] = self.times(X, W[:-1])
            else:
                out[span] = tensor(X, self.first).to(W.dtype) @ W[:-1]
            out[span] += W[-1]

        halving(work, slice(0, rows.shape[0]), PROJECT_BLOCK_ROWS, "a projection")
        return out

    def times(self, Y: sparse.csr_array, V: Tensor) -> Tensor:
        return Csr.of(as_csr(Y), V.device, V.dtype) @ V

    def times_t(self, Y: sparse.csr_array, U: Tensor) -> Tensor:
        return Csr.of(as_csr(Y), U.device, U.dtype).T @ U

    def add_times_t(self, out: Tensor, Y: sparse.csr_array, U: Tensor) -> None:
        out += self.times_t(Y, U)

    def add_gram(self, out: Tensor, A: Tensor) -> None:
        out += A.T @ A

    def row_spans(self, n: int, width: int) -> Iterator[slice]:
        affordable_rows = MAPPED_BLOCK_BYTES // (8 * max(1, width))
        return spans(n, max(MIN_MAPPED_BLOCK_ROWS, affordable_rows))

    def descent(self, problem: LogisticProblem) -> Descent:
        return TorchDescent(self, problem)

    def ranker(self, weights: Tensor, bias: Tensor) -> Ranker:
        return TorchRanker(weights, bias)

    def prediction_rows(self, n_labels: int) -> int:
        return PREDICT_BLOCK_ROWS

    def available(self) -> int:
        if self.first.type != "cuda":
            return super().available()
        return min(_free(device) for device in self.devices)

    def check_memory(self, shape: memory.Shape, independent: bool) -> int:
        # Trees are fitted on the CPU. Without an embedding nothing is on the device.
        host_shape = replace(
            shape,
            k=0,
            width=0,
            mapped=0,
            decoder="transpose",
            text_training=0,
        )
        host_bytes = super().check_memory(host_shape, independent)
        self._check_encoder(shape)
        if shape.k == 0:
            return host_bytes
        shape = replace(shape, together=0)
        # Independent labels take turns on a device that cannot hold them all; their weights are in
        # host memory then.
        in_turns = independent and shape.decoder == "logistic"
        free = self.available()
        if in_turns and memory.estimate(shape)["decoder"] > free:
            memory.check(shape)
        device_shape = shape
        if in_turns:
            device_shape = replace(shape, decoder="transpose", mapped=shape.k)
        device_bytes = memory.check(device_shape, free, f" on {self.device}")
        return max(host_bytes, device_bytes)

    def _check_encoder(self, shape: memory.Shape) -> None:
        """Refuse an encoder whose training does not fit on the device."""
        needed = shape.text_training_on_device
        free = self.available()
        if needed > free:
            raise MemoryEstimateError(
                f"fine-tuning the encoder needs about {needed / 2**30:.1f} GiB on {self.device}, "
                f"and {free / 2**30:.1f} GiB is free; use a smaller batch_size or fewer max_tokens "
                "of the encoder, or training='frozen'",
                {"encoder_batch_size": "a smaller batch_size of the encoder"},
            )


def torch_backend(device: str) -> TorchBackend | None:
    """Return the backend of devices such as ``cuda:0,cuda:1``; None when ``auto`` finds no GPU."""
    if device == "auto":
        if not torch.cuda.is_available():
            return None
        device = "cuda"
    devices = tuple(_device(name.strip(), device) for name in device.split(","))
    if len({backend.type for backend in devices}) > 1:
        raise SettingsError(
            f"device={device!r} mixes kinds of devices: name GPUs only, such as 'cuda:0,cuda:1'",
            "device",
        )
    return TorchBackend(devices)


def _device(name: str, setting: str) -> torch.device:
    """Return the device of a name; ``setting`` is all that the user asked for."""
    if re.fullmatch("(cpu|cuda)(:[0-9]+)?", name) is None:
        raise SettingsError(
            f"device={setting!r} is not a supported device: use 'cpu', 'cuda', 'cuda:0,cuda:1' or "
            "'auto'",
            "device",
        )
    device = torch.device(name)
    if device.type == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise SettingsError(
            f"device={setting!r} finds no GPU that torch {torch.__version__} can use: install "
            "torch with CUDA (pip install 'rembrandt[gpu]') and a driver for it, or use "
            "device='cpu'",
            "device",
        )
    index = 0 if device.index is None else device.index
    n_devices = torch.cuda.device_count()
    if index >= n_devices:
        names = ", ".join(f"cuda:{number}" for number in range(n_devices))
        raise SettingsError(
            f"device={setting!r} does not exist: this machine has {names}", "device"
        )
    return torch.device("cuda", index)


def _free(device: torch.device) -> int:
    """Return the free memory of a device, with what torch has reserved and does not use."""
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + unused
