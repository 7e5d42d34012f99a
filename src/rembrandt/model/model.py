"""A fitted model as a value: arrays and what they mean. Prediction is a function of it.

``scores(x) = φ(x̂ W) Q + b``, with ``x̂`` the row, scaled to length one where the model says so, and a constant appended.
A model may have a sparse part, trees over the labels; then the score is a blend of the two.
Rows and labels are scored in blocks, so memory stays bounded however many there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.rows import as_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.moments import Moments
from rembrandt.decoders.monotone import MonotoneMap
from rembrandt.embeddings.regressor import FittedRegressor
from rembrandt.engines.place import CPU, Place
from rembrandt.errors import SettingsError
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, normalize_rows
from rembrandt.metrics import inverse_propensity, rank, top_k
from rembrandt.model.ranking import LABELS, best_labels, joined_candidates, most_worth
from rembrandt.progress import Report, silent
from rembrandt.scorers.shortlist import Shortlist
from rembrandt.scorers.trees import Trees

Array = NDArray[Any]

SCORES = 1 << 24  # entries of the largest block of scores: 64 MB
ROWS = 4096  # examples scored at a time, at most
CANDIDATES = 100  # labels that the sparse part brings to a blend, at least
SHORTLIST_ROWS = 1 << 13  # examples that are looked up together
DEVICE_ROWS = 1 << 16  # examples that go to a device at a time; what it does with them it cuts itself


@dataclass(frozen=True)
class Model:
    """Everything that prediction needs."""

    classes: Array  # what each column is called: strings or integers
    multiclass: bool
    normalize: bool  # rows are scaled to length one first
    projection: Block  # W, (d + 1) × k; the last row belongs to the constant feature
    decoder: Decoder
    embedding: Array  # V, c × k
    singular_values: Array
    label_counts: Array  # of the training data, for propensities and baselines
    n_train: int
    settings: dict[str, Any] = field(default_factory=dict)  # how it was made, for people
    place: Place = CPU  # where prediction runs; not saved
    forest: Trees | None = None  # the sparse part
    blend: float = 0.0  # its share in the score; at 1 it answers alone, in time that does not grow with all labels
    calibration: MonotoneMap | None = None  # from scores to probabilities, learnt on held-out rows
    threshold: float | Array = 0.5  # probability from which on a label is predicted: of all, or of each
    lift: FittedRegressor | None = None  # what rows go through before the projection, where that is not linear
    shortlist: Shortlist | None = None  # of labels for every row, where it was made; see `with_shortlist`
    moments: Moments | None = None  # what later rows and labels need of the training rows, where it was kept

    @property
    def n_labels(self) -> int:
        return len(self.classes)

    @property
    def n_features(self) -> int:
        return int(self.projection.shape[0]) - 1 if self.lift is None else self.lift.n_features

    def on(self, place: Place) -> "Model":
        """The same model with what prediction uses where ``place`` is."""
        if place == self.place:
            return self
        move = place.asarray
        return replace(self, place=place, projection=move(self.projection), decoder=self.decoder.moved(move))

    @property
    def has_shortlist(self) -> bool:
        """Whether there is a shortlist, and of this decoder."""
        return self.shortlist is not None and self.shortlist.decoder is self.decoder

    def with_shortlist(self, report: Report = silent) -> "Model":
        """This model with what `top_k` needs to look at some labels only; another copy of the decoder's weights."""
        return self if self.has_shortlist else replace(self, shortlist=Shortlist.of(self.decoder, report=report))

    def rows(self, X: Matrix) -> Matrix:
        """``x̂``: rows as the model takes them, the constant left out."""
        X = as_csr(X, self.dtype) if is_sparse(X) else np.asarray(X, dtype=self.dtype)
        return normalize_rows(X) if self.normalize else X

    def project(self, X: Matrix) -> Block:
        """``H``: rows in the embedding."""
        rows = self.rows(X)
        return self.place.project(as_rows(rows if self.lift is None else self.lift(rows)), self.projection)

    def scores(self, X: Matrix, labels: Any = slice(None)) -> Array:
        """Scores of ``labels`` (all by default) for the rows of ``X``: a dense block, so keep one side small."""
        if self.forest is None:
            return as_numpy(self.decoder.scores(self.project(X), labels))
        return self.low_rank(X)[:, labels] + self.dtype(self.blend) * self.forest.all(self.forest.prepare(X))[:, labels]

    def low_rank(self, X: Matrix) -> Array:
        """What low rank has in a blend for every label: least-squares scores as they are, others as probabilities."""
        return self._low_rank_share(self.decoder.scores(self.project(X)))

    def _low_rank_share(self, scores: Block) -> Array:
        share = self.dtype(1 - self.blend)
        return share * as_numpy(scores if self.decoder.link == "identity" else self.decoder.probabilities(scores))

    def top_k(
        self,
        X: Matrix,
        k: int,
        allowed: Array | None = None,
        report: Report = silent,
        worth: Array | None = None,
        look_at: int | None = None,
    ) -> tuple[NDArray[np.int64], Array]:
        """The ``k`` best labels of each row and their scores, best first; equal scores by label index.

        ``allowed`` limits the answer to these label indices. Where fewer than ``k`` labels exist the rest is -1.
        With ``worth`` (c,), what a hit on each label counts, the score is a label's probability × its worth.
        With ``look_at`` the best are found among about that many labels of each row's shortlist; what is found has the
        score that it has without. A sparse part that answers alone has a search of its own.
        """
        if look_at is not None:
            self.check_shortlist(worth is not None)
            if not self.has_shortlist and self.blend < 1:
                raise SettingsError("this model has no shortlist yet: give with_shortlist() of it")
        n = X.shape[0]
        best = np.full((n, k), -1, dtype=np.int64)
        scores = np.full((n, k), -np.inf, dtype=self.dtype)
        large = self.blend == 1 or (self.place != CPU and self.forest is None and worth is None)
        blocks = spans(n, DEVICE_ROWS) if large else self._row_blocks(n)
        for rows in blocks if look_at is None or large else spans(n, SHORTLIST_ROWS):
            report("predicting", rows.start, n)
            with self.place.session():
                best[rows], scores[rows] = self._best(X[rows], k, allowed, worth, look_at)
        report("predicting", n, n)
        return best, scores

    def worth(self, A: float = 0.55, B: float = 1.5) -> NDArray[np.float64]:
        """What a hit on each label counts in PSP@k: its inverse propensity by the training data."""
        return inverse_propensity(self.label_counts, self.n_train, A, B)

    def check_shortlist(self, tail: bool = False) -> None:
        """Refuse what no shortlist can answer."""
        if tail:
            raise SettingsError("a shortlist has the labels of the best scores, and tail ranks otherwise: choose one")
        if self.place != CPU:
            raise SettingsError(
                f"a shortlist is for the CPU; on {self.place.device} score all labels, or use device='cpu'"
            )
        if self.forest is not None and self.blend < 1 and self.decoder.link == "softmax":
            raise SettingsError(
                "beside a sparse part a softmax decoder counts by its probabilities, which need the scores of all "
                "labels; predict without a shortlist, or fit with decoder='ridge'"
            )

    def _best(
        self, X: Matrix, k: int, allowed: Array | None, worth: Array | None, look_at: int | None
    ) -> tuple[Array, Array]:
        if self.forest is None:
            H = self.project(X)
            if look_at is not None and self.shortlist is not None:
                return self.shortlist.top_k(self.decoder.features(H), k, look_at, allowed)
            if worth is None:
                return best_labels(self.decoder, H, k, allowed)
            return most_worth(self.decoder, H, k, worth, allowed, self.calibration)
        alone = self.blend == 1 and worth is None
        found, values = self.forest.top(self.forest.prepare(X), k if alone else max(k, CANDIDATES), allowed)
        if self.blend == 1:
            if worth is not None:
                values = self.likelihood(values) * worth[found]
            values = np.where(found < 0, -np.inf, values)
            found, values = rank(found, values)
            return found[:, :k], values[:, :k]
        if look_at is not None and self.shortlist is not None:
            Phi = self.decoder.features(self.project(X))
            low, scores = self.shortlist.top_k(Phi, k, look_at, allowed)
            both, scores = joined_candidates(found, self.shortlist.scores(Phi, found), low, scores)
            scores = self._low_rank_share(scores)
            scores[:, : found.shape[1]] += np.where(found < 0, 0, self.dtype(self.blend) * values)
            both, scores = rank(both, np.where(both < 0, -np.inf, scores))
            return both[:, :k], scores[:, :k]
        block = self.low_rank(X)
        rows, at = np.nonzero(found >= 0)
        block[rows, found[rows, at]] += self.dtype(self.blend) * values[rows, at]
        if worth is not None:
            block = self.likelihood(block) * worth.astype(block.dtype)
        if allowed is not None:
            kept = np.full_like(block, -np.inf)
            kept[:, allowed] = block[:, allowed]
            block = kept
        return top_k(block, k)

    def probabilities(self, X: Matrix) -> Array:
        """Probabilities of all labels, n × c; for one label per example they sum to one."""
        out = np.empty((X.shape[0], self.n_labels), dtype=self.dtype)
        for rows in self._row_blocks(X.shape[0]):
            P = self._likely(X[rows])
            if self.multiclass:
                total = P.sum(axis=1, keepdims=True)
                P = np.divide(P, total, out=np.full_like(P, 1 / self.n_labels), where=total > 0)
            out[rows] = P
        return out

    def probabilities_of(self, X: Matrix, best: Array, scores: Array) -> Array:
        """The probabilities of the labels that `top_k` found; where all labels' sum to one, all are scored again."""
        if not self.multiclass:
            return self.likelihood_of_scores(scores)
        found = np.empty_like(scores)
        for rows in self._row_blocks(X.shape[0]):
            found[rows] = np.take_along_axis(self.probabilities(X[rows]), np.maximum(best[rows], 0), axis=1)
        return found

    def label_sets(self, X: Matrix) -> sparse.csr_array:
        """The labels of each row whose probability reaches the threshold, as a 0/1 matrix."""
        parts: list[Any] = [
            sparse.csr_array(self._likely(X[rows]) >= self.threshold, dtype=np.int8)
            for rows in self._row_blocks(X.shape[0])
        ]
        empty: Any = sparse.csr_array((0, self.n_labels), dtype=np.int8)
        return sparse.vstack([empty, *parts], format="csr")

    def raw(self, X: Matrix) -> Array:
        """What every label's probability is made of: least-squares scores, a blend, or logits through their link."""
        if self.forest is not None:
            return self.scores(X)
        scores = self.decoder.scores(self.project(X))
        return as_numpy(scores if self.decoder.link == "identity" else self.decoder.probabilities(scores))

    def likelihood(self, raw: Array) -> Array:
        """The probabilities of labels, each alone, from what `raw` gives: calibrated, or cut to between 0 and 1."""
        if self.calibration is not None:
            return as_numpy(self.calibration(raw))
        estimates = self.forest is not None or self.decoder.link == "identity"  # never certain, and not cut so far
        return np.clip(raw, 1e-6, 1 - 1e-6) if estimates else raw

    def likelihood_of_scores(self, scores: Array) -> Array:
        """The probabilities of labels from the scores that `top_k` gives; not for softmax, which needs all labels."""
        linked = self.forest is None and self.decoder.link != "identity"
        return self.likelihood(as_numpy(self.decoder.probabilities(scores)) if linked else scores)

    def _likely(self, X: Matrix) -> Array:
        """The probability of each label alone."""
        return self.likelihood(self.raw(X))

    @property
    def dtype(self) -> Any:
        """The precision of scores: that of the features it was fitted to."""
        return np.float64 if "64" in str(self.projection.dtype) else np.float32

    def _row_blocks(self, n: int) -> Iterator[slice]:
        return spans(n, max(1, min(ROWS, SCORES // min(self.n_labels, LABELS))))
