"""Measure a classifier on labelled examples, next to the baseline of the most popular labels."""

import math
import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data import Dataset
from rembrandt.data.separators import SEPARATORS
from rembrandt.errors import RembrandtWarning
from rembrandt.estimators import RembrandtClassifier
from rembrandt.estimators.requests import dataset_rows, predicted_columns, prediction_model
from rembrandt.metrics import (
    Decile,
    coverage_by_decile,
    evaluate,
    f1_scores,
    hierarchical_scores,
    largest_precision,
    most_popular,
)
from rembrandt.predict import Request, answer
from rembrandt.progress import Report, silent

KS = (1, 3, 5)


@dataclass(frozen=True)
class Measured:
    """Predictions on labelled examples and their measures.

    Attributes
    ----------
    data : Dataset
        The examples, with one label column for each label of the model.
    labels : ndarray of shape (n_samples, 5)
        Predicted columns, best first; -1 where there is none.
    probabilities : ndarray of shape (n_samples, 5)
        Their probabilities.
    model, popular : dict of str to float
        Measures of the model and of the most popular labels; see `rembrandt.metrics.evaluate`.
        They are of the labels alone; where these have parents, the hierarchical precision, recall
        and F1 of the labels that reach the threshold are measured, too.
    examples_per_second : float
        Speed of prediction, including text features.
    deciles : list of Decile
        Recall and precision by the frequency of labels.
    largest : dict of str to float
        The P@k that a perfect prediction would reach: less than 1 where examples have fewer than k
        labels.
    """

    data: Dataset
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    model: dict[str, float]
    popular: dict[str, float]
    examples_per_second: float
    deciles: list[Decile]
    largest: dict[str, float]

    def document(self) -> dict[str, Any]:
        """Return the measures and the size of the data as JSON values."""
        return {
            **self.model,
            "examples_per_second": self.examples_per_second,
            "n_examples": self.data.n_examples,
            "n_labels": self.data.n_labels,
            "unseen_labels": self.data.notes.unseen_labels,
            "unseen_label_uses": self.data.notes.unseen_label_uses,
            "most_popular": self.popular,
            "largest": self.largest,
        }

    def decile_documents(self) -> list[dict[str, Any]]:
        """Return the deciles as JSON values."""
        return [asdict(decile) for decile in self.deciles]


def measure(
    classifier: RembrandtClassifier,
    data: Dataset,
    report: Report = silent,
    A: float = 0.55,
    B: float = 1.5,
    tail: bool = False,
    shortlist: int | bool = False,
) -> Measured:
    """Predict labels and compare them with the true ones.

    Parameters
    ----------
    classifier : RembrandtClassifier
        A fitted classifier.
    data : Dataset
        Labelled examples. Labels that training never saw count as true and are never predicted.
    report : callable, optional
        Called as ``report(stage, done, total)``.
    A, B : float, default=0.55, 1.5
        Constants of the propensities; see `rembrandt.metrics.inverse_propensity`.
    tail : bool, default=False
        Rank labels for PSP@k, with the propensities given by ``A`` and ``B``.
    shortlist : int or bool, default=False
        As in `RembrandtClassifier.predict_topk`.

    Returns
    -------
    Measured
        Predictions and measures.
    """
    known = data.align_labels([str(name) for name in classifier.classes_])
    warn_if_unknown(classifier, data, known)
    k = max(KS)
    model = prediction_model(classifier, shortlist, report)
    tail_constants = (A, B) if tail else None
    # A first prediction loads compiled code, which should not count as prediction time.
    answer(model, Request(dataset_rows(classifier, known.rows([0])), k, tail=tail_constants))
    start = time.perf_counter()
    rows = dataset_rows(classifier, known, report)
    ranked = answer(model, Request(rows, k, tail=tail_constants), report)
    seconds = time.perf_counter() - start
    labels = ranked.labels
    counts = classifier.label_counts_
    constants: dict[str, Any] = {
        "A": A,
        "B": B,
        "ks": KS,
        "missing_labels": known.dropped_labels,
    }
    n_train = classifier.n_train_
    of_model = evaluate(known.Y, labels, counts, n_train, **constants)
    predicted = predicted_columns(classifier, rows)
    of_model |= f1_scores(known.Y, predicted, known.dropped_labels, known.notes.unseen_labels)
    hierarchy = classifier.model_.hierarchy
    if hierarchy is not None:
        of_model |= hierarchical_scores(known.Y, predicted, hierarchy.above, known.dropped_labels)
    most_frequent = most_popular(counts, known.n_examples, k)
    popular = evaluate(known.Y, most_frequent, counts, n_train, **constants)
    largest = {f"p@{k}": largest_precision(data.Y, k) for k in KS}
    deciles = coverage_by_decile(known.Y, labels, counts)
    return Measured(
        known,
        labels,
        ranked.probabilities,
        of_model,
        popular,
        known.n_examples / seconds,
        deciles,
        largest,
    )


def warn_if_unknown(classifier: RembrandtClassifier, data: Dataset, known: Dataset) -> None:
    """Warn where most labels of the data are not labels of the model, with the likely reason."""
    n_unknown = known.notes.unseen_labels
    used = np.unique(data.Y.indices)
    if 2 * n_unknown <= len(used) and 2 * known.notes.unseen_label_uses <= data.Y.nnz:
        return
    index = classifier.model_.labels
    label_ids = {str(name) for name in index.names}
    unknown = [data.label_ids[i] for i in used.tolist() if data.label_ids[i] not in label_ids]
    parameter = "labels"
    reason = "check that this is the column of the labels"
    separator = _likely_separator(unknown, label_ids)
    if separator is not None:
        parameter = "label_separator"
        reason = f"their parts are known when they are split at {separator!r}"
    elif 2 * sum(index.find(name) is not None for name in unknown) > len(unknown):
        reason = (
            "they are names of labels, and the model was fitted to their identifiers, or in "
            "another case"
        )
    message = (
        f"{n_unknown:,} of {len(used):,} labels in the data are unknown to the model, such as "
        f"{unknown[0][:60]!r}, so the measures are uninformative: {reason}"
    )
    warnings.warn(RembrandtWarning(message, [parameter]), stacklevel=3)


def _likely_separator(unknown: list[str], label_ids: set[str]) -> str | None:
    """Return a separator at which most of the unknown labels split into known ones."""
    for separator in SEPARATORS:
        n_known = 0
        for name in unknown:
            pieces = {piece.strip() for piece in name.split(separator)}
            if separator in name and pieces & label_ids:
                n_known += 1
        if 2 * n_known > len(unknown):
            return separator
    return None


def finite(value: Any) -> Any:
    """Return a document as JSON values: lists for arrays, None for NaN and infinity."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "tolist"):  # an array, or one of its elements
        return finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
