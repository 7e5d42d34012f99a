"""Measures of predictions from sparse true labels and ranked predictions; label matrices are never made dense.

The truth is a sparse matrix of n examples × c labels whose non-zero entries are the true labels. Predictions are the
best k labels of each example in rank order, an integer array n × k; -1 means no prediction and is never a hit.

For measures of label sets (F1, Hamming loss) use `sklearn.metrics`, which takes sparse matrices.

The rules are those of the scripts of the Extreme Classification Repository:

* Every measure is a fraction averaged over *all* rows. An example without true labels counts with zero hits in P@k and
  with 0 in nDCG@k, and adds nothing to the numerator and the denominator of PSP@k.
* P@k divides by k even if an example has fewer than k true labels or predictions.
* nDCG@k discounts rank r = 1, 2, … by 1 / log₂(r + 1); the ideal ranking has min(k, number of true labels) hits.
* PSP@k is the sum of 1/p over all hits divided by the largest sum that k predictions per row could reach.
* Equal scores are ranked by label index, the lower first.
* A true label that training never saw, and so has no column, still counts: see ``missing_labels`` of `evaluate`.
"""

from rembrandt.linalg.ranking import rank, top_k
from rembrandt.metrics.calibration import calibration_error, reliability
from rembrandt.metrics.coverage import Decile, coverage_by_decile
from rembrandt.metrics.intervals import bootstrap
from rembrandt.metrics.propensity import inverse_propensity, psp_at_k
from rembrandt.metrics.ranking import ndcg_at_k, precision_at_k
from rembrandt.metrics.summary import evaluate, most_popular, row_terms

__all__ = [
    "Decile",
    "bootstrap",
    "calibration_error",
    "coverage_by_decile",
    "evaluate",
    "inverse_propensity",
    "most_popular",
    "ndcg_at_k",
    "precision_at_k",
    "psp_at_k",
    "rank",
    "reliability",
    "row_terms",
    "top_k",
]
