"""A low-rank part, a sparse part, or both: what one would fit, as parameters of a classifier, and how good it is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rembrandt.search.arena import Answers, Arena, Key, Measures, mean
from rembrandt.search.space import LowRank, Space

SPARSE = ("sparse", "sparse_trees", "sparse_pairs", "sparse_cost", "sparse_power", "sparse_share")
NAMES = (*(f.name for f in fields(LowRank)), *SPARSE)


@dataclass(frozen=True)
class Option:
    """What could be chosen, measured on the held-out rows of a rung."""

    low_rank: LowRank | None
    sparse: Key | None
    share: float
    pairs: float
    rank: int  # that the embedding turned out to have, where it has fewer directions than were asked for
    measures: Measures

    def parameters(self) -> dict[str, Any]:
        """The classifier's parameters that fit it; those of a part that it has not are left out."""
        found: dict[str, Any] = {"sparse": False}
        if self.low_rank is not None:
            found |= vars(self.low_rank) | {"n_components": min(self.low_rank.n_components, self.rank)}
        if self.sparse is not None:
            cost, trees, power = self.sparse
            found["sparse"] = "alone" if self.low_rank is None else True
            found |= {"sparse_trees": trees, "sparse_pairs": self.pairs, "sparse_cost": cost, "sparse_power": power}
            if self.low_rank is not None:
                found["sparse_share"] = self.share
        return found

    def facts(self) -> dict[str, Any]:
        """Its parameters, None where it has none, and its measures, as JSON."""
        measured = {f"p@{k}": value for k, value in zip((1, 3, 5), self.measures.p, strict=True)}
        return dict.fromkeys(NAMES) | self.parameters() | measured | {"quality": self.measures.quality}


def parameters_of(trial: Mapping[str, Any]) -> dict[str, Any]:
    """The classifier's parameters that fit what a trial tried, out of its facts."""
    low_rank = {f.name for f in fields(LowRank)} if trial["decoder"] is not None else set()
    return {name: trial[name] for name in NAMES if name in low_rank or trial[name] is not None}


def options(
    arenas: list[Arena],
    space: Space,
    part: LowRank | None,
    answers: list[Answers] | None,
    keys: Iterable[Key],
) -> list[Option]:
    """Every option of a low-rank part, alone and with the sparse parts ``keys``; without one, those alone."""
    found = []
    rank = 0 if answers is None else min(each.rank for each in answers)

    def measured(key: Key | None, share: float) -> None:
        each = [None] * len(arenas) if answers is None else answers
        measures = mean([arena.measure(own, key, share) for arena, own in zip(arenas, each, strict=True)])
        found.append(Option(part, key, share, space.pairs, rank, measures))

    if part is not None and 0.0 in space.shares:
        measured(None, 0.0)
    shares = (1.0,) if part is None else [share for share in space.shares if 0 < share < 1]
    for key in keys:
        for share in shares:
            measured(key, share)
    return found


def best(found: Iterable[Option]) -> Option | None:
    """The best of them, the first among equals."""
    return max(found, key=lambda option: option.measures.quality, default=None)
