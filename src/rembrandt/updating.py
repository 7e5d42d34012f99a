"""More examples and labels for a fitted model, in closed form.

A ridge decoder is a function of sums over the examples, which a growable model keeps. New examples change every column
to that of a ridge regression on all examples, in the embedding and the kernel map of the fit. How labels were scaled
for the embedding is part of its projection, and does not change either.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from rembrandt.data.rows import Rows
from rembrandt.decoders.moments import learn_rows
from rembrandt.engines.rows_on_disk import RowsOnDisk
from rembrandt.errors import SettingsError
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.metrics.percent import percent
from rembrandt.model.model import Model
from rembrandt.progress import Report, silent
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.protocol import Array

OUTSIDE = 0.1  # fraction of the weight of new labels that the embedding may miss, beyond that of the labels of the fit
ADDED = 1.0  # examples added since the fit, relative to those of the fit, from which a refit is due
ROWS = 8192  # rows projected at a time


def update_model(
    model: Model,
    X: Rows,
    Y: sparse.csr_array,
    classes: Array,
    weights: Array | None = None,
    report: Report = silent,
) -> Model:
    """Return ``model`` after more examples.

    The columns of ``Y`` are the labels of the model followed by the new ones, ``classes``. Examples that the model was
    fitted to are taken to have none of the new labels.
    """
    scorer = updatable_scorer(model)
    assert scorer.moments is not None
    strength = model.settings["decoder_ridge"]
    found = learn_rows(scorer.decoder, _projected(scorer, X), Y, scorer.moments, strength, weights, report)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    entry = {"n_labels": len(classes), "n_examples": X.shape[0], "outside": outside(model, counts)}
    changed = replace(
        scorer,
        decoder=found.decoder,
        vectors=np.concatenate([scorer.vectors, found.embedding.astype(scorer.vectors.dtype)]),
        moments=found.moments,
        index=None,
    )
    threshold = model.threshold
    if not isinstance(threshold, float):
        threshold = np.append(threshold, np.full(len(classes), np.median(threshold)))
    return replace(
        model,
        classes=np.concatenate([model.classes, classes]) if len(classes) else model.classes,
        scorers=model.scorers | {"embedding": changed},
        titles=None if model.titles is None else [*model.titles, *[""] * len(classes)],
        threshold=threshold,
        label_counts=np.append(model.label_counts, np.zeros(len(classes), model.label_counts.dtype)) + counts,
        n_train=model.n_train + X.shape[0],
        settings=model.settings | {"updates": [*model.settings.get("updates", []), entry]},
    )


def updatable_scorer(model: Model) -> EmbeddingScorer:
    """Return the scorer that takes more examples; refuse a model without one and say what to do."""
    fixed = [name for name in model.scorers if name != "embedding"]
    if fixed or model.embedding is None:
        raise SettingsError(
            f"this model has {' and '.join(fixed)}, which cannot be updated without the training examples; fit again "
            "with all examples, or fit with growable=True for a model that can be updated",
            "growable",
        )
    if model.embedding.moments is None:
        raise SettingsError("this model did not keep what an update needs; fit it with growable=True", "growable")
    return model.embedding


def outside(model: Model, counts: Array) -> float:
    """Return how much less of labels with these counts the embedding holds than of those it was fitted to, 0 to 1.

    The embedding holds the squared length of a label's row of ``V``, and nothing of labels that were added later.
    """
    assert model.embedding is not None
    fitted = model.n_labels - sum(entry["n_labels"] for entry in model.settings.get("updates", []))
    held = np.square(model.embedding.vectors[:fitted], dtype=np.float64).sum(axis=1)
    before = held @ model.label_counts[:fitted] / max(1, model.label_counts[:fitted].sum())
    after = held @ counts[:fitted] / max(1, counts.sum())
    return float(max(0.0, 1 - after / before)) if before > 0 and counts.sum() else 0.0


def refit_due(model: Model) -> str | None:
    """Return why the model should be fitted again, once updates have left the embedding behind."""
    updates = model.settings.get("updates", [])
    rows = sum(entry["n_examples"] for entry in updates)
    missed = sum(entry["n_examples"] * entry["outside"] for entry in updates) / max(1, rows)
    if missed > OUTSIDE:
        return (
            f"{percent(missed, 0)} of the weight of the labels in the updates lies outside the embedding, which was "
            "fitted before them; fit again with all examples to give them directions of their own"
        )
    if rows > ADDED * (model.n_train - rows):
        return (
            f"{rows:,} of the {model.n_train:,} examples were added by updates after the embedding was fitted; fit "
            "again with all of them"
        )
    return None


def _projected(scorer: EmbeddingScorer, X: Rows) -> Block:
    """Return rows in the embedding; rows on disk go to a file, as they may be many."""
    n, k = X.shape[0], scorer.vectors.shape[1]
    blocks = (as_numpy(scorer.project(rows)) for _, rows in X.blocks(ROWS))
    return np.vstack(list(blocks)) if X.resident()[0] == n else RowsOnDisk(n, k, blocks)
