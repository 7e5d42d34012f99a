"""What it gains to search settings for each data set, and what the constants of the library are
worth.

    python -m benchmarks.search_gains [--sets cooking bibtex] [--rows 12000]
    python -m benchmarks.search_gains constants [--sets ...] [--rows ...] [--preset balanced]

Rows of the training part are divided into rows to fit to, held-out rows and other rows, on which
everything is measured: a figure is the mean of P@1, P@3 and P@5 there, in percent.

Without a word, the parts of a preset are fitted with their usual settings. Then every alternative
that the parts list for a search is fitted alone, in place of its part, and blended with the others.
"searched" is the alternative that the held-out rows choose, as a search does. The gain of searching
a choice is the figure of "searched" less that of the one value that is best, on average, on the
other sets: what a better default would give is no gain of a search.

``constants`` halves and doubles each number by which the library decides, one at a time, and fits
models as a user does. Printed is the change of the mean over the sets.

Results are written to bench-results after every set or constant.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from scipy import sparse

from benchmarks.real_sets import FOLDER, file_of, load_part
from benchmarks.results import machine, write_json
from rembrandt import RembrandtClassifier, __version__, blend, candidates
from rembrandt.candidates import choose_list_lengths
from rembrandt.data.content import content_groups
from rembrandt.data.examples import Examples
from rembrandt.data.splits import draw_by_key
from rembrandt.declarations import ModelSettings, as_json
from rembrandt.errors import MemoryEstimateError
from rembrandt.estimators.base import dataset_targets
from rembrandt.fitting import fit_model
from rembrandt.linalg import logistic
from rembrandt.metrics.hits import hits
from rembrandt.metrics.ranking import precision
from rembrandt.model.facts import Facts as ModelFacts
from rembrandt.model.model import Model
from rembrandt.parts import allowance
from rembrandt.parts.allowance import ALLOWANCES
from rembrandt.parts.embedding import kind as embedding_kind
from rembrandt.parts.protocol import Choice, Part
from rembrandt.parts.registry import KINDS
from rembrandt.parts.trees import fit as tree_fit
from rembrandt.planning import resolve
from rembrandt.predict import Request, answer
from rembrandt.progress import silent
from rembrandt.search import holdout, search
from rembrandt.search.blending import Blended, blended
from rembrandt.search.holdout import splits_of
from rembrandt.search.measures import Measures
from rembrandt.search.trial import Trial

RESULTS = Path("bench-results")
SETS = (
    "cooking",
    "bibtex",
    "attack",
    "icd10cm",
    "delicious",
    "pubmed-mesh",
    "gutenberg",
    "nvd-products",
    "tibkat",
)
KS = (1, 3, 5)
SEED = 0
ROWS = 12_000
# Rows on which everything is measured.
OTHER_SHARE = 1 / 5
MAX_OTHER = 4000
# Counted seconds of a fit beyond which an alternative is left out.
MAX_SECONDS = 300.0
USUAL = "usual"
FACTORS = (0.5, 2.0)
# Numbers by which the library decides, besides the allowances of the presets.
CONSTANTS: tuple[tuple[ModuleType, str], ...] = (
    (allowance, "DENSE_RATE"),
    (allowance, "SPARSE_RATE"),
    (candidates, "LIST_LENGTH"),
    (logistic, "PENALTY"),
    (blend, "LOG_SCALE"),
    (holdout, "HELD_OUT_SHARE"),
    (holdout, "MAX_HELD_OUT"),
    (tree_fit, "LARGEST_CLUSTER"),
    (embedding_kind, "KERNEL_PENALTY"),
    (embedding_kind, "LINEAR_PENALTY"),
)
# Those of them that only decide which settings a model has.
PLANNING = (allowance, embedding_kind)
Facts = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """Examples that models are fitted to, and other rows that measure them."""

    name: str
    examples: Examples
    other: Examples


def problem_of(name: str, rows: int) -> Problem:
    """Read the training part of a set, at most some rows of it."""
    train = load_part(name, "train")
    rng = np.random.default_rng(SEED)
    if train.n_examples > rows:
        train = train.rows(np.sort(rng.permutation(train.n_examples)[:rows]))
    classifier = RembrandtClassifier(random_state=SEED)
    data, _ = classifier._read(train.inputs, lambda: dataset_targets(train), train.weights, silent)
    used = np.flatnonzero(np.bincount(data.Y.indices, minlength=data.n_labels))
    data = replace(data, Y=sparse.csr_array(data.Y[:, used]), classes=data.classes[used])
    n_other = min(MAX_OTHER, round(OTHER_SHARE * data.n))
    examples, other = draw_by_key(content_groups(data.X[:], None), n_other, SEED)
    return Problem(name, data.take(examples), data.take(other))


def problems(names: Sequence[str], rows: int) -> Iterator[Problem]:
    """Yield the sets whose files are present."""
    for name in names:
        file, _ = file_of(name, "train")
        if file.is_file():
            yield problem_of(name, rows)
        else:
            print(
                f"skipped: {name} is not in {FOLDER}; set REMBRANDT_DATA to the folder of the sets"
            )


def settings_of(examples: Examples, preset: str) -> ModelSettings:
    """Return the settings that a user of a preset gets."""
    params = RembrandtClassifier(preset=preset, random_state=SEED).get_params(deep=False)
    return resolve(params, examples)


def figure(model: Model, other: Examples) -> float:
    """Return the mean of P@1, P@3 and P@5 on other rows, in percent."""
    labels = answer(model, Request(other.rows, max(KS))).labels
    hit = hits(other.Y, labels)
    return 100 * float(np.mean([precision(hit, k) for k in KS]))


class Search:
    """The parts of one problem with their usual settings, and alternatives to them."""

    def __init__(self, problem: Problem, preset: str) -> None:
        self.problem = problem
        self.settings = settings_of(problem.examples, preset)
        [split] = splits_of(problem.examples, SEED, n_splits=1)
        self.trial = Trial(problem.examples, split)
        self.parts: dict[str, Part] = {}
        for name in self.settings.parts:
            self.parts[name] = self.trial.fit(name, self.settings, self.parts)

    def learned(self, parts: Mapping[str, Part], settings: ModelSettings) -> Blended:
        """Return the blend of these parts that is learned on the held-out rows."""
        trial = self.trial
        views = {name: spec.view for name, spec in settings.parts.items()}
        ranked_hits = trial.ranked_hits(parts, views)
        lengths = choose_list_lengths(ranked_hits)
        candidates, unlisted = trial.candidates(dict(parts), views, lengths, SEED)
        return blended(
            candidates, unlisted, trial.held_out, settings.threshold, lengths, ranked_hits
        )

    def model(self, parts: Mapping[str, Part], settings: ModelSettings, learned: Blended) -> Model:
        """Return a model of these parts with their blend."""
        fit_data = self.trial.fit_data
        return Model(
            classes=fit_data.classes,
            multiclass=fit_data.multiclass,
            parts=dict(parts),
            blend=learned.blend,
            label_counts=np.bincount(fit_data.Y.indices, minlength=fit_data.n_labels),
            n_train=fit_data.n,
            settings=settings,
            facts=ModelFacts(version=__version__, memory_estimate=0),
        )

    def measured(
        self, parts: Mapping[str, Part], settings: ModelSettings
    ) -> tuple[float, Measures]:
        """Return the figure of a model on other rows, and its measures on the held-out rows, by
        which a search chooses.
        """
        learned = self.learned(parts, settings)
        model = self.model(parts, settings, learned)
        return figure(model, self.problem.other), learned.measures

    def choices(self) -> Iterator[tuple[str, Choice]]:
        """Yield the names of the parts with what a search may change in them."""
        for name, spec in self.settings.parts.items():
            data = self.problem.examples.view(spec.view)
            for choice in KINDS[spec.kind].choices(spec.settings, data):
                yield name, choice

    def tried(self, name: str, choice: Choice, usual: float, usual_measures: Measures) -> Facts:
        """Return the figures of the alternatives of one choice, and of the one that the held-out
        rows choose.
        """
        spec = self.settings.parts[name]
        best = usual_measures
        figures = {USUAL: usual}
        searched = USUAL
        values: Facts = {}
        for position, alternative in enumerate(choice.alternatives):
            label = str(position)
            values[label] = as_json(dict(zip(choice.names, alternative, strict=True)))
            candidate = replace(spec.settings, **values[label])
            if candidate == spec.settings:
                figures[label] = usual
                continue
            part = self._fitted(name, candidate)
            if part is None:
                continue
            settings = self.settings.with_part(name, candidate)
            figures[label], measures = self.measured(self.parts | {name: part}, settings)
            if measures.better_than(best):
                best = measures
                searched = label
        return {
            "part": name,
            "names": list(choice.names),
            "values": values,
            "figures": figures,
            "chosen": searched,
            "searched": figures[searched],
        }

    def _fitted(self, name: str, candidate: Any) -> Part | None:
        """Fit other settings of a part; None where that would take too much time or memory."""
        spec = self.settings.parts[name]
        work = KINDS[spec.kind].work(candidate, self.trial.fit_data.view(spec.view))
        if work.seconds > MAX_SECONDS:
            return None
        earlier = {other: part for other, part in self.parts.items() if other != name}
        try:
            return self.trial.fit(name, self.settings.with_part(name, candidate), earlier)
        except (MemoryEstimateError, MemoryError):
            return None


def gains(
    names: Sequence[str] = SETS,
    rows: int = ROWS,
    preset: str = "balanced",
    folder: Path = RESULTS,
) -> Facts:
    """Measure every alternative on every set, and print what searching each choice gains."""
    results: list[Facts] = []
    document: Facts = {}
    folder.mkdir(parents=True, exist_ok=True)
    for problem in problems(names, rows):
        tried = Search(problem, preset)
        usual, usual_measures = tried.measured(tried.parts, tried.settings)
        result = {
            "set": problem.name,
            "examples": problem.examples.n,
            "labels": problem.examples.n_labels,
            "parts": list(tried.settings.parts),
            USUAL: usual,
            "choices": [
                tried.tried(name, choice, usual, usual_measures) for name, choice in tried.choices()
            ],
        }
        results.append(result)
        print("\n".join(set_table(result)), flush=True)
        document = {
            "machine": machine(),
            "preset": preset,
            "rows": rows,
            "sets": results,
            "gains": left_out_gains(results),
        }
        write_json(folder / "search_gains.json", document)
    if results:
        print("\n".join(gains_table(document["gains"])), flush=True)
    return document


def left_out_gains(results: list[Facts]) -> list[Facts]:
    """Return for each choice what a search gains on each set over the value that is best, on
    average, on the other sets.

    Only values that all sets with the choice have are compared; among equals, and with no other
    set, the usual settings come first.
    """
    by_choice: dict[tuple[str, ...], dict[str, Facts]] = {}
    for result in results:
        for choice in result["choices"]:
            key = (choice["part"], *choice["names"])
            by_choice.setdefault(key, {})[result["set"]] = choice
    rows = []
    for (part, *names), of_sets in by_choice.items():
        common = set.intersection(*(set(choice["figures"]) for choice in of_sets.values()))
        labels = [USUAL, *sorted(common - {USUAL})]
        of_each_set = {}
        for set_name, choice in of_sets.items():
            others = [other for name, other in of_sets.items() if name != set_name]
            left_out = max(
                labels,
                key=lambda label: sum(other["figures"][label] for other in others),
            )
            of_each_set[set_name] = {
                "left_out": left_out,
                "chosen": choice["chosen"],
                "gain": choice["searched"] - choice["figures"][left_out],
            }
        mean_gain = float(np.mean([row["gain"] for row in of_each_set.values()]))
        rows.append({"part": part, "names": names, "sets": of_each_set, "gain": mean_gain})
    return rows


def set_table(result: Facts) -> list[str]:
    """Return the figures of one set as lines: the change by each alternative, in points."""
    lines = [
        f"{result['set']}: {result['examples']:,} examples, {result['labels']:,} labels, "
        f"{' + '.join(result['parts'])}: {result[USUAL]:.2f}"
    ]
    for choice in result["choices"]:
        for label, values in choice["values"].items():
            words = ", ".join(f"{name} {value}" for name, value in values.items())
            change = "–"
            if label in choice["figures"]:
                change = f"{choice['figures'][label] - result[USUAL]:+.2f}"
            mark = "  searched" if choice["chosen"] == label else ""
            lines.append(f"  {choice['part']:<12}{words:<56}{change:>7}{mark}")
    return lines


def gains_table(rows: list[Facts]) -> list[str]:
    """Return the gain of searching each choice as lines, in points."""
    lines = ["gain of a search over the value that is best on the other sets:"]
    for row in rows:
        each_set = ", ".join(f"{name} {facts['gain']:+.2f}" for name, facts in row["sets"].items())
        words = f"{row['part']}: {', '.join(row['names'])}"
        lines.append(f"  {words:<44}{row['gain']:>+7.3f}  ({each_set})")
    return lines


@dataclass(frozen=True)
class Change:
    """Another value of a number by which the library decides."""

    name: str
    factor: float
    value: float
    # The module of the number; None for one of the allowance of a preset.
    home: ModuleType | None = None

    @property
    def only_plans(self) -> bool:
        """Whether the number only decides which settings a model has."""
        return self.home is None or self.home in PLANNING


def changes_of(preset: Any) -> list[Change]:
    """Return both changes of every number; a whole number stays one, and 0 is left as it is."""
    changes = []
    numbers: list[tuple[str, Any, ModuleType | None]] = []
    for field in fields(ALLOWANCES[preset]):
        value = getattr(ALLOWANCES[preset], field.name)
        if not isinstance(value, bool):
            numbers.append((field.name, value, None))
    for home, name in CONSTANTS:
        numbers.append((name, getattr(home, name), home))
    for name, value, home in numbers:
        for factor in FACTORS:
            changed = factor * value
            if isinstance(value, int):
                changed = max(1, round(changed))
            if changed != value:
                changes.append(Change(name, factor, changed, home))
    return changes


@contextmanager
def applied(change: Change, preset: Any) -> Iterator[None]:
    """Give a number its other value in every module that has imported it."""
    with ExitStack() as stack:
        if change.home is None:
            other = replace(ALLOWANCES[preset], **{change.name: change.value})
            stack.enter_context(mock.patch.dict(ALLOWANCES, {preset: other}))
        else:
            for module in holders(change.home, change.name):
                stack.enter_context(mock.patch.object(module, change.name, change.value))
        yield


def holders(home: ModuleType, name: str) -> list[ModuleType]:
    """Return the modules of the library that have imported a number, and the one that defines
    it.
    """
    number = vars(home)[name]
    modules = []
    for module_name, module in sys.modules.items():
        if module_name.startswith("rembrandt.") and vars(module).get(name) is number:
            modules.append(module)
    return modules


def fitted_figure(problem: Problem, settings: ModelSettings, varies: bool) -> float:
    """Fit a model as a classifier does, and measure it."""
    result = search(problem.examples, settings, varies)
    model = fit_model(problem.examples, result.settings, result.learned)
    return figure(model, problem.other)


def constants(
    names: Sequence[str] = SETS,
    rows: int = ROWS,
    preset: Any = "balanced",
    folder: Path = RESULTS,
) -> Facts:
    """Halve and double every number, and print the change of the mean over the sets."""
    folder.mkdir(parents=True, exist_ok=True)
    of_sets = list(problems(names, rows))
    varies = ALLOWANCES[preset].varies_settings
    usual_settings = {problem.name: settings_of(problem.examples, preset) for problem in of_sets}
    usual = {
        problem.name: fitted_figure(problem, usual_settings[problem.name], varies)
        for problem in of_sets
    }
    document: Facts = {
        "machine": machine(),
        "preset": preset,
        "rows": rows,
        USUAL: usual,
        "constants": [],
    }
    if not of_sets:
        return document
    mean = float(np.mean(list(usual.values())))
    print(f"mean of {len(usual)} sets: {mean:.2f}", flush=True)
    for change in changes_of(preset):
        differences = {}
        with applied(change, preset):
            for problem in of_sets:
                settings = settings_of(problem.examples, preset)
                is_same = settings == usual_settings[problem.name]
                if change.only_plans and is_same and not varies:
                    differences[problem.name] = 0.0
                else:
                    after = fitted_figure(problem, settings, varies)
                    differences[problem.name] = after - usual[problem.name]
        row = {
            "name": change.name,
            "factor": change.factor,
            "value": change.value,
            "change": float(np.mean(list(differences.values()))),
            "sets": differences,
        }
        document["constants"].append(row)
        print(constants_line(row), flush=True)
        write_json(folder / "search_constants.json", document)
    return document


def constants_line(row: Facts) -> str:
    """Return the change by one value of a constant: of the mean, and the extremes of the sets."""
    lowest = min(row["sets"].values())
    highest = max(row["sets"].values())
    what = f"{row['name']} × {row['factor']:g} = {row['value']:g}"
    return f"  {what:<36}{row['change']:>+7.3f}  ({lowest:+.2f} to {highest:+.2f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["gains", "constants"], default="gains")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--rows", type=int, default=ROWS, help="of a training part, at most")
    parser.add_argument("--preset", choices=["fast", "balanced", "best"], default="balanced")
    options = parser.parse_args()
    if options.what == "gains":
        gains(options.sets, options.rows, options.preset)
    else:
        constants(options.sets, options.rows, options.preset)
