"""Successive halving within a time: many candidates on few rows, the best third of them on three times as many.

Nothing is begun that is not expected to end in time, by what it took on fewer rows; what was best so far is chosen when
time is out. Rungs take about as long as each other, so each has an equal part of the time that is left. A rung counts
only if the best of the one before took part in it. With time enough the choice depends on the data and the seed alone.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from rembrandt.errors import MemoryEstimateError
from rembrandt.fitting import Labelled, Recipe
from rembrandt.progress import Report, silent
from rembrandt.search.arena import Answers, Arena, Key
from rembrandt.search.options import Option, best, options
from rembrandt.search.rungs import GROWTH, Rung, rungs_of
from rembrandt.search.space import LowRank, Space, Sparse

MARGIN = 1.25  # what a trial may take beyond what is expected by the rung before
FEWEST = 2  # candidates of each part that are kept, so that there is something to compare

Part = LowRank | Sparse


@dataclass(frozen=True)
class Progress:
    """Where a search is."""

    rung: int  # from 1
    n_rungs: int
    rows: str  # of this rung
    tried: int  # candidates of this rung that are done
    candidates: int
    trials: list[dict[str, Any]]
    best: dict[str, Any] | None
    seconds: float
    budget: float
    ended: str | None = None  # why there is no more to come
    untried: int = 0  # candidates that there was no time for at all


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Nobody looks."""


@dataclass(frozen=True)
class Found:
    """The parameters that were chosen, every trial, and why there was no other."""

    chosen: dict[str, Any]
    trials: list[dict[str, Any]]
    seconds: float
    ended: str
    untried: int = 0  # candidates that there was no time for at all


def search(
    data: Labelled,
    base: Recipe,
    space: Space,
    budget: float,
    report: Report = silent,
    watch: Watch = unwatched,
    now: Callable[[], float] = time.perf_counter,
) -> Found:
    """The best of ``space`` on held-out rows of ``data``, found in about ``budget`` seconds.

    The first candidate of each part is tried whatever the time.
    """
    return _Search(data, base, space, budget, report, watch, now).run()


@dataclass
class _Contest:
    """One rung: its arenas, what every part answered, and its best options."""

    number: int
    rung: Rung
    arenas: list[Arena]
    answers: dict[LowRank, list[Answers]] = field(default_factory=dict)
    alone: dict[Sparse, float] = field(default_factory=dict)  # the quality of each sparse part by itself
    best: dict[Part, Option] = field(default_factory=dict)
    records: dict[Part, dict[str, Any]] = field(default_factory=dict)

    def keys(self, part: Sparse, all_trees: bool = True) -> list[Key]:
        """What was tried of a sparse part: with the most trees, or with every number of them."""
        keys = [key for key in self.arenas[0].sparse if key[0] == part.sparse_cost]
        most = max((trees for _, trees, _ in keys), default=0)
        return [key for key in keys if all_trees or key[1] == most]


