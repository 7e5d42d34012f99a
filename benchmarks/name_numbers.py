"""What the numbers are worth by which names of labels are matched, compared and listed.

    python -m benchmarks.name_numbers [--sets attack gutenberg] [--rows 6000] [--labels 60]
    python -m benchmarks.name_numbers --only MAP_RANK MAX_SIMILAR

Each number is halved and doubled, one at a time, and models are fitted as a user does (``fast``).
Only the part of the names is fitted again: the other parts are those of the usual numbers.

All rows are training rows. Labels with 5 to 50 examples leave them with their rows, and are added
by their names alone. Measured on a fifth of the rows: the mean of P@1, P@3 and P@5 of the other
labels before that, and how often the added labels are among the first five of the rows that have
them. The labels that `benchmarks.zero_shot` hides are not among them.

Results are written to bench-results after every number.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.real_sets import FOLDER
from benchmarks.results import machine, write_json
from benchmarks.search_gains import FACTORS, holders
from benchmarks.zero_shot import (
    FIRST,
    Rows,
    chosen_labels,
    first_labels,
    names_in,
    names_of_rows,
    parts_of,
    possible_labels,
    some_rows,
    without_labels,
)
from rembrandt import RembrandtClassifier, fitting, probabilities
from rembrandt.data.content import content_sum
from rembrandt.data.examples import Examples
from rembrandt.parts.names import fit, index, similarity, stems, terms, word_map
from rembrandt.parts.protocol import Part
from rembrandt.search import trial

RESULTS = Path("bench-results")
SETS = ("attack", "gutenberg", "icd10cm", "pubmed-mesh")
ROWS = 6000
MAX_TEST = 2000
N_LABELS = 60
# Labels of a set that `benchmarks.zero_shot` may hide, and no others do.
N_RESERVED = 200
KS = (1, 3, 5)
USUAL = "usual"
KNOWN = "P@1, 3, 5"
ADDED = "recall@5 of added labels"
NUMBERS: tuple[tuple[ModuleType, str], ...] = (
    (fit, "READ_TEXTS"),
    (fit, "MAP_TEXTS"),
    (fit, "LEARNED_TEXTS"),
    (fit, "LEARNED_MATCHES"),
    (fit, "CHECKED_TEXTS"),
    (fit, "CHECKED_LABELS"),
    (fit, "FEWEST_HITS"),
    (fit, "MIN_STANDARD_ERRORS"),
    (fit, "FEWEST_EXAMPLES"),
    (fit, "SMALLEST_FLOOR"),
    (fit, "HIDDEN_LABELS"),
    (fit, "HIDDEN_TEXTS"),
    (fit, "FEWEST_HIDDEN_HITS"),
    (index, "MAX_MATCHES"),
    (index, "FIRST_WEIGHTS"),
    (index, "_LOG_SCALE"),
    (similarity, "MAX_SIMILAR"),
    (stems, "MAX_STEMS"),
    (terms, "STEM_LENGTH"),
    (word_map, "MAP_RANK"),
    (word_map, "OVERSAMPLES"),
    (word_map, "MAP_RIDGE"),
    (word_map, "MAP_ITERATIONS"),
    (word_map, "PRECONDITIONER_WIDTH"),
    (word_map, "WORD_POWER"),
    (word_map, "LENGTH_POWER"),
    (word_map, "FEWEST_TEXTS"),
    (probabilities, "MAX_UNSEEN_LABELS"),
)
# Compiled code has them, so that they are changed in a process of their own before it is loaded.
COMPILED = ("_LOG_SCALE", "STEM_LENGTH")
Figures = dict[str, dict[str, float]]  # of each set


@dataclass(frozen=True)
class Problem:
    """Rows that a model is fitted to, others that measure it, and labels that leave them."""

    name: str
    rest: Rows
    test: Rows
    names: dict[str, Any]
    hidden: list[str]


@dataclass(frozen=True)
class Change:
    """Another value of a number by which the library decides."""

    home: ModuleType
    name: str
    factor: float

    @property
    def value(self) -> Any:
        """The other value; a whole number stays one."""
        number = getattr(self.home, self.name)
        if isinstance(number, int):
            return max(1, round(self.factor * number))
        return self.factor * number

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give the number this value in every module that has imported it."""
        value = self.value
        with ExitStack() as stack:
            for module in holders(self.home, self.name):
                stack.enter_context(mock.patch.object(module, self.name, value))
            yield


