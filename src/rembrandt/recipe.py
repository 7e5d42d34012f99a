"""The settings of a fit."""

from dataclasses import dataclass, field
from typing import Literal

Method = Literal["rembrandt", "pca", "plst", "cs", "cca"]
SolverName = Literal["auto", "cholesky", "pcg"]

METHODS: tuple[Method, ...] = ("rembrandt", "pca", "plst", "cs", "cca")


@dataclass(frozen=True)
class EmbeddingSettings:
    """Settings of the embedding that are rarely changed."""

    kernel_scale: float = 1.0
    n_random_features: int | None = None
    leave_out: float = 0.0
    n_oversamples: int = 20
    n_iter: int = 1
    solver: SolverName = "auto"
    tol: float = 0.02
    max_iter: int = 10
    center: bool = False
    max_epochs: int = 40


@dataclass(frozen=True)
class TreeSettings:
    """Settings of the label trees."""

    n_trees: int = 1  # each has its own clusters; their mean is better, at n_trees times the cost
    pairs: float = 3e7  # examples × nodes of the first level, at most: more is slower and better
    cost: float = 1.0  # C of the squared hinge loss: the larger, the closer to the training examples
    power: float = 3.0  # of the hinge in a score
    threshold: float = 0.05  # weights below are dropped
    tolerance: float = 0.3  # of the projected gradient at which descent ends
    passes: int = 12  # over the examples of a label, at most
    beam: int = 10  # clusters that prediction scores


@dataclass(frozen=True)
class Recipe:
    """The settings that an embedding depends on."""

    method: Method = "rembrandt"
    n_components: int | Literal["auto"] = 50
    ridge: float = 1.0  # relative: times trace(XᵀX)/d
    seed: int = 0
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
