"""The sparse part's cost, its power and its share in the score, chosen on a held-out part of the training data."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.rows import as_rows
from rembrandt.data.splits import draw_rows
from rembrandt.fitting import DecoderName, Labelled, Recipe, fit_model, rank_limit
from rembrandt.linalg.blocks import spans
from rembrandt.metrics import ndcg_at_k, precision_at_k, top_k
from rembrandt.model.model import CANDIDATES, Model
from rembrandt.progress import Report, silent
from rembrandt.recipe import TreeSettings
from rembrandt.scorers.tree_fit import fit_trees
from rembrandt.scorers.trees import Trees
from rembrandt.selection import Auto

Array = NDArray[Any]

SAMPLE = 12_000  # rows looked at
FEWEST = 100  # with fewer, a held-out part says nothing and the usual cost and share stand
HELD_OUT = 1 / 6
ROWS = 512  # held-out rows scored at a time
RANK, FEATURES = 300, 1000  # of the low-rank part beside which the sparse one is judged, at most
COSTS = (0.3, 1.0, 3.0)
POWERS = (2.0, 3.0)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
USUAL_COST, RARE_COST = 0.3, 3.0  # what did best on held-out rows where labels have forty examples or more, and four
ALONE_RANK = 50  # of the embedding of labels where the sparse part answers alone: to look at, not to predict by


@dataclass(frozen=True)
class OpenBlend:
    """The choices of a sparse part: ``"auto"`` where one is open, its value where it is not."""

    cost: float | Auto = "auto"
    power: float | Auto = "auto"
    share: float | Auto = "auto"  # in the score; at 1 the sparse part answers alone

    def candidates(self) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
        """The costs, powers and shares to try."""
        return (
            COSTS if self.cost == "auto" else (self.cost,),
            POWERS if self.power == "auto" else (self.power,),
            SHARES if self.share == "auto" else (self.share,),
        )

    def usually(self, cost: float, power: float, share: float) -> "OpenBlend":
        """Nothing open: what is "auto" has these values."""
        return OpenBlend(
            cost if self.cost == "auto" else self.cost,
            power if self.power == "auto" else self.power,
            share if self.share == "auto" else self.share,
        )


ALL_OPEN = OpenBlend()


@dataclass(frozen=True)
class BlendTrial:
    """A sparse part and its share in the score, with the quality on held-out rows, from 0 to 1."""

    cost: float
    power: float
    blend: float
    quality: float


def choose_blend(
    data: Labelled,
    recipe: Recipe,
    settings: TreeSettings,
    report: Report = silent,
    choices: OpenBlend = ALL_OPEN,
) -> tuple[Recipe, list[BlendTrial]]:
    """``recipe`` with the sparse part that does best beside its low-rank part, and every trial."""
    n = data.Y.shape[0]
    if n < FEWEST:
        choices = choices.usually(usual_cost(data.Y.nnz / data.Y.shape[1]), settings.power, recipe.blend)
    costs, powers, shares = choices.candidates()
    if len(costs) == len(powers) == len(shares) == 1:
        return replace(recipe, tree=replace(settings, cost=costs[0], power=powers[0]), blend=shares[0]), []
    seed = recipe.embedding.seed
    _, chosen = draw_rows(n, 1.0, seed, most=SAMPLE)
    sample = data.rows(chosen)
    fit, held = (sample.rows(part) for part in draw_rows(len(chosen), HELD_OUT, seed + 1, most=SAMPLE))
    rank = min(RANK, recipe.embedding.n_components, rank_limit(fit))
    features = None if recipe.n_random_features is None else min(recipe.n_random_features, FEATURES)
    embedding = replace(recipe.embedding, n_components=rank, at_most=True)
    low_rank = None
    if shares != (1.0,):
        low_rank = fit_model(fit, replace(recipe, embedding=embedding, n_random_features=features, tree=None))
    short = replace(settings, n_trees=1, pairs=settings.pairs * len(chosen) / n)
    forests: dict[tuple[float, float], Trees] = {}
    for done, cost in enumerate(costs):
        report("choosing the sparse part", done, len(costs))
        forest = fit_trees(as_rows(fit.X), fit.Y, replace(short, cost=cost), seed, fit.weights, place=fit.place)
        forests |= {(cost, power): replace(forest, power=power) for power in powers}
    trials = _trials(low_rank, forests, shares, held)
    report("choosing the sparse part", len(costs), len(costs))
    best = max(trials, key=lambda trial: trial.quality)
    if best.blend == 1 and recipe.auto_rank:  # nobody asked for a rank, and nothing would be decoded from it
        recipe = sparse_alone(recipe)
    return replace(recipe, tree=replace(settings, cost=best.cost, power=best.power), blend=best.blend), trials


def usual_cost(per_label: float) -> float:
    """The cost of a sparse part where none is chosen on held-out rows, by the mean number of examples of a label."""
    return float(np.clip(12 / max(per_label, 1e-9), USUAL_COST, RARE_COST))


def sparse_alone(recipe: Recipe) -> Recipe:
    """``recipe`` with a small embedding and the cheapest decoder: the sparse part answers in their place."""
    rank = min(recipe.embedding.n_components, ALONE_RANK) if recipe.auto_rank else recipe.embedding.n_components
    embedding = replace(recipe.embedding, n_components=rank)
    decoder: DecoderName = "ridge" if embedding.method == "pca" else "transpose"
    return replace(recipe, embedding=embedding, decoder=decoder, kernel=None, leave_out=0.0)


def _trials(
    model: Model | None, forests: dict[tuple[float, float], Trees], shares: tuple[float, ...], held: Labelled
) -> list[BlendTrial]:
    """The quality of each sparse part at each share, beside the low-rank ``model``; low rank is computed once.

    Where the sparse part answers alone there is no ``model``.
    """
    keys = [(*key, share) for key in forests for share in shares]
    found: dict[tuple[float, float, float], list[Array]] = {key: [] for key in keys}
    for rows in spans(held.X.shape[0], ROWS):
        X = held.X[rows]
        low_rank = np.zeros((X.shape[0], held.Y.shape[1]), np.float32) if model is None else model.low_rank(X)
        for key, forest in forests.items():
            labels, values = forest.top(forest.prepare(X), CANDIDATES)
            at = np.nonzero(labels >= 0)
            for share in shares:
                scores = np.float32(1 - share) * low_rank
                scores[at[0], labels[at]] += np.float32(share) * values[at]
                found[*key, share].append(top_k(scores, 5)[0])
    return [BlendTrial(*key, _quality(held, np.vstack(found[key]))) for key in keys]


def _quality(held: Labelled, found: Array) -> float:
    """How often the first answer is right; with several labels a row, as much again how well five are ranked."""
    first = precision_at_k(held.Y, found, 1)
    return first if held.multiclass else (first + ndcg_at_k(held.Y, found, 5)) / 2
