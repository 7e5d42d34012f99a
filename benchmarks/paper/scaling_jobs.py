"""The fits of the scaling experiment in order of importance, and the results that are known so
far.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from rembrandt.errors import DataError
from rembrandt.parts.embedding.settings import USUAL_LABEL_POWER, USUAL_ROW_POWER

Stage = Literal["choose", "final", "difficulty", "sets", "stopping"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Scaling = tuple[float, float]  # powers of label counts and of row lengths

UNSCALED: Scaling = (0.0, 0.0)
LABEL_POWERS, ROW_POWERS = (0.0, 0.25, 0.5), (0.0, 0.5)
METHODS = ("RE", "CS", "CCA", "PLST")
OWN_RIDGE, LABEL_RIDGE = "CCA, label ridge 0.001", 0.001  # instead of the ridge of the features
MAIN = ("mesh", "nvd-versions")
OTHERS = ("bibtex", "delicious", "cooking", "aloi", "pubmed-mesh", "gutenberg", "nvd-products")
ONE_LABEL = ("mesh", "aloi")  # rows have one label, so their length does not matter
SUBSET = "mesh:5000"  # 5,000 classes
DROPPED = (0.9, 0.95, 0.97)  # shares of the n-grams
K, SEEDS = 300, (0, 1, 2)
SMALL_K = {"aloi": 50}
OTHER_K = 100
OTHER_RANKS = (100, 1000)  # of the logistic fits
PAPER_K = 500  # of LSHTC, whose stand-in is nvd-versions
STEPS, FEW_STEPS = (
    10,
    4,
)  # of conjugate gradients at most: of this experiment and the package, and of older fits


@dataclass(frozen=True)
class Job:
    """One fit.

    All but "final" fits leave out the held-out rows of the training part, and are measured on those
    and on the test rows. A "final" fit uses all training rows and is measured on the test rows.
    """

    stage: Stage
    set: str
    method: str
    scaling: Scaling = UNSCALED
    k: int = K
    decoder: Literal["ridge", "logistic"] = "ridge"
    seed: int = 0
    dropped: float = 0.0
    max_iter: int = STEPS

    @property
    def key(self) -> str:
        return json.dumps([*asdict(self).values()])

    @property
    def kind(self) -> tuple[Any, ...]:
        """What the time of a fit depends on most."""
        return self.set, self.decoder, self.k, self.dropped > 0


class Results:
    """Finished fits, one line of JSON for each, in a file that every new line is appended to."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, self.lines = path, {}
        if path.exists():
            first, *lines = read_lines(path)
            if first != settings:
                raise DataError(
                    f"these results have other settings ({first}); choose another output folder",
                    path,
                )
            self.lines = {line["key"]: line for line in lines if "failed" not in line}
        else:
            self._append(settings)

    def add(self, job: Job, found: dict[str, Any]) -> None:
        """Append a result; a line with "failed" is kept in the file, and the fit is tried again by
        the next run.
        """
        line = {"key": job.key, **asdict(job), **found}
        self._append(line)
        if "failed" not in found:
            self.lines[job.key] = json.loads(json.dumps(line))

    def __contains__(self, job: Job) -> bool:
        return job.key in self.lines

    def seconds(self, kind: tuple[Any, ...]) -> float | None:
        """Return the longest time of a finished fit of this kind; None if there is none."""
        known = [line["seconds"] for line in self.lines.values() if job_of(line).kind == kind]
        return max(known, default=None)

    def best(self, jobs: Iterable[Job]) -> Scaling | None:
        """Return the scaling with the best P@1 on held-out rows; None until all fits are
        finished.
        """
        known = [self.lines.get(job.key) for job in jobs]
        return best_scaling([line for line in known if line is not None]) if all(known) else None

    def _append(self, line: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the settings and the results; the last line may have been cut by an interruption."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        path.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")
        lines = lines[:-1]
    try:
        found = [json.loads(line) for line in lines]
    except ValueError as error:
        raise DataError("this is not a file of results", path) from error
    if not found:
        raise DataError("this file of results is empty; delete it", path)
    return found


