"""How many small mistakes would the tests notice?

python -m benchmarks.mutate [--count 200] [--seed 0] [--only PART,...] [--first PART,...]
    [--minutes M] [--output FILE]

Takes mutants of the numerical code at random: comparisons, signs, axes, numbers that are off by
one, dropped terms, minima that are maxima. Kinds have equal shares as far as there are enough. For
each mutant the tests of its own room run in a copy of the tree, quick files first, until one fails.
Kernels are compiled only where a mutant changes them. A mutant is caught when a test fails within two minutes of processor time. One that
hangs counts as caught where the tests alone need less than half of that.

Mutants that survive are listed. Some of them cannot be noticed, because they change how long
something takes or which of two equal numbers is taken. --only takes files by parts of their names,
so that all mutants are drawn from these. --first draws from all files and begins with these. With
--output the results are appended to a file, and a later run continues with the others. With
--minutes no mutant is begun after so much processor time.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutants import KINDS, Mutant, mutants
from benchmarks.mutate_tests import file_of

ROOT = Path(__file__).parent.parent
PACKAGE = "src/rembrandt"
LIMIT = 120  # seconds of processor time for the tests of one mutant
# A process that takes longer than this many times its tests hangs, with a time to compile kernels.
PATIENCE = 4
COMPILING = 20  # seconds
WAIT_SHARE = 20  # on a busy machine a second of processor time may take this many
MEMORY = 6 << 30
NOT_RUN = (3, 4, 5)  # pytest has an error of its own, does not understand, or finds no test
# The tests of each file, the first entry that is the beginning of its name; the quickest first.
TESTS: dict[str, tuple[str, ...]] = {
    "linalg/hinge.py": ("tests/linalg/test_hinge.py", "tests/parts/test_trees.py"),
    "linalg/hinge_panels.py": ("tests/linalg/test_hinge.py", "tests/parts/test_trees.py"),
    "linalg/inverted.py": ("tests/linalg/test_inverted.py",),
    "linalg/bisection.py": ("tests/linalg/test_clusters.py",),
    "linalg/kmeans.py": ("tests/linalg/test_clusters.py",),
    "linalg/cluster_search.py": ("tests/linalg/test_clusters.py",),
    "linalg/blocks.py": ("tests/linalg/test_blocks.py", "tests/linalg/test_eigen.py"),
    "linalg/dense.py": ("tests/linalg/test_dense.py",),
    "linalg/eigen.py": ("tests/linalg/test_eigen.py",),
    "linalg/ridge.py": ("tests/linalg/test_ridge.py",),
    "linalg/validation.py": (
        "tests/linalg/test_validation.py",
        "tests/estimators/test_bad_matrices.py",
    ),
    "linalg/covering.py": ("tests/linalg/test_covering.py",),
    "linalg/logistic.py": ("tests/linalg/test_logistic.py", "tests/parts/names/test_fit.py"),
    "linalg/selection.py": ("tests/linalg/test_clusters.py", "tests/linalg/test_ranking.py"),
    "linalg/ranking.py": ("tests/linalg/test_ranking.py",),
    "linalg/transposed.py": ("tests/linalg/test_transposed.py", "tests/linalg/test_sparse.py"),
    "linalg/sparse.py": ("tests/linalg/test_sparse.py", "tests/linalg/test_transposed.py"),
    "linalg/": ("tests/linalg",),
    "metrics/hierarchical.py": ("tests/test_hierarchy.py",),
    "metrics/": ("tests/metrics",),
    "parts/trees/": ("tests/parts/test_trees.py", "tests/parts/test_parts.py"),
    "parts/centroids/": ("tests/parts/test_parts.py",),
    "parts/embedding/decoders/candidates.py": (
        "tests/parts/decoders/test_candidates.py",
        "tests/parts/decoders/test_shared.py",
    ),
    "parts/embedding/decoders/moments.py": ("tests/test_updating.py",),
    "parts/embedding/decoders/": ("tests/parts/decoders",),
    "parts/embedding/operators/": ("tests/parts/embedding",),
    "parts/embedding/shortlist.py": ("tests/parts/test_shortlist.py",),
    "parts/embedding/kind.py": ("tests/test_planning.py", "tests/parts/test_parts.py"),
    "parts/embedding/": ("tests/parts/embedding", "tests/parts/test_parts.py"),
    "parts/encoder/": ("tests/parts/encoder",),
    "parts/names/": (
        "tests/parts/names",
        "tests/test_zero_shot.py",
        "tests/test_similar_names.py",
        "tests/parts/test_parts.py",
    ),
    "parts/": ("tests/parts/test_parts.py", "tests/parts/test_trees.py", "tests/test_planning.py"),
    "candidates.py": ("tests/test_blend.py", "tests/search/test_blending.py"),
    "blend.py": ("tests/test_blend.py", "tests/search/test_blending.py"),
    "predict.py": (
        "tests/model/test_tail.py",
        "tests/model/test_label_sets.py",
        "tests/model/test_probabilities.py",
        "tests/test_zero_shot.py",
    ),
    "probabilities.py": (
        "tests/model/test_probabilities.py",
        "tests/model/test_label_sets.py",
        "tests/test_zero_shot.py",
        "tests/explore/test_explain.py",
    ),
}
# No tests of these: they need a GPU, or read numbers that only say how much memory is needed.
LEFT_OUT = ("linalg/triton_columns.py", "linalg/threads.py")
IGNORED_TESTS = ("tests/parts/decoders/test_torch.py", "tests/linalg/test_triton_columns.py")


@dataclass
class Outcome:
    """What the tests said of one mutant."""

    description: str
    kind: str
    file: str
    outcome: str  # caught, hangs, survives, slow
    seconds: float
    test: str = ""


@dataclass
class Run:
    """What a run of tests gave."""

    code: int
    seconds: float  # of processor time
    failed_test: str


class CleanRun:
    """What all tests of a room gave without a mutant."""

    def __init__(self, seconds: float, recorded: dict[str, Any]) -> None:
        self.seconds = seconds
        self.test_seconds: dict[str, float] = recorded["seconds"]
        self._users: dict[str, list[str]] = recorded["users"]

    def tests_of(self, file: str, lines: range) -> dict[str, float]:
        """Return the tests that execute one of some lines, and how long each takes."""
        users: set[str] = set()
        for line in lines:
            users.update(self._users.get(f"{file}:{line}", []))
        if "" in users:
            return self.test_seconds
        return {
            test: seconds
            for test, seconds in self.test_seconds.items()
            if test in users or file_of(test) in users
        }


class Workshop:
    """A copy of the tree in which mutants are tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self.kernels = folder / "kernels"
        self.clean_runs: dict[tuple[str, ...], CleanRun] = {}
        self.number = 0
        self.seconds = 0.0  # of processor time, of all tests together
        ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
        for name in ("src", "tests", "benchmarks"):
            shutil.copytree(ROOT / name, self.tree / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy2(ROOT / name, self.tree / name)
        self.environment = os.environ | {
            "PYTHONPATH": f"{self.tree / 'src'}{os.pathsep}{self.tree}",
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "NUMBA_CACHE_DIR": str(self.kernels),
            "NUMBA_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "REMBRANDT_NUM_THREADS": "1",
        }
        self.environment.pop("REMBRANDT_DATA", None)
        self._compile()
        self.tests = self._python(
            "-m",
            "benchmarks.mutate_tests",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def close(self) -> None:
        """End the process that runs the tests."""
        self.tests.communicate()

    def test(self, mutant: Mutant) -> Outcome:
        """Run those tests of a mutant's room that execute what it changes."""
        tests = tests_of(mutant.file)
        clean = self._clean_run(tests)
        path = self.tree / PACKAGE / mutant.file
        source = path.read_bytes()
        before = path.stat().st_mtime_ns
        executing = clean.tests_of(mutant.file, mutant.lines)
        run = Run(0, 0.0, "")
        self.number += 1
        kernels = self.folder / f"kernels-{self.number}"
        # Links: numba replaces files and does not write into them.
        shutil.copytree(self.kernels, kernels, copy_function=os.link)
        try:
            path.write_bytes(mutant.applied(source))
            later = before + self.number * 10**10  # bytecode goes by the second and the size
            os.utime(path, ns=(later, later))
            if executing:
                files = sorted({file_of(test) for test in executing})
                limit = min(LIMIT, int(COMPILING + PATIENCE * sum(executing.values())))
                run, _ = self._pytest(files, kernels, limit, seconds=executing)
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(before, before))
            shutil.rmtree(kernels)
        if run.code in NOT_RUN:
            log = (self.folder / "result.log").read_text(encoding="utf-8")
            raise SystemExit(f"pytest ended with {run.code}:\n{log[-3000:]}")
        outcome = "caught"
        if run.code == 0:
            outcome = "survives"
        elif run.code in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM):
            is_quick = clean.seconds < LIMIT / 2
            outcome = "hangs" if is_quick else "slow"
        return Outcome(
            description=mutant.describe(source),
            kind=mutant.kind,
            file=mutant.file,
            outcome=outcome,
            seconds=run.seconds,
            test=run.failed_test,
        )

    def _clean_run(self, tests: tuple[str, ...]) -> CleanRun:
        """Run the tests of a room, which must pass, and record which lines each executes."""
        if tests not in self.clean_runs:
            names = [name for name in tests if not self._is_covered(name, tests)]
            names += [f"--ignore={name}" for name in IGNORED_TESTS]
            run, recorded = self._pytest(names, self.kernels, 10 * LIMIT, is_recorded=True)
            if run.code != 0:
                log = (self.folder / "result.log").read_text(encoding="utf-8")
                raise SystemExit(f"{' '.join(tests)} fail without a mutant:\n{log[-3000:]}")
            self.clean_runs[tests] = CleanRun(run.seconds, recorded)
            print(f"{' '.join(tests)}: {run.seconds:.0f} s without a mutant", flush=True)
        return self.clean_runs[tests]

    def _pytest(
        self,
        names: list[str],
        kernels: Path,
        limit: int,
        seconds: dict[str, float] | None = None,
        is_recorded: bool = False,
    ) -> tuple[Run, dict[str, Any]]:
        """Run tests until one fails; return what they gave, and what was recorded."""
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        task = {
            "tests": names,
            "kernels": str(kernels),
            "limit": limit,
            "patience": WAIT_SHARE * limit,
            "memory": MEMORY,
            "seconds": seconds or {},
            "record": str(self.tree / PACKAGE) if is_recorded else "",
            "output": str(result),
        }
        assert self.tests.stdin is not None
        assert self.tests.stdout is not None
        print(json.dumps(task), file=self.tests.stdin, flush=True)
        answer = json.loads(self.tests.stdout.readline())
        self.seconds += answer["cpu"]
        recorded: dict[str, Any] = {"failed": ""}
        if result.exists():  # not if the process was killed
            recorded = json.loads(result.read_text(encoding="utf-8"))
        return Run(answer["code"], answer["cpu"], recorded["failed"]), recorded

    def _compile(self) -> None:
        """Keep the kernels of the tree, of which some are compiled already."""
        from rembrandt.kernels.caching import writable_folder

        print_folder = "from rembrandt.kernels.caching import writable_folder as folder"
        process = self._python("-c", f"{print_folder}; print(folder())", stdout=subprocess.PIPE)
        output, _ = process.communicate()
        present = writable_folder()
        if present is not None:
            shutil.copytree(present, output.strip(), dirs_exist_ok=True)

    def _python(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.tree,
            env=self.environment,
            text=True,
            **options,
        )

    def _is_covered(self, name: str, tests: tuple[str, ...]) -> bool:
        """Whether a folder among the tests comes before the name and contains it."""
        earlier = tests[: tests.index(name)]
        return any(name.startswith(f"{folder}/") for folder in earlier)


