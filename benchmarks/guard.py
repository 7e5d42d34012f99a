"""Do two versions of the package give the same models and predictions, bit for bit?

python -m benchmarks.guard COMMIT [COMMIT] [--only NAME,...] [--quick]

The second version is the working tree by default. Every preset and a few explicit configurations
are fitted to small generated data: rows in memory, in a store, on a local Dask cluster and on two
devices of torch, which are the processor. Each version runs in its own process with one thread.
The table says for each fit "identical", or what differs: predicted labels, probabilities, log-odds,
arrays of the saved model, settings. The exit code is 1 if anything differs.

--only names configurations (fast, ridge, ...), storages (memory, store, dask, torch) or both.
--quick uses less data, and no cluster unless --only names it.
"""

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.compare import ROOT, WORKING_TREE, git
from benchmarks.generated import sparse_problem
from benchmarks.guard_record import CONFIGURATIONS, STORAGES, Record, missing_package
from rembrandt.data.generated import labelled_documents

ROWS = 600
QUICK_ROWS = 240
SHOWN = 4  # names of arrays or settings in one line
# Compiled kernels of a commit are kept here, since compiling takes longer than all fits.
CACHE = Path(tempfile.gettempdir()) / "rembrandt-guard"
THREADS = ("REMBRANDT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Case = tuple[str, str]  # configuration and storage


def main(arguments: list[str] | None = None) -> int:
    """Record both versions, print the table and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", metavar="COMMIT")
    parser.add_argument("after", metavar="COMMIT", nargs="?", default=WORKING_TREE)
    parser.add_argument("--only", default="", metavar="NAME,...")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    names = [name for name in options.only.split(",") if name]
    if unknown := set(names) - {*CONFIGURATIONS, *STORAGES}:
        known = ", ".join([*CONFIGURATIONS, *STORAGES])
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {known}")
    configurations, storages = chosen(names, options.quick)
    with tempfile.TemporaryDirectory(prefix="rembrandt-guard-") as temporary:
        folder = Path(temporary)
        write_data(folder, QUICK_ROWS if options.quick else ROWS)
        sides = []
        for number, version in enumerate((options.before, options.after)):
            output = folder / str(number)
            output.mkdir()
            record_version(version, folder, output, configurations, storages)
            sides.append(read_records(output))
    differences = compare_all(*sides)
    print_table(differences, options.before, options.after)
    return 1 if any(differences.values()) else 0


def chosen(names: Sequence[str], quick: bool) -> tuple[list[str], list[str]]:
    """Return the configurations and storages that ``names`` select, without those that need a
    package that is not installed.
    """
    configurations = [name for name in CONFIGURATIONS if name in names] or list(CONFIGURATIONS)
    usual = [name for name in STORAGES if not (quick and name == "dask")]
    storages = [name for name in STORAGES if name in names] or usual
    for storage in storages:
        if package := missing_package(storage):
            print(f"skipped: {storage} needs {package}, which is not installed")
    return configurations, [name for name in storages if missing_package(name) is None]


def write_data(folder: Path, rows: int) -> None:
    """Write generated texts with several labels, and features with one class, for both versions."""
    train, test = labelled_documents(rows, n_topics=4, labels_per_topic=6)
    assert train.texts is not None
    assert test.texts is not None
    names = [
        [train.label_ids[i] for i in train.Y[[row]].indices] for row in range(train.n_examples)
    ]
    facts: dict[str, Any] = {"X": list(train.texts), "y": names, "X_test": list(test.texts)}
    (folder / "texts.json").write_text(json.dumps(facts))
    with (folder / "texts.tsv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter="\t")
        table.writerow(["text", "labels"])
        for text, labels in zip(train.texts, names, strict=True):
            table.writerow([text, "|".join(labels)])
    X, Y = sparse_problem(rows, 80, 20, 5, labels_each=1)
    classes = Y.indices.tolist()
    split = 4 * rows // 5
    sparse.save_npz(folder / "features-train.npz", X[:split])
    sparse.save_npz(folder / "features-test.npz", X[split:])
    (folder / "features.json").write_text(json.dumps({"y": classes[:split]}))
    with (folder / "features.svm").open("w", encoding="utf-8") as file:
        for row in range(split):
            entries = zip(X[[row]].indices, X[[row]].data, strict=True)
            cells = " ".join(f"{column}:{value:g}" for column, value in entries)
            file.write(f"{classes[row]} {cells}\n")


def record_version(
    version: str, data: Path, output: Path, configurations: list[str], storages: list[str]
) -> None:
    """Run the recording program with the package of one version."""
    with checked_out(version) as (tree, kernels):
        environment = os.environ | dict.fromkeys(THREADS, "1")
        environment |= {"PYTHONPATH": str(tree / "src"), "NUMBA_CACHE_DIR": str(kernels)}
        command = [sys.executable, "-m", "benchmarks.guard_record"]
        command += [str(data), str(output), str(tree)]
        command += ["--configurations", *configurations, "--storages", *storages]
        total = len(configurations) * len(storages)
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for done, line in enumerate(process.stdout, 1):
            progress = f"{version} [{done}/{total}] {line.strip()}"
            print(f"{progress:<60}", end="\r", file=sys.stderr, flush=True)
        if process.wait():
            raise RuntimeError(f"recording {version} failed with exit code {process.returncode}")


@contextmanager
def checked_out(version: str) -> Iterator[tuple[Path, Path]]:
    """Yield the folder of a version and a folder for its compiled kernels.

    Numba recognizes kernels by the path of the source and its time. So a commit is always checked
    out to the same path, and its files get the time of the commit. Numba does not notice that a
    kernel of another file has changed, so the working tree has a folder for each state of its
    kernels.
    """
    if version == WORKING_TREE:
        yield ROOT, CACHE / f"kernels-{digest_of_kernels(ROOT)}"
        return
    commit = git("rev-parse", f"{version}^{{commit}}")
    home = CACHE / commit[:16]
    tree = home / "tree"
    if tree.exists():
        raise SystemExit(
            f"another run uses {tree}; if not, run: git worktree remove --force {tree}"
        )
    home.mkdir(parents=True, exist_ok=True)
    git("worktree", "add", "--quiet", "--detach", str(tree), commit)
    try:
        seconds = int(git("show", "--no-patch", "--format=%ct", commit))
        for file in (tree / "src").rglob("*.py"):
            os.utime(file, (seconds, seconds))
        yield tree, home / "kernels"
    finally:
        git("worktree", "remove", "--force", str(tree))


def digest_of_kernels(tree: Path) -> str:
    """Return a digest of the files with compiled functions."""
    digest = hashlib.sha256()
    for file in sorted((tree / "src").rglob("*.py")):
        content = file.read_bytes()
        if b"numba" in content or b"rembrandt.kernels" in content:
            digest.update(content)
    return digest.hexdigest()[:16]


def read_records(folder: Path) -> dict[Case, Record]:
    """Read every record of a version."""
    records = {}
    for path in folder.glob("*.json"):
        configuration, storage = path.stem.split("_")
        records[configuration, storage] = Record.read(path)
    return records


def compare_all(before: dict[Case, Record], after: dict[Case, Record]) -> dict[Case, list[str]]:
    """Return the differences of every case, in the order of configurations and storages."""
    cases = [(name, storage) for name in CONFIGURATIONS for storage in STORAGES]
    return {
        case: compare(before[case], after[case])
        for case in cases
        if case in before and case in after
    }


def compare(before: Record, after: Record) -> list[str]:
    """Return what differs between two records; nothing if they are identical. A fit that fails in
    both versions compares nothing, so it is reported too.
    """
    if before.error is not None or after.error is not None:
        if before.error == after.error:
            return [f"both fail: {before.error}"]
        return [f"before: {before.error or 'no error'}", f"after: {after.error or 'no error'}"]
    differences = []
    if before.labels.shape != after.labels.shape:
        differences.append(f"labels of shape {before.labels.shape} and {after.labels.shape}")
    elif (changed := before.labels != after.labels).any():
        differences.append(f"{changed.sum()} of {changed.size} labels")
    if difference := changed_bits(before.probabilities, after.probabilities):
        differences.append(f"probabilities {difference}")
    if difference := changed_bits(before.log_odds, after.log_odds):
        differences.append(f"log-odds {difference}")
    if arrays := changed_arrays(before.arrays, after.arrays):
        differences.append(f"arrays: {listed(arrays)}")
    common = before.settings.keys() & after.settings.keys()
    settings = sorted(name for name in common if before.settings[name] != after.settings[name])
    if settings:
        differences.append(f"settings: {listed(settings)}")
    return differences


def changed_bits(before: NDArray[Any], after: NDArray[Any]) -> str | None:
    """Say how two arrays of numbers differ; None if all bits are the same."""
    if (before.shape, before.dtype) != (after.shape, after.dtype):
        return f"are {before.dtype}{before.shape} and {after.dtype}{after.shape}"
    if before.tobytes() == after.tobytes():
        return None
    finite = np.isfinite(before) & np.isfinite(after)
    distance = np.abs(before[finite].astype(np.float64) - after[finite].astype(np.float64))
    largest = distance.max(initial=0.0)
    return f"by up to {largest:.1e}"


def changed_arrays(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the names of arrays with other contents. An array that has only a new name is not
    among them.
    """
    changed = [name for name in before if name in after and before[name] != after[name]]
    removed = {name: digest for name, digest in before.items() if name not in after}
    added = {name: digest for name, digest in after.items() if name not in before}
    renamed = Counter(removed.values()) & Counter(added.values())
    for gone, sign in ((removed, "-"), (added, "+")):
        left = renamed.copy()
        for name, digest in gone.items():
            if left[digest]:
                left[digest] -= 1
            else:
                changed.append(sign + name)
    return changed


def listed(names: list[str]) -> str:
    """Return a few names, and how many more there are."""
    more = len(names) - SHOWN
    text = ", ".join(names[:SHOWN])
    return f"{text} and {more} more" if more > 0 else text


def print_table(differences: dict[Case, list[str]], before: str, after: str) -> None:
    """Print a line for each case."""
    print(f"{before} and {after}:".ljust(60))
    for (configuration, storage), changes in differences.items():
        print(f"  {configuration:<16}{storage:<10}{'; '.join(changes) or 'identical'}")
    count = sum(1 for changes in differences.values() if changes)
    print(f"{len(differences) - count} of {len(differences)} fits are identical")


if __name__ == "__main__":
    sys.exit(main())
