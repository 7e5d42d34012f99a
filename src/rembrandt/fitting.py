"""From examples and a resolved recipe to a model: fit each scorer, and join them by a blend."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rembrandt import memory
from rembrandt.data.examples import Examples
from rembrandt.data.rows import label_feature_pairs
from rembrandt.embeddings import largest_rank
from rembrandt.engines.hinge import ENTRIES
from rembrandt.engines.place import CPU, Place
from rembrandt.model.model import Model
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe
from rembrandt.scorers.blend import Blend
from rembrandt.scorers.centroids import Centroids, fit_centroids
from rembrandt.scorers.embedding_fit import (
    NO_OTHERS,
    PROPOSED,
    fit_embedding_scorer,
    n_random_features,
)
from rembrandt.scorers.protocol import Array, Scorer
from rembrandt.scorers.thresholds import summary
from rembrandt.scorers.tree_fit import fit_trees
from rembrandt.scorers.trees import Trees
from rembrandt.settings import SCORERS, ScorerName
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints


def fit_model(
    data: Examples,
    recipe: Recipe,
    blend: Blend | None = None,
    threshold: float | Array = 0.5,
    place: Place = CPU,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    first_trees: Trees | None = None,
) -> Model:
    """Fit the model that ``recipe`` describes; nothing in it may be "auto". Without a blend it has
    fixed weights.

    ``first_trees`` were fitted to nearly all examples already; the others are fitted now.
    """
    facts: dict[str, Any] = recipe.to_json() | {
        "memory_estimate": check_memory(data, recipe, place)
    }
    facts["predict_threshold"] = None if data.multiclass else summary(threshold)
    scorers: dict[str, Scorer] = {}
    for name in recipe.scorers:
        scorers[name], found = fit_scorer(
            name, data, recipe, place, report, checkpoints, first_trees, scorers
        )
        facts |= found
    return Model(
        classes=data.classes,
        multiclass=data.multiclass,
        scorers=scorers,
        blend=blend or Blend.fixed(scorers, competing=data.multiclass),
        label_counts=np.bincount(data.Y.indices, minlength=data.n_labels),
        n_train=data.n,
        threshold=threshold,
        settings=facts,
    )


def fit_scorer(
    name: ScorerName,
    data: Examples,
    recipe: Recipe,
    place: Place = CPU,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    first_trees: Trees | None = None,
    others: Mapping[str, Scorer] = NO_OTHERS,
) -> tuple[Scorer, dict[str, Any]]:
    """Fit one scorer of a recipe; also return facts about it. A decoder may learn from what
    ``others`` propose.
    """
    if name == "trees":
        work = report, checkpoints, place, first_trees
        return fit_trees(data.X, data.Y, recipe.trees, recipe.seed, data.weights, *work), {}
    if name == "centroids":
        centroids = checkpoints.stage(
            "centroids",
            lambda: fit_centroids(data.X, data.Y, data.weights, report),
            Centroids.arrays,
            Centroids.from_arrays,
        )
        return centroids, {}
    return fit_embedding_scorer(data, recipe, place, report, checkpoints, others)


def check_memory(data: Examples, recipe: Recipe, place: Place = CPU) -> int:
    """Estimate the memory of a fit in bytes; refuse one that would not fit before it begins."""
    n, d = data.X.shape
    rows, entries = data.X.resident()
    trees, embedding = "trees" in recipe.scorers, "embedding" in recipe.scorers
    k = 0
    if embedding:
        k = (
            largest_rank(n, d + 1, data.n_labels)
            if recipe.n_components == "auto"
            else recipe.n_components
        )
    return place.check_memory(
        memory.Shape(
            n=rows,
            d=d + 1,
            c=data.n_labels,
            nonzeros=int(
                entries + data.Y.nnz + trees * (2 if rows < n else 1) * min(data.X.nnz, ENTRIES)
            ),
            k=k,
            width=k + recipe.embedding.n_oversamples if embedding else 0,
            mapped=k if recipe.kernel is None or not embedding else k + n_random_features(recipe),
            decoder="ridge"
            if recipe.decoder == "discriminant"
            else recipe.decoder
            if embedding
            else "transpose",
            itemsize=data.X.dtype.itemsize,
            together=label_feature_pairs(data.X, data.Y) if trees else 0,
            lists=4 * n * PROPOSED * (len(SCORERS) - 1)
            if embedding and recipe.decoder == "candidates"
            else 0,
            n_trees=1 if recipe.trees.n_trees == "auto" else recipe.trees.n_trees,
        ),
        independent=not data.multiclass,
    )
