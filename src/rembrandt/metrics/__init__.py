"""Measures of predictions, from sparse true labels and ranked predictions.

Label matrices are never made dense.

The truth is a sparse matrix of n examples × c labels whose non-zero entries are the true labels.
Predictions are the best k labels of each example in rank order, an integer array n × k; -1 means no
prediction and is never a hit.

Micro and macro F1 of label sets are in `f1_scores`; for other measures of sets use
`sklearn.metrics`, which takes sparse matrices.

The rules are those of the scripts of the Extreme Classification Repository:

* Every measure is a fraction averaged over *all* rows. An example without true labels counts with
  zero hits in P@k and with 0 in nDCG@k, and adds nothing to the numerator and the denominator of
  PSP@k.
* P@k divides by k even if an example has fewer than k true labels or predictions.
* nDCG@k discounts rank r = 1, 2, … by 1 / log₂(r + 1); the ideal ranking has
  min(k, number of true labels) hits.
* PSP@k is the sum of 1/p over all hits divided by the largest sum that k predictions per row could
  reach.
* R@k and F1@k are averaged over the examples that have labels. F1@k of an example is
  2 × hits / (number of true labels + number of predictions, at most k).
* Equal scores are ranked by label index, the lower first.
* A true label that training never saw, and so has no column, still counts: see
  ``missing_labels`` of `evaluate`.
"""

from rembrandt.linalg.ranking import rank, top_k
from rembrandt.metrics.calibration import calibration_error, reliability
from rembrandt.metrics.coverage import Decile, coverage_by_decile
from rembrandt.metrics.hierarchical import hierarchical_scores
from rembrandt.metrics.intervals import bootstrap
from rembrandt.metrics.propensity import inverse_propensity, psp_at_k
from rembrandt.metrics.ranking import ndcg_at_k, precision_at_k
from rembrandt.metrics.summary import (
    evaluate,
    f1_scores,
    largest_precision,
    most_popular,
    row_terms,
)

__all__ = [
    "Decile",
    "bootstrap",
    "calibration_error",
    "coverage_by_decile",
    "evaluate",
    "f1_scores",
    "hierarchical_scores",
    "inverse_propensity",
    "largest_precision",
    "most_popular",
    "ndcg_at_k",
    "precision_at_k",
    "psp_at_k",
    "rank",
    "reliability",
    "row_terms",
    "top_k",
]
