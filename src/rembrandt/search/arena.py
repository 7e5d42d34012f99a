"""Candidates fitted to the rows of one rung and asked about its held-out rows; what they share is made once."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.rows import as_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.ridge import fit_ridge
from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.fitting import (
    Embedded,
    Labelled,
    Recipe,
    check_memory,
    fit_decoder,
    fit_used_features,
    fourier_map,
    left_out,
    n_random_features,
    rank_limit,
    ridge_statistics,
)
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.linalg.sparse import normalize_rows
from rembrandt.metrics import top_k
from rembrandt.metrics.hits import hits
from rembrandt.metrics.ranking import ndcg, precision
from rembrandt.model.model import CANDIDATES
from rembrandt.recipe import TreeSettings
from rembrandt.scorers.tree_fit import fit_trees
from rembrandt.search.space import LowRank, Space, Sparse
from rembrandt.selection import EPOCHS, FEATURES

Array = NDArray[Any]
Key = tuple[float, int, float]  # a sparse part's cost, trees and power
KS = (1, 3, 5)
ROWS = 512  # held-out rows scored at a time


@dataclass(frozen=True)
class Measures:
    """P@1, P@3 and P@5 on held-out rows, and the one number that candidates are compared by, all from 0 to 1."""

    p: tuple[float, float, float]
    quality: float


@dataclass(frozen=True)
class Listed:
    """The best labels of held-out rows by one part, best first, -1 where there are fewer."""

    labels: NDArray[np.int64]
    values: Array


@dataclass(frozen=True)
class Answers:
    """A low-rank part's best labels, and its scores of those that each sparse part brings."""

    own: Listed
    first: NDArray[np.int64]  # its answer when it is alone
    of: dict[Key, Array]
    rank: int


