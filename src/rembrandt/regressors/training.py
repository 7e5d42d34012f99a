"""How the small network learns; the only file here that imports torch."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from rembrandt.linalg.sparse import Matrix, is_sparse
from rembrandt.linalg.threads import n_threads
from rembrandt.regressors.mlp import PATIENCE, Network, held_out_rows, mean_square

if TYPE_CHECKING:
    from rembrandt.regressors.mlp import MLP

Array = NDArray[Any]

SMALL = 1 << 26  # products of a step, below which threads wait longer for each other than they gain


def trained(settings: "MLP", X: Matrix, T: Array, weights: Array | None) -> Network:
    """The network at its best on rows that it did not learn from.

    Features and targets are scaled to a mean square of one while it learns, and the weights back at the end.
    """
    d, k, m = X.shape[1], T.shape[1], settings.hidden
    size, level = mean_square(X) ** 0.5, mean_square(T) ** 0.5
    targets = torch.from_numpy(np.ascontiguousarray(T, dtype=np.float32) / np.float32(level))
    counts = torch.ones(len(T)) if weights is None else torch.from_numpy(np.asarray(weights, dtype=np.float32))
    fit, held = held_out_rows(len(T), settings.seed)
    threads = torch.get_num_threads()
    torch.set_num_threads(n_threads() if settings.batch * max(d, k) * m > SMALL else 1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            parts = {
                "A": torch.randn(d, m) * (2 / d) ** 0.5,
                "a": torch.zeros(m),
                "B": torch.randn(m, k) * (1 / m) ** 0.5 * 0.1,
                "C": torch.zeros(d, k),
                "b": torch.zeros(k),
            }
            for part in parts.values():
                part.requires_grad_(True)
            optimiser = torch.optim.AdamW(parts.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay)

            def loss(rows: Array) -> Any:
                x = _tensor(X[rows], size)
                off = torch.relu(x @ parts["A"] + parts["a"]) @ parts["B"] + x @ parts["C"] + parts["b"] - targets[rows]
                return (counts[rows] * (off * off).mean(dim=1)).sum() / counts[rows].sum().clamp(min=1e-30)

            def held_loss() -> float:
                with torch.no_grad():
                    blocks = [held[i : i + 4096] for i in range(0, len(held), 4096)]
                    return float(sum(float(loss(rows)) * len(rows) for rows in blocks) / len(held))

            order = np.random.default_rng(settings.seed + 1)
            best, kept, since = held_loss(), {name: part.detach().clone() for name, part in parts.items()}, 0
            for _ in range(settings.max_epochs):
                shuffled = order.permutation(fit)
                for start in range(0, len(shuffled), settings.batch):
                    optimiser.zero_grad()
                    loss(np.sort(shuffled[start : start + settings.batch])).backward()
                    optimiser.step()
                now = held_loss()
                since += 1
                if now < best:
                    best, kept, since = now, {name: part.detach().clone() for name, part in parts.items()}, 0
                if since >= PATIENCE:
                    break
    finally:
        torch.set_num_threads(threads)
    arrays = {name: part.numpy().astype(X.dtype) for name, part in kept.items()}
    dtype = X.dtype.type
    return Network(
        np.vstack([arrays["A"] * dtype(1 / size), arrays["a"][None]]),
        arrays["B"] * dtype(level),
        np.vstack([arrays["C"] * dtype(level / size), arrays["b"][None] * dtype(level)]),
    )


def _tensor(rows: Matrix, size: float) -> Any:
    """Rows as torch has them, scaled."""
    if not is_sparse(rows):
        return torch.from_numpy(np.asarray(rows, dtype=np.float32) / np.float32(size))
    values = torch.from_numpy(rows.data.astype(np.float32) / np.float32(size))
    indptr, indices = (torch.from_numpy(part.astype(np.int64)) for part in (rows.indptr, rows.indices))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)  # it is called a beta
        return torch.sparse_csr_tensor(indptr, indices, values, size=rows.shape, check_invariants=False)