def tests_of(file: str) -> tuple[str, ...]:
    """Return the tests of a file."""
    for start, tests in TESTS.items():
        if file.startswith(start):
            return tests
    raise ValueError(f"{file} has no tests in TESTS")


def chosen(count: int, seed: int, only: list[str]) -> list[Mutant]:
    """Choose mutants at random, about the same number of each kind."""
    by_kind: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
    package = ROOT / PACKAGE
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        has_tests = any(file.startswith(start) for start in TESTS)
        is_chosen = not only or any(part in file for part in only)
        if has_tests and is_chosen and file not in LEFT_OUT:
            for mutant in mutants(file, path.read_bytes()):
                by_kind[mutant.kind].append(mutant)
    rng = random.Random(seed)
    for kind_mutants in by_kind.values():
        rng.shuffle(kind_mutants)
    selection: list[Mutant] = []
    while len(selection) < count and any(by_kind.values()):
        for kind in KINDS:
            if by_kind[kind] and len(selection) < count:
                selection.append(by_kind[kind].pop())
    return selection


def report(outcomes: list[Outcome]) -> None:
    """Print the survivors and the share that was caught, in total, by kind and by room."""
    for outcome in outcomes:
        if outcome.outcome in ("survives", "slow"):
            print(f"{outcome.outcome}: {outcome.description}")
    caught: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for outcome in outcomes:
        for group in ("all", outcome.kind, _room(outcome.file)):
            total[group] += 1
            caught[group] += outcome.outcome in ("caught", "hangs")
    for group, n in total.items():
        print(f"{group}: {caught[group]} of {n} caught ({100 * caught[group] / n:.0f} %)")


