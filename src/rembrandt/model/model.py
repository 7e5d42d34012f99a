"""A fitted model: labels, features, parts and their blend. Prediction is a function of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.blend import Blend
from rembrandt.candidates import log_frequencies_of
from rembrandt.data.hierarchy import Hierarchy
from rembrandt.data.labels import LabelIndex
from rembrandt.data.views import Views
from rembrandt.declarations import ModelSettings
from rembrandt.engines.backend import Backend
from rembrandt.features.text import TextFeatures
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.eigen import gaussian, randomized_eigh
from rembrandt.linalg.sparse import csr_matmul
from rembrandt.linalg.transposed import Transposed
from rembrandt.metrics import inverse_propensity
from rembrandt.model.facts import Facts
from rembrandt.parts.protocol import Part, beside_each_other
from rembrandt.progress import Report, silent
from rembrandt.settings.view_names import FEATURES, TEXTS

# Directions of label vectors that are derived from label weights, and additional columns of the
# eigensolver.
N_DERIVED_DIRECTIONS = 50
N_OVERSAMPLES = 20


@dataclass(frozen=True)
class Model:
    """Everything that prediction needs."""

    classes: Array  # identifiers of the labels: strings or integers
    multiclass: bool
    parts: dict[str, Part]
    blend: Blend
    label_counts: Array  # in the training examples
    n_train: int
    settings: ModelSettings
    facts: Facts
    # Smallest probability of a label that is predicted; of all labels, or of each.
    threshold: float | Array = 0.5
    text: TextFeatures | None = None
    titles: list[str] | None = None  # names that are shown for the labels, "" where there is none
    descriptions: list[str] | None = None
    other_names: list[str] | None = None  # in lines; they are matched, and not shown
    hierarchy: Hierarchy | None = None

    @property
    def n_labels(self) -> int:
        return len(self.classes)

    @cached_property
    def n_features(self) -> int:
        """Number of features; vectors beside them do not count."""
        for name, spec in self.settings.parts.items():
            if spec.view == FEATURES:
                return self.parts[name].n_features
        raise AssertionError("a model has a part that reads the features")

    @cached_property
    def vector_widths(self) -> tuple[int, ...]:
        """Number of columns of each block of vectors beside the features."""
        widths = {
            spec.view: self.parts[name].n_features
            for name, spec in self.settings.parts.items()
            if spec.view not in (FEATURES, TEXTS)
        }
        return tuple(widths.values())

    @cached_property
    def reads_texts(self) -> bool:
        """Whether a part reads the texts themselves."""
        return any(spec.view == TEXTS for spec in self.settings.parts.values())

    @cached_property
    def unseen_part(self) -> str | None:
        """Name of the part that scores labels without examples, where there are such labels."""
        if not self.is_unseen.any():
            return None
        for name, part in self.parts.items():
            if part.scores_unseen_labels:
                return name
        return None

    @cached_property
    def is_unseen(self) -> NDArray[np.bool_]:
        """Which labels have no example."""
        return np.asarray(self.label_counts == 0)

    @cached_property
    def reads_every_text(self) -> bool:
        """Whether a part reads texts without a known word too."""
        return any(part.reads_every_text for part in self.parts.values())

    @cached_property
    def labels(self) -> LabelIndex:
        """Columns and names of the labels."""
        return LabelIndex(self.classes.tolist(), self.titles, self.descriptions)

    @cached_property
    def nodes(self) -> LabelIndex:
        """The labels, followed by the groups above them that are not labels."""
        if self.hierarchy is None or not self.hierarchy.groups:
            return self.labels
        groups = self.hierarchy.groups
        no_texts = [""] * len(groups)
        titles = self.titles
        group_names = self.hierarchy.group_names
        if titles is not None or group_names is not None:
            titles = [*(titles or [""] * self.n_labels), *(group_names or no_texts)]
        descriptions = self.descriptions and [*self.descriptions, *no_texts]
        return LabelIndex([*self.classes.tolist(), *groups], titles, descriptions)

    @cached_property
    def log_frequencies(self) -> Array:
        """Logarithm of the relative frequency of each label."""
        return log_frequencies_of(self.label_counts, self.n_train)

    def prepared(self, rows: Views) -> dict[str, Any]:
        """Return what each part computes once for some rows, from the view that it
        reads.
        """
        prepared = {}
        for name, part in self.parts.items():
            prepared[name] = part.prepare(rows.view(self.settings.parts[name].view))
        return prepared

    def on(self, backend: Backend) -> "Model":
        """Return the same model with its arrays on ``backend``, as far as parts can use it."""
        return self._with_each_part(lambda part: part.on(backend))

    def with_shortlist(self, size: int | bool, report: Report = silent) -> "Model":
        """Return a model that scores about ``size`` labels for each row, as far as parts have an
        index for that; 0 builds the index alone.
        """
        return self._with_each_part(lambda part: part.with_shortlist(size, report))

    def with_encoder(self, encoder: Any) -> "Model":
        """Return a model whose parts use an object with ``encode`` that is not saved."""
        return self._with_each_part(lambda part: part.with_encoder(encoder))

    def for_prediction(self) -> "Model":
        """Return the model without what only updates need."""
        return self._with_each_part(lambda part: part.for_prediction())

    def with_label_names(
        self,
        names: list[str] | None,
        descriptions: list[str] | None,
        other_names: list[str] | None = None,
    ) -> "Model":
        """Return a model that shows these names, and matches them where a part does."""
        model = self._with_each_part(
            lambda part: part.with_label_names(self.classes, names, descriptions, other_names)
        )
        return replace(model, titles=names, descriptions=descriptions, other_names=other_names)

    def _with_each_part(self, change: Callable[[Part], Part]) -> "Model":
        changed = {name: change(part) for name, part in self.parts.items()}
        return replace(self, parts=beside_each_other(changed))

    def worth(self, A: float = 0.55, B: float = 1.5) -> NDArray[np.float64]:
        """Return what a hit on each label counts in PSP@k: its inverse propensity in the training
        examples.
        """
        return inverse_propensity(self.label_counts, self.n_train, A, B)

    def worth_of_nodes(self, A: float = 0.55, B: float = 1.5) -> NDArray[np.float64]:
        """Return the same for labels and groups; a group has the examples of all labels below."""
        if self.hierarchy is None:
            return self.worth(A, B)
        below = self.hierarchy.below[self.n_labels :, : self.n_labels]
        group_counts = np.minimum(below @ self.label_counts.astype(np.float64), self.n_train)
        counts = np.concatenate([self.label_counts, group_counts])
        return inverse_propensity(counts, self.n_train, A, B)

    @property
    def has_label_vectors(self) -> bool:
        """Whether a part embeds the labels; otherwise their vectors are derived."""
        return any(part.label_vectors() is not None for part in self.parts.values())

    @cached_property
    def label_vectors(self) -> tuple[Array, Array]:
        """A vector for each label, and the strength of each direction.

        They are the embedding of the model. A model without one takes the top singular vectors of
        its label weights.
        """
        for part in self.parts.values():
            vectors = part.label_vectors()
            if vectors is not None:
                return vectors
        weights = next(
            weights
            for weights in (part.label_weights() for part in self.parts.values())
            if weights is not None
        )
        transposed = Transposed.of(weights)
        n_directions = min(N_DERIVED_DIRECTIONS, self.n_labels)
        width = min(self.n_labels, N_DERIVED_DIRECTIONS + N_OVERSAMPLES)
        start = gaussian(self.n_labels, width, seed=0)
        return randomized_eigh(lambda Q: csr_matmul(weights, transposed @ Q), start, n_directions)
