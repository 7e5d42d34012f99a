"""The search: fit the parts of a model to all examples but the held-out ones, try other settings
where time is given for that, and learn the blend.

Settings are tried one after the other, each by a fit of its part. Another value is taken if the
blend of all parts with it is better on the held-out examples by more than a standard error.
"""

import time
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.blend import AS_STATED, Blend, Weights, fit_unseen
from rembrandt.candidates import (
    Candidates,
    UnlistedSample,
    UnseenSample,
    choose_list_lengths,
)
from rembrandt.data.examples import Examples
from rembrandt.declarations import ModelSettings, as_json
from rembrandt.engines.backend import CPU, Backend
from rembrandt.errors import MemoryEstimateError, RembrandtWarning, StorageError
from rembrandt.fitting import Learned, fit_together
from rembrandt.linalg import Array
from rembrandt.model.facts import HeldOutMeasures
from rembrandt.parts.protocol import Part
from rembrandt.parts.registry import KINDS
from rembrandt.progress import Report, silent
from rembrandt.search.blending import Blended, blended
from rembrandt.search.holdout import FEWEST_EXAMPLES, MAX_SPLITS, counted_rows, splits_of
from rembrandt.search.measures import Measures
from rembrandt.search.trial import Trial
from rembrandt.settings.setting import UNSET
from rembrandt.storage.arrays import Arrays, checked, finite

# Share of all examples from which what a part learns of them stays in the model. A sixth is held
# out, more only where groups are large. With the preset fast, keeping two of three trees changes
# P@1 on other training rows of four sets by -0.2, -0.1, 0.2 and 0.5. Learning the blend with these
# two alone changes it by -0.3, 0.1 and 0.2 on three sets.
NEARLY_ALL = 0.8
# The stage in which parts are fitted, and one that counts those that are fitted at the same time.
FITTING = "fitting without held-out examples"
PARTS = "parts"
# Factor on the expected time of a trial.
TIME_MARGIN = 1.25

