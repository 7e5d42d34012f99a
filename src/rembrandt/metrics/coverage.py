"""Where along the frequency of labels a model is good: the head, the tail, or both."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rembrandt.errors import DataError
from rembrandt.metrics.hits import as_truth, hits


@dataclass(frozen=True)
class Decile:
    """One tenth of the labels, by training frequency."""

    rarest: int  # training count of its rarest label
    commonest: int  # training count of its commonest label
    n_labels: int
    n_true: int  # how often its labels are true in the evaluated rows
    recall: float  # fraction of those that are among the predictions; NaN when there are none
    covered: float  # fraction of its labels true somewhere that were predicted right somewhere; NaN when there are none
    n_predicted: int  # how often its labels are among the predictions
    precision: float  # fraction of those that are true; NaN when there are none


def coverage_by_decile(truth: Any, labels: ArrayLike, train_counts: ArrayLike) -> list[Decile]:
    """Return recall@k, coverage and precision@k for ten equal shares of the labels, commonest share first.

    k is the number of columns of ``labels``. Labels equally frequent are ordered by index, so the cut is the same on
    every run.
    """
    Y = as_truth(truth)
    counts = np.asarray(train_counts)
    c = Y.shape[1]
    if counts.shape != (c,):
        raise DataError(f"{counts.size} training counts for {c} labels; count the training labels by column")
    ranked = np.asarray(labels)
    found = np.bincount(ranked[hits(Y, ranked)], minlength=c)
    predicted = np.bincount(ranked[ranked >= 0], minlength=c)
    true = np.bincount(Y.indices, minlength=c)
    by_frequency = np.argsort(-counts, kind="stable")
    return [
        _decile(counts[share], true[share], found[share], predicted[share])
        for share in np.array_split(by_frequency, 10)
        if len(share)
    ]


def _decile(counts: Any, true: Any, found: Any, predicted: Any) -> Decile:
    n_true, n_present, n_predicted = int(true.sum()), int((true > 0).sum()), int(predicted.sum())
    return Decile(
        rarest=int(counts.min()),
        commonest=int(counts.max()),
        n_labels=len(counts),
        n_true=n_true,
        recall=float(found.sum() / n_true) if n_true else float("nan"),
        covered=float((found > 0).sum() / n_present) if n_present else float("nan"),
        n_predicted=n_predicted,
        precision=float(found.sum() / n_predicted) if n_predicted else float("nan"),
    )
