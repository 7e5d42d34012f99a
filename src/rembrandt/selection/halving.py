"""The search for settings: many candidates on few examples, the best of them on more, then the
blend.

Each scorer is searched by itself: one setting is varied at a time, and the best value is kept.
Without a budget the best candidate of each scorer goes on to all examples that are not held out.
With one, the best third goes on to three times as many examples, and nothing is begun that is not
expected to end in time, judged by what it took on fewer.
"""

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.engines.place import CPU, Place
from rembrandt.errors import MemoryEstimateError, RembrandtWarning, StorageError
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe
from rembrandt.scorers.blend import (
    Blend,
    Candidates,
    UnlistedSample,
    choose_list_lengths,
)
from rembrandt.scorers.protocol import Array, Scorer
from rembrandt.scorers.trees import Trees
from rembrandt.selection.blending import Blended, blended
from rembrandt.selection.candidates import axes, usual
from rembrandt.selection.rungs import GROWTH, Rung, rungs_of
from rembrandt.selection.trial import FEWEST, Measures, Trial, mean
from rembrandt.settings import ScorerName
from rembrandt.storage.arrays import Arrays, checked

NEARLY_ALL = 0.89  # of the examples: trees that were fitted to them for the blend are kept
TRIAL_TREES = {
    0: 2,
    1: 3,
    2: 3,
}  # by effort, on the last rung: the weights of a blend depend on their number
MANY_LABELS = 1000  # from which on a decoder is tried that learns from candidates
KEPT_TREES = 2  # of them, at most: the others are fitted to all examples
MARGIN = 1.25  # factor on the expected time of a trial
KEPT = 2  # candidates of each scorer that reach the next rung of a search with a budget, at least


