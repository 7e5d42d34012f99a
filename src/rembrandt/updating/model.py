"""More examples and labels for a fitted model: each scorer takes what it can, and what is left is
said.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.data.rows import Rows
from rembrandt.errors import SettingsError
from rembrandt.linalg.sparse import unit_rows
from rembrandt.metrics.percent import percent
from rembrandt.model.model import Model
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe
from rembrandt.scorers.centroids import Centroids, add_rows
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.protocol import Array, Scorer
from rembrandt.scorers.trees import Trees
from rembrandt.updating.embedding import update_embedding
from rembrandt.updating.trees import Batch, pseudo_examples, update_trees, with_closed_labels

# Fraction of the weight of new labels that the embedding may miss, beyond that of the labels of the
# fit
OUTSIDE = 0.1
ADDED = 1.0  # examples added since the fit, relative to those of the fit, from which a refit is due


def update_model(
    model: Model,
    X: Rows,
    Y: sparse.csr_array,
    classes: Array,
    weights: Array | None = None,
    report: Report = silent,
    history: Examples | None = None,
) -> Model:
    """Return ``model`` after more examples.

    The columns of ``Y`` are the labels of the model followed by the new ones, ``classes``.
    ``history`` are the examples that the model was fitted to, with the same columns; without them
    these are taken to have none of the new labels.
    """
    if history is None and model.scorers.keys() == {"trees"}:
        raise SettingsError(
            "this model has trees alone, which learn from old and new examples together; give the "
            "old ones as history, "
            "or fit again with all examples",
            "history",
        )
    recipe = Recipe.from_json(model.settings | {"regressor": None})
    names = np.concatenate([model.classes, classes]) if len(classes) else model.classes
    new = Examples(X, Y, names, model.multiclass, weights)
    counts, scorers, left = (
        np.bincount(Y.indices, minlength=Y.shape[1]),
        dict[str, Scorer](),
        list[str](),
    )
    for name, scorer in model.scorers.items():
        if isinstance(scorer, Trees):
            scorers[name], said = _trees(model, scorer, new, history, recipe, report)
        elif isinstance(scorer, Centroids):
            scorers[name], said = add_rows(scorer, model.label_counts, X, Y, weights), []
        else:
            assert isinstance(scorer, EmbeddingScorer)
            scorers[name], said = update_embedding(
                scorer, new, history, recipe, model.n_train, report
            )
        left += said
    entry = {
        "n_labels": len(classes),
        "n_examples": X.shape[0],
        "outside": outside(model, counts),
        "left": left,
    }
    threshold = model.threshold
    if not isinstance(threshold, float):
        threshold = np.append(threshold, np.full(len(classes), np.median(threshold)))
    return replace(
        model,
        classes=names,
        scorers=scorers,
        titles=model.titles and [*model.titles, *[""] * len(classes)],
        descriptions=model.descriptions and [*model.descriptions, *[""] * len(classes)],
        threshold=threshold,
        label_counts=np.append(model.label_counts, np.zeros(len(classes), model.label_counts.dtype))
        + counts,
        n_train=model.n_train + X.shape[0],
        settings=model.settings | {"updates": [*model.settings.get("updates", []), entry]},
    )


def _trees(
    model: Model,
    trees: Trees,
    new: Examples,
    history: Examples | None,
    recipe: Recipe,
    report: Report,
) -> tuple[Trees, list[str]]:
    """Refit the nodes that get new examples; without the old ones, add the new labels alone."""
    Y, known = new.Y, trees.n_labels
    fresh = np.append(
        model.label_counts == 0, np.ones(Y.shape[1] - known, dtype=np.bool_)
    )  # without examples so far
    if history is not None:
        fresh[Y.indices] = True
        batch = Batch.of(_unit(history), _unit(new), recipe.trees)
        return update_trees(trees, batch, fresh, False, recipe.seed, report), []
    left = ["the trees score the known labels as before: they need the old examples (history)"]
    centroids = model.scorers.get("centroids")
    if not fresh.any():
        return trees, left
    if not isinstance(centroids, Centroids):
        return with_closed_labels(trees, Y.shape[1] - known), [
            *left,
            "the trees do not know the new labels",
        ]
    # Rows are between the mean directions of labels, which have all common features, and an empty
    # row.
    own = np.append(model.label_counts / max(1, model.label_counts.sum()), 1.0) * min(
        model.n_train, max(new.n, known)
    )
    empty = sparse.csr_array((known + 1, Y.shape[1]), dtype=Y.dtype)
    batch = Batch.of((pseudo_examples(centroids.centroids), empty, own), _unit(new), recipe.trees)
    return update_trees(trees, batch, fresh, True, recipe.seed, report), left


def _unit(examples: Examples) -> tuple[sparse.csr_array, sparse.csr_array, Array]:
    """Rows of unit length, labels and weights."""
    weights = np.ones(examples.n) if examples.weights is None else examples.weights
    return unit_rows(examples.X[:]), examples.Y, weights


def outside(model: Model, counts: Array) -> float:
    """Return how much less of labels with these counts the embedding holds than of those it was
    fitted to, 0 to 1.

    The embedding holds the squared length of a label's row of ``V``, and nothing of labels that
    were added later.
    """
    if model.embedding is None:
        return 0.0
    fitted = model.n_labels - sum(entry["n_labels"] for entry in model.settings.get("updates", []))
    held = np.square(model.embedding.vectors[:fitted], dtype=np.float64).sum(axis=1)
    before = held @ model.label_counts[:fitted] / max(1, model.label_counts[:fitted].sum())
    after = held @ counts[:fitted] / max(1, counts.sum())
    return float(max(0.0, 1 - after / before)) if before > 0 and counts.sum() else 0.0


def refit_due(model: Model) -> str | None:
    """Return why the model should be fitted again, once updates have left the fit behind."""
    updates = model.settings.get("updates", [])
    rows = sum(entry["n_examples"] for entry in updates)
    missed = sum(entry["n_examples"] * entry["outside"] for entry in updates) / max(1, rows)
    if missed > OUTSIDE:
        return (
            f"{percent(missed, 0)} of the weight of the labels in the updates lies outside the "
            "embedding, which was "
            "fitted before them; fit again with all examples to give them directions of their own"
        )
    if rows > ADDED * (model.n_train - rows):
        return (
            f"{rows:,} of the {model.n_train:,} examples were added by updates after the model was "
            "fitted; fit again "
            "with all of them"
        )
    return None
