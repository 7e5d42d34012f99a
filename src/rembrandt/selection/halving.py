"""Successive halving: many candidates on few examples, the best third of them on three times as many.

Without a budget there is one rung and a short list of candidates. With one, nothing is begun that is not expected to
end in time, judged by what it took on fewer examples; each rung gets an equal part of the time that is left.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import ceil, inf
from typing import Any

from rembrandt.data.examples import Examples
from rembrandt.engines.place import CPU, Place
from rembrandt.errors import MemoryEstimateError
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe
from rembrandt.selection.candidates import Candidates, candidates, is_open, usual
from rembrandt.selection.rungs import GROWTH, Rung, rungs_of
from rembrandt.selection.trial import FEWEST, Measures, Trial, Weights, mean
from rembrandt.storage.arrays import Arrays

MARGIN = 1.25  # factor on the expected time of a trial
KEPT = 2  # candidates of each scorer that reach the next rung, at least
CHANCE = 0.005  # difference in quality below which the usual settings are preferred
STEPS = 4  # of the grid of weights


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
    ended: str | None = None  # why the search ended
    untried: int = 0  # candidates that were never tried


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Choice:
    """The recipe that was chosen, every trial, and how the search ended."""

    recipe: Recipe
    trials: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    ended: str = "there was nothing to choose, or too few examples to hold any out"
    untried: int = 0

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the choice as JSON, for a checkpoint."""
        return {}, vars(self) | {"recipe": self.recipe.to_json()}

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "Choice":
        """Rebuild what `arrays` returned."""
        return cls(**facts | {"recipe": Recipe.from_json(facts["recipe"])})


@dataclass(frozen=True)
class Option:
    """A recipe without open settings, measured on one rung; ``parts`` are the candidates that it is made of."""

    recipe: Recipe
    measures: Measures
    parts: tuple[Recipe, ...]

    def facts(self) -> dict[str, Any]:
        """Return the recipe and its measures as JSON."""
        p1, p3, p5 = self.measures.p
        return self.recipe.to_json() | {"p@1": p1, "p@3": p3, "p@5": p5, "quality": self.measures.quality}


def choose(
    data: Examples,
    recipe: Recipe,
    budget: float | None = None,
    place: Place = CPU,
    report: Report = silent,
    watch: Watch = unwatched,
    now: Callable[[], float] = time.perf_counter,
    rungs: list[Rung] | None = None,
) -> Choice:
    """Choose what ``recipe`` leaves "auto" by trials on held-out examples, in about ``budget`` seconds."""
    if data.n < FEWEST or not is_open(recipe):
        return Choice(usual(recipe))
    rungs = rungs_of(data, recipe.seed, short=budget is None) if rungs is None else rungs
    listed = candidates(data, recipe, budget is not None)
    return _Search(data, recipe, listed, inf if budget is None else budget, rungs, place, report, watch, now).run()