def job_of(line: dict[str, Any]) -> Job:
    """Return the fit that a line of results belongs to."""
    fields = {name: line[name] for name in Job.__dataclass_fields__}
    return Job(**fields | {"scaling": tuple(line["scaling"])})


def best_scaling(lines: list[dict[str, Any]]) -> Scaling:
    """Return the scaling with the best P@1 on held-out rows, and of equal ones the smallest."""
    best = min(lines, key=lambda line: (-line["held"]["p@1"], line["scaling"]))
    return tuple(best["scaling"])


def scalings(name: str) -> list[Scaling]:
    """Return the grid of a set."""
    rows = (0.0,) if name.partition(":")[0] in ONE_LABEL else ROW_POWERS
    return [(label, row) for row in rows for label in LABEL_POWERS]


def choosing(name: str, method: str, dropped: float = 0.0, max_iter: int = STEPS) -> list[Job]:
    """Return the fits that choose a scaling at k = 300."""
    stage: Stage = "difficulty" if dropped else "choose"
    return [
        Job(stage, name, method, scaling, dropped=dropped, max_iter=max_iter)
        for scaling in scalings(name)
    ]


def set_check(name: str) -> list[Job]:
    """Return the fits that compare the choice on held-out rows with the best scaling on test
    rows.
    """
    if name in MAIN:
        return choosing(name, "RE")
    return [
        Job("sets", name, "RE", scaling, k=SMALL_K.get(name, OTHER_K)) for scaling in scalings(name)
    ]


def usual_scaling(name: str) -> Scaling:
    """Return the scaling of a set that `label_power` and `row_power` stand for as "auto"."""
    row_power = USUAL_ROW_POWER
    if name in ONE_LABEL:
        row_power = 0.0  # which is the same
    return USUAL_LABEL_POWER, row_power


def plan(results: Results) -> Iterator[Job]:
    """Yield the fits in order of importance. Later ones depend on the results of earlier ones."""
    for name in MAIN:
        for method in METHODS:
            yield from choosing(name, method)
    yield from _final(results, METHODS, K, SEEDS[:1])
    yield from _final(results, ("RE", "CS"), K, SEEDS[1:])
    yield from _difficulty(results)
    yield from _final(results, ("CCA",), K, SEEDS[1:])
    for name in MAIN:
        yield Job("choose", name, OWN_RIDGE)
        yield Job("final", name, OWN_RIDGE, decoder="logistic")
    yield Job("stopping", SUBSET, "CS", k=OTHER_K, decoder="logistic")
    yield Job("stopping", SUBSET, "RE", k=OTHER_K, decoder="logistic")
    for name in OTHERS:
        yield from set_check(name)
    for k in OTHER_RANKS:
        yield from _final(results, ("RE", "CS"), k, SEEDS[:1])
    for k in OTHER_RANKS:
        yield from _final(results, ("CCA", "PLST"), k, SEEDS[:1])
    yield from _final(results, ("PLST",), K, SEEDS[1:])
    yield from _final(results, ("RE", "CS"), PAPER_K, SEEDS[:1], ("nvd-versions",))
    for method in ("RE", "CS"):  # does the logistic decoder want the same scaling?
        yield from (replace(job, decoder="logistic") for job in choosing("mesh", method))


def _difficulty(results: Results) -> Iterator[Job]:
    """Yield the fits of `mesh` without a share of its n-grams: first the choice of a scaling, then
    logistic ones.
    """
    for share in DROPPED:
        for method in ("RE", "CS"):
            yield from choosing("mesh", method, share)
            best = results.best(choosing("mesh", method, share))
            for scaling in dict.fromkeys((UNSCALED, best or UNSCALED)):
                yield Job("difficulty", "mesh", method, scaling, decoder="logistic", dropped=share)


def _final(
    results: Results,
    methods: Iterable[str],
    k: int,
    seeds: Iterable[int],
    names: Iterable[str] = MAIN,
) -> Iterator[Job]:
    """Yield the logistic fits of each method without scaling and with the scaling that held-out
    rows chose.
    """
    for seed in seeds:
        for name in names:
            for method in methods:
                best = results.best(choosing(name, method))
                for scaling in dict.fromkeys((UNSCALED, best or UNSCALED)):
                    yield Job("final", name, method, scaling, k, "logistic", seed)
