"""Settings and scores for tests of scorers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.scorers.protocol import Scorer
from rembrandt.settings import TreeSettings, with_defaults


def tree_settings(**changes: Any) -> TreeSettings:
    """Settings of one tree with nothing left open."""
    settings = {"n_trees": 1, "pairs": 3e7, "cost": 1.0, "power": 3.0, "passes": 10} | changes
    return with_defaults(TreeSettings(**settings))


def all_scores(scorer: Scorer, rows: Any) -> NDArray[Any]:
    """Return the scores of all labels, n × c."""
    n = len(scorer.top(rows, 1)[0])
    return scorer.at(rows, np.tile(np.arange(scorer.n_labels), (n, 1)))


def all_likelihoods(scorer: Scorer, rows: Any) -> NDArray[Any]:
    """Return the likelihoods of all labels, n × c."""
    scores = all_scores(scorer, rows)
    return scorer.likelihood(rows, np.tile(np.arange(scorer.n_labels), (len(scores), 1)), scores)