@dataclass
class _Search:
    """A search on its way. The fields below ``now`` belong to the current rung."""

    data: Examples
    recipe: Recipe
    listed: Candidates
    budget: float
    rungs: list[Rung]
    place: Place
    report: Report
    watch: Watch
    now: Callable[[], float]
    number: int = 0
    splits: list[Trial] = field(default_factory=list)
    measured: dict[Recipe, Measures] = field(default_factory=dict)
    fitted: dict[str, tuple[Recipe, list[Any]]] = field(default_factory=dict)  # the best of each scorer, per split
    options: list[Option] = field(default_factory=list)

    def run(self) -> Choice:
        self.begun = self.now()
        self.rates: dict[Recipe, float] = {}  # seconds per row
        self.trials: list[dict[str, Any]] = []
        self.last: dict[Recipe, dict[str, Any]] = {}  # the latest trial of each candidate
        self.leader: Option | None = None
        self.refusal: MemoryEstimateError | None = None
        alive, ended = self.listed.all, "all rungs were completed"
        waiting: list[Recipe] = []
        for number, rung in enumerate(self.rungs):
            if self.leader is not None and self._expected(self.leader.parts, rung) > self._left:
                ended = f"there was no time for {rung}"
                self._climb([one for one in waiting if one not in self.measured], later=0.0)
                self._kept()
                break
            cuts = zip(rung.fit, rung.held, strict=True)
            self.number, self.measured, self.fitted, self.options = number, {}, {}, []
            self.splits = [Trial(self.data.take(a), self.data.take(b), self.data.n, self.place) for a, b in cuts]
            self._climb(alive, later=self._left * (1 - 1 / (len(self.rungs) - number)))
            waiting, alive = alive, self._kept()
        return self._finish(ended)

    @property
    def _left(self) -> float:
        """Seconds left."""
        return self.budget - (self.now() - self.begun)

    def _climb(self, parts: list[Recipe], later: float) -> None:
        """Try the candidates that there is time for, keeping ``later`` seconds for the rungs above; then blend."""
        rung, leaders = self.rungs[self.number], () if self.leader is None else self.leader.parts
        self._tell(len(parts))
        for one in parts:
            if self._is_skipped(one):
                continue
            first = self.number == 0 and not any(tried.scorers == one.scorers for tried in self.measured)
            # The trees come first and must leave time for the embedding.
            room = (self._left - later) / (2 if one.scorers == ("trees",) and self.listed.embedding else 1)
            waiting = [part for part in (one, *leaders) if part not in self.measured]
            if not first and one not in leaders and self._expected(waiting, rung) > room:
                self._outcome(one, f"no time for {rung}")
                continue
            try:
                self._try(one)
            except MemoryEstimateError as error:
                self.refusal = error
                self._outcome(one, f"no memory for {rung}")
            self._tell(len(parts))
        self._blend()
        self.leader = self._best() or self.leader
        self._tell(len(parts))

    def _expected(self, parts: Any, rung: Rung) -> float:
        """Estimate the seconds of candidates on ``rung``; of untried ones, an upper bound from similar ones."""
        total = 0.0
        for one in parts:
            alike = (rate for known, rate in self.rates.items() if _kind(known) == _kind(one))
            total += self.rates.get(one) or max(alike, default=0.0)
        return MARGIN * total * rung.work

    def _is_skipped(self, one: Recipe) -> bool:
        """On the short list the scaling of rows is chosen without a kernel."""
        plain = [each for each in self.measured if each.scorers == one.scorers and each.kernel is None]
        if self.budget < inf or one.kernel is None or not plain:
            return False
        most = max(self.measured[each].quality for each in plain)
        usual_one = next(each for each in plain if self.measured[each].quality >= most - CHANCE)
        return bool(one.normalize != usual_one.normalize)

    def _try(self, one: Recipe) -> None:
        """Fit and measure a candidate."""
        begun = self.now()
        scorers = [split.scorer(one) for split in self.splits]
        measures = mean([split.measure(s) for split, s in zip(self.splits, scorers, strict=True)])
        seconds = self.now() - begun
        self.rates[one] = seconds / self.rungs[self.number].work
        self.measured[one], name = measures, one.scorers[0]
        if name not in self.fitted or self._is_better(one, self.fitted[name][0]):
            self.fitted[name] = one, scorers
        alone = tuple(float(name == each) for each in self.recipe.scorers)
        option = Option(_pruned(replace(_joined((one,), self.recipe), blend=alone)), measures, (one,))
        self.last[one] = self._record(seconds) | option.facts() | {"outcome": "tried"}
        self.trials.append(self.last[one])
        if self.recipe.blend == "auto" or len(alone) == 1:
            self.options.append(option)

    def _is_better(self, one: Recipe, other: Recipe) -> bool:
        """Whether a candidate should replace one before it: by more than chance where only penalties differ."""
        margin = CHANCE if _decoding(one) == _decoding(other) else 0.0
        return self.measured[one].quality > self.measured[other].quality + margin

    def _blend(self) -> None:
        """Measure the blends of the best candidate of each scorer, with every variant of the trees."""
        names, variants = self.recipe.scorers, self._tree_variants()
        if any(name not in self.fitted for name in names) or len(names) * len(variants) == 1:
            return
        grid = list(_grid(len(names))) if self.recipe.blend == "auto" else [self.recipe.blend]
        parts = tuple(self.fitted[name][0] for name in names)
        for changes, trees in variants:
            fitted = {name: trees if name == "trees" else self.fitted[name][1] for name in names}
            per_split = [
                split.measure_blends([fitted[name][i] for name in names], grid) for i, split in enumerate(self.splits)
            ]
            for weights, found in zip(grid, zip(*per_split, strict=True), strict=True):
                blended = replace(_joined(parts, self.recipe), blend=weights).with_trees(**changes)
                used = tuple(part for part, weight in zip(parts, weights, strict=True) if weight > 0)
                self.options.append(Option(_pruned(blended), mean(list(found)), used))

    def _tree_variants(self) -> list[tuple[dict[str, Any], list[Any]]]:
        """Return the best trees with other powers and numbers of trees, which need no fit of their own."""
        if "trees" not in self.fitted:
            return [({}, [])]
        found = []
        for n_trees, power in product(self.listed.n_trees, self.listed.powers):
            changes = {"power": power} | ({"n_trees": n_trees} if len(self.listed.n_trees) > 1 else {})
            found.append((changes, [one.variant(**changes) for one in self.fitted["trees"][1]]))
        return found

    def _best(self) -> Option | None:
        """Return the best option; among those that differ by chance, the one with the usual settings."""
        best = max(self.options, key=lambda option: option.measures.quality, default=None)
        if best is None or len(best.parts) > 1 or best.parts[0].scorers != ("embedding",):
            return best
        alike = (o for o in self.options if len(o.parts) == 1 and _decoding(o.parts[0]) == _decoding(best.parts[0]))
        near = [o for o in alike if o.measures.quality >= best.measures.quality - CHANCE]
        return min(near, key=lambda option: self.listed.embedding.index(option.parts[0]))

    def _kept(self) -> list[Recipe]:
        """Return the best third of the candidates of each scorer, best first."""
        kept: list[Recipe] = []
        for name in self.recipe.scorers:
            parts = [one for one in self.measured if one.scorers == (name,)]
            parts.sort(key=lambda one: -self.measured[one].quality)
            few = max(KEPT, ceil(len(parts) / GROWTH))
            for position, one in enumerate(parts, 1):
                self._outcome(one, "kept" if position <= few else f"dropped: number {position} of {len(parts)}")
            kept += parts[:few]
        return kept

    def _finish(self, ended: str) -> Choice:
        if self.leader is None:
            assert self.refusal is not None
            raise self.refusal
        for record in self.last.values():
            if record["outcome"] == "kept":
                record["outcome"] = "not chosen"
        settings, first = self.leader.recipe.to_json(), self.last[self.leader.parts[0]]
        is_trial = all(first[name] == settings[name] for name in settings)  # not a blend or a variant of the trees
        for part in self.leader.parts:
            self._outcome(part, "chosen" if is_trial else "part of the choice")
        if not is_trial:
            self.trials.append(self._record(0.0) | self.leader.facts() | {"outcome": "chosen"})
        untried = sum(one not in self.last for one in self.listed.all)
        self._tell(len(self.measured), ended, untried)
        return Choice(self.leader.recipe, self.trials, self.now() - self.begun, ended, untried)

    def _outcome(self, one: Recipe, outcome: str) -> None:
        if one in self.last:
            self.last[one]["outcome"] = outcome

    def _record(self, seconds: float) -> dict[str, Any]:
        """Return where a trial was made and how long it took."""
        rung = self.rungs[self.number]
        where = {
            "rung": self.number + 1,
            "rows": rung.rows,
            "cuts": len(rung.fit),
            "held_out": sum(map(len, rung.held)),
        }
        # Without a budget a model depends on the data and the seed alone, so times are no part of it.
        return where | ({"seconds": seconds} if self.budget < inf else {})

    def _tell(self, n: int, ended: str | None = None, untried: int = 0) -> None:
        """Report the progress."""
        if self.watch is unwatched:
            self.report("choosing settings", len(self.measured), n)
        best = self._best() or self.leader
        facts = None if best is None else best.facts()
        where = (self.number + 1, len(self.rungs), str(self.rungs[self.number]), len(self.measured), n)
        self.watch(Progress(*where, self.trials, facts, self.now() - self.begun, ended, untried))