class _Search:
    def __init__(
        self,
        data: Labelled,
        base: Recipe,
        space: Space,
        budget: float,
        report: Report,
        watch: Watch,
        now: Callable[[], float],
    ) -> None:
        self.data, self.base, self.space, self.budget = data, base, space, budget
        self.report, self.watch, self.now = report, watch, now
        self.begun = now()
        self.rungs = rungs_of(data, base.embedding.seed)
        self.rates: dict[Any, float] = {}  # seconds a row that was fitted to: of parts, and of embeddings' columns
        self.trials: list[dict[str, Any]] = []
        self.last: dict[Part, dict[str, Any]] = {}  # each part's latest trial
        self.leader: Option | None = None
        self.refusal: MemoryEstimateError | None = None

    def run(self) -> Found:
        alive: list[Part] = [*self.space.sparse, *self.space.low_rank]
        contest, ended = self._begun(0), "all rungs were climbed"
        while True:
            number = contest.number + 1
            self._climb(contest, alive, self.left * (1 - 1 / (len(self.rungs) - contest.number)))
            if self._is_last(contest):
                break
            if self._expected(self._leaders(alive), self.rungs[number]) > self.left:
                ended = f"there was no time for {self.rungs[number]}"
                self._climb(contest, [part for part in alive if part not in contest.records], 0.0)
                break
            contest, alive = self._begun(number), self._kept(contest)
        self._kept(contest)
        chosen = self._chosen()
        untried = len([part for part in (*self.space.sparse, *self.space.low_rank) if part not in self.last])
        self._tell(contest, len(contest.records), ended, untried)
        return Found(chosen, self.trials, self.now() - self.begun, ended, untried)

    @property
    def left(self) -> float:
        return self.budget - (self.now() - self.begun)

    def _begun(self, number: int) -> _Contest:
        rung, n = self.rungs[number], self.data.X.shape[0]
        cuts = [(self.data.rows(fit), self.data.rows(held)) for fit, held in zip(rung.fit, rung.held, strict=True)]
        return _Contest(number, rung, [Arena(*cut, self.base, self.space, n) for cut in cuts])

    def _is_last(self, contest: _Contest) -> bool:
        return contest.number == len(self.rungs) - 1

    def _climb(self, contest: _Contest, parts: list[Part], later: float) -> None:
        """Every one of ``parts`` that there is time for, ``later`` seconds being kept for the rungs above."""
        leaders = self._leaders(parts)
        total = len(contest.records) + len(parts)
        self._tell(contest, total)
        for part in sorted(parts, key=lambda part: isinstance(part, LowRank)):
            first = contest.number == 0 and not any(isinstance(tried, type(part)) for tried in contest.records)
            room = self.left - later
            if isinstance(part, Sparse) and self.space.low_rank:
                room /= 2  # these come first, and must not leave low rank without time
            expected = self._expected([part, *leaders], contest.rung, contest)
            if not (first or part in leaders) and expected > room:
                self._outcome(part, f"no time for {contest.rung}")
                continue
            try:
                self._try(contest, part)
            except MemoryEstimateError as error:
                self.refusal = error
                self._outcome(part, f"no memory for {contest.rung}")
                continue
            self._tell(contest, total)
        self._pair(contest)
        if not contest.best and self.refusal is not None:
            raise self.refusal
        self.leader = best(contest.best.values()) or self.leader
        self._tell(contest, total)

    def _outcome(self, part: Part, outcome: str) -> None:
        """What became of a part after its latest trial, if it had one."""
        if part in self.last:
            self.last[part]["outcome"] = outcome

    def _try(self, contest: _Contest, part: Part) -> None:
        """Fit one part and measure it, a low-rank one with the best sparse one so far too."""
        begun = self.now()
        work, shared = contest.rung.work, 0.0
        if isinstance(part, LowRank):
            if not contest.arenas[-1].is_prepared(part):
                for arena in contest.arenas:
                    arena.prepare(part)
                shared = self.now() - begun
                self.rates[_embedding(part)] = shared / work / _columns(part)
            contest.answers[part] = [arena.try_low_rank(part) for arena in contest.arenas]
            company = max(contest.alone, key=lambda other: contest.alone[other], default=None)
            keys = [] if company is None else contest.keys(company, all_trees=False)
            found = best(options(contest.arenas, self.space, part, contest.answers[part], keys))
        else:
            for arena in contest.arenas:
                arena.try_sparse(part)
            found = best(options(contest.arenas, self.space, None, None, contest.keys(part)))
            contest.alone[part] = 0.0 if found is None else found.measures.quality
            found = found if 1.0 in self.space.shares else None
        seconds = self.now() - begun
        self.rates[part] = max(0.0, seconds - shared) / work
        held_out = sum(map(len, contest.rung.held))
        where = {"rung": contest.number + 1, "rows": contest.rung.rows, "cuts": len(contest.rung.fit)}
        contest.records[part] = where | {"held_out": held_out, "seconds": seconds, "outcome": "tried"}
        if found is not None:
            self._note(contest, part, found)

    def _pair(self, contest: _Contest) -> None:
        """Measure each sparse part with the best low-rank one; on the last rung all with all."""
        sparse, low_rank = list(contest.alone), list(contest.answers)
        last = self._is_last(contest)
        ranked = [contest.best[part].measures.quality if part in contest.best else 0.0 for part in low_rank]
        if not last and low_rank:
            low_rank = [low_rank[ranked.index(max(ranked))]]
        for part in low_rank:
            for other in sparse:
                # A sparse part that had its turn after a low-rank one is not known to it.
                keys = [key for key in contest.keys(other, all_trees=last) if key in contest.answers[part][0].of]
                for option in options(contest.arenas, self.space, part, contest.answers[part], keys):
                    for each in (part, other) if option.sparse is not None else (part,):
                        known = contest.best.get(each)
                        if known is None or option.measures.quality > known.measures.quality:
                            self._note(contest, each, option)

    def _note(self, contest: _Contest, part: Part, option: Option) -> None:
        """The best option of ``part`` so far on this rung, in its trial."""
        contest.best[part] = option
        record = contest.records[part]
        record |= option.facts()
        if self.last.get(part) is not record:
            self.last[part] = record
            self.trials.append(record)

    def _kept(self, contest: _Contest) -> list[Part]:
        """The best third of each part, best first."""
        kept: list[Part] = []
        for kind in (Sparse, LowRank):
            parts = [part for part in contest.best if isinstance(part, kind)]
            parts.sort(key=lambda part: -contest.best[part].measures.quality)
            few = max(FEWEST, ceil(len(parts) / GROWTH))
            for place, part in enumerate(parts):
                dropped = f"dropped: number {place + 1} of {len(parts)}"
                contest.records[part]["outcome"] = "kept" if place < few else dropped
            kept += parts[:few]
        return kept

    def _chosen(self) -> dict[str, Any]:
        """The leader's parameters; trials say what became of them."""
        assert self.leader is not None
        for record in self.last.values():
            if record["outcome"] == "kept":
                record["outcome"] = "not chosen"
        for part in self._leaders([*self.space.sparse, *self.space.low_rank]):
            whole = isinstance(part, LowRank) or self.leader.low_rank is None
            self.last[part]["outcome"] = "chosen" if whole else "part of the choice"
        return self.leader.parameters()

    def _leaders(self, parts: list[Part]) -> list[Part]:
        """The parts of the best option so far."""
        if self.leader is None:
            return []
        cost = None if self.leader.sparse is None else self.leader.sparse[0]
        return [p for p in parts if p == self.leader.low_rank or (isinstance(p, Sparse) and p.sparse_cost == cost)]

    def _expected(self, parts: list[Part], rung: Rung, contest: _Contest | None = None) -> float:
        """Seconds for parts not tried on ``rung`` yet, by what they took before or what their like took."""
        rate = 0.0
        for part in parts:
            if contest is not None and part in contest.records:
                continue
            rate += self._rate(part)
            if isinstance(part, LowRank) and not (contest and contest.arenas[-1].is_prepared(part)):
                rate += self._rate(_embedding(part)) * _columns(part)
        return MARGIN * rate * rung.work

    def _rate(self, thing: Any) -> float:
        """Seconds a row of a part or an embedding; the most that its like took where it was not tried."""
        if thing in self.rates:
            return self.rates[thing]
        return max((rate for known, rate in self.rates.items() if _kind(known) == _kind(thing)), default=0.0)

    def _tell(self, contest: _Contest, candidates: int, ended: str | None = None, untried: int = 0) -> None:
        found = best(contest.best.values()) or self.leader
        tried = len(contest.records)
        if self.watch is unwatched:
            self.report(f"searching, {contest.rung}", tried, candidates)
        self.watch(
            Progress(
                rung=contest.number + 1,
                n_rungs=len(self.rungs),
                rows=str(contest.rung),
                tried=tried,
                candidates=candidates,
                trials=self.trials,
                best=None if found is None else found.facts(),
                seconds=self.now() - self.begun,
                budget=self.budget,
                ended=ended,
                untried=untried,
            )
        )


def _embedding(part: LowRank) -> tuple[float, bool]:
    return part.ridge, part.normalize


def _columns(part: LowRank) -> int:
    """What the time of an embedding is in proportion to: its directions, and about those to spare."""
    return part.n_components + 20


def _kind(thing: Any) -> Any:
    """What takes about as long."""
    if isinstance(thing, LowRank):
        return thing.decoder, thing.kernel is None
    return type(thing)
