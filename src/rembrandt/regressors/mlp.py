"""A small network: one hidden layer and a straight way past it, ``h = relu(xA + a) B + xC + b``.

It is fitted by torch, with weights kept from the epoch that was best on held-out training rows; it predicts without.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from rembrandt.checks import check_number, check_whole
from rembrandt.errors import SettingsError
from rembrandt.linalg.sparse import Matrix, is_sparse, project, row_sums_of_squares
from rembrandt.storage.arrays import Arrays

Array = NDArray[Any]

HELD_OUT = 0.1  # of the rows, to stop by
PATIENCE = 4  # epochs without a better one


class MLP(BaseEstimator):
    """A regressor with one hidden layer, for ``regressor=``; needs torch to be fitted.

    Parameters
    ----------
    hidden : int
        Units of the hidden layer.
    max_epochs : int
        Passes over the rows, at most; it stops when held-out training rows are predicted no better any more.
    learning_rate, weight_decay : float
        Of the optimiser, Adam.
    batch : int
        Rows of a step.
    seed : int
        The same seed gives the same network.
    """

    def __init__(
        self,
        hidden: int = 512,
        max_epochs: int = 40,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        batch: int = 256,
        seed: int = 0,
    ) -> None:
        self.hidden = hidden
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch = batch
        self.seed = seed

    def check(self) -> None:
        """Refuse settings that are none, and a machine without torch."""
        for name in ("hidden", "max_epochs", "batch"):
            check_whole(name, getattr(self, name), 1)
        check_whole("seed", self.seed, 0)
        check_number("learning_rate", self.learning_rate, 0.0, above=True)
        check_number("weight_decay", self.weight_decay, 0.0)
        if find_spec("torch") is None:
            raise SettingsError("regressor='mlp' needs torch, which is not installed: pip install 'rembrandt[gpu]'")

    def fit(self, X: Matrix, T: Array, sample_weight: Array | None = None) -> Self:
        """Learn the targets ``T`` (n × k) of the rows of ``X``."""
        self.check()
        from rembrandt.regressors.training import trained

        self.network_ = trained(self, X, T, sample_weight)
        return self

    def predict(self, X: Matrix) -> Array:
        """The targets of the rows of ``X``."""
        return self.network_(X)


@dataclass(frozen=True)
class Network:
    """A fitted network, as a function of rows."""

    kind: ClassVar[str] = "mlp"

    first: Array  # [A; a], (d + 1) × m: the last row belongs to a constant
    second: Array  # B, m × k
    past: Array  # [C; b], (d + 1) × k

    @property
    def n_features(self) -> int:
        """How many go in."""
        return int(self.first.shape[0]) - 1

    def __call__(self, X: Matrix) -> Array:
        return np.maximum(project(X, self.first), 0) @ self.second + project(X, self.past)

    def packed(self) -> Arrays:
        """As named arrays, to be written to a file."""
        return {"first": self.first, "second": self.second, "past": self.past}

    @classmethod
    def unpacked(cls, arrays: Arrays) -> "Network":
        """What `packed` packed."""
        return cls(arrays["first"], arrays["second"], arrays["past"])


def held_out_rows(n: int, seed: int) -> tuple[Array, Array]:
    """Rows to learn from and rows to stop by; both are all of them where there are few."""
    order = np.random.default_rng(seed).permutation(n)
    held = int(HELD_OUT * n)
    return (order, order) if held < 1 else (np.sort(order[held:]), np.sort(order[:held]))


def mean_square(X: Matrix) -> float:
    """The mean square of an entry of ``X``; 1 where all are zero."""
    total = float(row_sums_of_squares(X).sum()) if is_sparse(X) else float(np.einsum("ij,ij->", X, X, dtype=np.float64))
    return total / max(1, X.shape[0] * X.shape[1]) or 1.0
