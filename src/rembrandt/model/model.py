"""A fitted model: labels, features, scorers and their blend. Prediction is a function of it.

Rows are scored in blocks, so memory stays bounded however many there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
from rembrandt.scorers.blend import Blend, union
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.protocol import Array, Labels, Scorer

CANDIDATES = 100  # labels that each scorer proposes for a row, at least
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
    threshold: float | Array = 0.5  # probability from which a label is predicted; of all labels, or of each
    text: TextFeatures | None = None
    joined: Joined | None = None
    titles: list[str] | None = None  # names that are shown for the labels, "" where there is none
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
        return LabelIndex(self.classes.tolist(), self.titles)

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
        """Return a model that scores about ``size`` labels for each row through the index of the embedding."""
        return self._with_embedding(lambda scorer: scorer.with_shortlist(size, report))

    def for_prediction(self) -> "Model":
        """Return the model without what only updates need."""
        return self._with_embedding(lambda scorer: replace(scorer, moments=None))

    def _with_embedding(self, change: Any) -> "Model":
        if self.embedding is None:
            return self
        return replace(self, scorers=self.scorers | {"embedding": change(self.embedding)})

    def top_k(
        self, X: Matrix, k: int, allowed: Labels | None = None, worth: Array | None = None, report: Report = silent
    ) -> tuple[Labels, Array]:
        """Return the ``k`` best labels of each row and their scores, best first; ties by label index.

        ``allowed`` restricts the labels. Where fewer than ``k`` exist, the label is -1 and the score -inf. With
        ``worth`` (c,) the score is the probability of a label times its worth.
        """
        n = X.shape[0]
        parts: list[Any] = [(np.empty((0, k), np.int64), np.empty((0, k), np.float32))]
        for rows in self._blocks(n):
            report("predicting", rows.start, n)
            parts.append(self._best(self._prepared(X[rows]), k, allowed, worth))
        report("predicting", n, n)
        labels, scores = (np.vstack(each) for each in zip(*parts, strict=True))
        return labels, scores

    def top_probabilities(self, X: Matrix, k: int, allowed: Labels | None = None) -> tuple[Labels, Array, Array]:
        """Return the ``k`` best labels of each row, their scores and their probabilities."""
        parts: list[Any] = [tuple(np.empty((0, k), dtype) for dtype in (np.int64, np.float32, np.float32))]
        for block in self._blocks(X.shape[0]):
            rows = self._prepared(X[block])
            labels, scores = self._best(rows, k, allowed, None)
            parts.append((labels, scores, self._probabilities_at(rows, labels)))
        labels, scores, probabilities = (np.vstack(each) for each in zip(*parts, strict=True))
        return labels, scores, probabilities

    def _prepared(self, X: Matrix) -> dict[str, Any]:
        return {name: scorer.prepare(X) for name, scorer in self.scorers.items()}

    def _best(self, rows: dict[str, Any], k: int, allowed: Labels | None, worth: Array | None) -> tuple[Labels, Array]:
        if len(self.scorers) == 1 and worth is None:
            [(name, scorer)] = self.scorers.items()
            return scorer.top(rows[name], k, allowed)
        proposed = [self.scorers[name].top(rows[name], max(k, CANDIDATES), allowed)[0] for name in rows]
        labels = proposed[0] if len(proposed) == 1 else union(proposed)
        scores = self.blend(self._likelihoods(rows, labels))
        if worth is not None:
            scores = self.blend.probability(scores) * worth.astype(scores.dtype)[labels]
        labels, scores = rank(labels, np.where(labels < 0, -np.inf, scores))
        short = ((0, 0), (0, max(0, k - labels.shape[1])))
        labels = np.pad(labels, short, constant_values=-1)[:, :k]
        return labels, np.pad(scores, short, constant_values=-np.inf)[:, :k]

    def _likelihoods(self, rows: dict[str, Any], labels: Labels | None) -> dict[str, Array]:
        """Return the likelihoods of the given labels of each row, or of all labels, by each scorer."""
        found = {}
        for name, scorer in self.scorers.items():
            if labels is None:
                found[name] = scorer.likelihood(rows[name], scorer.all(rows[name]))
            else:
                likelihood = scorer.likelihood(rows[name], scorer.at(rows[name], labels))
                found[name] = np.where(labels < 0, likelihood.dtype.type(0), likelihood)
        return found

    def scores(self, X: Matrix) -> Array:
        """Return the scores of all labels, n × c: of the only scorer, or blended."""
        if len(self.scorers) == 1:
            return np.vstack([self._first.all(self._first.prepare(X[rows])) for rows in self._blocks(X.shape[0])])
        return np.vstack([self.blended(X[rows]) for rows in self._blocks(X.shape[0])])

    def blended(self, X: Matrix) -> Array:
        """Return the blended scores of all labels, n × c, from which probabilities are computed."""
        return self.blend(self._likelihoods(self._prepared(X), None))

    def probabilities(self, X: Matrix) -> Array:
        """Return the probabilities of all labels, n × c; with one label a row they sum to one."""
        parts = [self._probabilities(self._prepared(X[rows])) for rows in self._blocks(X.shape[0])]
        return np.vstack(parts) if parts else np.empty((0, self.n_labels), dtype=np.float32)

    def _probabilities(self, rows: dict[str, Any]) -> Array:
        P = self.blend.probability(self.blend(self._likelihoods(rows, None)))
        return np.asarray(P / P.sum(axis=1, keepdims=True)) if self.multiclass else P

    def probabilities_at(self, X: Matrix, labels: Labels) -> Array:
        """Return the probabilities of the given labels (n × m) of each row; 0 where the label is -1."""
        parts = [self._probabilities_at(self._prepared(X[rows]), labels[rows]) for rows in self._blocks(X.shape[0])]
        return np.vstack(parts) if parts else np.empty(labels.shape, dtype=np.float32)

    def _probabilities_at(self, rows: dict[str, Any], labels: Labels) -> Array:
        if self.multiclass:
            P = np.take_along_axis(self._probabilities(rows), np.maximum(labels, 0), axis=1)
        else:
            P = self.blend.probability(self.blend(self._likelihoods(rows, labels)))
        return np.where(labels < 0, P.dtype.type(0), P)

    def label_sets(self, X: Matrix) -> sparse.csr_array:
        """Return the labels of each row whose probability reaches the threshold, as a 0/1 matrix."""
        empty: Any = sparse.csr_array((0, self.n_labels), dtype=np.int8)
        parts: list[Any] = [
            sparse.csr_array(self.blend.probability(self.blended(X[rows])) >= self.threshold, dtype=np.int8)
            for rows in self._blocks(X.shape[0])
        ]
        return sparse.csr_array(sparse.vstack([empty, *parts], format="csr"))

    def worth(self, A: float = 0.55, B: float = 1.5) -> NDArray[np.float64]:
        """Return what a hit on each label counts in PSP@k: its inverse propensity in the training examples."""
        return inverse_propensity(self.label_counts, self.n_train, A, B)

    @cached_property
    def label_vectors(self) -> tuple[Array, Array]:
        """A vector for each label, and the strength of each direction.

        They are the embedding of the model. A model without one takes the top singular vectors of its label weights.
        """
        if self.embedding is not None:
            return self.embedding.vectors, self.embedding.singular_values
        scorer: Any = self._first
        weights = scorer.label_weights()
        transposed = Transposed.of(weights)
        start = gaussian(self.n_labels, min(self.n_labels, VECTORS + 20), seed=0)
        return randomized_eigh(lambda Q: csr_matmul(weights, transposed @ Q), start, min(VECTORS, self.n_labels))

    def _blocks(self, n: int) -> Iterator[slice]:
        return spans(n, min(scorer.block_rows for scorer in self.scorers.values()))
