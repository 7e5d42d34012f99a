"""A fitted model: labels, features, scorers and their blend. Prediction is a function of it.

Rows are scored in blocks, so memory stays bounded however many there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.labels import LabelIndex
from rembrandt.engines.place import Place
from rembrandt.features.joined import Joined
from rembrandt.features.text import TextFeatures
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.eigen import gaussian, randomized_eigh
from rembrandt.linalg.ranking import rank
from rembrandt.linalg.sparse import Matrix, csr_matmul
from rembrandt.linalg.transposed import Transposed
from rembrandt.metrics import inverse_propensity
from rembrandt.progress import Report, silent
from rembrandt.scorers.blend import LONG, Blend, Candidates, collect, probabilities
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.protocol import BLOCK_ROWS, Array, Labels, Scorer

SCORES = 1 << 24  # of all labels that are computed at a time
POSSIBLE = (
    np.finfo(np.float32).tiny,
    np.nextafter(np.float32(1), np.float32(0)),
)  # the range of probabilities
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
    def log_counts(self) -> Array:
        """``log(1 + examples)`` of each label."""
        return np.log1p(self.label_counts).astype(np.float32)

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

    def top_k(
        self,
        X: Matrix,
        k: int,
        allowed: Labels | None = None,
        worth: Array | None = None,
        report: Report = silent,
    ) -> tuple[Labels, Array]:
        """Return the ``k`` best labels of each row and their probabilities, best first; ties by
        label index.

        ``allowed`` restricts the labels. Where fewer than ``k`` exist, the label is -1 and the
        probability 0. With ``worth`` (c,) labels are ranked by probability × worth, which is then
        returned instead.
        """
        n, more = (
            X.shape[0],
            k if worth is None else max(k, LONG),
        )  # rare labels are far down the lists
        permitted = np.zeros(self.n_labels + 1, dtype=np.bool_)
        permitted[slice(-1) if allowed is None else allowed] = True  # the last stands for no label
        parts: list[Any] = [(np.empty((0, k), np.int64), np.empty((0, k), np.float32))]
        for rows in self._blocks(n):
            report("predicting", rows.start, n)
            found = collect(self.scorers, self._prepared(X[rows]), self.log_counts, more, allowed)
            scores = self._probabilities(found)
            if worth is not None:
                scores = scores * worth[found.labels]
            labels = np.where(permitted[found.labels], found.labels, -1)
            labels, scores = rank(labels, np.where(labels < 0, -np.inf, scores))
            short = ((0, 0), (0, max(0, k - labels.shape[1])))
            scores = np.where(labels < 0, 0, scores).astype(np.float32)
            if worth is None:  # no label is certain or impossible
                scores = np.where(labels < 0, 0, np.clip(scores, *POSSIBLE))
            parts.append(
                (np.pad(labels, short, constant_values=-1)[:, :k], np.pad(scores, short)[:, :k])
            )
        report("predicting", n, n)
        labels, scores = (np.vstack(each) for each in zip(*parts, strict=True))
        return labels, scores

    def features_at(self, X: Matrix, labels: Labels) -> Candidates:
        """Return what the blend sees of the given labels (m, ascending) of each row."""
        same = np.broadcast_to(labels, (X.shape[0], len(labels)))
        return collect(self.scorers, self._prepared(X), self.log_counts, labels=same)

    def probabilities(self, X: Matrix) -> Array:
        """Return the probabilities of all labels, n × c; with one label a row they sum to one."""
        parts = [np.empty((0, self.n_labels), dtype=np.float32)]
        for rows in self._blocks(X.shape[0], SCORES // self.n_labels):
            found = self._all(X[rows])
            P = self._probabilities(found)
            if self.multiclass:  # what is left for labels that are not listed is shared among them
                listed = found.listed
                rest = np.maximum(0, 1 - np.where(listed, P, 0).sum(axis=1, keepdims=True))
                others = np.where(listed, 0, P)
                total = others.sum(axis=1, keepdims=True)
                P = np.where(listed, P, others * (rest / np.maximum(total, 1e-300)))
            parts.append(P.astype(np.float32))
        return np.vstack(parts)

    def log_odds(self, X: Matrix) -> Array:
        """Return the log-odds of all labels, n × c."""
        blocks = self._blocks(X.shape[0], SCORES // self.n_labels)
        parts = [np.empty((0, self.n_labels), dtype=np.float32)]
        return np.vstack(parts + [self.blend.log_odds(self._all(X[rows])) for rows in blocks])

    def _prepared(self, X: Matrix) -> dict[str, Any]:
        return {name: scorer.prepare(X) for name, scorer in self.scorers.items()}

    def _all(self, X: Matrix) -> Candidates:
        return self.features_at(X, np.arange(self.n_labels))

    def _probabilities(self, found: Candidates) -> Array:
        return probabilities(
            self.blend.log_odds(found), found.listed, self.n_labels, self.multiclass
        )

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

    def _blocks(self, n: int, most: int = BLOCK_ROWS) -> Iterator[slice]:
        return spans(
            n, max(1, min([most, *(scorer.block_rows for scorer in self.scorers.values())]))
        )
