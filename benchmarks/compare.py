"""Compare the working tree with another commit: precision on test examples and CPU seconds of the
fit.

python -m benchmarks.compare COMMIT [--sets bibtex,attack] [--presets fast,best] [--repeats 2]

The commit is checked out into a temporary git worktree. Both trees run in turns with the same
interpreter, each fit in its own process. A small fit compiles the code before the fit that is
measured. Precisions are means over the repeats; CPU seconds are the minimum, since other load on
the machine can only increase them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rembrandt  # before NumPy, whose threads it configures
from benchmarks.real_sets import FOLDER, cpu_seconds, file_of
from benchmarks.results import described, machine, write_json

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("bench-results")
SETS = (
    "bibtex",
    "delicious",
    "cooking",
    "gutenberg",
    "pubmed-mesh",
    "nvd-products",
    "attack",
    "icd10cm",
)
PRESETS = ("fast", "best")
KS = (1, 3, 5)
SMALL = 4000  # rows of the fit that compiles, at most a quarter of all
WORKING_TREE = "working tree"
Facts = dict[str, Any]


def main(commit: str, sets: list[str], presets: list[str], repeats: int) -> list[Facts]:
    """Run both trees in turns; print the comparison and write it with every run to a file."""
    found = {name: files for name in sets if (files := _files(name))}
    print(f"{described(machine())}; load {_load()}", flush=True)
    runs: list[Facts] = []
    with _worktree(commit) as (name, other):
        trees = [(name, other), (WORKING_TREE, ROOT)]
        turns = [trees if repeat % 2 == 0 else trees[::-1] for repeat in range(repeats)]
        plan = [(s, p, *tree) for s in found for p in presets for turn in turns for tree in turn]
        for set_name, preset, tree, root in plan:
            facts: Facts = {"set": set_name, "preset": preset, "tree": tree, "load": _load()}
            facts |= _child(root, {"preset": preset, **found[set_name]})
            runs.append(facts)
            precisions = " / ".join(f"{100 * facts[f'p@{k}']:.2f}" for k in KS)
            costs = f"{facts['cpu']:.1f} CPU s, load {facts['load']}"
            print(
                f"[{len(runs)}/{len(plan)}] {set_name}, {preset}, {tree}: {precisions}, {costs}",
                flush=True,
            )
            about = {
                "machine": machine(),
                "commit": name,
                "working_tree": git("describe", "--always", "--dirty"),
            }
            RESULTS.mkdir(exist_ok=True)
            write_json(
                RESULTS / f"compare-{name}.json",
                about | {"comparison": comparison(runs), "runs": runs},
            )
    print("", *table(comparison(runs), name), sep="\n")
    return comparison(runs)


def comparison(runs: list[Facts]) -> list[Facts]:
    """Return for each set and preset the figures of both trees, the differences of P@k and the
    ratio of CPU seconds.
    """
    found = []
    for pair in dict.fromkeys((run["set"], run["preset"]) for run in runs):
        own = [run for run in runs if (run["set"], run["preset"]) == pair]
        before = _summary([run for run in own if run["tree"] != WORKING_TREE])
        after = _summary([run for run in own if run["tree"] == WORKING_TREE])
        if before and after:
            change = {f"p@{k}": after[f"p@{k}"] - before[f"p@{k}"] for k in KS}
            change["cpu_ratio"] = after["cpu"] / before["cpu"]
            found.append(
                {
                    "set": pair[0],
                    "preset": pair[1],
                    "before": before,
                    "after": after,
                    "change": change,
                }
            )
    return found


def _summary(runs: list[Facts]) -> Facts:
    if not runs:
        return {}
    means = {f"p@{k}": sum(run[f"p@{k}"] for run in runs) / len(runs) for k in KS}
    return means | {"cpu": min(run["cpu"] for run in runs)}


def table(compared: list[Facts], commit: str) -> list[str]:
    """Return the comparison as lines: three for each set and preset, and the worst change of
    all.
    """
    lines = [f"{'set':<14}{'preset':<10}{'tree':<14}{'P@1':>8}{'P@3':>8}{'P@5':>8}{'CPU s':>9}"]
    for row in compared:
        names = f"{row['set']:<14}{row['preset']:<10}"
        for tree, figures in ((commit, row["before"]), (WORKING_TREE, row["after"])):
            precisions = "".join(f"{100 * figures[f'p@{k}']:>8.2f}" for k in KS)
            lines.append(f"{names}{tree:<14}{precisions}{figures['cpu']:>9.1f}")
            names = " " * 24
        changes = "".join(f"{100 * row['change'][f'p@{k}']:>+8.2f}" for k in KS)
        lines.append(
            f"{names}{'change':<14}{changes}{'×' + format(row['change']['cpu_ratio'], '.2f'):>9}"
        )
    if compared:
        lowest = min(100 * row["change"][f"p@{k}"] for row in compared for k in KS)
        highest = max(row["change"]["cpu_ratio"] for row in compared)
        lines.append(f"worst change: P@k {lowest:+.2f} points, CPU seconds ×{highest:.2f}")
    return lines


def measure(job: Facts) -> Facts:
    """Fit and measure one preset in this process, by the part of the interface that both commits
    have.
    """
    import numpy as np

    from rembrandt.metrics import precision_at_k

    if not Path(rembrandt.__file__).is_relative_to(job["root"]):
        raise RuntimeError(
            f"rembrandt was imported from {rembrandt.__file__}, not from {job['root']}"
        )
    train, test = (rembrandt.read(job[part], **job["options"]) for part in ("train", "test"))
    small = train.rows(range(min(SMALL, train.n_examples // 4)))
    rembrandt.RembrandtClassifier(preset=job["preset"], random_state=0).fit_dataset(small)
    classifier = rembrandt.RembrandtClassifier(preset=job["preset"], random_state=0)
    start = cpu_seconds()
    classifier.fit_dataset(train)
    cpu = cpu_seconds() - start
    names = [str(label) for label in classifier.classes_]
    test = test.align_labels(names)
    column = {name: i for i, name in enumerate(names)}
    predicted = classifier.predict_topk(test.inputs, max(KS))[0].tolist()
    labels = np.array([[column.get(str(label), -1) for label in row] for row in predicted])
    return {f"p@{k}": float(precision_at_k(test.Y, labels, k)) for k in KS} | {"cpu": cpu}


def _files(name: str) -> Facts | None:
    """Return the files of a data set and how to read them; None where they are missing."""
    job: Facts = {}
    for part in ("train", "test"):
        file, job["options"] = file_of(name, part)
        if not file.is_file():
            print(
                f"skipped: {name} is not in {FOLDER}; set REMBRANDT_DATA to the folder that holds "
                "the data sets"
            )
            return None
        job[part] = str(file.resolve())
    return job


def _child(root: Path, job: Facts) -> Facts:
    command = [
        sys.executable,
        "-m",
        "benchmarks.compare",
        "--child",
        json.dumps(job | {"root": str(root)}),
    ]
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the fit failed in {root}:\n{done.stderr}")
    found: Facts = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def _worktree(commit: str) -> Iterator[tuple[str, Path]]:
    """Check out ``commit`` into a temporary worktree; yield its short name and the folder."""
    name = git("rev-parse", "--short", f"{commit}^{{commit}}")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve() / "tree"
        git("worktree", "add", "--quiet", "--detach", str(tree), name)
        try:
            yield name, tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def git(*arguments: str) -> str:
    """Return what a git command prints."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(json.loads(sys.argv[2]))))
        sys.exit()
    from rembrandt.data.catalogue import DATA_SETS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", metavar="COMMIT")
    parser.add_argument("--sets", default=",".join(SETS), help="separated by commas")
    parser.add_argument("--presets", default=",".join(PRESETS), help="separated by commas")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    sets = options.sets.split(",")
    if unknown := set(sets) - set(DATA_SETS):
        parser.error(
            f"there is no set {', '.join(sorted(unknown))}; choose from {', '.join(DATA_SETS)}"
        )
    main(options.commit, sets, options.presets.split(","), options.repeats)
