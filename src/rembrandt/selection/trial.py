"""Fit on one part of the training examples, measure on the other. Nothing else in the package does
this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.embeddings import largest_rank
from rembrandt.embeddings.fit import ridge_solver
from rembrandt.embeddings.problem import Solver
from rembrandt.engines.place import CPU, Place
from rembrandt.engines.protocol import Engine
from rembrandt.fitting import check_memory, fit_scorer
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.ridge import CholeskyRidge
from rembrandt.metrics.hits import hits
from rembrandt.metrics.ranking import ndcg, precision
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe
from rembrandt.scorers.blend import (
    LIST_LENGTH,
    Candidates,
    UnlistedSample,
    collect,
    log_frequencies_of,
    sample_unlisted,
)
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.embedding_fit import (
    NO_OTHERS,
    Embedded,
    closed_form,
    embed_labels,
    fit_decoder,
    fourier_map,
    hold_out,
    leave_out,
    n_random_features,
)
from rembrandt.scorers.protocol import Array, Labels, Scorer

KS = (1, 3, 5)
CHANCE = 0.001  # difference in quality below which the usual value, or fewer scorers, are preferred
FEWEST = 100  # examples: with fewer, held-out examples say nothing
FEWEST_DIRECTIONS = 50  # of an embedding of some of the labels
KEPT, SMALL = (
    3,
    3e7,
)  # earlier embeddings that a trial keeps, and the numbers of one that is not too large for that
FEATURES, EPOCHS = 1000, 10  # of a trial that is not of full size, at most


@dataclass(frozen=True)
class Measures:
    """P@1, P@3 and P@5 on held-out rows, and the quality by which candidates are compared."""

    p: tuple[float, float, float]
    quality: float
    rows: Array = field(
        default_factory=lambda: np.empty(0), compare=False, repr=False
    )  # quality of each row

    def better_than(self, other: "Measures") -> bool:
        """Whether the difference in quality is more than its standard error over the rows, and than
        `CHANCE`.
        """
        error = (
            float(np.std(self.rows - other.rows)) / max(1, len(self.rows)) ** 0.5
            if len(self.rows)
            else 0.0
        )
        return self.quality - other.quality > max(error, CHANCE)

    def facts(self) -> dict[str, float]:
        """Return the measures as JSON."""
        return {**{f"p@{k}": p for k, p in zip(KS, self.p, strict=True)}, "quality": self.quality}


class Trial:
    """One split of examples into a part to fit on and a part to measure on; what candidates share
    is fitted once.

    A trial of trees fits at most ``n_trees`` of those that the model will have.
    """

    def __init__(
        self,
        fit: Examples,
        held: Examples,
        n: int,
        place: Place = CPU,
        n_trees: float = inf,
        share: float = 1.0,
    ) -> None:
        """``n`` is the number of all training examples, and ``share`` that of the labels that are
        used.
        """
        self.fit, self.held, self.n, self.place = fit, held, n, place.in_memory()
        self.n_trees, self.share = n_trees, share
        self._embedded: dict[
            Any, tuple[int, Embedded]
        ] = {}  # the last ones by their settings, with the rank asked for
        self._regressions: dict[
            Any, CholeskyRidge
        ] = {}  # on the features, which other labels do not change
        self._statistics: tuple[Recipe, Any] | None = (
            None  # of the last ridge decoder, for other penalties
        )

    def scorer(
        self, candidate: Recipe, report: Report = silent, others: Mapping[str, Scorer] = NO_OTHERS
    ) -> Scorer:
        """Fit the only scorer of ``candidate``; its decoder may learn from what ``others``
        propose.
        """
        if candidate.scorers == ("embedding",):
            return self._embedding_scorer(candidate, others)
        check_memory(self.fit, candidate, self.place)
        pairs = candidate.trees.pairs * self.fit.n / self.n
        sized = candidate.with_trees(
            pairs=pairs, n_trees=min(candidate.trees.n_trees, self.n_trees)
        )
        return fit_scorer(candidate.scorers[0], self.fit, sized, self.place, report)[0]

    def embed(self, candidate: Recipe) -> Embedded:
        """Embed the labels for a candidate; for all with the same or a smaller rank once, as
        columns are nested.
        """
        asked = self._rank(candidate)
        e = candidate.embedding
        logistic = (
            candidate.decoder == "logistic"
        )  # the rows that stop it have no weight in the embedding
        key = candidate.ridge, candidate.normalize, logistic, e.label_power, e.row_power
        known = self._embedded.get(key)
        if known is None or known[0] < asked:
            fit, recipe = self._scaled(candidate), replace(candidate, n_components=asked)
            check_memory(fit, replace(recipe, decoder="transpose", kernel=None), self.place)
            shared = partial(
                self._regression, key[:3]
            )  # which the scaling of the labels does not change
            found = embed_labels(hold_out(fit, recipe)[1], recipe, self.place, regression=shared)
            kept = list(self._embedded.items())[-KEPT:] if found.size <= SMALL else []
            self._embedded = {**dict(kept), key: (asked, found)}
        return self._embedded[key][1]

    def _regression(self, features: Any, engine: Engine, recipe: Recipe, report: Report) -> Solver:
        """Return the regression for the settings ``features``; the last two are kept if they are
        small.
        """
        if features not in self._regressions:
            found = ridge_solver(engine, recipe, report)
            # It has three matrices in double precision.
            if not isinstance(found, CholeskyRidge) or 6 * found.gram.shape[0] ** 2 > SMALL:
                return found
            self._regressions = {**dict(list(self._regressions.items())[-1:]), features: found}
        return self._regressions[features]

    def _rank(self, candidate: Recipe) -> int:
        asked = max(
            min(FEWEST_DIRECTIONS, candidate.n_components),
            round(self.share * candidate.n_components),
        )
        return int(min(largest_rank(self.fit.n, self.fit.X.shape[1] + 1, self.fit.n_labels), asked))

    def _scaled(self, candidate: Recipe) -> Examples:
        return replace(self.fit, X=self.fit.X.normalized()) if candidate.normalize else self.fit

    def _embedding_scorer(self, candidate: Recipe, others: Mapping[str, Scorer]) -> EmbeddingScorer:
        embedded = self.embed(candidate).truncated(self._rank(candidate))
        fit, place, recipe = (
            self._scaled(candidate),
            self.place,
            replace(candidate, n_components=self._rank(candidate)),
        )
        features = n_random_features(candidate)
        epochs = candidate.embedding.max_epochs
        if self.share < 1:
            features, epochs = min(features, FEATURES), min(epochs, EPOCHS)
        recipe = recipe.with_embedding(n_random_features=features, max_epochs=epochs)
        check_memory(fit, recipe, place)
        H = embedded.project(fit.X, place)
        if recipe.decoder in ("ridge", "discriminant"):
            alike = replace(recipe, decoder="ridge", decoder_ridge=0.0)
            if self._statistics is None or self._statistics[0] != alike:
                with place.session():
                    H = leave_out(embedded, H, fit, recipe, place)
                    found = place.statistics(H, fit.Y, fourier_map(H, recipe), fit.weights)
                self._statistics = alike, found
            decoder = closed_form(self._statistics[1], recipe, fit.multiclass)
        else:
            stopping = hold_out(fit, recipe)[0]
            decoder = fit_decoder(embedded, H, fit, recipe, place, stopping=stopping, others=others)
        e = embedded.embedding
        return EmbeddingScorer(
            embedded.projection,
            decoder,
            e.V,
            e.sigma,
            bool(candidate.normalize),
            embedded.regressor,
            place=place,
            proposes=recipe.embedding.proposes is not False,
        )

    def measure(self, scorer: Scorer) -> Measures:
        """Measure a scorer by itself."""
        found = [
            scorer.top(scorer.prepare(X), max(KS))[0]
            for _, X in self.held.X.blocks(scorer.block_rows)
        ]
        return measures(self.held, np.vstack(found))

    def ranked_hits(self, scorers: dict[str, Scorer]) -> dict[str, Array]:
        """Return the hits (n × ranks) of the best labels of every scorer that finds them itself."""
        listing = {name: scorer for name, scorer in scorers.items() if scorer.proposes}
        depth = LIST_LENGTH * len(listing)
        return {name: self._hits(scorer, depth) for name, scorer in listing.items()}

    def _hits(self, scorer: Scorer, k: int) -> Array:
        blocks = self.held.X.blocks(scorer.block_rows)
        labels = np.vstack([scorer.top(scorer.prepare(X), k)[0] for _, X in blocks])
        return np.asarray(hits(self.held.Y, labels))

    def candidates(
        self,
        scorers: dict[str, Scorer],
        seed: int,
        list_lengths: Mapping[str, int] = MappingProxyType({}),
    ) -> tuple[Candidates, UnlistedSample]:
        """Return the listed labels of the held-out rows, scored by every scorer, and a sample of
        the others.
        """
        counts = np.bincount(self.fit.Y.indices, minlength=self.fit.n_labels)
        log_frequencies = log_frequencies_of(counts, self.fit.n)
        rng = np.random.default_rng(seed)
        listed = []
        others = []
        for rows in spans(self.held.n, min(scorer.block_rows for scorer in scorers.values())):
            X = self.held.X[rows]
            prepared = {name: scorer.prepare(X) for name, scorer in scorers.items()}
            block = collect(scorers, prepared, log_frequencies, list_lengths)
            true_labels = padded_lists(self.held.Y[rows])
            listed.append(block)
            others.append(
                sample_unlisted(scorers, prepared, block, true_labels, log_frequencies, rng)
            )
        return Candidates.joined(listed), UnlistedSample.joined(others)


def padded_lists(Y: sparse.csr_array) -> Labels:
    """Return the labels of each row, -1 after the last."""
    sizes = np.diff(Y.indptr)
    lists = np.full((Y.shape[0], max(1, int(sizes.max(initial=0)))), -1, dtype=np.int64)
    positions = np.arange(Y.nnz) - np.repeat(Y.indptr[:-1], sizes)
    lists[np.repeat(np.arange(Y.shape[0]), sizes), positions] = Y.indices
    return lists


def measures(held: Examples, labels: Labels) -> Measures:
    """Measure the ranked labels of held-out rows."""
    return measures_of(held, hits(held.Y, labels))


def measures_of(held: Examples, hit: Array) -> Measures:
    """Measure ranked labels of held-out rows by their hits (n × ranks)."""
    p1, p3, p5 = (precision(hit, k) for k in KS)
    if held.multiclass:
        return Measures((p1, p3, p5), p1, hit[:, 0].astype(np.float64))
    rows = (hit[:, 0] + ndcg(hit, np.diff(held.Y.indptr), max(KS))) / 2
    return Measures((p1, p3, p5), float(rows.mean()), rows)


def mean(found: list[Measures]) -> Measures:
    """Average over several splits."""
    p1, p3, p5 = np.mean([each.p for each in found], axis=0).tolist()
    rows = np.concatenate([each.rows for each in found])
    return Measures((p1, p3, p5), float(np.mean([each.quality for each in found])), rows)
