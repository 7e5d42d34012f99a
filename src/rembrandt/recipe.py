"""The settings of a fit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TreeSettings:
    """Settings of the label trees."""

    n_trees: int = 1  # each has its own clusters; their mean is better, at n_trees times the cost
    pairs: float = 3e7  # examples × nodes of the first level, at most: more is slower and better
    cost: float = 1.0  # C of the squared hinge loss: the larger, the closer to the training examples
    power: float = 3.0  # of the hinge in a score
    threshold: float = 0.05  # weights below are dropped
    tolerance: float = 0.3  # of the projected gradient at which descent ends
    passes: int = 12  # over the examples of a label, at most
    beam: int = 10  # clusters that prediction scores