@dataclass(frozen=True)
class Progress:
    """Where a search is."""

    rung: int  # from 1
    n_rungs: int
    rows: str  # of this rung
    tried: int  # candidates of this rung that are done
    trials: list[dict[str, Any]]
    best: dict[str, Any] | None
    seconds: float
    ended: str | None = None  # why the search ended


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Choice:
    """The recipe that was chosen, its blend and threshold, every trial, and how the search
    ended.
    """

    recipe: Recipe
    blend: Blend
    threshold: float | Array = 0.5
    trials: list[dict[str, Any]] = field(default_factory=list)
    blends: list[dict[str, Any]] = field(
        default_factory=list
    )  # what all scorers reached, and each alone
    calibration_error: float | None = None
    seconds: float = 0.0
    ended: str = "there are too few examples to hold any out"
    first_trees: Trees | None = (
        None  # fitted to nearly all examples: the model fits the others alone
    )

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the choice as arrays and JSON, for a checkpoint."""
        facts = vars(self) | {"recipe": self.recipe.to_json(), "blend": self.blend.to_json()}
        del facts["threshold"]
        arrays: Arrays = {"threshold": np.atleast_1d(np.float64(self.threshold))}
        if self.first_trees is not None:
            own, facts["first_trees"] = self.first_trees.arrays()
            arrays |= own
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "Choice":
        """Rebuild what `arrays` returned."""
        threshold = checked("threshold", arrays, (None,))
        own: dict[str, Any] = {
            "threshold": float(threshold[0]) if len(threshold) == 1 else threshold
        }
        own |= {
            "recipe": Recipe.from_json(facts["recipe"]),
            "blend": Blend.from_json(facts["blend"]),
        }
        if facts["first_trees"] is not None:
            own["first_trees"] = Trees.from_arrays(arrays, facts["first_trees"])
        if json.loads(json.dumps(own["recipe"].to_json())) != facts["recipe"]:
            raise StorageError("a setting is missing from the recipe")
        return cls(**facts | own)


def choose(
    data: Examples,
    recipe: Recipe,
    effort: int = 0,
    budget: float | None = None,
    place: Place = CPU,
    report: Report = silent,
    watch: Watch = unwatched,
    now: Callable[[], float] = time.perf_counter,
    rungs: list[Rung] | None = None,
) -> Choice:
    """Choose what ``recipe`` leaves "auto", the blend and the threshold on held-out examples.

    ``effort`` 0 holds out fewer examples and tries two trees, 1 and 2 three trees; 2 tries more
    candidates. ``budget`` is in seconds.
    """
    if data.n < FEWEST:
        listed = axes(data, recipe, 0)
        threshold: Any = 0.5 if isinstance(recipe.threshold, str) else recipe.threshold
        return Choice(
            usual(recipe, listed), Blend.fixed(recipe.scorers, competing=data.multiclass), threshold
        )
    rungs = rungs_of(data, recipe.seed, budget is None, effort) if rungs is None else rungs
    search = _Search(
        data, recipe, effort, inf if budget is None else budget, rungs, place, report, watch, now
    )
    if (
        recipe.decoder == "candidates"
    ):  # it does not rank all labels; another decoder tells which embedding is good
        search.recipe = replace(recipe, decoder="discriminant")
    return search.run(decoder=recipe.decoder)


@dataclass
class _Search:
    """A search on its way. The fields below ``now`` belong to the current rung."""

    data: Examples
    recipe: Recipe
    effort: int
    budget: float
    rungs: list[Rung]
    place: Place
    report: Report
    watch: Watch
    now: Callable[[], float]
    number: int = 0
    splits: list[Trial] = field(default_factory=list)
    measured: dict[Recipe, Measures] = field(default_factory=dict)
    before: dict[ScorerName, tuple[Recipe, list[Any]]] = field(
        default_factory=dict
    )  # fitted to the same rows already
    fitted: dict[ScorerName, tuple[Recipe, list[Any]]] = field(
        default_factory=dict
    )  # the best of each, per split

    def run(self, decoder: str) -> Choice:
        """Search; ``decoder`` is what was asked for, "auto" or a name."""
        self.begun, self.decoder = self.now(), decoder
        self.axes = axes(
            self.data, self.recipe, 2 if self.budget < inf else max(0, self.effort - 1)
        )
        self.rates: dict[Recipe, float] = {}  # seconds per row
        self.trials: list[dict[str, Any]] = []
        self.last: dict[Recipe, dict[str, Any]] = {}  # the latest trial of each candidate
        self.refusals: dict[ScorerName, MemoryError | MemoryEstimateError] = {}
        start = usual(self.recipe, self.axes)
        alive = {name: [replace(start, scorers=(name,))] for name in self.recipe.scorers}
        ended, done = "all rungs were completed", False
        if self.budget == inf and not any(
            len(axis.values) > 1 and axis.scorer in alive for axis in self.axes
        ):
            self.rungs = self.rungs[-1:]
        varied = sum(len(axis.values) - 1 for axis in self.axes if axis.scorer in alive)
        self.done = 0  # rows that candidates were fitted to
        self.planned = (
            len(alive) * sum(rung.work for rung in self.rungs) + varied * self.rungs[0].work
        )
        for number, rung in enumerate(self.rungs):
            leaders = [best for best, _ in self.fitted.values()]
            if number and self._expected(leaders, rung) > self._left:
                ended, done = f"there was no time for {rung}", True
                break
            self._begin(number, rung)
            for position, name in enumerate(self.recipe.scorers):
                rest = (len(self.rungs) - number) * (len(self.recipe.scorers) - position)
                room = self._left / (rest if number else max(1, rest / 2))
                self._climb(name, alive[name], self.now() + room, explore=number == 0)
            if not self.fitted:
                raise next(iter(self.refusals.values()))
            if not rung.last:
                alive = {name: self._kept(name) for name in alive}
        self._advance(self.planned - self.done)  # not all settings were varied
        return self._finish(ended, done)

    @property
    def _left(self) -> float:
        """Seconds left."""
        return self.budget - (self.now() - self.begun)

    def _begin(self, number: int, rung: Rung) -> None:
        n_trees = TRIAL_TREES[self.effort] if rung.last else 1
        same = number > 0 and self.rungs[number - 1].fit[0] is rung.fit[0]
        before = {
            name: own
            for name, own in self.fitted.items()
            if same and _has_trees(own[1][0], n_trees)
        }
        self.number, self.measured, self.before, self.fitted = number, {}, before, {}
        part = self.data
        if rung.labels is not None:
            columns = rung.labels
            part = replace(
                part, Y=sparse.csr_array(part.Y[:, columns]), classes=part.classes[columns]
            )
        pairs = zip(rung.fit, rung.held, strict=True)
        share = part.n_labels / self.data.n_labels
        self.splits = [
            Trial(part.take(a), part.take(b), part.n, self.place, n_trees, share) for a, b in pairs
        ]
        self._advance(0)
        self._tell()

    def _climb(self, name: ScorerName, parts: list[Recipe], until: float, explore: bool) -> None:
        """Try the candidates that there is time for; on the first rung, vary one setting of the
        best at a time.
        """
        for number, one in enumerate(parts):
            if number == 0 or self._has_time(one, until):
                self._try(one)
        for axis in self.axes if explore else ():
            if axis.scorer != name or name not in self.fitted:
                continue
            base = self.fitted[name][0]
            best, tried = axis.values[0], list[tuple[Any, ...]]()
            for values in axis.values[1:]:
                one = axis.applied(base, values)
                known = one in self.measured or not axis.promising(values, best, tried)
                if not known and self._has_time(one, until):
                    self._try(one)
                    tried.append(values)
                    best = values if self.fitted[name][0] == one else best

    def _has_time(self, one: Recipe, until: float) -> bool:
        expected = self._expected([one], self.rungs[self.number])
        if self.now() + expected <= until:
            return True
        if one in self.last:
            self.last[one]["outcome"] = f"no time for {self.rungs[self.number]}"
        return False

    def _expected(self, parts: list[Recipe], rung: Rung) -> float:
        """Estimate the seconds of candidates on ``rung``; of untried ones, an upper bound from
        similar ones.
        """
        total = 0.0
        for one in parts:
            alike = (rate for known, rate in self.rates.items() if _kind(known) == _kind(one))
            total += self.rates.get(one) or max(alike, default=0.0)
        return MARGIN * total * rung.work

    def _try(self, one: Recipe) -> None:
        """Fit and measure a candidate; keep what was fitted if it is the best of its scorer."""
        begun, rung, name = self.now(), self.rungs[self.number], one.scorers[0]
        try:
            before, fitted = self.before.get(name, (None, []))
            scorers = list(fitted) if before == one else []
            for split, rows in list(zip(self.splits, rung.fit, strict=True))[len(scorers) :]:
                scorers.append(split.scorer(one))
                self._advance(len(rows))
        except (MemoryEstimateError, MemoryError) as error:
            self.refusals[name] = error.with_traceback(None)  # whose frames hold what was allocated
            return
        if (
            rung.last and self.budget == inf
        ):  # there is one candidate of each scorer; the blends are measured
            self.fitted[name] = one, scorers
            return
        found = mean(
            [split.measure(scorer) for split, scorer in zip(self.splits, scorers, strict=True)]
        )
        seconds = self.now() - begun
        self.rates[one], self.measured[one] = seconds / rung.work, found
        if name not in self.fitted or self._is_better(one, self.fitted[name][0]):
            self.fitted[name] = one, scorers
        where: dict[str, Any] = {
            "rung": self.number + 1,
            "rows": rung.rows,
            "cuts": len(rung.fit),
            "held_out": sum(map(len, rung.held)),
        }
        # Without a budget a model depends on the data and the seed alone, so times are no part of
        # it.
        where |= {"seconds": seconds} if self.budget < inf else {}
        self.last[one] = where | one.to_json() | found.facts() | {"outcome": "tried"}
        self.trials.append(self.last[one])
        self._tell()

    def _is_better(self, one: Recipe, best: Recipe) -> bool:
        """Compare candidates. No cost of the trees is usual on all data; other settings need a
        significant gain.
        """
        found, before = self.measured[one], self.measured[best]
        return (
            found.quality > before.quality
            if one.trees.cost != best.trees.cost
            else found.better_than(before)
        )

    def _kept(self, name: ScorerName) -> list[Recipe]:
        """Return the candidates of a scorer that go on, the best first."""
        own = [one for one in self.measured if one.scorers[0] == name]
        own.sort(key=lambda one: -self.measured[one].quality)
        if (
            name in self.fitted
        ):  # the usual settings come before others that are better by chance alone
            own.sort(key=lambda one: one != self.fitted[name][0])
        few = 1 if self.budget == inf else max(KEPT, ceil(len(own) / GROWTH))
        for position, one in enumerate(own, 1):
            self.last[one]["outcome"] = (
                "kept" if position <= few else f"dropped: number {position} of {len(own)}"
            )
        return own[:few]

    def _finish(self, ended: str, early: bool) -> Choice:
        """Blend the best candidates of the last rung."""
        names = [name for name in self.recipe.scorers if name in self.fitted]
        helds = [split.held for split in self.splits]
        held = replace(
            helds[0], Y=sparse.csr_array(sparse.vstack([each.Y for each in helds], format="csr"))
        )
        chosen = self._blended(held)
        tried = {name: candidate for name, (candidate, _) in self.fitted.items()}
        for name, error in self.refusals.items():
            if name not in names:
                message = (
                    f"the model has no scorer {name!r}, for which there is too little memory: "
                    f"{error}"
                )
                warnings.warn(RembrandtWarning(message, "scorers"), stacklevel=2)
        other = self._on_candidates()
        if other is not None:
            before = self.fitted["embedding"]
            self.fitted["embedding"] = other
            second = self._blended(held)
            # It is preferred among equals: it ranks few labels, and predicts faster.
            if self.decoder == "auto" and chosen.measures.better_than(second.measures):
                self.fitted["embedding"] = before
            else:
                chosen = second
        recipe = usual(self.recipe, self.axes)
        for name in names:
            best = self.fitted[name][0]
            if tried[name] in self.last:
                self.last[tried[name]]["outcome"] = "chosen"
            if name == "embedding":
                recipe = replace(best, trees=recipe.trees)
            elif name == "trees":
                recipe = replace(recipe, trees=best.trees)
        threshold = chosen.threshold
        if self.rungs[self.number].labels is not None and not isinstance(threshold, float):
            threshold = 0.5  # thresholds of a sample of the labels do not serve the others
        for record in self.last.values():
            if record["outcome"] in ("kept", "tried"):
                record["outcome"] = "not chosen"
        choice = Choice(
            replace(recipe, scorers=tuple(names)),
            chosen.blend,
            threshold,
            self.trials,
            [facts | {"held_out": held.n} for facts in chosen.facts()],
            chosen.calibration_error,
            self.now() - self.begun if self.budget < inf else 0.0,
            ended,
            self._first_trees() if "trees" in names else None,
        )
        self._tell(choice)
        return choice

    def _blended(self, held: Examples) -> Blended:
        """Blend what is fitted.

        Where all scorers together are not significantly better than the best of them alone, that
        one has all the weight: the simplest blend of those that held-out rows do not tell apart.
        """
        names = list(self.fitted)
        together = self._blend_of(names, held)
        finding = [name for name in names if self.fitted[name][1][0].proposes]
        best = max(finding, key=lambda name: together.alone[name].quality)
        if len(names) == 1 or together.measures.better_than(together.alone[best]):
            return together
        single = self._blend_of([best], held)
        return replace(single, blend=single.blend.among(names), alone=together.alone)

    def _blend_of(self, names: list[ScorerName], held: Examples) -> Blended:
        """Learn the blend of some scorers on the held-out rows of all splits."""
        scorers: list[dict[str, Scorer]] = [
            {name: self.fitted[name][1][number] for name in names}
            for number in range(len(self.splits))
        ]
        ranked = [split.ranked_hits(s) for split, s in zip(self.splits, scorers, strict=True)]
        ranked_hits = {name: np.vstack([hits[name] for hits in ranked]) for name in ranked[0]}
        lengths = choose_list_lengths(ranked_hits)
        listed = []
        others = []
        n_splits = len(self.splits)
        for number, split in enumerate(self.splits):
            self.report("blending", number, n_splits)
            candidates, unlisted = split.candidates(scorers[number], self.recipe.seed, lengths)
            listed.append(candidates)
            others.append(unlisted)
        self.report("blending", n_splits, n_splits)
        return blended(
            Candidates.joined(listed),
            UnlistedSample.joined(others),
            held,
            self.recipe.threshold,
            lengths,
            ranked_hits,
        )

    def _on_candidates(self) -> tuple[Recipe, list[Any]] | None:
        """Return the chosen embedding with a decoder that learns from what the other scorers
        propose.
        """
        if self.decoder not in ("auto", "candidates") or not {"embedding"} < set(self.fitted):
            return None
        base, has_kernel = self.fitted["embedding"][0], self.recipe.kernel not in ("auto", None)
        late = self._expected([base], self.rungs[self.number]) > self._left
        if self.decoder == "auto" and (has_kernel or late or self.data.n_labels < MANY_LABELS):
            # A kernel was asked for, there is no time, or others learn from all labels at little
            # cost
            return None
        one = replace(base, decoder="candidates", kernel=None).with_embedding(proposes=False)
        scorers = []
        for number, split in enumerate(self.splits):
            others: dict[str, Any] = {name: own[number] for name, (_, own) in self.fitted.items()}
            del others["embedding"]
            try:
                scorers.append(split.scorer(one, others=others))
            except (MemoryEstimateError, MemoryError):
                if self.decoder == "auto":
                    return None
                raise
        return one, scorers

    def _first_trees(self) -> Trees | None:
        """Return trees of the last rung if they saw nearly all examples, and the model has more."""
        seen = self.rungs[self.number].rows
        if len(self.splits) > 1 or seen < NEARLY_ALL * self.data.n:
            return None
        trees: Trees = self.fitted["trees"][1][0]
        kept = trees.trees[: min(KEPT_TREES, self.recipe.trees.n_trees - 1)]
        return replace(trees, trees=kept) if kept and len(kept[0].levels) > 1 else None

    def _advance(self, rows: int) -> None:
        """Report how far the search is; with a budget its time is watched instead."""
        self.done += rows
        if self.watch is unwatched:
            self.report("choosing settings", min(self.done, self.planned), self.planned)

    def _tell(self, choice: Choice | None = None) -> None:
        """Show the trials so far."""
        best = None
        if choice is not None:
            best = choice.recipe.to_json() | choice.blends[0]
        elif self.measured:
            leader = max(self.measured, key=lambda one: self.measured[one].quality)
            best = leader.to_json() | self.measured[leader].facts()
        where = (self.number + 1, len(self.rungs), str(self.rungs[self.number]), len(self.measured))
        self.watch(
            Progress(
                *where, self.trials, best, self.now() - self.begun, choice.ended if choice else None
            )
        )


def _has_trees(scorer: Scorer, n_trees: int) -> bool:
    """Whether a trial with ``n_trees`` would fit nothing else; trees without clusters are all
    equal.
    """
    return (
        not isinstance(scorer, Trees)
        or len(scorer.trees) >= n_trees
        or len(scorer.trees[0].levels) == 1
    )


def _kind(one: Recipe) -> Any:
    """Candidates of the same kind take about as long."""
    return one.scorers, one.decoder, one.kernel is None
