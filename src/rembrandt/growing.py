"""More examples for a fitted model, with known and new labels.

Every column changes to that of a ridge regression on all examples, those of the fit and these, in the embedding
that the model has.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.stored import StoredRows
from rembrandt.decoders.moments import learn_rows
from rembrandt.engines.rows_on_disk import RowsOnDisk
from rembrandt.errors import SettingsError
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.linalg.sparse import Matrix
from rembrandt.model.model import Model
from rembrandt.progress import Report, silent

Array = NDArray[Any]
OUTSIDE = 0.1  # of the new labels' weight that an embedding may miss, more than of those it was fitted to
ROWS = 8192  # of a store, projected at a time
OLDER = 1.0  # examples since the embedding was fitted, for each that it was fitted to


def updated(
    model: Model,
    X: Matrix,
    Y: sparse.csr_array,
    classes: Array,
    weights: Array | None = None,
    report: Report = silent,
) -> Model:
    """``model`` after the rows ``X`` too; the columns of ``Y`` are its labels and then the new ones, ``classes``.

    The rows that the model has learnt from are taken to have none of the new labels. The embedding and the kernel map
    stay as they were fitted.
    """
    check_updatable(model)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    log = {"n_labels": len(classes), "n_examples": X.shape[0], "outside": outside(model, counts)}
    changed = _in_the_same_embedding(model, X, Y, weights, report)
    return replace(
        changed,
        classes=np.concatenate([model.classes, classes]) if len(classes) else model.classes,
        threshold=_with_usual(model.threshold, len(classes)),
        label_counts=np.append(model.label_counts, np.zeros(len(classes), model.label_counts.dtype)) + counts,
        n_train=model.n_train + X.shape[0],
        shortlist=None,  # of the decoder that there was
        settings=changed.settings | {"updated": [*model.settings.get("updated", []), log]},
    )


def _in_the_same_embedding(
    model: Model, X: Matrix, Y: sparse.csr_array, weights: Array | None, report: Report
) -> Model:
    assert model.moments is not None
    strength = model.settings["decoder_ridge"]
    found = learn_rows(model.decoder, _projected(model, X), Y, model.moments, strength, weights, report)
    return replace(
        model,
        decoder=found.decoder,
        embedding=np.concatenate([model.embedding, found.embedding.astype(model.embedding.dtype)]),
        moments=found.moments,
    )


def outside(model: Model, counts: Array) -> float:
    """How much less of labels with these ``counts`` the embedding holds than of those it was fitted to, from 0 to 1.

    It holds the squared length of a label's row in ``V``, and nothing of a label that came later.
    """
    fitted = _labels_of_fit(model)
    held = np.square(model.embedding[:fitted], dtype=np.float64).sum(axis=1)
    then = held @ model.label_counts[:fitted] / max(1, model.label_counts[:fitted].sum())
    now = held @ counts[:fitted] / max(1, counts.sum())
    return float(max(0.0, 1 - now / then)) if then > 0 and counts.sum() else 0.0


def refit_due(model: Model) -> str | None:
    """Why it is time to fit anew, as a sentence, once updates have gone where the embedding has not."""
    log = _since_embedding(model)
    rows = sum(each["n_examples"] for each in log)
    missed = sum(each["n_examples"] * each["outside"] for each in log) / max(1, rows)
    if missed > OUTSIDE:
        return (
            f"{missed:.0%} of the weight of the labels that came by updates lies outside the embedding, which was "
            "fitted before them: fit anew with all examples to give them directions of their own"
        )
    if rows > OLDER * (model.n_train - rows):
        return (
            f"{rows:,} of the {model.n_train:,} examples came by updates, after the embedding was fitted: fit anew "
            "with all of them"
        )
    return None


def _projected(model: Model, X: Matrix) -> Block:
    """Rows in the embedding; those of a store in a file, as they may be many."""
    if isinstance(X, StoredRows):
        if model.lift is not None:
            raise SettingsError("a model with a regressor takes examples in memory, not those of a store")
        n, k = X.shape[0], model.embedding.shape[1]
        return RowsOnDisk.streamed(n, k, (as_numpy(model.project(X[rows])) for rows in spans(n, ROWS)))
    return as_numpy(model.project(X))


def _since_embedding(model: Model) -> list[dict[str, Any]]:
    return list(model.settings.get("updated", []))


def _labels_of_fit(model: Model) -> int:
    return model.n_labels - sum(int(each["n_labels"]) for each in _since_embedding(model))


def check_updatable(model: Model) -> None:
    """Refuse what cannot take new examples, and say what could."""
    check_growable(model)
    if model.settings["decoder"] != "ridge":
        raise SettingsError(
            f"this model's decoder is {model.settings['decoder']!r}, which new examples cannot be added to; fit one "
            "with decoder='ridge' and growable=True, or fit anew with all examples"
        )


def check_growable(model: Model) -> None:
    """Refuse what cannot take new labels, and say what could."""
    if model.forest is not None:
        raise SettingsError(
            "this model has a sparse part, whose trees have no place for new labels; fit one with sparse=False and "
            "growable=True, or fit anew with all labels"
        )
    if model.moments is None:
        raise SettingsError("this model did not keep what more examples and labels need; fit it with growable=True")


def _with_usual(threshold: float | NDArray[Any], n: int) -> float | NDArray[Any]:
    """Thresholds of each label, with the middle one for ``n`` more."""
    if isinstance(threshold, float):
        return threshold
    return np.append(threshold, np.full(n, np.median(threshold)))
