"""Scores through the label embedding (the paper): ``φ(x̂W)Q + b``.

``x̂`` is the row, scaled to unit length where the scorer says so, with a constant feature appended.
``W`` projects it on the embedding, ``φ`` is an optional map to random Fourier features, and the
decoder ``Q, b`` turns the result into scores.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import matmul
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from rembrandt.data.rows import as_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.moments import Moments
from rembrandt.engines.place import CPU, Place
from rembrandt.engines.ranking import Ranker
from rembrandt.errors import ModelError, SettingsError
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.linalg.cluster_search import paired_scores
from rembrandt.linalg.dense import row_products
from rembrandt.linalg.ranking import rank
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, normalize_rows
from rembrandt.linalg.threads import for_each
from rembrandt.progress import Report, silent
from rembrandt.scorers.explanations import Contributions, as_probability, explain_decoder
from rembrandt.scorers.protocol import BLOCK_ROWS, Array, Labels, Scorer
from rembrandt.scorers.shortlist import Shortlist, default_size, joined_columns
from rembrandt.storage.arrays import Arrays, checked, positive

SPARE = 4  # labels beyond those asked for, whose exact scores are compared
PART = 64  # rows scored by one call


@dataclass(frozen=True)
class Projected:
    """Rows in the embedding, and what is computed from them once.

    On the host, features and the scores that are returned have the same bits in any block of rows.
    """

    H: Block
    decoder: Decoder
    on_host: bool = True

    @cached_property
    def features(self) -> Block:
        """``φ(H)``."""
        return self.features_of(self.H)

    def features_of(self, H: Block) -> Block:
        """``φ`` of some rows."""
        return self.decoder.features(H, row_products if self.on_host else matmul)

    @cached_property
    def scores(self) -> Block:
        """Scores of all labels, n × c, rounded as a library rounds them: to find the best."""
        return self.features @ self.decoder.weights + self.decoder.bias

    @cached_property
    def exact_scores(self) -> Block:
        """Scores of all labels, n × c, that do not depend on the other rows."""
        if not self.on_host:
            return self.scores
        return row_products(self.features, self.decoder.weights) + self.decoder.bias

    def scores_of(self, labels: Labels) -> Array:
        """Scores of the given labels (n × m), -inf where the label is -1. Only these leave a
        device.
        """
        every = self.exact_scores
        xp = array_namespace(every)
        columns = xp.asarray(np.maximum(labels, 0, dtype=np.int64), device=every.device)
        rows = xp.arange(len(labels), device=every.device)[:, None]
        return np.where(labels < 0, -np.inf, as_numpy(every[rows, columns]))

    @cached_property
    def log_total(self) -> Array:
        """Logarithm of the normalizer of a softmax over all labels, n × 1.

        In double precision: where a label is nearly certain, the odds are one over a small
        difference.
        """
        every = self.exact_scores
        xp = array_namespace(every)
        largest = xp.max(every, axis=1, keepdims=True)
        total = xp.sum(xp.exp(every - largest), axis=1, keepdims=True, dtype=xp.float64)
        return as_numpy(largest + xp.log(total))


@dataclass(frozen=True)
class EmbeddingScorer(Scorer):
    """A label embedding with its decoder."""

    projection: Block  # W, (d + 1) × k; the last row belongs to the constant feature
    decoder: Decoder
    vectors: Array  # V, c × k
    singular_values: Array
    normalize: bool = False
    regressor: Any = (
        None  # replaces the linear regression: rows go through it before the projection
    )
    moments: Moments | None = None  # of the training rows, for updates
    index: Shortlist | None = None
    shortlist: int | None = None  # labels of the index that are scored for each row
    proposes: bool = (
        True  # whether it searches all labels; otherwise it scores what other scorers propose
    )
    place: Place = field(default=CPU, compare=False)

    @property
    def n_labels(self) -> int:
        return int(self.decoder.bias.shape[0])

    @property
    def n_features(self) -> int:
        return (
            int(self.projection.shape[0]) - 1
            if self.regressor is None
            else int(self.regressor.n_features)
        )

    @property
    def block_rows(self) -> int:
        """Number of rows to score at a time."""
        few = self.shortlist is not None or (self.place.on_host and not self.proposes)
        return BLOCK_ROWS if few else self.place.prediction_rows(self.n_labels)

    def on(self, place: Place) -> "EmbeddingScorer":
        """Return the same scorer with its arrays on ``place``."""
        if place == self.place:
            return self
        move = place.asarray
        return replace(
            self, place=place, projection=move(self.projection), decoder=self.decoder.moved(move)
        )

    def with_shortlist(self, size: int | bool, report: Report = silent) -> "EmbeddingScorer":
        """Return a scorer whose `top` scores about ``size`` labels of each row; builds the index on
        first use.
        """
        if not self.place.on_host:
            raise SettingsError(
                f"a shortlist needs device='cpu'; on {self.place.device} all labels are scored",
                "shortlist",
            )
        index = self.index or Shortlist.build(self.decoder, report=report)
        return replace(
            self, index=index, shortlist=default_size(self.n_labels) if size is True else int(size)
        )

    def rows(self, X: Matrix) -> Matrix:
        """``x̂`` without the constant: in the scorer's precision and scaled as it was fitted."""
        dtype = np.float64 if "64" in str(self.projection.dtype) else np.float32
        X = as_csr(X, dtype) if is_sparse(X) else np.asarray(X, dtype=dtype)
        return normalize_rows(X) if self.normalize else X

    def project(self, X: Matrix) -> Block:
        """``H``: rows in the embedding."""
        rows = self.rows(X)
        if self.regressor is not None:
            rows = self.regressor(rows)
        if self.place.on_host and not is_sparse(rows):
            return row_products(rows, self.projection[:-1]) + self.projection[-1]
        return self.place.project(as_rows(rows), self.projection)

    def prepare(self, X: Matrix) -> Projected:
        with self.place.session():
            return Projected(self.project(X), self.decoder, self.place.on_host)

    def top(self, rows: Projected, k: int) -> tuple[Labels, Array]:
        if not self.place.on_host:
            with self.place.session():
                return self._ranker.top(rows, k)
        # The best labels are found by products that round differently in other blocks of rows.
        # A few more are taken, and their exact scores decide.
        if self.shortlist is not None and self.index is not None:
            labels, _ = self.index.top_k(rows.features, k + SPARE, self.shortlist)
        else:
            labels, _ = self._ranker.top(rows, k + SPARE)
        labels, scores = rank(labels, self._paired(rows, labels))
        return labels[:, :k], scores[:, :k]

    def at(self, rows: Projected, labels: Labels) -> Array:
        if not self.place.on_host:
            return rows.scores_of(labels)
        return self._paired(rows, labels)

    def every(self, rows: Projected) -> Array:
        return as_numpy(rows.exact_scores)

    def _paired(self, rows: Projected, labels: Labels) -> Array:
        """Scores of a few labels of each row (n × m), one by one.

        A softmax needs those of all labels for its normalizer: they are the same bits.
        """
        if self.decoder.link == "softmax":
            return rows.scores_of(labels)
        scores = np.empty(labels.shape, dtype=rows.features.dtype)
        blocks = (
            (rows.features[part], self._by_label, labels[part], scores[part])
            for part in spans(len(labels), PART)
        )
        for_each(paired_scores, blocks)
        return scores

    def likelihood(self, rows: Projected, labels: Labels, scores: Array) -> Array:
        """Turn scores into estimates of probabilities; least-squares scores are such estimates
        already.
        """
        if self.decoder.link == "softmax":
            # Scores and normalizer come from one product: the odds of a certain label are one over
            # their difference.
            return np.asarray(np.exp(rows.scores_of(labels) - rows.log_total))
        return (
            as_numpy(self.decoder.probabilities(scores))
            if self.decoder.link == "sigmoid"
            else scores
        )

    def explain(
        self, row: sparse.csr_array, labels: Labels, likelihood: bool = False
    ) -> Contributions:
        if self.regressor is not None:
            raise SettingsError(
                "contributions of features are defined for a linear regression; fit with "
                "regressor=None",
                "regressor",
            )
        part = explain_decoder(self.decoder, self.projection, as_csr(self.rows(row)), labels)
        if not likelihood or self.decoder.link == "identity":
            return part
        rows = self.prepare(row)
        full = self.likelihood(rows, labels[None], self.at(rows, labels[None]))[0].astype(
            np.float64
        )
        return as_probability(part, full, self.decoder.link == "softmax")

    @cached_property
    def _by_label(self) -> Array:
        """The weights and the bias of each label, c × (D + 1)."""
        return joined_columns(self.decoder)

    @cached_property
    def _ranker(self) -> Ranker:
        return self.place.ranker(self.decoder.weights, self.decoder.bias)

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        if self.regressor is not None:
            raise ModelError(
                f"a model with regressor={self.regressor.regressor!r} cannot be saved: only pickle "
                "could store it, and "
                "pickled files run code when they are read. Fit with regressor=None to save a "
                "model."
            )
        arrays, facts = self.decoder.arrays()
        arrays |= {"projection": as_numpy(self.projection), "vectors": as_numpy(self.vectors)}
        arrays["singular_values"] = as_numpy(self.singular_values)
        facts |= {"normalize": self.normalize, "proposes": self.proposes}
        if self.moments is not None:
            arrays |= {"moments.mean": self.moments.mean, "moments.scatter": self.moments.scatter}
            facts["moments_total"] = self.moments.total
        if self.index is not None:
            arrays["shortlist.clusters"] = self.index.clusters
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "EmbeddingScorer":
        decoder = Decoder.from_arrays(arrays, facts)
        D, c = decoder.weights.shape
        projection = checked(
            "projection", arrays, (None, None if decoder.fourier is not None else D)
        )
        k = projection.shape[1]
        if len(projection) < 1 or (
            decoder.fourier is not None and decoder.fourier.frequencies.shape[0] != k
        ):
            raise ModelError("the projection and the decoder of the embedding do not fit together")
        moments = None
        if "moments_total" in facts:
            mean = checked("moments.mean", arrays, (D,))
            scatter = checked("moments.scatter", arrays, (D * (D + 1) // 2,))
            moments = Moments(positive(facts["moments_total"]), mean, scatter)
        clusters = arrays.get("shortlist.clusters")
        return cls(
            projection,
            decoder,
            checked("vectors", arrays, (c, k)),
            checked("singular_values", arrays, (k,)),
            bool(facts["normalize"]),
            moments=moments,
            index=None if clusters is None else Shortlist.from_clusters(decoder, clusters),
            proposes=bool(facts["proposes"]),
        )
