"""From examples and a resolved recipe to a model: fit each scorer, then the blend."""

from dataclasses import replace
from typing import Any

import numpy as np

from rembrandt import memory
from rembrandt.data.examples import Examples
from rembrandt.embeddings import largest_rank
from rembrandt.engines.place import CPU, Place
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.ranking import top_k
from rembrandt.metrics.hits import hits
from rembrandt.model.model import Model
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe
from rembrandt.scorers.blend import Blend
from rembrandt.scorers.calibration import Pairs, best_threshold, cross_fitted, fit_monotone, label_thresholds
from rembrandt.scorers.centroids import fit_centroids
from rembrandt.scorers.embedding_fit import fit_embedding_scorer, n_random_features
from rembrandt.scorers.protocol import Scorer
from rembrandt.scorers.tree_fit import fit_trees
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints

TOP, DRAWN = 50, 50  # labels of each held-out row that calibration uses: the best, and others at random
SHOWN = 5  # best labels of each row by which calibration is judged
SCORES = 1 << 24  # scores of held-out rows at a time


def fit_model(
    data: Examples,
    recipe: Recipe,
    place: Place = CPU,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    held: Examples | None = None,
) -> Model:
    """Fit the model that ``recipe`` describes; nothing in it may be "auto".

    With held-out examples the blend is calibrated on them and the threshold is chosen, as the recipe says.
    """
    facts: dict[str, Any] = recipe.to_json() | {"memory_estimate": check_memory(data, recipe, place)}
    scorers: dict[str, Scorer] = {}
    for name in recipe.scorers:
        if name == "trees":
            scorers[name] = fit_trees(
                data.X, data.Y, recipe.trees, recipe.seed, data.weights, report, checkpoints, place
            )
        elif name == "centroids":
            scorers[name] = fit_centroids(data.X, data.Y, data.weights, report)
        else:
            scorers[name], found = fit_embedding_scorer(data, recipe, place, report, checkpoints)
            facts |= found
    model = Model(
        classes=data.classes,
        multiclass=data.multiclass,
        scorers=scorers,
        blend=Blend(dict(zip(recipe.scorers, recipe.weights, strict=True))),
        label_counts=np.bincount(data.Y.indices, minlength=data.n_labels),
        n_train=data.n,
        threshold=0.5 if isinstance(recipe.threshold, str) else recipe.threshold,
        settings=facts,
    )
    return model if held is None else calibrated(model, recipe, held, report)


def calibrated(model: Model, recipe: Recipe, held: Examples, report: Report = silent) -> Model:
    """Learn the map from scores to probabilities and the threshold on held-out examples, as the recipe says."""
    pairs = held_out_pairs(model, held, recipe.seed, report)
    facts: dict[str, Any] = {"n_examples": held.n}
    likely = model.blend.probability(pairs.scores)
    if recipe.calibrate:
        facts["error_before"] = pairs.calibration_error(likely)
        facts["error_after"] = pairs.calibration_error(cross_fitted(pairs))
        model = replace(model, blend=replace(model.blend, calibration=fit_monotone(pairs)))
        likely = model.blend.probability(pairs.scores)
    if recipe.threshold == "micro":
        model = replace(model, threshold=best_threshold(pairs, likely))
    elif recipe.threshold == "macro":
        model = replace(model, threshold=label_thresholds(pairs, likely))
    return replace(model, settings=model.settings | {"calibration": facts})


def held_out_pairs(model: Model, held: Examples, seed: int, report: Report = silent) -> Pairs:
    """Score the best labels of each held-out row, and a random sample of the others with weights for the rest."""
    rng = np.random.default_rng(seed)
    n, c = held.Y.shape
    top = c if c <= TOP + DRAWN else TOP
    drawn = 0 if top == c else DRAWN
    parts = []
    for block in spans(n, max(1, SCORES // c)):
        report("calibrating", block.start, n)
        scores = model.blended(held.X[block])
        best, _ = top_k(scores, top)
        others = np.sort(rng.integers(0, c, (len(best), drawn)), axis=1)
        repeated = np.zeros(others.shape, dtype=bool)
        repeated[:, 1:] = others[:, 1:] == others[:, :-1]
        others[repeated | (others[:, :, None] == best[:, None, :]).any(axis=2)] = -1
        share = (c - top) / np.maximum(1, (others >= 0).sum(axis=1, keepdims=True))
        labels = np.hstack([best, others])
        weights = np.hstack([np.ones(best.shape), np.broadcast_to(share, others.shape)])
        right = np.hstack([hits(held.Y[block], best), hits(held.Y[block], others)])
        shown = np.broadcast_to(np.arange(labels.shape[1]) < SHOWN, labels.shape)
        rows = np.broadcast_to(np.arange(block.start, block.stop)[:, None], labels.shape)
        values = np.take_along_axis(scores, np.maximum(labels, 0), axis=1)
        parts.append([each[labels >= 0] for each in (rows, labels, values, right, weights, shown)])
    report("calibrating", n, n)
    rows, labels, values, right, weights, shown = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Pairs(rows, labels, values, right, weights, shown, np.bincount(held.Y.indices, minlength=c))


def check_memory(data: Examples, recipe: Recipe, place: Place = CPU) -> int:
    """Estimate the memory of a fit in bytes; refuse one that would not fit before it begins."""
    n, d = data.X.shape
    rows, entries = data.X.resident()
    trees, embedding = "trees" in recipe.scorers, "embedding" in recipe.scorers
    k = 0
    if embedding:
        k = largest_rank(n, d + 1, data.n_labels) if recipe.n_components == "auto" else recipe.n_components
    return place.check_memory(
        memory.Shape(
            n=rows,
            d=d + 1,
            c=data.n_labels,
            nonzeros=int(entries + data.Y.nnz + (data.X.nnz if trees and rows < n else 0)),
            k=k,
            width=k + recipe.embedding.n_oversamples if embedding else 0,
            mapped=k if recipe.kernel is None or not embedding else k + n_random_features(recipe, n, k),
            decoder=recipe.decoder if embedding else "transpose",
            itemsize=data.X.dtype.itemsize,
            together=data.X.label_feature_pairs(data.Y) if trees else 0,
        ),
        independent=not data.multiclass,
    )
