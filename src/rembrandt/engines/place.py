"""Where the work is done: this process, torch devices, or a cluster. A place hands out everything
that differs.

Code above is written once, against the array namespace of the blocks that a place returns.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from rembrandt import memory
from rembrandt.data.rows import Rows
from rembrandt.data.stored import StoredRows
from rembrandt.engines.centring import Centred
from rembrandt.engines.cpu import CpuEngine
from rembrandt.engines.descent import Descent, LogisticProblem, NumpyDescent
from rembrandt.engines.hinge import HingeSolver, InMemory, LocalHinge
from rembrandt.engines.protocol import Engine
from rembrandt.engines.ranking import NumpyRanker, Ranker
from rembrandt.engines.scaling import Scaled, label_factors, with_scaled_rows
from rembrandt.engines.shards import Tally
from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.errors import SettingsError
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.linalg.sparse import append_constant, matmul, project, scale_rows, unit_rows
from rembrandt.linalg.transposed import Transposed
from rembrandt.progress import Report, silent
from rembrandt.recipe import EmbeddingSettings

SCORES = 1 << 24  # entries of the largest block of scores in prediction: 64 MB
PLAIN = EmbeddingSettings()  # labels as they are, not centred
ROWS = 1 << 12  # rows to predict for at a time, at most


@dataclass(frozen=True)
class Place:
    """This process: NumPy arrays, and compiled kernels on its threads. Other places override what
    differs.
    """

    # Passes over a store and bytes moved, by stage of the fit.
    tallies: dict[str, Tally] = field(default_factory=dict, compare=False, kw_only=True)
    on_host: ClassVar[bool] = True  # whether arrays are NumPy arrays in this process

    @property
    def device(self) -> str:
        """Name of the device."""
        return "cpu"

    def in_memory(self) -> "Place":
        """Return the place for rows of the same data that were loaded into memory."""
        return self

    def session(self) -> AbstractContextManager[None]:
        """Keep connections open, and compute products in the full precision of their blocks."""
        return nullcontext()

    def asarray(self, x: Any) -> Block:
        """Convert to an array of this place, of the same precision."""
        return np.asarray(x)

    def engine(
        self, rows: Rows, Y: sparse.csr_array, weights: Array | None, how: EmbeddingSettings = PLAIN
    ) -> Engine:
        """Return an engine over scaled labels, with a constant feature or, with ``how.center``,
        without the means.
        """
        engine = self._engine(rows, Y, weights, how.row_power)
        factors = label_factors(Y, weights, how.label_power)
        engine = engine if factors is None else Scaled(engine, factors)
        return Centred(engine) if how.center else engine

    def _engine(
        self, rows: Rows, Y: sparse.csr_array, weights: Array | None, row_power: float
    ) -> Engine:
        """Return the engine of ``[X, 1]`` and ``D_r^-row_power Y``."""
        return CpuEngine(append_constant(rows[:]), with_scaled_rows(Y, row_power), weights)

    def project(self, rows: Rows, W: Block) -> Block:
        """``[X, 1] W``; for a store an array-like that computes rows on access."""
        return project(rows[:], W)

    def times(self, Y: sparse.csr_array, V: Block) -> Block:
        """``Y V``."""
        return matmul(Y, V)

    def times_t(self, Y: sparse.csr_array, U: Block) -> Block:
        """``Yᵀ U``."""
        return Transposed.of(Y) @ U

    def row_spans(self, n: int, width: int) -> Iterator[slice]:
        """Cut rows into blocks to map at a time, each row to ``width`` features."""
        return spans(n, 8192)

    def leverages(
        self, rows: Rows, weights: Array | None, root: Block
    ) -> NDArray[np.float32] | None:
        """``w ‖[x, 1] T‖²`` of each row; None where that would take passes over a store."""
        total: Any = 0.0
        for columns in spans(root.shape[1], 256):
            part = self.project(rows, root[:, columns])
            total = total + array_namespace(part).sum(part * part, axis=1)
        return (as_numpy(total) * (1.0 if weights is None else weights)).astype(np.float32)

    def leave_out(
        self, H: Block, share: Any, Y: sparse.csr_array, V: Block, row_power: float = 0.0
    ) -> Block:
        """``(H − s ỸV) / (1 − s)``, rows without their labels: s is a number or a column, ``Ỹ =
        D_r^-row_power Y``.
        """
        left = array_namespace(H).astype(
            self.times(with_scaled_rows(Y, row_power), V), H.dtype, copy=False
        )
        left *= -share  # in place: there are as many rows as examples
        left += H
        left /= 1 - share
        return left

    def statistics(
        self,
        H: Block,
        Y: sparse.csr_array | None,
        fourier: FourierMap | None,
        weights: Array | None,
        report: Report = silent,
    ) -> RidgeStatistics:
        """Compute the moments of the mapped rows and, unless Y is None, their products with the
        labels.
        """
        xp = array_namespace(H)
        n, D = H.shape[0], H.shape[1] if fourier is None else fourier.size
        labels: Any = sparse.csr_array((n, 0), dtype=np.float32) if Y is None else Y
        on_host = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        w = self.asarray(on_host)
        gram = xp.zeros((D, D), dtype=xp.float64, device=H.device)
        cross = xp.zeros((labels.shape[1], D), dtype=H.dtype, device=H.device)
        sums = xp.zeros((D,), dtype=xp.float64, device=H.device)
        for rows in self.row_spans(n, D):
            report("ridge decoder", rows.start, n)
            Phi = H[rows] if fourier is None else fourier(H[rows])
            wide = xp.astype(Phi, xp.float64)
            sums += w[rows] @ wide
            wide *= xp.sqrt(w[rows])[:, None]
            gram += wide.T @ wide
            if Y is not None:
                cross += self.times_t(scale_rows(Y[rows], on_host[rows]), Phi)
        report("ridge decoder", n, n)
        label_sums = self.asarray(np.asarray(labels.T @ on_host).ravel())
        return RidgeStatistics.of_sums(float(on_host.sum()), sums, gram, label_sums, cross, fourier)

    def descent(self, problem: LogisticProblem) -> Descent:
        """Start a logistic fit."""
        return NumpyDescent(problem, problem.whitening.all_rows(problem.H))

    def hinge(self, rows: Rows, order: Indices) -> HingeSolver:
        """Return a solver for tree nodes, whose examples are the rows at ``order``. GPUs leave this
        to the CPU too.
        """
        return LocalHinge(InMemory(unit_rows(rows[:])[order]))

    def ranker(self, weights: Block, bias: Block) -> Ranker:
        """Return what finds the best labels by ``Φ Q + b``."""
        return NumpyRanker()

    def prediction_rows(self, n_labels: int) -> int:
        """Return the number of rows to predict for at a time."""
        return max(1, min(ROWS, SCORES // n_labels))

    def available(self) -> int:
        """Free bytes where the arrays of this place are."""
        return memory.available()

    def check_memory(self, shape: memory.Shape, independent: bool) -> int:
        """Estimate the memory of a fit in bytes, and refuse one that does not fit.

        ``independent`` says that labels are: a device may then hold some of a logistic decoder's
        labels at a time.
        """
        mapped = (
            3 * shape.itemsize * shape.n * shape.mapped
        )  # by a logistic fit, at once and with two copies
        return memory.check(replace(shape, features=mapped))


CPU = Place()


def is_dask(device: Any) -> bool:
    """Return whether a device is a Dask cluster, which fits stores and does not predict."""
    return isinstance(device, str) and device.partition(":")[0].partition("?")[0] == "dask"


def place_for(device: str, rows: Rows | None = None) -> Place:
    """Return the place of a device for these rows; without rows, for rows in memory.

    Devices are ``cpu``, ``cuda``, ``cuda:1``, several separated by commas, or ``auto``, a GPU if
    there is one. Several CPUs (``cpu,cpu``) run as several GPUs do, for tests. For a store they are
    ``cpu``, ``dask``, ``dask?workers=4`` and ``dask:tcp://host:port``.
    """
    return check_device(device, isinstance(rows, StoredRows))


def check_device(device: str, on_disk: bool) -> Place:
    """Return the place of a device for rows in memory or on disk; refuse a device that cannot be
    used with them.
    """
    if not isinstance(device, str) or not device:
        raise SettingsError(
            f"device={device!r} must be a name: 'cpu', 'cuda', 'cuda:1', 'cuda:0,cuda:1' or 'auto'",
            "device",
        )
    if on_disk:
        from rembrandt.engines.stored_place import stored_place

        return stored_place(device)
    if device == "cpu":
        return CPU
    if is_dask(device):
        raise SettingsError(
            f"device={device!r} works on a store, whose shards the workers open; make one with "
            "rembrandt data convert",
            "device",
        )
    if find_spec("torch") is None:
        if device == "auto":
            return CPU
        raise SettingsError(
            f"device={device!r} needs torch, which is not installed: pip install 'rembrandt[gpu]', "
            "or use device='cpu'",
            "device",
        )
    from rembrandt.engines.torch_place import torch_place

    return torch_place(device) or CPU