class Arena:
    """One cut of the rows of a rung."""

    def __init__(self, fit: Labelled, held: Labelled, base: Recipe, space: Space, n: int) -> None:
        """``n`` is the number of all training rows, for what a fit to them would do."""
        self.fit, self.held, self.base, self.space, self.n = fit, held, base, space, n
        self.sparse: dict[Key, Listed] = {}
        # By ridge and scaling: the rank that was asked for, the embedding, and the rows as it takes them.
        self._embedded: dict[tuple[float, bool], tuple[int, Embedded, Labelled, Labelled]] = {}
        self._statistics: tuple[Any, RidgeStatistics] | None = None

    def is_prepared(self, part: LowRank) -> bool:
        """Whether an embedding for ``part`` is there, of its rank or a larger one: ranks are nested."""
        return _key(part) in self._embedded and self._embedded[_key(part)][0] >= part.n_components

    def prepare(self, part: LowRank) -> None:
        """Embed for ``part``, and for all of its rank or a smaller one that are embedded like it."""
        fit, held = (
            replace(rows, X=normalize_rows(rows.X)) if part.normalize else rows for rows in (self.fit, self.held)
        )
        recipe = replace(part, n_components=min(part.n_components, rank_limit(fit))).recipe(self.base)
        check_memory(fit, replace(recipe, decoder="transpose", kernel=None))
        self._embedded[_key(part)] = part.n_components, fit_used_features(fit, recipe), fit, held
        self._statistics = None  # they may be of the embedding that this one replaces

    def try_sparse(self, part: Sparse) -> None:
        """Fit the trees of ``part``; their answers are kept for every number of trees and every power."""
        most = max(self.space.trees)
        pairs = self.space.pairs * self.fit.X.shape[0] / self.n
        settings = TreeSettings(cost=part.sparse_cost, pairs=pairs, n_trees=most)
        seed = self.base.embedding.seed
        forest = fit_trees(as_rows(self.fit.X), self.fit.Y, settings, seed, self.fit.weights, place=self.fit.place)
        for trees in sorted({min(trees, len(forest.trees)) for trees in self.space.trees}):
            for power in self.space.powers:
                few = replace(forest, trees=forest.trees[:trees], power=power)
                self.sparse[part.sparse_cost, trees, power] = Listed(*few.top(few.prepare(self.held.X), CANDIDATES))

    def try_low_rank(self, part: LowRank) -> Answers:
        """Fit the decoder of ``part`` in its embedding; `prepare` has made that."""
        _, embedded, fit, held = self._embedded[_key(part)]
        embedded = _truncated(embedded, part.n_components)
        recipe = part.recipe(self.base)
        features = min(n_random_features(recipe, self.n, part.n_components), FEATURES)
        recipe = replace(recipe, n_random_features=features, max_epochs=min(recipe.max_epochs, EPOCHS))
        check_memory(fit, recipe)
        decoder = self._decoder(part, embedded, fit, recipe)
        return self._answers(decoder, embedded.project(held.X))

    def _decoder(self, part: LowRank, embedded: Embedded, fit: Labelled, recipe: Recipe) -> Decoder:
        if part.decoder != "ridge":
            return fit_decoder(embedded.embedding, embedded.project(fit.X), fit, recipe)
        alike = replace(part, decoder_ridge=0.0)  # penalties share everything else
        if self._statistics is None or self._statistics[0] != alike:
            with fit.place.session():
                H = left_out(embedded.embedding, embedded.project(fit.X), fit, part.leave_out)
                self._statistics = alike, ridge_statistics(H, fit, fourier_map(H, recipe))
        return fit_ridge(self._statistics[1], part.decoder_ridge)

    def _answers(self, decoder: Decoder, H: Block) -> Answers:
        labels, values = [], []
        of: dict[Key, list[Array]] = {key: [] for key in self.sparse}
        most = min(max(KS) + (CANDIDATES if self.sparse else 0), self.held.Y.shape[1])
        for rows in spans(H.shape[0], ROWS):
            scores = decoder.scores(H[rows])
            block = as_numpy(scores if decoder.link == "identity" else decoder.probabilities(scores))
            found, best = top_k(block, most)
            labels.append(found)
            values.append(best)
            for key, listed in self.sparse.items():
                of[key].append(np.take_along_axis(block, np.maximum(listed.labels[rows], 0), axis=1))
        own = Listed(np.vstack(labels), np.vstack(values))
        first = own.labels[:, : max(KS)]
        return Answers(own, first, {key: np.vstack(parts) for key, parts in of.items()}, int(H.shape[1]))

    def measure(self, answers: Answers | None, key: Key | None, share: float) -> Measures:
        """How good a low-rank part is with a sparse one at ``share`` in the score; either alone at 0 or 1."""
        if answers is not None and (key is None or share == 0):
            return self._measures(answers.first)
        assert key is not None
        sparse = self.sparse[key]
        if answers is None or share == 1:
            return self._measures(sparse.labels[:, : max(KS)])
        mixed = (1 - share) * answers.of[key] + share * sparse.values
        mixed = np.where(sparse.labels < 0, -np.inf, mixed)
        # Labels that the sparse part does not bring keep low rank's share; five of those are in its longer list.
        rows, c = np.arange(len(mixed), dtype=np.int64)[:, None], self.held.Y.shape[1] + 1  # one more: -1 is no label
        brought = np.isin(rows * c + answers.own.labels, rows * c + sparse.labels)
        rest = np.where(brought | (answers.own.labels < 0), -np.inf, (1 - share) * answers.own.values)
        places, _ = top_k(np.hstack([mixed, rest]).astype(np.float32), max(KS))
        labels = np.hstack([sparse.labels, answers.own.labels])
        return self._measures(np.where(places < 0, -1, np.take_along_axis(labels, np.maximum(places, 0), axis=1)))

    def _measures(self, labels: NDArray[np.int64]) -> Measures:
        found = hits(self.held.Y, labels)
        first, second, third = (precision(found, k) for k in KS)
        if self.held.multiclass:
            return Measures((first, second, third), first)
        gains = ndcg(found, np.diff(self.held.Y.indptr), max(KS))
        return Measures((first, second, third), (first + float(gains.mean())) / 2)


def mean(measures: list[Measures]) -> Measures:
    """The mean over several cuts."""
    first, second, third = np.mean([each.p for each in measures], axis=0).tolist()
    return Measures((first, second, third), float(np.mean([each.quality for each in measures])))


def _key(part: LowRank) -> tuple[float, bool]:
    return part.ridge, part.normalize


def _truncated(embedded: Embedded, rank: int) -> Embedded:
    return replace(embedded, embedding=embedded.embedding.truncated(rank), projection=embedded.projection[:, :rank])
