"""Scores through the label embedding (the paper): ``φ(x̂W)Q + b``.

``x̂`` is the row, scaled to unit length where the part says so, with a constant feature appended.
``W`` projects it on the embedding, ``φ`` is an optional map to random Fourier features, and the
decoder ``Q, b`` turns the result into scores.
"""

from dataclasses import dataclass, field, replace
from operator import matmul

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.rows import as_rows
from rembrandt.engines.backend import CPU, Backend
from rembrandt.engines.ranking import Ranker
from rembrandt.errors import ModelError, SettingsError
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.linalg.cluster_search import paired_scores
from rembrandt.linalg.dense import row_products
from rembrandt.linalg.ranking import rank
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, normalize_rows
from rembrandt.linalg.threads import for_each
from rembrandt.parts.contributions import Contributions
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.parts.embedding.decoders.moments import Moments
from rembrandt.parts.embedding.explain import as_probability, explain_decoder
from rembrandt.parts.embedding.shortlist import Shortlist, default_size, joined_columns
from rembrandt.parts.protocol import SCORED_BLOCK_ROWS, Facts, Labels, Part
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import Arrays, checked, finite, positive

# Labels beyond those asked for, whose exact scores are compared.
N_SPARE_LABELS = 4
# Rows scored by one call.
CALL_ROWS = 64


