"""What a fit costs, and what a preset lets it cost.

Operations are counted from the data and the settings, and turned into seconds at fixed reference
rates. So a model depends on data, settings and seed alone, never on the machine.
"""

from dataclasses import dataclass, replace
from typing import Any

# Operations of one core of the reference machine in a second, rounded: multiply-adds in products of
# dense blocks, and stored entries that coordinate descent visits, most of which it skips. What is
# counted and what a fit takes differ by a factor of up to about three.
DENSE_RATE = 3e10
SPARSE_RATE = 2e9


@dataclass(frozen=True)
class Work:
    """Operations of a fit."""

    dense: float = 0.0  # multiply-adds in products of dense blocks
    sparse: float = 0.0  # visits of stored entries

    def __add__(self, other: "Work") -> "Work":
        return Work(self.dense + other.dense, self.sparse + other.sparse)

    def __mul__(self, factor: float) -> "Work":
        return Work(self.dense * factor, self.sparse * factor)

    @property
    def seconds(self) -> float:
        """Seconds of one core at the reference rates."""
        return self.dense / DENSE_RATE + self.sparse / SPARSE_RATE


@dataclass(frozen=True)
class Allowance:
    """What the parts of a model may cost.

    One of the parts that find labels themselves sets the measure, the trees wherever there are
    some: another one may take ``multiple`` times its work, and ``seconds`` in any case. So small
    data gets the most accurate model, and large data one whose parts take about equally long.
    """

    n_trees: int
    rank: int  # of an embedding
    # Entries that one pass over the first level of a tree may visit.
    tree_entries: float
    seconds: float
    multiple: float
    # Of one core, in which the embedding may search all labels of a row; of vectors it may take as
    # long as an encoder takes for a text.
    row_seconds: float = 1e-3
    vector_row_seconds: float = 3e-3
    # Of all trees.
    tree_bytes: float = 1.2e9
    # Whether other settings are tried on held-out examples.
    varies_settings: bool = False

    def beside(self, measure: Work) -> "Allowance":
        """Return what a part may cost beside the one that sets the measure."""
        return replace(self, seconds=self.seconds + self.multiple * measure.seconds, multiple=0.0)

    def permits(self, work: Work) -> bool:
        """Whether a part with this work may be in a model."""
        return work.seconds <= self.seconds


ALLOWANCES: dict[Any, Allowance] = {
    "fast": Allowance(n_trees=3, rank=100, tree_entries=8e8, seconds=0.45, multiple=0.25),
    "balanced": Allowance(n_trees=5, rank=150, tree_entries=3e9, seconds=0.8, multiple=1.5),
    "best": Allowance(
        n_trees=8, rank=300, tree_entries=3e10, seconds=10.0, multiple=20.0, varies_settings=True
    ),
}