Record = dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """State of a running search."""

    trials: list[Record]
    seconds: float
    ended: str | None = None  # why the search ended


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class SearchResult:
    """The settings that were chosen, what was learned with them, and every trial."""

    settings: ModelSettings
    learned: Learned
    trials: list[Record] = field(default_factory=list)
    # What all parts reached together, and each alone.
    held_out: tuple[HeldOutMeasures, ...] = ()
    calibration_error: float | None = None
    seconds: float = 0.0
    ended: str = "there are too few examples to hold any out"

    def with_learned(self, other: "SearchResult") -> "SearchResult":
        """Return the result with what another search learned on held-out examples."""
        return replace(
            self,
            learned=other.learned,
            held_out=other.held_out,
            calibration_error=other.calibration_error,
        )

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the result as arrays and JSON, for a checkpoint."""
        assert self.learned.blend is not None
        arrays: Arrays = {"threshold": np.atleast_1d(np.float64(self.learned.threshold))}
        begun = {}
        for name, part in self.learned.begun.items():
            part_arrays, begun[name] = part.arrays()
            arrays |= {f"{name}.{array}": values for array, values in part_arrays.items()}
        facts = {
            "settings": self.settings.to_json(),
            "blend": self.learned.blend.to_json(),
            "begun": begun,
            "trials": self.trials,
            "held_out": [measures.to_json() for measures in self.held_out],
            "calibration_error": self.calibration_error,
            "seconds": self.seconds,
            "ended": self.ended,
        }
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "SearchResult":
        """Rebuild what `arrays` returned."""
        settings = ModelSettings.from_json(facts["settings"])
        for name, spec in settings.parts.items():
            if any(value is UNSET for value in vars(spec.settings).values()):
                raise StorageError(f"settings of the part {name!r} are missing")
        thresholds = checked("threshold", arrays, (None,))
        threshold: float | Array = thresholds
        if len(thresholds) == 1:
            threshold = float(thresholds[0])
        begun = {}
        for name, part_facts in facts["begun"].items():
            prefix = f"{name}."
            part_arrays = {
                array.removeprefix(prefix): values
                for array, values in arrays.items()
                if array.startswith(prefix)
            }
            kind = KINDS[settings.parts[name].kind]
            begun[name] = kind.part_type.from_arrays(part_arrays, part_facts)
        error = facts["calibration_error"]
        return cls(
            settings=settings,
            learned=Learned(Blend.from_json(facts["blend"]), threshold, begun),
            trials=list(facts["trials"]),
            held_out=tuple(map(HeldOutMeasures.from_json, facts["held_out"])),
            calibration_error=None if error is None else finite(error),
            seconds=finite(facts["seconds"]),
            ended=str(facts["ended"]),
        )


def search(
    data: Examples,
    settings: ModelSettings,
    varies: bool = False,
    budget: float | None = None,
    fixed: Mapping[str, Collection[str]] = MappingProxyType({}),
    max_trial_seconds: float = inf,
    backend: Backend = CPU,
    report: Report = silent,
    watch: Watch = unwatched,
    now: Callable[[], float] = time.perf_counter,
) -> SearchResult:
    """Fit the parts to all examples but the held-out ones, and learn the blend and the threshold.

    Parameters
    ----------
    data : Examples
        Training examples.
    settings : ModelSettings
        The settings to begin with.
    varies : bool, default=False
        Whether other settings are tried than those.
    budget : float, optional
        Seconds for trials of other settings; nothing is begun that is not expected to end in time.
    fixed : mapping, optional
        Names of the settings of each part that keep their values: those that a user sets.
    max_trial_seconds : float, optional
        Counted seconds of a trial of other settings, at most, where there is no budget. One that
        costs no more than the settings so far is permitted anyway.
    backend : Backend, optional
        Where to fit.
    report, watch : callable, optional
        Receive the progress, and the trials.
    now : callable, optional
        The clock.

    Returns
    -------
    SearchResult
    """
    if len(counted_rows(data)) < FEWEST_EXAMPLES:
        threshold: Any = settings.threshold
        if isinstance(threshold, str):
            threshold = 0.5
        blend = Blend.fixed(settings.parts, competing=data.multiclass)
        return SearchResult(settings, Learned(blend, threshold))
    n_splits = None
    deadline = inf
    if budget is not None:
        n_splits = MAX_SPLITS
        deadline = budget
        varies = True
    splits = splits_of(data, settings.seed, n_splits)
    has_stopping = any(
        KINDS[spec.kind].uses_stopping_rows(spec.settings) for spec in settings.parts.values()
    )
    trials = [Trial(data, split, backend, has_stopping) for split in splits]
    deadline += now()
    running = RunningSearch(
        data, settings, trials, fixed, report, watch, now, deadline, max_trial_seconds
    )
    running.fit_all()
    if varies:
        running.vary_all()
    return running.result()


@dataclass
class RunningSearch:
    """State of a running search: the splits, the best parts so far, and what was tried."""

    data: Examples
    settings: ModelSettings
    trials: list[Trial]
    fixed: Mapping[str, Collection[str]]
    report: Report
    watch: Watch
    now: Callable[[], float]
    deadline: float
    max_trial_seconds: float = inf
    # The parts with the best settings so far, for each split.
    fitted: list[dict[str, Part]] = field(default_factory=list)
    # Of their blend, once other settings are tried.
    measures: Measures | None = None
    records: list[Record] = field(default_factory=list)
    # Seconds that a fit took over those that were counted.
    slowness: dict[str, float] = field(default_factory=dict)
    ended: str = "everything was tried"
    n_announced: int = -1  # parts that were reported as fitted

    def __post_init__(self) -> None:
        self.begun = self.now()
        self.is_timed = self.deadline < inf

    def fit_all(self) -> None:
        """Fit all parts for each split; a part for which there is no memory is left out."""
        n_fits = len(self.trials) * len(self.settings.parts)
        refused: dict[str, Exception] = {}
        self._announce(0)
        self.fitted = []
        for trial in self.trials:
            self.fitted.append(self._fitted_together(trial))
        for name in list(self.settings.parts):
            start = self.now()
            try:
                for number, trial in enumerate(self.trials):
                    if name in self.fitted[number]:
                        continue
                    reported = self._reported(name, self.report)
                    tried = self._tried(name, self.settings)
                    part = trial.fit(name, tried, self.fitted[number], reported)
                    self.fitted[number] = self.fitted[number] | {name: part}
                    self._announce(sum(map(len, self.fitted)))
            except (MemoryEstimateError, MemoryError) as error:
                refused[name] = error.with_traceback(None)  # whose frames hold what was allocated
                for parts in self.fitted:
                    parts.pop(name, None)
                continue
            self._note_speed(name, self.now() - start)
        self._announce(n_fits)
        for number, parts in enumerate(self.fitted):
            self.fitted[number] = {
                name: parts[name] for name in self.settings.parts if name in parts
            }
        retrieving = [part for part in self.fitted[0].values() if part.retrieves_labels]
        if not retrieving:
            raise next(iter(refused.values()))
        for name, reason in refused.items():
            message = f"the model has no part {name!r}, for which there is too little memory: "
            warnings.warn(RembrandtWarning(f"{message}{reason}", "parts"), stacklevel=2)
        self.settings = self.settings.with_parts(list(self.fitted[0]))

    def vary_all(self) -> None:
        """Try other settings of each part, on as many splits as there is time for."""
        self._affordable_splits()
        self.measures = self._measured(self.fitted)
        for name in list(self.settings.parts):
            self._vary(name)

    @property
    def _saw_nearly_all(self) -> bool:
        """Whether the parts were fitted to nearly all examples."""
        return len(self.trials) == 1 and self.trials[0].fitted_share >= NEARLY_ALL

    def _tried(self, name: str, settings: ModelSettings) -> ModelSettings:
        """Return the settings of a trial, in which a part of a model is what the model keeps."""
        if not self._saw_nearly_all:
            return settings
        spec = settings.parts[name]
        return settings.with_part(name, KINDS[spec.kind].tried(spec.settings))

    def _fitted_together(self, trial: Trial) -> dict[str, Part]:
        """Fit parts at the same time, unless the time that each takes is to be known."""
        if self.is_timed:
            return {}
        n_before = sum(map(len, self.fitted))

        def fit(name: str, earlier: Mapping[str, Part], report: Report) -> Part:
            def note(_stage: str, _done: int, _total: int | None) -> None:
                report(PARTS, 0, 1)  # where a fit that is no longer wanted ends

            tried = self._tried(name, self.settings)
            part = trial.fit(name, tried, earlier, self._reported(name, report, note))
            report(PARTS, 1, 1)
            return part

        def hear(stage: str, done: int, total: int | None) -> None:
            if stage == PARTS:
                self._announce(n_before + done)
            else:
                self.report(stage, done, total)

        return fit_together(trial.fit_data, self.settings, fit, trial.backend, hear)

    def _announce(self, n_fitted: int) -> None:
        """Report how many parts have been fitted, if that has changed."""
        if n_fitted > self.n_announced:
            self.n_announced = n_fitted
            self.report(FITTING, n_fitted, len(self.trials) * len(self.settings.parts))

    def _reported(self, name: str, report: Report, quick: Report = silent) -> Report:
        """Return what receives the progress of a fit: ``quick`` of one that does not take long."""
        if not KINDS[self.settings.parts[name].kind].reads_texts:
            return quick

        def report_stage(stage: str, done: int, total: int | None) -> None:
            report(f"{stage}, without held-out examples", done, total)

        return report_stage

    def _settle(self) -> None:
        """Take over what the fits have found out about settings that were left open."""
        for name, spec in list(self.settings.parts.items()):
            parts = [fitted[name] for fitted in self.fitted]
            settled = KINDS[spec.kind].settled(spec.settings, parts)
            self.settings = self.settings.with_part(name, settled)

    def _note_speed(self, name: str, seconds: float) -> None:
        """Remember how long a fit took next to its counted operations."""
        counted = len(self.trials) * self._work(name, self.settings)
        self.slowness[name] = seconds / max(counted, 1e-9)

    def _work(self, name: str, settings: ModelSettings) -> float:
        """Return the counted seconds of a fit."""
        spec = self._tried(name, settings).parts[name]
        data = self.trials[0].fit_data.view(spec.view)
        return KINDS[spec.kind].work(spec.settings, data).seconds

    def _affordable_splits(self) -> None:
        """Keep as many splits as leave time for the trials; one in any case."""
        if not self.is_timed:
            return
        so_far = self.now() - self.begun
        n_alternatives = 0
        for name, spec in self.settings.parts.items():
            fixed = self.fixed.get(name, ())
            for choice in KINDS[spec.kind].choices(spec.settings, self.data.view(spec.view)):
                n_alternatives += len(choice.applied(spec.settings, fixed))
        for_all = so_far * (1 + n_alternatives / max(1, len(self.settings.parts)))
        share = (self.deadline - self.begun) / max(for_all, 1e-9)
        n_kept = int(np.clip(len(self.trials) * share, 1, len(self.trials)))
        self.trials = self.trials[:n_kept]
        self.fitted = self.fitted[:n_kept]

    def _vary(self, name: str) -> None:
        """Try other settings of a part, each choice from the best so far."""
        spec = self.settings.parts[name]
        assert self.measures is not None
        self._record(name, self.settings, self.measures, "chosen", None)
        best_record = self.records[-1]
        fixed = self.fixed.get(name, ())
        for choice in KINDS[spec.kind].choices(spec.settings, self.data.view(spec.view)):
            before = self.settings.parts[name].settings
            for candidate in choice.applied(before, fixed):
                settings = self.settings.with_part(name, candidate)
                if not self._is_affordable(name, settings):
                    continue
                record = self._try(name, settings)
                if record is not None and record["outcome"] == "chosen":
                    best_record["outcome"] = "not chosen"
                    best_record = record

    def _is_affordable(self, name: str, settings: ModelSettings) -> bool:
        """Whether other settings of a part may be tried. With a budget, time alone decides."""
        if self.is_timed:
            return True
        work_so_far = self._work(name, self.settings)
        return self._work(name, settings) <= max(work_so_far, self.max_trial_seconds)

    def _try(self, name: str, settings: ModelSettings) -> Record | None:
        """Fit and measure other settings of a part; keep them if they are better."""
        expected = TIME_MARGIN * len(self.trials) * self.slowness[name]
        expected *= self._work(name, settings)
        if self.now() + expected > self.deadline:
            self.ended = "there was no time for more"
            return None
        start = self.now()
        parts = []
        try:
            for number, trial in enumerate(self.trials):
                earlier = {
                    other: part for other, part in self.fitted[number].items() if other != name
                }
                parts.append(trial.fit(name, self._tried(name, settings), earlier))
        except (MemoryEstimateError, MemoryError):
            return None  # the settings so far fit into memory
        seconds = self.now() - start
        fitted = []
        for before, part in zip(self.fitted, parts, strict=True):
            fitted.append(before | {name: part})
        measures = self._measured(fitted)
        outcome = "not chosen"
        assert self.measures is not None
        if measures.better_than(self.measures):
            outcome = "chosen"
            self.settings = settings
            self.measures = measures
            self.fitted = fitted
        self._record(name, settings, measures, outcome, seconds)
        return self.records[-1]

    def _measured(self, fitted: list[dict[str, Part]]) -> Measures:
        """Measure the blend of parts that were fitted for each split.

        What is better alone is often not better in a model: on PubMed-MeSH an embedding of three
        times the rank finds more labels by itself, and the model with it finds fewer.
        """
        return self.blended(fitted, self._held_out()).measures

    def _record(
        self,
        name: str,
        settings: ModelSettings,
        measures: Measures,
        outcome: str,
        seconds: float | None,
    ) -> None:
        spec = settings.parts[name]
        record: Record = {
            "part": name,
            "words": KINDS[spec.kind].words(spec.settings),
            "settings": as_json(vars(spec.settings)),
            "rows": self.trials[0].fit_data.n,
            "splits": len(self.trials),
            "held_out": sum(trial.held_out.n for trial in self.trials),
            **measures.facts(),
            "outcome": outcome,
        }
        if self.is_timed and seconds is not None:
            # Without a budget a model depends on the data and the seed alone, so times are no part
            # of it.
            record["seconds"] = seconds
        self.records.append(record)
        self.watch(Progress(self.records, self.now() - self.begun))

    def result(self) -> SearchResult:
        """Blend the best parts."""
        for trial in self.trials:
            trial.forget()
        self._settle()
        held_out = self._held_out()
        chosen = self.blended(self.fitted, held_out, self.report)
        blend = replace(chosen.blend, unseen=self._unseen_weights())
        seconds = self.now() - self.begun
        self.watch(Progress(self.records, seconds, self.ended))
        return SearchResult(
            settings=self.settings,
            learned=Learned(blend, chosen.threshold, self._begun_parts()),
            trials=self.records,
            held_out=chosen.held_out_measures(held_out.n),
            calibration_error=chosen.calibration_error,
            seconds=seconds if self.is_timed else 0.0,
            ended=self.ended,
        )

    def _unseen_weights(self) -> Weights:
        """Learn what the names of labels without examples say, where there are such labels."""
        counts = np.bincount(self.data.Y.indices, minlength=self.data.n_labels)
        if counts.all():
            return AS_STATED
        views = {name: spec.view for name, spec in self.settings.parts.items()}
        samples = [
            trial.unseen(parts, views)
            for trial, parts in zip(self.trials, self.fitted, strict=True)
        ]
        sample = UnseenSample.joined(samples)
        return fit_unseen(sample.likelihood, sample.is_true)

    def _held_out(self) -> Examples:
        """Return the held-out examples of all splits, of which only the labels are used."""
        all_held_out = [trial.held_out for trial in self.trials]
        true_labels = [examples.Y for examples in all_held_out]
        Y = sparse.csr_array(sparse.vstack(true_labels, format="csr"))
        return replace(all_held_out[0], Y=Y)

    def _begun_parts(self) -> dict[str, Part]:
        """Return what the fit to all examples keeps of parts that saw nearly all of them."""
        begun = {}
        for name, part in self.fitted[0].items():
            spec = self.settings.parts[name]
            kind = KINDS[spec.kind]
            kept = kind.kept(part, spec.settings) if self._saw_nearly_all else None
            if kind.keeps_trial(spec.settings):
                kept = part
            if kept is not None:
                begun[name] = kept
        return begun

    def blended(
        self, fitted: list[dict[str, Part]], held_out: Examples, report: Report = silent
    ) -> Blended:
        """Learn the blend of parts that were fitted for each split on the held-out rows of all."""
        views = {name: spec.view for name, spec in self.settings.parts.items()}
        ranked = [
            trial.ranked_hits(parts, views)
            for trial, parts in zip(self.trials, fitted, strict=True)
        ]
        ranked_hits = {}
        for name in ranked[0]:
            hits_of_splits = [hits[name] for hits in ranked]
            ranked_hits[name] = np.vstack(hits_of_splits)
        lengths = choose_list_lengths(ranked_hits)
        listed = []
        unlisted = []
        n_splits = len(self.trials)
        for number, trial in enumerate(self.trials):
            report("blending", number, n_splits)
            candidates, sample = trial.candidates(
                fitted[number], views, lengths, self.settings.seed
            )
            listed.append(candidates)
            unlisted.append(sample)
        report("blending", n_splits, n_splits)
        return blended(
            Candidates.joined(listed),
            UnlistedSample.joined(unlisted),
            held_out,
            self.settings.threshold,
            lengths,
            ranked_hits,
        )
