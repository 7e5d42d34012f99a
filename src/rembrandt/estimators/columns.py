"""Predictions by column number, for callers that look labels up in their own way."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.estimators.classifier import RembrandtClassifier
from rembrandt.linalg.blocks import spans
from rembrandt.progress import Report, silent

Array = NDArray[Any]

_ENTRIES = 1 << 24  # probabilities of all labels computed at a time


def top_columns(
    classifier: RembrandtClassifier,
    rows: Any,
    k: int,
    allowed: NDArray[np.int64] | None = None,
    tail: tuple[float, float] | None = None,
    shortlist: int | bool = False,
    report: Report = silent,
) -> tuple[NDArray[np.int64], Array]:
    """Return the ``k`` best columns of every row and their scores, best first; -1 where there are fewer.

    ``rows`` are what `model_rows` or `dataset_rows` returns. ``allowed`` restricts the columns. ``tail``, the constants
    A and B of the propensities, and ``shortlist`` are those of `RembrandtClassifier.predict_topk`.
    """
    n_candidates = classifier.looked_at(shortlist, tail is not None, report)
    model = classifier.placed_model()
    worth = None if tail is None else model.worth(*tail)
    return model.top_k(rows, k, allowed, report, worth, n_candidates)


def probabilities_of(
    classifier: RembrandtClassifier, rows: Any, columns: NDArray[np.int64], scores: Array, report: Report = silent
) -> Array:
    """Return the probabilities of the columns that `top_columns` found.

    Where probabilities sum to one over the labels of a row, the other labels have to be scored too.
    """
    model = classifier.placed_model()
    if not model.multiclass and (model.forest is not None or model.decoder.link != "softmax"):
        return model.likelihood_of_scores(scores)
    found = np.empty_like(scores)
    for block in spans(len(columns), max(1, _ENTRIES // model.n_labels)):
        report("computing probabilities", block.start, len(columns))
        probabilities = model.probabilities(rows[block])
        found[block] = np.take_along_axis(probabilities, np.maximum(columns[block], 0), axis=1)
    report("computing probabilities", len(columns), len(columns))
    return found