class OtherParts:
    """Fits parts of models; those of other kinds than names are fitted once to the same rows."""

    def __init__(self) -> None:
        self._fit_part = fitting.fit_part
        self._kept: dict[tuple[str, int | None], Part] = {}

    def fit_part(self, name: str, data: Examples, *arguments: Any, **options: Any) -> Part:
        """Fit a part, or return one that was fitted to the same rows."""
        if name == "names":
            return self._fit_part(name, data, *arguments, **options)
        key = (name, content_sum(data))
        if key not in self._kept:
            self._kept[key] = self._fit_part(name, data, *arguments, **options)
        return self._kept[key]

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Let fits take the parts that are kept."""
        with (
            mock.patch.object(fitting, "fit_part", self.fit_part),
            mock.patch.object(trial, "fit_part", self.fit_part),
        ):
            yield


def problem_of(set_name: str, n_rows: int, n_labels: int) -> Problem:
    """Divide the training rows of a set, and hide labels."""
    all_train, test = parts_of(set_name, develop=True)
    reserved = chosen_labels(parts_of(set_name, develop=False)[0], N_RESERVED)
    train = some_rows(all_train, n_rows)
    possible = possible_labels(train)
    hidden = possible[~np.isin(possible, reserved)][:n_labels]
    return Problem(
        name=set_name,
        rest=without_labels(train, hidden),
        test=some_rows(test, MAX_TEST),
        names=names_in(set_name),
        hidden=[train.labels[column] for column in hidden],
    )


def problems(names: Sequence[str], n_rows: int, n_labels: int) -> list[Problem]:
    """Return the problems of the sets whose files are present."""
    if not FOLDER.is_dir():
        print(f"skipped: there is no data at {FOLDER}; set REMBRANDT_DATA to its folder")
        return []
    return [problem_of(name, n_rows, n_labels) for name in names]


def figures(problems: Sequence[Problem], other_parts: OtherParts) -> Figures:
    """Fit a model to each set, and measure it before and after labels are added."""
    results = {}
    for problem in problems:
        with other_parts.kept():
            results[problem.name] = figures_of(problem)
    return results


def figures_of(problem: Problem) -> dict[str, float]:
    """Fit a model to one set, and measure it before and after labels are added."""
    rest = problem.rest
    test = problem.test
    hidden = set(problem.hidden)
    classifier = RembrandtClassifier(preset="fast", random_state=0)
    shown = names_of_rows(rest, problem.names)
    classifier.fit(rest.texts, rest.lists(), label_names=shown)
    before = first_labels(classifier, test.texts, max(KS))[0]
    after = before
    # Without the part no label can be added.
    if "names" in classifier.model_.parts:
        classifier.add_labels({label: problem.names.get(label, "") for label in problem.hidden})
        after = first_labels(classifier, test.texts, FIRST)[0]
    n_right = dict.fromkeys(KS, 0)
    n_hidden = 0
    n_predicted = 0
    for row, labels in enumerate(map(set, test.lists())):
        for k in KS:
            n_right[k] += len((labels - hidden) & set(before[row, :k]))
        n_hidden += len(labels & hidden)
        n_predicted += len(labels & hidden & set(after[row]))
    precisions = [n_right[k] / (k * len(test.texts)) for k in KS]
    return {
        KNOWN: 100 * float(np.mean(precisions)),
        ADDED: 100 * n_predicted / max(1, n_hidden),
    }


def one(change: Change, sets: Sequence[str], n_rows: int, n_labels: int) -> None:
    """Print the figures with one number changed, as JSON; compiled code is not loaded before."""
    with change.applied():
        measured = figures(problems(sets, n_rows, n_labels), OtherParts())
    print(json.dumps(measured))


def in_own_process(change: Change, sets: Sequence[str], n_rows: int, n_labels: int) -> Figures:
    """Return the figures that a new process prints."""
    command = [sys.executable, "-m", "benchmarks.name_numbers", "--one", change.name]
    command += ["--factor", str(change.factor), "--sets", *sets]
    command += ["--rows", str(n_rows), "--labels", str(n_labels)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: Figures = json.loads(done.stdout.splitlines()[-1])
    return measured


def main(
    sets: Sequence[str] = SETS,
    n_rows: int = ROWS,
    n_labels: int = N_LABELS,
    only: Sequence[str] = (),
    folder: Path = RESULTS,
) -> dict[str, Any]:
    """Halve and double every number, and print the changes of the means over the sets."""
    folder.mkdir(parents=True, exist_ok=True)
    of_sets = problems(sets, n_rows, n_labels)
    if not of_sets:
        return {}
    other_parts = OtherParts()
    usual = figures(of_sets, other_parts)
    document: dict[str, Any] = {"machine": machine(), "rows": n_rows, USUAL: usual, "numbers": []}
    print(f"usual: {usual}", flush=True)
    for home, name in NUMBERS:
        if only and name not in only:
            continue
        for factor in FACTORS:
            change = Change(home, name, factor)
            if np.array_equal(change.value, getattr(home, name)):
                continue
            if name in COMPILED:
                measured = in_own_process(change, sets, n_rows, n_labels)
            else:
                with change.applied():
                    measured = figures(of_sets, other_parts)
            row = {"name": name, "factor": factor, "figures": measured}
            document["numbers"].append(row)
            print(line_of(row, usual), flush=True)
            write_json(folder / "name_numbers.json", document)
    return document


def line_of(row: dict[str, Any], usual: Figures) -> str:
    """Return the changes of both figures: of the mean, and the extremes of the sets."""
    words = [f"  {row['name']} × {row['factor']:g}".ljust(32)]
    for figure in (KNOWN, ADDED):
        changes = [row["figures"][name][figure] - usual[name][figure] for name in usual]
        mean = float(np.mean(changes))
        words.append(f"{figure} {mean:+.2f} ({min(changes):+.2f} to {max(changes):+.2f})  ")
    return "".join(words)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--rows", type=int, default=ROWS, help="of a training part, at most")
    parser.add_argument("--labels", type=int, default=N_LABELS, help="labels that are hidden")
    parser.add_argument("--only", nargs="+", default=[], help="which numbers; all by default")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--factor", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        [home] = [module for module, name in NUMBERS if name == options.one]
        chosen = Change(home, options.one, options.factor)
        one(chosen, options.sets, options.rows, options.labels)
    else:
        main(options.sets, options.rows, options.labels, options.only)
