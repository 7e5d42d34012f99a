"""Fit on one part of the training examples, measure on the other. Nothing else in the package does this."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.data.splits import draw_rows
from rembrandt.decoders.ridge import fit_ridge
from rembrandt.embeddings import largest_rank
from rembrandt.engines.place import CPU, Place
from rembrandt.fitting import check_memory, fit_model
from rembrandt.linalg.ranking import rank
from rembrandt.metrics.hits import hits
from rembrandt.metrics.ranking import ndcg, precision
from rembrandt.model.model import CANDIDATES, Model
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe
from rembrandt.scorers.blend import union
from rembrandt.scorers.centroids import fit_centroids
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.embedding_fit import (
    Embedded,
    embed_labels,
    fit_decoder,
    fourier_map,
    leave_out,
    n_random_features,
)
from rembrandt.scorers.protocol import Labels, Scorer
from rembrandt.scorers.tree_fit import fit_trees

Weights = tuple[float, ...]

KS = (1, 3, 5)
ROWS = 512  # held-out rows scored at a time
RANK, FEATURES, EPOCHS = 300, 1000, 10  # of a trial, at most
HELD_OUT, MOST_HELD = 1 / 6, 3000  # for calibration
ENTRIES = 1 << 28  # scores of held-out rows, at most
FEWEST = 100  # examples: with fewer, held-out examples say nothing


@dataclass(frozen=True)
class Measures:
    """P@1, P@3 and P@5 on held-out rows, and the quality by which candidates are compared."""

    p: tuple[float, float, float]
    quality: float


class Trial:
    """One split of examples into a part to fit on and a part to measure on; what candidates share is fitted once."""

    def __init__(self, fit: Examples, held: Examples, n: int, place: Place = CPU) -> None:
        """``n`` is the number of all training examples."""
        self.fit, self.held, self.n, self.place = fit, held, n, place.in_memory()
        self._embedded: dict[Any, tuple[int, Embedded]] = {}  # with the rank asked for
        self._statistics: tuple[Recipe, Any] | None = None  # of the last ridge decoder, for other penalties

    def scorer(self, candidate: Recipe) -> Scorer:
        """Fit the only scorer of ``candidate``."""
        fit = self.fit
        if candidate.scorers == ("embedding",):
            return self._embedding_scorer(candidate)
        check_memory(fit, candidate, self.place)
        if candidate.scorers == ("trees",):
            pairs = candidate.trees.pairs * fit.n / self.n
            return fit_trees(
                fit.X, fit.Y, replace(candidate.trees, pairs=pairs), candidate.seed, fit.weights, place=self.place
            )
        return fit_centroids(fit.X, fit.Y, fit.weights)

    def is_embedded(self, candidate: Recipe) -> bool:
        """Whether an embedding for the candidate exists, of its rank or a larger one."""
        known = self._embedded.get(_embedding_key(candidate))
        return known is not None and known[0] >= self._rank(candidate)

    def embed(self, candidate: Recipe) -> Embedded:
        """Embed the labels for a candidate; for all with the same or a smaller rank once, as columns are nested."""
        key, asked = _embedding_key(candidate), self._rank(candidate)
        if not self.is_embedded(candidate):
            fit, recipe = self._scaled(candidate), replace(candidate, n_components=asked)
            check_memory(fit, replace(recipe, decoder="transpose", kernel=None), self.place)
            self._embedded[key] = asked, embed_labels(fit, recipe, self.place)
            self._statistics = None
        return self._embedded[key][1]

    def _rank(self, candidate: Recipe) -> int:
        limit = largest_rank(self.fit.n, self.fit.X.shape[1] + 1, self.fit.n_labels)
        return min(limit, RANK if candidate.n_components == "auto" else candidate.n_components)

    def _scaled(self, candidate: Recipe) -> Examples:
        return replace(self.fit, X=self.fit.X.normalized()) if candidate.normalize else self.fit

    def _embedding_scorer(self, candidate: Recipe) -> EmbeddingScorer:
        embedded = self.embed(candidate).truncated(self._rank(candidate))
        fit, place = self._scaled(candidate), self.place
        features = min(n_random_features(candidate, self.n, self._rank(candidate)), FEATURES)
        recipe = replace(candidate, n_components=self._rank(candidate)).with_embedding(
            n_random_features=features, max_epochs=min(candidate.embedding.max_epochs, EPOCHS)
        )
        check_memory(fit, recipe, place)
        H = embedded.project(fit.X, place)
        if recipe.decoder == "ridge":
            alike = replace(recipe, decoder_ridge=0.0)
            if self._statistics is None or self._statistics[0] != alike:
                with place.session():
                    H = leave_out(embedded, H, fit, recipe, place)
                    found = place.statistics(H, fit.Y, fourier_map(H, recipe), fit.weights)
                self._statistics = alike, found
            decoder = fit_ridge(self._statistics[1], recipe.decoder_ridge)
        else:
            decoder = fit_decoder(embedded, H, fit, recipe, place)
        e = embedded.embedding
        return EmbeddingScorer(
            embedded.projection, decoder, e.V, e.sigma, bool(candidate.normalize), embedded.regressor, place=place
        )

    def measure(self, scorer: Scorer) -> Measures:
        """Measure a scorer by itself."""
        found = [scorer.top(scorer.prepare(X), max(KS))[0] for _, X in self.held.X.blocks(ROWS)]
        return self._measures(np.vstack(found))

    def measure_blends(self, scorers: list[Scorer], grid: list[Weights]) -> list[Measures]:
        """Measure the blends of several scorers with each of the weights."""
        found: dict[Weights, list[Labels]] = {weights: [] for weights in grid}
        for _, X in self.held.X.blocks(ROWS):
            rows = [scorer.prepare(X) for scorer in scorers]
            labels = union([s.top(own, CANDIDATES)[0] for s, own in zip(scorers, rows, strict=True)])
            given = labels >= 0
            likely = [
                np.where(given, s.likelihood(own, s.at(own, labels)), 0) for s, own in zip(scorers, rows, strict=True)
            ]
            for weights in grid:
                scores = sum(weight * one for weight, one in zip(weights, likely, strict=True))
                found[weights].append(rank(labels, np.where(given, scores, -np.inf))[0][:, : max(KS)])
        return [self._measures(_stacked(found[weights])) for weights in grid]

    def _measures(self, labels: Labels) -> Measures:
        found = hits(self.held.Y, labels)
        p1, p3, p5 = (precision(found, k) for k in KS)
        if self.held.multiclass:
            return Measures((p1, p3, p5), p1)
        gains = ndcg(found, np.diff(self.held.Y.indptr), max(KS))
        return Measures((p1, p3, p5), (p1 + float(gains.mean())) / 2)


def _embedding_key(candidate: Recipe) -> Any:
    """Candidates with the same key share an embedding."""
    s = candidate.embedding
    return candidate.ridge, candidate.normalize, s.label_power, s.row_power, s.label_ridge, s.projection_ridge


def mean(measures: list[Measures]) -> Measures:
    """Average over several splits."""
    p1, p3, p5 = np.mean([each.p for each in measures], axis=0).tolist()
    return Measures((p1, p3, p5), float(np.mean([each.quality for each in measures])))


def calibration_trial(data: Examples, recipe: Recipe, place: Place = CPU, report: Report = silent) -> Model | None:
    """Fit to most examples and calibrate on the rest; None where nothing is to be learned or examples are few."""
    if not (recipe.calibrate or isinstance(recipe.threshold, str)) or data.n < FEWEST:
        return None
    most = int(np.clip(ENTRIES // data.n_labels, 200, MOST_HELD))
    fit, held = (data.take(part) for part in draw_rows(data.n, HELD_OUT, recipe.seed + 2, most=most))
    if recipe.n_components != "auto":
        limit = largest_rank(fit.n, fit.X.shape[1] + 1, fit.n_labels)
        recipe = replace(recipe, n_components=min(recipe.n_components, limit))
    return fit_model(fit, replace(recipe, growable=False), place.in_memory(), report, held=held)


def _stacked(parts: list[Labels]) -> Labels:
    """Stack blocks of labels whose widths may differ, filled up with -1."""
    return np.vstack([np.pad(p, ((0, 0), (0, max(KS) - p.shape[1])), constant_values=-1) for p in parts])
