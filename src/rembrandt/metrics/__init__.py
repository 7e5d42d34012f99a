"""How good predictions are, from sparse truth and ranked predictions; nothing here ever makes the labels dense.

Truth is a SciPy sparse matrix of n examples × c labels whose non-zero entries are the true labels. Predictions are the
best k labels of each example in rank order, an integer array n × k; ``-1`` means "no prediction" and is never a hit.

The rules, which are those of the Extreme Classification Repository's scripts:

* every measure is a fraction averaged over *all* rows: an example without true labels stays in the mean with zero hits
  in P@k and with 0 in nDCG@k (its ideal is empty), and adds nothing to either side of PSP@k;
* P@k divides by k even where an example has fewer than k true labels or predictions;
* nDCG@k discounts rank r = 1, 2, … by 1 / log₂(r + 1), and its ideal ranks min(k, number of true labels) hits;
* PSP@k is the sum of 1/p over all hits divided by the largest sum that any prediction of k labels could reach;
* equal scores are ranked by label index, the lower first;
* a true label that training never saw, and hence has no column, still counts: see ``missing_labels`` of `evaluate`.
"""

from rembrandt.metrics.calibration import Bin, calibration_error, reliability
from rembrandt.metrics.coverage import Decile, coverage_by_decile
from rembrandt.metrics.intervals import bootstrap
from rembrandt.metrics.propensity import inverse_propensity, psp_at_k
from rembrandt.metrics.ranking import error, ndcg_at_k, precision_at_k, rank, top_k
from rembrandt.metrics.sets import hamming, macro_f1, micro_f1
from rembrandt.metrics.summary import evaluate, most_popular, row_terms

__all__ = [
    "Bin",
    "Decile",
    "bootstrap",
    "calibration_error",
    "coverage_by_decile",
    "error",
    "evaluate",
    "hamming",
    "inverse_propensity",
    "macro_f1",
    "micro_f1",
    "most_popular",
    "ndcg_at_k",
    "precision_at_k",
    "psp_at_k",
    "rank",
    "reliability",
    "row_terms",
    "top_k",
]
