"""The devices that torch can be tried on here: the processor, twice as two devices, and a GPU where
there is one.

Tolerances: float32 on the processor differs from NumPy by the order of sums, a few units of its
last digit times the length of the sum; on a GPU the decoder's products are in bfloat16, with three
digits.
"""

from typing import Any

import pytest
import torch

from rembrandt.engines.torch_backend import TorchBackend

torch.set_num_threads(
    1
)  # small products on several threads wait for each other, on a busy machine for long

CPU_ONE = (torch.device("cpu"),)
CPU_TWO = (torch.device("cpu"), torch.device("cpu"))

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU here: torch finds no CUDA device"
)

PLACES = [
    pytest.param(lambda: TorchBackend(CPU_ONE, torch.float32), id="torch"),
    pytest.param(lambda: TorchBackend(CPU_TWO, torch.float32), id="torch-twice"),
    pytest.param(
        lambda: TorchBackend((torch.device("cuda", 0),), torch.float32), id="gpu", marks=needs_gpu
    ),
    pytest.param(
        lambda: TorchBackend((torch.device("cuda", 0),) * 2, torch.float32),
        id="gpu-twice",
        marks=needs_gpu,
    ),
]
HALVES = [
    pytest.param(lambda: TorchBackend(CPU_ONE, torch.bfloat16), id="torch-bfloat16"),
    pytest.param(
        lambda: TorchBackend((torch.device("cuda", 0),), torch.bfloat16),
        id="gpu-bfloat16",
        marks=needs_gpu,
    ),
]


class HostTensor(torch.Tensor):
    """A tensor that was copied to host memory on request."""


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tensors on the processor refuse what tensors on a GPU refuse: NumPy may read them only
    after `Tensor.cpu`.
    """
    copy_to_host = torch.Tensor.cpu
    read_by_numpy = torch.Tensor.__array__
    to_numpy = torch.Tensor.numpy

    def cpu(self: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return copy_to_host(self, *args, **options).as_subclass(HostTensor)

    def __array__(self: torch.Tensor, *args: Any, **options: Any) -> Any:
        _check_on_host(self)
        return read_by_numpy(self, *args, **options)

    def numpy(self: torch.Tensor, *args: Any, **options: Any) -> Any:
        _check_on_host(self)
        return to_numpy(self, *args, **options)

    for method in (cpu, __array__, numpy):
        monkeypatch.setattr(torch.Tensor, method.__name__, method)


def _check_on_host(tensor: torch.Tensor) -> None:
    if not isinstance(tensor, HostTensor):
        raise TypeError("can't convert a tensor of a device to numpy; use Tensor.cpu() first")
