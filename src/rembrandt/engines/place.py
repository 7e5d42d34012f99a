"""Where the work is done: this process, or devices that torch drives. The few operations that differ by place.

Everything above is written once, against the array namespace of the blocks that a place hands out.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt import memory
from rembrandt.engines.centring import Centred
from rembrandt.engines.cpu import CpuEngine
from rembrandt.engines.protocol import Engine
from rembrandt.errors import SettingsError
from rembrandt.linalg.blocks import Block, spans
from rembrandt.linalg.sparse import Matrix, append_constant, matmul, project
from rembrandt.linalg.transposed import Transposed


class Place(Protocol):
    """A kind of array, and what is done differently where such arrays live."""

    @property
    def device(self) -> str:
        """Its name."""
        ...

    def asarray(self, x: Any) -> Block:
        """An array of this place, of the same precision."""
        ...

    def to_numpy(self, x: Any) -> NDArray[Any]: ...

    def engine(self, X: Matrix, Y: sparse.csr_array, weights: NDArray[Any] | None, center: bool) -> Engine:
        """An engine for the data: with a constant feature or, with ``center``, without the means."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """What this place opens for its work, such as a connection, stays open meanwhile and no longer."""
        ...

    def exactly(self) -> AbstractContextManager[None]:
        """Products in the full precision of their blocks and sums in float32 at least, as the solvers need them."""
        ...

    def project(self, X: Matrix, W: Block) -> Block:
        """``[X, 1] W``."""
        ...

    def times(self, Y: sparse.csr_array, V: Block) -> Block:
        """``Y V``."""
        ...

    def times_t(self, Y: sparse.csr_array, U: Block) -> Block:
        """``Yᵀ U``."""
        ...

    def row_spans(self, n: int, width: int) -> Iterator[slice]:
        """Rows to map at a time when each makes ``width`` features."""
        ...

    def available(self) -> int:
        """Bytes free where this place's arrays live."""
        ...


@dataclass(frozen=True)
class CpuPlace:
    """This process: NumPy arrays, and compiled kernels on its threads."""

    device: str = "cpu"

    def asarray(self, x: Any) -> Block:
        return np.asarray(x)

    def to_numpy(self, x: Any) -> NDArray[Any]:
        return np.asarray(x)

    def engine(self, X: Matrix, Y: sparse.csr_array, weights: NDArray[Any] | None, center: bool) -> Engine:
        engine = CpuEngine(append_constant(X), Y, weights)
        return Centred(engine) if center else engine

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def exactly(self) -> AbstractContextManager[None]:
        return nullcontext()

    def project(self, X: Matrix, W: Block) -> Block:
        return project(X, W)

    def times(self, Y: sparse.csr_array, V: Block) -> Block:
        return matmul(Y, V)

    def times_t(self, Y: sparse.csr_array, U: Block) -> Block:
        return Transposed.of(Y) @ U

    def row_spans(self, n: int, width: int) -> Iterator[slice]:
        return spans(n, 8192)

    def available(self) -> int:
        return memory.available()


CPU: Place = CpuPlace()


@lru_cache(maxsize=8)
def place_for(device: str) -> Place:
    """The place that a user names: ``cpu``, ``cuda``, ``cuda:1``, several with commas, or ``auto``.

    ``auto`` is a GPU where there is one. Several CPUs (``cpu,cpu``) run as several GPUs do, to try what those would.
    """
    if not isinstance(device, str) or not device:
        raise SettingsError(f"device={device!r} must be a name: 'cpu', 'cuda', 'cuda:1', 'cuda:0,cuda:1' or 'auto'")
    if device == "cpu":
        return CPU
    if device.startswith("dask"):
        raise SettingsError(
            f"device={device!r} works on a store, whose shards its workers open; make one with rembrandt data convert"
        )
    if find_spec("torch") is None:
        if device == "auto":
            return CPU
        raise SettingsError(
            f"device={device!r} needs torch, which is not installed: pip install 'rembrandt[gpu]', or use device='cpu'"
        )
    from rembrandt.engines.torch_place import torch_place

    return torch_place(device) or CPU
