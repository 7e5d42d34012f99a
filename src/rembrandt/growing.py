"""New labels for a fitted model: a column each in the frozen embedding, and nothing else changed."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.moments import learn_columns
from rembrandt.errors import DataError, SettingsError
from rembrandt.linalg.blocks import as_numpy
from rembrandt.linalg.sparse import Matrix
from rembrandt.model.model import Model
from rembrandt.progress import Report, silent

RIDGE = 0.1  # strength of new columns where the decoder's own penalty is not that of a ridge


def grown(model: Model, X: Matrix, Y: sparse.csr_array, classes: NDArray[Any], report: Report = silent) -> Model:
    """``model`` with the labels ``classes``, the columns of ``Y``, learnt from the rows of ``X``.

    The rows that the model was fitted to are taken to have none of them. The scores of the labels that were there, and
    their propensities, stay as they were, to the bit.
    """
    check_growable(model)
    known = np.isin(classes, model.classes)
    if known.any():
        raise DataError(f"the model has label {classes[known][0]!r} already; give labels that it does not know")
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    if (counts == 0).any():
        raise DataError(f"no example has the label {classes[counts == 0][0]!r}; give at least one of each new label")
    assert model.moments is not None
    strength = model.settings["decoder_ridge"] if model.settings["decoder"] == "ridge" else RIDGE
    decoder = model.decoder
    found = learn_columns(decoder, as_numpy(model.project(X)), Y, model.moments, strength, report)
    bias = np.concatenate([decoder.bias, found.bias])
    log = [*model.settings.get("added", []), {"n_labels": len(classes), "n_examples": X.shape[0]}]
    return replace(
        model,
        classes=np.concatenate([model.classes, classes]),
        decoder=replace(decoder, bias=bias, added=(*decoder.added, found.weights)),
        embedding=np.concatenate([model.embedding, found.embedding.astype(model.embedding.dtype)]),
        threshold=_with_usual(model.threshold, len(classes)),
        label_counts=np.concatenate([model.label_counts, counts]),
        moments=found.moments,
        shortlist=None,  # of the labels that there were
        settings=model.settings | {"added": log},
    )


def check_growable(model: Model) -> None:
    """Refuse what cannot take new labels, and say what could."""
    if model.forest is not None:
        raise SettingsError(
            "this model has a sparse part, whose trees have no place for new labels; fit one with sparse=False and "
            "growable=True, or fit anew with all labels"
        )
    if model.decoder.greedy:
        raise SettingsError("decoder='greedy' picks labels by the embedding itself, which new labels are no part of")
    if model.moments is None:
        raise SettingsError("this model did not keep what new labels need; fit it with growable=True")


def _with_usual(threshold: float | NDArray[Any], n: int) -> float | NDArray[Any]:
    """Thresholds of each label, with the middle one for ``n`` more."""
    if isinstance(threshold, float):
        return threshold
    return np.append(threshold, np.full(n, np.median(threshold)))