def _grid(n: int) -> Iterator[Weights]:
    """Weights of ``n`` scorers that sum to one, in quarters."""
    for steps in product(range(STEPS + 1), repeat=n):
        if sum(steps) == STEPS:
            yield tuple(step / STEPS for step in steps)


def _joined(parts: tuple[Recipe, ...], recipe: Recipe) -> Recipe:
    """Combine the settings of candidates with one scorer each."""
    by_name = {part.scorers[0]: part for part in parts}
    trees = by_name["trees"].trees if "trees" in by_name else recipe.trees
    joined = by_name.get("embedding", parts[0])
    return replace(joined, scorers=recipe.scorers, trees=replace(trees, n_trees=recipe.trees.n_trees))


def _pruned(recipe: Recipe) -> Recipe:
    """Drop scorers without weight, and fill in what the others do not use."""
    kept = [(name, weight) for name, weight in zip(recipe.scorers, recipe.weights, strict=True) if weight > 0]
    names, weights = zip(*kept, strict=True)
    return usual(replace(recipe, scorers=names, blend=weights))


def _decoding(one: Recipe) -> Any:
    """All settings of a candidate but penalties and scaling."""
    return one.scorers, one.kernel, one.embedding.kernel_scale, one.decoder, one.n_components, one.ridge


def _kind(one: Recipe) -> Any:
    """Candidates of the same kind take about as long."""
    return one.scorers, one.decoder, one.kernel is None
