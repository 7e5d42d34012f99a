"""Measure a classifier on labelled examples, next to the baseline of the most popular labels."""

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data import Dataset
from rembrandt.estimators import RembrandtClassifier
from rembrandt.metrics import Decile, coverage_by_decile, evaluate, most_popular
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
        Predicted columns, best first.
    probabilities : ndarray of shape (n_samples, 5)
        Their probabilities.
    model, popular : dict of str to float
        Measures of the model and of the most popular labels; see `rembrandt.metrics.evaluate`.
    examples_per_second : float
        Speed of prediction, including text features.
    deciles : list of Decile
        Recall and precision by the frequency of labels.
    """

    data: Dataset
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    model: dict[str, float]
    popular: dict[str, float]
    examples_per_second: float
    deciles: list[Decile]

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
    k = max(KS)
    model = classifier.device_model(shortlist, report)
    worth = model.worth(A, B) if tail else None
    # A first prediction loads compiled code, which should not count as prediction time.
    model.top_k(classifier.dataset_rows(known.rows([0])), k, worth=worth)
    start = time.perf_counter()
    labels, scores = model.top_k(classifier.dataset_rows(known, report), k, worth=worth, report=report)
    seconds = time.perf_counter() - start
    probabilities = scores if worth is None else scores / worth[labels].astype(scores.dtype)
    counts, n_train = classifier.label_counts_, classifier.n_train_
    rest: dict[str, Any] = {"A": A, "B": B, "ks": KS, "missing_labels": known.dropped_labels}
    rankings = labels, most_popular(counts, known.n_examples, k)
    own, popular = (evaluate(known.Y, ranked, counts, n_train, **rest) for ranked in rankings)
    deciles = coverage_by_decile(known.Y, labels, counts)
    return Measured(known, labels, probabilities, own, popular, known.n_examples / seconds, deciles)


def finite(value: Any) -> Any:
    """Return a document as JSON values: lists for arrays, None for NaN and infinity."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "tolist"):  # an array, or one of its elements
        return finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
