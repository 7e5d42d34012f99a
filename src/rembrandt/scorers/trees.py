from dataclasses import dataclass

import numpy as np

from rembrandt.decoders.forest import Forest, fit_forest
from rembrandt.decoders.tree import TreeSettings as Old
from rembrandt.decoders.tree import unit_rows


@dataclass(frozen=True)
class Trees:
    forest: Forest

    @property
    def trees(self):
        return self.forest.trees

    @property
    def n_labels(self):
        return self.forest.n_labels

    @property
    def n_features(self):
        return self.forest.trees[0].levels[0].weights.shape[1]

    block_rows = 1 << 13

    def variant(self, power, n_trees=None):
        return Trees(Forest(self.forest.trees[:n_trees]).with_power(power))

    def prepare(self, X):
        return unit_rows(X)

    def top(self, rows, k, allowed=None):
        l, v = self.forest.top_k(rows, k, allowed)
        from rembrandt.linalg.ranking import rank

        return rank(l, np.where(l < 0, -np.inf, v))

    def at(self, rows, labels):
        P = self.forest.probabilities(rows)
        return np.where(labels < 0, -np.inf, np.take_along_axis(P, np.maximum(labels, 0), axis=1))

    def all(self, rows):
        return self.forest.probabilities(rows)

    def likelihood(self, rows, scores):
        return scores

    def explain(self, row, labels, likelihood=False):
        from rembrandt.scorers.tree_explanations import explain_trees

        return explain_trees(self.trees, row, labels)

    def label_weights(self):
        from functools import reduce

        return reduce(lambda a, b: a + b, [t.levels[-1].weights for t in self.trees])

    def arrays(self):
        return self.forest.packed()

    @classmethod
    def from_arrays(cls, a, f):
        return cls(Forest.unpacked(a, f))


def fit_trees(X, Y, s, seed, weights=None, report=None, checkpoints=None, place=None):
    from rembrandt.engines.place import CPU
    from rembrandt.progress import silent
    from rembrandt.storage.checkpoints import NO_CHECKPOINTS

    return Trees(
        fit_forest(
            X[:],
            Y,
            Old(s.cost, s.pairs, s.threshold, s.tolerance, s.passes, s.power, s.beam, s.n_trees, seed),
            weights,
            report or silent,
            checkpoints or NO_CHECKPOINTS,
            place or CPU,
        )
    )
