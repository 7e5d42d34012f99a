"""How many small mistakes would the tests notice?

python -m benchmarks.mutate [--count 200] [--seed 0] [--only PART,...] [--output FILE]

Takes mutants of the numerical code at random: comparisons, signs, axes, numbers that are off by
one, dropped terms, minima that are maxima. Kinds have equal shares as far as there are enough. For
each mutant the tests of its own room run in a copy of the tree, with compiled kernels of their own,
until one fails. A mutant is caught when a test fails within two minutes of processor time. One that
hangs counts as caught where the tests alone need less than half of that.

Mutants that survive are listed. Some of them cannot be noticed, because they change how long
something takes or which of two equal numbers is taken. --only takes files by parts of their names.
With --output the results are appended to a file, and a later run continues after them.
"""

import argparse
import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants import KINDS, Mutant, mutants

ROOT = Path(__file__).parent.parent
PACKAGE = "src/rembrandt"
LIMIT = 120  # seconds of processor time for the tests of one mutant
WAIT_SHARE = 10  # on a busy machine a second of processor time may take this many
MEMORY = 6 << 30
# The tests of each file, the first entry that is the beginning of its name; the quickest first.
TESTS: dict[str, tuple[str, ...]] = {
    "linalg/hinge.py": ("tests/linalg/test_hinge.py", "tests/parts/test_trees.py"),
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
    "linalg/ranking.py": ("tests/linalg/test_ranking.py",),
    "linalg/transposed.py": ("tests/linalg/test_transposed.py", "tests/linalg/test_sparse.py"),
    "linalg/sparse.py": ("tests/linalg/test_sparse.py", "tests/linalg/test_transposed.py"),
    "linalg/": ("tests/linalg",),
    "metrics/": ("tests/metrics",),
    "parts/trees/": ("tests/parts/test_trees.py", "tests/parts/test_parts.py"),
    "parts/centroids/": ("tests/parts/test_parts.py",),
    "parts/embedding/decoders/candidates.py": (
        "tests/parts/decoders/test_candidates.py",
        "tests/parts/decoders/test_shared.py",
    ),
    "parts/embedding/decoders/": ("tests/parts/decoders",),
    "parts/embedding/operators/": ("tests/parts/embedding",),
    "parts/embedding/shortlist.py": ("tests/parts/test_shortlist.py",),
    "parts/embedding/": ("tests/parts/embedding", "tests/parts/test_parts.py"),
    "parts/": ("tests/parts/test_parts.py", "tests/parts/test_trees.py", "tests/test_planning.py"),
    "blend.py": ("tests/test_blend.py", "tests/search/test_blending.py"),
    "predict.py": (
        "tests/model/test_tail.py",
        "tests/model/test_label_sets.py",
        "tests/model/test_probabilities.py",
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


class Workshop:
    """A copy of the tree in which mutants are tested."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.kernels = folder / "kernels"
        self.kernels.mkdir()
        self.folder = folder
        self.clean_seconds: dict[tuple[str, ...], float] = {}
        self.number = 0
        ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
        for name in ("src", "tests", "benchmarks"):
            shutil.copytree(ROOT / name, self.tree / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy2(ROOT / name, self.tree / name)
        self.users = users_of_kernels(self.tree / PACKAGE)

    def test(self, mutant: Mutant) -> Outcome:
        """Run the tests of a mutant's room with the mutant in place."""
        tests = tests_of(mutant.file)
        self._run_clean(tests)
        path = self.tree / PACKAGE / mutant.file
        source = path.read_bytes()
        self.number += 1
        kernels = self.folder / f"kernels-{self.number}"
        # Links: Numba replaces files and does not write into them.
        shutil.copytree(self.kernels, kernels, copy_function=os.link)
        changed = [path, *(self.tree / PACKAGE / user for user in self.users[mutant.file])]
        times = {file: file.stat().st_mtime_ns for file in changed}
        try:
            path.write_bytes(mutant.applied(source))
            for file in changed:  # compiled again, as they may contain the changed function
                later = times[file] + self.number * 10**10
                os.utime(file, ns=(later, later))
            code, seconds, output = self._pytest(tests, kernels)
        finally:
            path.write_bytes(source)
            for file, before in times.items():
                os.utime(file, ns=(before, before))
            shutil.rmtree(kernels)
        outcome = "caught"
        if code == 0:
            outcome = "survives"
        elif code in (-signal.SIGXCPU, -signal.SIGKILL):
            is_quick = self.clean_seconds[tests] < LIMIT / 2
            outcome = "hangs" if is_quick else "slow"
        failure = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        return Outcome(
            description=mutant.describe(source),
            kind=mutant.kind,
            file=mutant.file,
            outcome=outcome,
            seconds=seconds,
            test=failure[1] if failure else "",
        )

    def _run_clean(self, tests: tuple[str, ...]) -> None:
        """Compile what some tests need, and measure them without a mutant."""
        if tests in self.clean_seconds:
            return
        for _ in range(2):
            code, seconds, output = self._pytest(tests, self.kernels, limit=10 * LIMIT)
            if code != 0:
                raise SystemExit(f"{' '.join(tests)} fail without a mutant:\n{output[-3000:]}")
        self.clean_seconds[tests] = seconds
        print(f"{' '.join(tests)}: {seconds:.0f} s without a mutant", flush=True)

    def _pytest(
        self, tests: tuple[str, ...], kernels: Path, limit: int = LIMIT
    ) -> tuple[int, float, str]:
        """Run tests until one fails; return the exit code, processor seconds and the output."""
        names = [name for name in tests if not self._is_covered(name, tests)]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["--tb=no", *names, *(f"--ignore={name}" for name in IGNORED_TESTS)]
        environment = os.environ | {
            "PYTHONPATH": f"{self.tree / 'src'}{os.pathsep}{self.tree}",
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "NUMBA_CACHE_DIR": str(kernels),
            "NUMBA_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "REMBRANDT_NUM_THREADS": "1",
        }
        environment.pop("REMBRANDT_DATA", None)

        def restrict() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = subprocess.Popen(
            command,
            cwd=self.tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=restrict,
        )
        try:
            output, _ = process.communicate(timeout=WAIT_SHARE * limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        with contextlib.suppress(ProcessLookupError):  # what the tests have started
            os.killpg(process.pid, signal.SIGKILL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return process.returncode, seconds, output

    def _is_covered(self, name: str, tests: tuple[str, ...]) -> bool:
        """Whether a folder among the tests comes before the name and contains it."""
        earlier = tests[: tests.index(name)]
        return any(name.startswith(f"{folder}/") for folder in earlier)


def users_of_kernels(package: Path) -> dict[str, list[str]]:
    """Return for every file those that import it, directly or not, and have compiled functions."""
    importers: dict[str, set[str]] = defaultdict(set)
    is_compiled = {}
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        text = path.read_text(encoding="utf-8")
        is_compiled[file] = "njit(" in text
        for module in re.findall(r"^from rembrandt\.([\w.]+) import", text, re.MULTILINE):
            importers[module.replace(".", "/") + ".py"].add(file)
    users: dict[str, list[str]] = {}
    for file in is_compiled:
        seen = {file}
        todo = [file]
        while todo:
            for importer in importers[todo.pop()] - seen:
                seen.add(importer)
                todo.append(importer)
        users[file] = sorted(user for user in seen - {file} if is_compiled[user])
    return users


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
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    only = [part for part in options.only.split(",") if part]
    selection = chosen(options.count, options.seed, only)
    outcomes = []
    if options.output and options.output.exists():
        lines = options.output.read_text(encoding="utf-8").splitlines()
        outcomes = [Outcome(**json.loads(line)) for line in lines]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="rembrandt-mutate-") as folder:
        workshop = Workshop(Path(folder))
        for number, mutant in enumerate(selection[len(outcomes) :], start=len(outcomes) + 1):
            outcome = workshop.test(mutant)
            outcomes.append(outcome)
            print(f"{number}: {outcome.outcome} in {outcome.seconds:.0f} s: {outcome.description}")
            sys.stdout.flush()
            if options.output:
                with options.output.open("a", encoding="utf-8") as lines_file:
                    lines_file.write(json.dumps(vars(outcome)) + "\n")
    report(outcomes)
    print(f"{len(outcomes)} mutants; {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
