"""Successive halving: many candidates on few examples, the best third of them on three times as many.

Without a budget there is one rung and a short list of candidates. With one, nothing is begun that is not expected to
end in time, judged by what it took on fewer examples; each rung gets an equal part of the time that is left.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import ceil
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
    budget: float
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
    return _Search(data, recipe, budget, rungs, place, report, watch, now).run()


class _Search:
    def __init__(
        self,
        data: Examples,
        recipe: Recipe,
        budget: float | None,
        rungs: list[Rung],
        place: Place,
        report: Report,
        watch: Watch,
        now: Callable[[], float],
    ) -> None:
        self.data, self.recipe, self.place = data, recipe, place
        self.report, self.watch, self.now = report, watch, now
        self.budget = float("inf") if budget is None else budget
        self.list: Candidates = candidates(data, recipe, budget is not None)
        self.rungs = rungs
        self.begun = now()
        self.rates: dict[Any, float] = {}  # seconds per row and candidate, or per row and column of an embedding
        self.trials: list[dict[str, Any]] = []
        self.last: dict[Recipe, dict[str, Any]] = {}  # the latest trial of each candidate
        self.leader: Option | None = None
        self.refusal: MemoryEstimateError | None = None

    def run(self) -> Choice:
        alive, ended = self.list.all, "all rungs were completed"
        for number in range(len(self.rungs)):
            rung = _Running(self, number)
            later = self.left * (1 - 1 / (len(self.rungs) - number))
            rung.climb(alive, later)
            if number + 1 == len(self.rungs):
                break
            following = self.rungs[number + 1]
            if self.leader is not None and self.expected(self.leader.parts, following) > self.left:
                ended = f"there was no time for {following}"
                rung.climb([one for one in alive if one not in rung.measured], 0.0)
                break
            alive = rung.kept()
        rung.kept()
        return self._ended(rung, ended)

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.budget - (self.now() - self.begun)

    def _ended(self, rung: "_Running", ended: str) -> Choice:
        if self.leader is None:
            assert self.refusal is not None
            raise self.refusal
        for record in self.last.values():
            if record["outcome"] == "kept":
                record["outcome"] = "not chosen"
        parts = [self.last[part] for part in self.leader.parts]
        settings = self.leader.recipe.to_json()
        is_trial = all(parts[0][name] == settings[name] for name in settings)  # not a blend or a variant of the trees
        for record in parts:
            record["outcome"] = "chosen" if is_trial else "part of the choice"
        if not is_trial:
            self.trials.append(rung.record(0.0) | self.leader.facts() | {"outcome": "chosen"})
        untried = len([one for one in self.list.all if one not in self.last])
        self.tell(rung, len(rung.measured), ended, untried)
        return Choice(self.leader.recipe, self.trials, self.now() - self.begun, ended, untried)

    def expected(self, parts: Any, rung: Rung, running: "_Running | None" = None) -> float:
        """Estimate the seconds for candidates not yet tried on ``rung`` from what they took before."""
        rate = 0.0
        for one in parts:
            if running is not None and one in running.measured:
                continue
            rate += self._rate(one)
            if one.scorers == ("embedding",) and not (running and running.splits[-1].is_embedded(one)):
                rate += self._rate(_embedding(one)) * _columns(one)
        return MARGIN * rate * rung.work

    def _rate(self, thing: Any) -> float:
        """Seconds per row; where it was not tried, an upper bound from similar candidates."""
        if thing in self.rates:
            return self.rates[thing]
        return max((rate for known, rate in self.rates.items() if _kind(known) == _kind(thing)), default=0.0)

    def tell(self, rung: "_Running", n: int, ended: str | None = None, untried: int = 0) -> None:
        """Report the progress."""
        if self.watch is unwatched:
            self.report("choosing settings", len(rung.measured), n)
        best = rung.best() or self.leader
        self.watch(
            Progress(
                rung=rung.number + 1,
                n_rungs=len(self.rungs),
                rows=str(rung.rung),
                tried=len(rung.measured),
                candidates=n,
                trials=self.trials,
                best=None if best is None else best.facts(),
                seconds=self.now() - self.begun,
                budget=self.budget,
                ended=ended,
                untried=untried,
            )
        )


class _Running:
    """One rung of a search: its splits, and what was measured."""

    def __init__(self, search: _Search, number: int) -> None:
        self.search, self.number, self.rung = search, number, search.rungs[number]
        data, place = search.data, search.place
        cuts = zip(self.rung.fit, self.rung.held, strict=True)
        self.splits = [Trial(data.take(fit), data.take(held), data.n, place) for fit, held in cuts]
        self.measured: dict[Recipe, Measures] = {}
        self.fitted: dict[str, tuple[Recipe, list[Any]]] = {}  # the best candidate of each scorer, fitted
        self.options: list[Option] = []

    def climb(self, parts: list[Recipe], later: float) -> None:
        """Try the candidates that there is time for, keeping ``later`` seconds for the rungs above; then blend."""
        search = self.search
        leaders = () if search.leader is None else search.leader.parts
        total = len(self.measured) + len(parts)
        for one in parts:
            if self._is_skipped(one):
                continue
            first = self.number == 0 and not any(tried.scorers == one.scorers for tried in self.measured)
            room = search.left - later
            if one.scorers == ("trees",) and search.list.embedding:
                room /= 2  # the trees come first and must leave time for the embedding
            if not first and one not in leaders and search.expected([one, *leaders], self.rung, self) > room:
                self._outcome(one, f"no time for {self.rung}")
                continue
            try:
                self._try(one)
            except MemoryEstimateError as error:
                search.refusal = error
                self._outcome(one, f"no memory for {self.rung}")
                continue
            search.tell(self, total)
        self._blend()
        search.leader = self.best() or search.leader
        search.tell(self, total)

    def _is_skipped(self, one: Recipe) -> bool:
        """On the short list the scaling of rows is chosen without a kernel."""
        if self.search.budget < float("inf") or one.kernel is None:
            return False
        plain = [each for each in self.measured if each.scorers == one.scorers and each.kernel is None]
        return bool(plain) and one.normalize != self._usual_among(plain).normalize

    def _try(self, one: Recipe) -> None:
        search = self.search
        begun, shared = search.now(), 0.0
        if one.scorers == ("embedding",) and not self.splits[-1].is_embedded(one):
            for split in self.splits:
                split.embed(one)
            shared = search.now() - begun
            search.rates[_embedding(one)] = shared / self.rung.work / _columns(one)
        scorers = [split.scorer(one) for split in self.splits]
        measures = mean([split.measure(s) for split, s in zip(self.splits, scorers, strict=True)])
        seconds = search.now() - begun
        search.rates[one] = max(0.0, seconds - shared) / self.rung.work
        self.measured[one] = measures
        name = one.scorers[0]
        if name not in self.fitted or self._is_better(one, self.fitted[name][0]):
            self.fitted[name] = one, scorers
        recipe = replace(one, scorers=search.recipe.scorers, blend=_alone(search.recipe, name))
        option = Option(_pruned(recipe), measures, (one,))
        record = self.record(seconds) | option.facts() | {"outcome": "tried"}
        search.trials.append(record)
        search.last[one] = record
        if not isinstance(search.recipe.blend, tuple) or len(search.recipe.scorers) == 1:
            self.options.append(option)

    def _is_better(self, one: Recipe, other: Recipe) -> bool:
        """Whether a candidate should replace one before it: by more than chance where only penalties differ."""
        margin = CHANCE if _same_decoding(one, other) else 0.0
        return self.measured[one].quality > self.measured[other].quality + margin

    def record(self, seconds: float) -> dict[str, Any]:
        """Return where a trial was made and how long it took."""
        held = sum(map(len, self.rung.held))
        where = {"rung": self.number + 1, "rows": self.rung.rows, "cuts": len(self.rung.fit)}
        return where | {"held_out": held, "seconds": seconds}

    def _blend(self) -> None:
        """Measure the blends of the best candidate of each scorer, with every variant of the trees."""
        recipe = self.search.recipe
        variants = self._tree_variants()
        if any(name not in self.fitted for name in recipe.scorers) or len(recipe.scorers) * len(variants) == 1:
            return
        grid = [recipe.blend] if isinstance(recipe.blend, tuple) else list(_grid(len(recipe.scorers)))
        parts = tuple(self.fitted[name][0] for name in recipe.scorers)
        for changes, trees in variants:
            fitted = {name: trees if name == "trees" else self.fitted[name][1] for name in recipe.scorers}
            per_split = [
                split.measure_blends([fitted[name][i] for name in recipe.scorers], grid)
                for i, split in enumerate(self.splits)
            ]
            for number, weights in enumerate(grid):
                blended = replace(_joined(parts, recipe), blend=weights).with_trees(**changes)
                measures = mean([found[number] for found in per_split])
                used = tuple(part for part, weight in zip(parts, weights, strict=True) if weight > 0)
                self.options.append(Option(_pruned(blended), measures, used))

    def _tree_variants(self) -> list[tuple[dict[str, Any], list[Any]]]:
        """Return the best trees with other powers and numbers of trees, which need no fit of their own."""
        if "trees" not in self.fitted:
            return [({}, [])]
        fitted = self.fitted["trees"][1]
        powers, counts = self.search.list.powers, self.search.list.n_trees
        if len(counts) == 1:
            return [({"power": power}, [one.variant(power=power) for one in fitted]) for power in powers]
        return [
            ({"power": power, "n_trees": count}, [one.variant(power=power, n_trees=count) for one in fitted])
            for count, power in product(counts, powers)
        ]

    def best(self) -> Option | None:
        """Return the best option; among those that differ by chance, the one with the usual settings."""
        if not self.options:
            return None
        best = max(self.options, key=lambda option: option.measures.quality)
        if len(best.parts) > 1 or best.parts[0].scorers != ("embedding",):
            return best
        alike = [o for o in self.options if len(o.parts) == 1 and _same_decoding(o.parts[0], best.parts[0])]
        near = [o for o in alike if o.measures.quality >= best.measures.quality - CHANCE]
        return min(near, key=lambda option: self.search.list.embedding.index(option.parts[0]))

    def _usual_among(self, parts: list[Recipe]) -> Recipe:
        most = max(self.measured[one].quality for one in parts)
        return next(one for one in parts if self.measured[one].quality >= most - CHANCE)

    def kept(self) -> list[Recipe]:
        """Return the best third of the candidates of each scorer, best first."""
        kept: list[Recipe] = []
        for name in self.search.recipe.scorers:
            parts = [one for one in self.measured if one.scorers == (name,)]
            parts.sort(key=lambda one: -self.measured[one].quality)
            few = max(KEPT, ceil(len(parts) / GROWTH))
            for place, one in enumerate(parts):
                dropped = f"dropped: number {place + 1} of {len(parts)}"
                self._outcome(one, "kept" if place < few else dropped)
            kept += parts[:few]
        return kept

    def _outcome(self, one: Recipe, outcome: str) -> None:
        if one in self.search.last:
            self.search.last[one]["outcome"] = outcome


def _grid(n: int) -> Iterator[Weights]:
    """Weights of ``n`` scorers that sum to one, in quarters."""
    for steps in product(range(STEPS + 1), repeat=n):
        if sum(steps) == STEPS:
            yield tuple(step / STEPS for step in steps)


def _alone(recipe: Recipe, name: str) -> Weights:
    return tuple(float(name == each) for each in recipe.scorers)


def _joined(parts: tuple[Recipe, ...], recipe: Recipe) -> Recipe:
    """Combine the settings of candidates with one scorer each."""
    by_name = {part.scorers[0]: part for part in parts}
    joined = by_name.get("embedding", parts[0])
    trees = by_name["trees"].trees if "trees" in by_name else recipe.trees
    return replace(joined, scorers=recipe.scorers, trees=replace(trees, n_trees=recipe.trees.n_trees))


def _pruned(recipe: Recipe) -> Recipe:
    """Drop scorers without weight, and fill in what the others do not use."""
    kept = [(name, weight) for name, weight in zip(recipe.scorers, recipe.weights, strict=True) if weight > 0]
    return usual(replace(recipe, scorers=tuple(n for n, _ in kept), blend=tuple(w for _, w in kept)))


def _same_decoding(a: Recipe, b: Recipe) -> bool:
    """Whether two candidates differ in penalties and scaling alone."""

    def key(one: Recipe) -> Any:
        return one.scorers, one.kernel, one.embedding.kernel_scale, one.decoder, one.n_components, one.ridge

    return bool(key(a) == key(b))


def _embedding(one: Recipe) -> tuple[Any, Any]:
    return one.ridge, one.normalize


def _columns(one: Recipe) -> int:
    """What the time of an embedding is proportional to."""
    return (300 if one.n_components == "auto" else one.n_components) + one.embedding.n_oversamples


def _kind(thing: Any) -> Any:
    """What takes about as long."""
    return (thing.scorers, thing.decoder, thing.kernel is None) if isinstance(thing, Recipe) else "embedding"
