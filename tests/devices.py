"""The devices that torch can be tried on here: the processor, twice as two devices, and a GPU where
there is one.

Tolerances: float32 on the processor differs from NumPy by the order of sums, a few units of its
last digit times the length of the sum; on a GPU the decoder's products are in bfloat16, with three
digits.
"""

import pytest
import torch

from rembrandt.engines.torch_place import TorchPlace

torch.set_num_threads(
    1
)  # small products on several threads wait for each other, on a busy machine for long

CPU_ONE = (torch.device("cpu"),)
CPU_TWO = (torch.device("cpu"), torch.device("cpu"))

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU here: torch finds no CUDA device"
)

PLACES = [
    pytest.param(lambda: TorchPlace(CPU_ONE, torch.float32), id="torch"),
    pytest.param(lambda: TorchPlace(CPU_TWO, torch.float32), id="torch-twice"),
    pytest.param(
        lambda: TorchPlace((torch.device("cuda", 0),), torch.float32), id="gpu", marks=needs_gpu
    ),
    pytest.param(
        lambda: TorchPlace((torch.device("cuda", 0),) * 2, torch.float32),
        id="gpu-twice",
        marks=needs_gpu,
    ),
]
HALVES = [
    pytest.param(lambda: TorchPlace(CPU_ONE, torch.bfloat16), id="torch-bfloat16"),
    pytest.param(
        lambda: TorchPlace((torch.device("cuda", 0),), torch.bfloat16),
        id="gpu-bfloat16",
        marks=needs_gpu,
    ),
]