def _room(file: str) -> str:
    if file.startswith("parts/embedding/decoders"):
        return "decoders"
    return file.split("/")[0]


def main(arguments: list[str] | None = None) -> int:
    """Test mutants and print what survives."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="PART,...")
    parser.add_argument("--first", default="", metavar="PART,...")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--minutes", type=float, default=math.inf, help="of processor time")
    options = parser.parse_args(arguments)
    only = [part for part in options.only.split(",") if part]
    first = [part for part in options.first.split(",") if part]
    selection = chosen(options.count, options.seed, only)
    selection.sort(key=lambda mutant: not any(part in mutant.file for part in first))
    outcomes: list[Outcome] = []
    if options.output and options.output.exists():
        lines = options.output.read_text(encoding="utf-8").splitlines()
        outcomes = [Outcome(**json.loads(line)) for line in lines]
    with tempfile.TemporaryDirectory(prefix="rembrandt-mutate-") as folder:
        workshop = Workshop(Path(folder))
        n_known = Counter(outcome.description for outcome in outcomes)
        for mutant in selection:
            description = mutant.describe((ROOT / PACKAGE / mutant.file).read_bytes())
            if n_known[description] > 0:  # two mutants of a line may have the same description
                n_known[description] -= 1
                continue
            if workshop.seconds > 60 * options.minutes:
                break
            outcome = workshop.test(mutant)
            outcomes.append(outcome)
            result = f"{outcome.outcome} in {outcome.seconds:.0f} s: {outcome.description}"
            print(f"{len(outcomes)}: {result}")
            sys.stdout.flush()
            if options.output:
                with options.output.open("a", encoding="utf-8") as lines_file:
                    lines_file.write(json.dumps(vars(outcome)) + "\n")
        workshop.close()
    report(outcomes)
    print(f"{len(outcomes)} mutants; {workshop.seconds:.0f} s of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
