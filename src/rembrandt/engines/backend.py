"""Where the work is done: this process, torch devices, or a cluster. A backend hands out everything
that differs.

Code above is written once, against the array namespace of the blocks that a backend returns.
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
from rembrandt.engines.scaling import LabelScaling, Scaled, label_factors, with_scaled_rows
from rembrandt.engines.shards import Tally
from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.errors import SettingsError
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import Block, add_gram, as_numpy, converted, spans
from rembrandt.linalg.sparse import append_constant, matmul, project, scale_rows, unit_rows
from rembrandt.linalg.transposed import Transposed
from rembrandt.progress import Report, silent

# Entries of the largest block of scores in prediction: 64 MB.
MAX_SCORES = 1 << 24
# Rows to predict for at a time, at most.
PREDICT_BLOCK_ROWS = 1 << 12
# Rows mapped at a time: bounds the mapped features in float64.
MAPPED_BLOCK_ROWS = 8192
# Columns of an inverse root that rows are projected on at a time.
LEVERAGE_BLOCK_COLUMNS = 256
# Labels as they are, not centred.
UNSCALED = LabelScaling()


@dataclass(frozen=True)
class Backend:
    """This process: NumPy arrays, and compiled kernels on its threads. Other backends override what
    differs.
    """

    # Passes over a store and bytes moved, by stage of the fit.
    tallies: dict[str, Tally] = field(default_factory=dict, compare=False, kw_only=True)
    on_host: ClassVar[bool] = True  # whether arrays are NumPy arrays in this process

    @property
    def device(self) -> str:
        """Name of the device."""
        return "cpu"

    def in_memory(self) -> "Backend":
        """Return the backend for rows of the same data that were loaded into memory."""
        return self

    def session(self) -> AbstractContextManager[None]:
        """Keep connections open, and compute products in the full precision of their blocks."""
        return nullcontext()

    def asarray(self, x: Any) -> Block:
        """Convert to an array of this backend, of the same precision."""
        return np.asarray(x)

    def engine(
        self,
        rows: Rows,
        Y: sparse.csr_array,
        weights: Array | None,
        scaling: LabelScaling = UNSCALED,
    ) -> Engine:
        """Return an engine over scaled labels, with a constant feature or, centred, without the
        means.
        """
        engine = self._engine(rows, Y, weights, scaling.row_power)
        factors = label_factors(Y, weights, scaling.label_power)
        if factors is not None:
            engine = Scaled(engine, factors)
        if scaling.center:
            engine = Centred(engine)
        return engine

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

    def add_times_t(self, out: Block, Y: sparse.csr_array, U: Block) -> None:
        """``out += Yᵀ U``."""
        Transposed.of(Y).add_to(out, U)

    def add_gram(self, out: Block, A: Block) -> None:
        """``out += Aᵀ A``."""
        add_gram(out, A)

    def row_spans(self, n: int, width: int) -> Iterator[slice]:
        """Cut rows into blocks to map at a time, each row to ``width`` features."""
        return spans(n, MAPPED_BLOCK_ROWS)

    def leverages(
        self, rows: Rows, weights: Array | None, root: Block
    ) -> NDArray[np.float32] | None:
        """``w ‖[x, 1] T‖²`` of each row; None where that would take passes over a store."""
        squares: Any = 0.0
        for columns in spans(root.shape[1], LEVERAGE_BLOCK_COLUMNS):
            block = self.project(rows, root[:, columns])
            squares = squares + array_namespace(block).sum(block * block, axis=1)
        leverages = as_numpy(squares)
        if weights is not None:
            leverages = leverages * weights
        return leverages.astype(np.float32)

    def leave_out(
        self, H: Block, share: Any, Y: sparse.csr_array, V: Block, row_power: float = 0.0
    ) -> Block:
        """``(H − s ỸV) / (1 − s)``, rows without their labels: s is a number or a column, ``Ỹ =
        D_r^-row_power Y``.
        """
        xp = array_namespace(H)
        embedded_labels = self.times(with_scaled_rows(Y, row_power), V)
        # In place: there are as many rows as examples.
        result = xp.astype(embedded_labels, H.dtype, copy=False)
        result *= -share
        result += H
        result /= 1 - share
        return result

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
        n = H.shape[0]
        D = H.shape[1] if fourier is None else fourier.size
        n_labels = 0 if Y is None else Y.shape[1]
        host_weights = np.ones(n)
        if weights is not None:
            host_weights = np.asarray(weights, dtype=np.float64)
        backend_weights = self.asarray(host_weights)
        gram = xp.zeros((D, D), dtype=xp.float64, device=H.device)
        cross = xp.zeros((n_labels, D), dtype=H.dtype, device=H.device)
        sums = xp.zeros((D,), dtype=xp.float64, device=H.device)
        for rows in self.row_spans(n, D):
            report("ridge decoder", rows.start, n)
            Phi = H[rows]
            if fourier is not None:
                Phi = fourier(Phi)
            Phi64 = converted(Phi, xp.float64)
            sums += backend_weights[rows] @ Phi64
            Phi64 *= xp.sqrt(backend_weights[rows])[:, None]
            self.add_gram(gram, Phi64)
            if Y is not None:
                weighted_labels = scale_rows(Y[rows], host_weights[rows])
                self.add_times_t(cross, weighted_labels, Phi)
        report("ridge decoder", n, n)
        label_sums = np.zeros(0)
        if Y is not None:
            label_sums = np.asarray(Y.T @ host_weights).ravel()
        return RidgeStatistics.of_sums(
            total=float(host_weights.sum()),
            sums=sums,
            gram=gram,
            label_sums=self.asarray(label_sums),
            cross=cross,
            fourier=fourier,
        )

    def descent(self, problem: LogisticProblem) -> Descent:
        """Start a logistic fit."""
        F = problem.whitening.all_rows(problem.H)
        return NumpyDescent(problem, F)

    def hinge(self, rows: Rows, order: Indices) -> HingeSolver:
        """Return a solver for tree nodes, whose examples are the rows at ``order``. GPUs leave this
        to the CPU too.
        """
        X = unit_rows(rows[:])
        return LocalHinge(InMemory(X[order]))

    def ranker(self, weights: Block, bias: Block) -> Ranker:
        """Return what finds the best labels by ``Φ Q + b``."""
        return NumpyRanker(as_numpy(weights), as_numpy(bias))

    def prediction_rows(self, n_labels: int) -> int:
        """Return the number of rows to predict for at a time."""
        return max(1, min(PREDICT_BLOCK_ROWS, MAX_SCORES // n_labels))

    def available(self) -> int:
        """Free bytes where the arrays of this backend are."""
        return memory.available()

    def check_memory(self, shape: memory.Shape, independent: bool) -> int:
        """Estimate the memory of a fit in bytes, and refuse one that does not fit.

        ``independent`` says that labels are: a device may then hold some of a logistic decoder's
        labels at a time.
        """
        # A logistic fit maps all rows at once, and makes two copies.
        mapped_bytes = 3 * shape.itemsize * shape.n * shape.mapped
        return memory.check(replace(shape, features=mapped_bytes))


CPU = Backend()


def is_dask(device: Any) -> bool:
    """Return whether a device is a Dask cluster, which fits stores and does not predict."""
    if not isinstance(device, str):
        return False
    # 'dask', 'dask?workers=4' or 'dask:tcp://host:port'.
    kind = device.partition(":")[0].partition("?")[0]
    return kind == "dask"


def backend_for(device: str, rows: Rows | None = None) -> Backend:
    """Return the backend of a device for these rows; without rows, for rows in memory.

    Devices are ``cpu``, ``cuda``, ``cuda:1``, several separated by commas, or ``auto``, a GPU if
    there is one. Several CPUs (``cpu,cpu``) run as several GPUs do, for tests. For a store they are
    ``cpu``, ``dask``, ``dask?workers=4`` and ``dask:tcp://host:port``.
    """
    return check_device(device, isinstance(rows, StoredRows))


def check_device(device: str, on_disk: bool) -> Backend:
    """Return the backend of a device for rows in memory or on disk; refuse a device that cannot be
    used with them.
    """
    if not isinstance(device, str) or not device:
        raise SettingsError(
            f"device={device!r} must be a name: 'cpu', 'cuda', 'cuda:1', 'cuda:0,cuda:1' or 'auto'",
            "device",
        )
    if on_disk:
        from rembrandt.engines.stored_backend import stored_backend

        return stored_backend(device)
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
    from rembrandt.engines.torch_backend import torch_backend

    return torch_backend(device) or CPU