@dataclass(frozen=True)
class EmbeddingFacts:
    """What a fit found out about an embedding."""

    rank_reason: str = ""  # why an automatic choice took this rank
    residual: float = 0.0  # largest relative residual of the regressions
    iterations: int = 1  # of conjugate gradients

    @classmethod
    def from_json(cls, facts: Facts) -> "EmbeddingFacts":
        return cls(
            rank_reason=str(facts["rank_reason"]),
            residual=finite(facts["residual"]),
            iterations=positive(facts["iterations"], int, or_zero=True),
        )


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
    def exact_scores(self) -> Block:
        """Scores of all labels, n × c; on the host they do not depend on the other rows."""
        if not self.on_host:
            return self.features @ self.decoder.weights + self.decoder.bias
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
class LabelEmbedding(Part):
    """A label embedding with its decoder."""

    projection: Block  # W, (d + 1) × k; the last row belongs to the constant feature
    decoder: Decoder
    vectors: Array  # V, c × k
    singular_values: Array
    normalize: bool = False
    moments: Moments | None = None  # of the training rows, for updates
    index: Shortlist | None = None
    shortlist: int | None = None  # labels of the index that are scored for each row
    # Whether it searches all labels; otherwise it scores what other parts list.
    searches_labels: bool = True
    fitted: EmbeddingFacts = field(default_factory=EmbeddingFacts)
    backend: Backend = field(default=CPU, compare=False)

    @property
    def n_labels(self) -> int:
        return int(self.decoder.bias.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.projection.shape[0]) - 1

    @property
    def retrieves_labels(self) -> bool:
        return self.searches_labels

    @property
    def block_rows(self) -> int:
        """Number of rows to score at a time."""
        scores_few_labels = self.shortlist is not None or not self.searches_labels
        if scores_few_labels and self.backend.on_host:
            return SCORED_BLOCK_ROWS
        return self.backend.prediction_rows(self.n_labels)

    def on(self, backend: Backend) -> "LabelEmbedding":
        """Return the same part with its arrays on ``backend``."""
        if backend == self.backend:
            return self
        return replace(
            self,
            backend=backend,
            projection=backend.asarray(self.projection),
            decoder=self.decoder.moved(backend.asarray),
        )

    def with_shortlist(self, size: int | bool, report: Report = silent) -> "LabelEmbedding":
        """See `Part`. The index is built on first use."""
        if not self.backend.on_host:
            raise SettingsError(
                f"a shortlist needs device='cpu'; on {self.backend.device} all labels are scored",
                "shortlist",
            )
        index = self.index or Shortlist.build(self.decoder, report=report)
        shortlist: int | None = int(size) or None
        if size is True:
            shortlist = default_size(self.n_labels)
        return replace(self, index=index, shortlist=shortlist)

    def for_prediction(self) -> "LabelEmbedding":
        return replace(self, moments=None)

    def rows(self, X: Matrix) -> Matrix:
        """``x̂`` without the constant: in the precision of the part and scaled as it was fitted."""
        dtype = np.float64 if "64" in str(self.projection.dtype) else np.float32
        rows = as_csr(X, dtype) if is_sparse(X) else np.asarray(X, dtype=dtype)
        if self.normalize:
            return normalize_rows(rows)
        return rows

    def project(self, X: Matrix) -> Block:
        """``H``: rows in the embedding."""
        rows = self.rows(X)
        if self.backend.on_host and not is_sparse(rows):
            return row_products(rows, self.projection[:-1]) + self.projection[-1]
        return self.backend.project(as_rows(rows), self.projection)

    def prepare(self, X: Matrix) -> Projected:
        with self.backend.session():
            return Projected(self.project(X), self.decoder, self.backend.on_host)

    def top(self, rows: Projected, k: int) -> tuple[Labels, Array]:
        if not self.backend.on_host:
            with self.backend.session():
                return self._ranker.top(rows, k)
        # The best labels are found by products that round differently in other blocks of rows.
        # A few more are taken, and their exact scores decide.
        n_candidates = k + N_SPARE_LABELS
        if self.shortlist is not None and self.index is not None:
            labels, _ = self.index.top_k(rows.features, n_candidates, self.shortlist)
        else:
            labels, _ = self._ranker.top(rows, n_candidates)
        labels, scores = rank(labels, self._paired(rows, labels))
        return labels[:, :k], scores[:, :k]

    def at(self, rows: Projected, labels: Labels) -> Array:
        if not self.backend.on_host:
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
            (rows.features[span], self._by_label, labels[span], scores[span])
            for span in spans(len(labels), CALL_ROWS)
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
        if self.decoder.link == "sigmoid":
            return as_numpy(self.decoder.probabilities(scores))
        return scores

    def with_columns(self, columns: NDArray[np.int64], n_features: int) -> "LabelEmbedding":
        """See `Part`. New features have no weight: the projection is that of the fit."""
        old = as_numpy(self.projection)
        projection = np.zeros((n_features + 1, old.shape[1]), dtype=old.dtype)
        projection[columns] = old[:-1]
        projection[-1] = old[-1]
        return replace(self, projection=projection)

    def explain(self, row: sparse.csr_array, labels: Labels) -> Contributions:
        entries = as_csr(self.rows(row))
        scores = explain_decoder(self.decoder, self.projection, entries, labels)
        if self.decoder.link == "identity":
            return scores
        prepared = self.prepare(row)
        wanted = labels[None]
        full = self.likelihood(prepared, wanted, self.at(prepared, wanted))[0].astype(np.float64)
        return as_probability(scores, full, self.decoder.link == "softmax")

    def label_vectors(self) -> tuple[Array, Array]:
        return self.vectors, self.singular_values

    @cached_property
    def _by_label(self) -> Array:
        """The weights and the bias of each label, c × (D + 1)."""
        return joined_columns(self.decoder)

    @cached_property
    def _ranker(self) -> Ranker:
        return self.backend.ranker(self.decoder.weights, self.decoder.bias)

    def facts(self) -> Facts:
        return {"rank": int(self.projection.shape[1]), **vars(self.fitted)}

    def sizes(self) -> dict[str, int]:
        sizes = super().sizes()
        if self.moments is not None:
            moments = self.moments.scatter.nbytes + self.moments.mean.nbytes
            sizes = {"": sizes[""] - moments, "covariance for updates": moments}
        return sizes

    def arrays(self) -> tuple[Arrays, Facts]:
        arrays, facts = self.decoder.arrays()
        arrays["projection"] = as_numpy(self.projection)
        arrays["vectors"] = as_numpy(self.vectors)
        arrays["singular_values"] = as_numpy(self.singular_values)
        facts["normalize"] = self.normalize
        facts["searches_labels"] = self.searches_labels
        facts["fitted"] = dict(vars(self.fitted))
        if self.moments is not None:
            arrays["moments.mean"] = self.moments.mean
            arrays["moments.scatter"] = self.moments.scatter
            facts["moments_total"] = self.moments.total
        if self.index is not None:
            arrays["shortlist.clusters"] = self.index.clusters
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: Facts) -> "LabelEmbedding":
        decoder = Decoder.from_arrays(arrays, facts)
        n_mapped, n_labels = decoder.weights.shape
        width = n_mapped if decoder.fourier is None else None
        projection = checked("projection", arrays, (None, width))
        rank = projection.shape[1]
        fits_kernel = decoder.fourier is None or decoder.fourier.frequencies.shape[0] == rank
        if len(projection) < 1 or not fits_kernel:
            raise ModelError("the projection and the decoder of the embedding do not fit together")
        moments = None
        if "moments_total" in facts:
            mean = checked("moments.mean", arrays, (n_mapped,))
            scatter = checked("moments.scatter", arrays, (n_mapped * (n_mapped + 1) // 2,))
            moments = Moments(positive(facts["moments_total"]), mean, scatter)
        index = None
        if "shortlist.clusters" in arrays:
            index = Shortlist.from_clusters(decoder, arrays["shortlist.clusters"])
        return cls(
            projection,
            decoder,
            vectors=checked("vectors", arrays, (n_labels, rank)),
            singular_values=checked("singular_values", arrays, (rank,)),
            normalize=bool(facts["normalize"]),
            moments=moments,
            index=index,
            searches_labels=bool(facts["searches_labels"]),
            fitted=EmbeddingFacts.from_json(facts["fitted"]),
        )
