"""A fitted model: labels, features, scorers and their blend. Prediction is a function of it."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.labels import LabelIndex
from rembrandt.engines.place import Place
from rembrandt.features.joined import Joined
from rembrandt.features.text import TextFeatures
from rembrandt.linalg.eigen import gaussian, randomized_eigh
from rembrandt.linalg.sparse import csr_matmul
from rembrandt.linalg.transposed import Transposed
from rembrandt.metrics import inverse_propensity
from rembrandt.progress import Report, silent
from rembrandt.scorers.blend import Blend, log_frequencies_of
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.protocol import Array, Scorer

VECTORS = 50  # directions of label vectors that are derived from label weights


@dataclass(frozen=True)
class Model:
    """Everything that prediction needs."""

    classes: Array  # names of the labels: strings or integers
    multiclass: bool
    scorers: dict[str, Scorer]
    blend: Blend
    label_counts: Array  # in the training examples
    n_train: int
    threshold: float | Array = (
        0.5  # probability from which a label is predicted; of all labels, or of each
    )
    text: TextFeatures | None = None
    joined: Joined | None = None
    titles: list[str] | None = None  # names that are shown for the labels, "" where there is none
    descriptions: list[str] | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # how it was fitted

    @property
    def n_labels(self) -> int:
        return len(self.classes)

    @property
    def n_features(self) -> int:
        return self._first.n_features

    @cached_property
    def labels(self) -> LabelIndex:
        """Columns and names of the labels."""
        return LabelIndex(self.classes.tolist(), self.titles, self.descriptions)

    @cached_property
    def log_frequencies(self) -> Array:
        """Logarithm of the relative frequency of each label."""
        return log_frequencies_of(self.label_counts, self.n_train)

    @cached_property
    def active_blend(self) -> Blend:
        """The blend of the scorers that have a weight in it."""
        return self.blend.active()

    @property
    def active_scorers(self) -> dict[str, Scorer]:
        """The scorers that have a weight in the blend: those that prediction asks."""
        return {name: self.scorers[name] for name in self.active_blend.weights}

    @property
    def embedding(self) -> EmbeddingScorer | None:
        """The embedding scorer, where there is one."""
        return self.scorers.get("embedding")  # type: ignore[return-value]

    @property
    def _first(self) -> Scorer:
        return next(iter(self.scorers.values()))

    def on(self, place: Place) -> "Model":
        """Return the same model with the arrays of the embedding on ``place``."""
        return self._with_embedding(lambda scorer: scorer.on(place))

    def with_shortlist(self, size: int | bool, report: Report = silent) -> "Model":
        """Return a model that scores about ``size`` labels for each row through the index of the
        embedding.
        """
        return self._with_embedding(lambda scorer: scorer.with_shortlist(size, report))

    def for_prediction(self) -> "Model":
        """Return the model without what only updates need."""
        return self._with_embedding(lambda scorer: replace(scorer, moments=None))

    def _with_embedding(self, change: Any) -> "Model":
        if self.embedding is None:
            return self
        return replace(self, scorers=self.scorers | {"embedding": change(self.embedding)})

    def worth(self, A: float = 0.55, B: float = 1.5) -> NDArray[np.float64]:
        """Return what a hit on each label counts in PSP@k: its inverse propensity in the training
        examples.
        """
        return inverse_propensity(self.label_counts, self.n_train, A, B)

    @cached_property
    def label_vectors(self) -> tuple[Array, Array]:
        """A vector for each label, and the strength of each direction.

        They are the embedding of the model. A model without one takes the top singular vectors of
        its label weights.
        """
        if self.embedding is not None:
            return self.embedding.vectors, self.embedding.singular_values
        scorer: Any = self._first
        weights = scorer.label_weights()
        transposed = Transposed.of(weights)
        start = gaussian(self.n_labels, min(self.n_labels, VECTORS + 20), seed=0)
        return randomized_eigh(
            lambda Q: csr_matmul(weights, transposed @ Q), start, min(VECTORS, self.n_labels)
        )
