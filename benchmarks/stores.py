"""A preset fitted to a store: peak memory, precision next to rows in memory, and the same model on
all workers.

python -m benchmarks.stores [SET] [--preset balanced] [--workers 1,2,4] [--limit 1.5] [--part 1.0]
python -m benchmarks.stores generated --scale 1     2,000,000 generated examples with 40 words and
100,000 labels

Every fit has its own process. The one that reads the store may allocate --limit GB; memory that is
mapped from files and not written to does not count. ``peak`` is the largest resident memory, mapped
files included. Models are compared by the checksums of their files.
"""

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generated import sparse_problem
from benchmarks.real_sets import cpu_seconds, load
from benchmarks.resident import peak_bytes
from rembrandt import RembrandtClassifier
from rembrandt.data import Dataset
from rembrandt.data.convert import write_store
from rembrandt.data.store import Store
from rembrandt.features.text import TextFeatures
from rembrandt.metrics import precision_at_k
from rembrandt.predict import Request, answer

EXAMPLES, FEATURES, LABELS, WORDS = (
    2_000_000,
    250_000,
    100_000,
    48,
)  # about 40 of the words different
SHARDS = 8  # of a real set
SHARD_ROWS = 100_000  # generated
TEST_ROWS = 2000  # generated
KS = (1, 3, 5)


def main(
    name: str,
    preset: str = "balanced",
    workers: Sequence[int] = (1, 2, 4),
    limit: float = 1.5,
    part: float = 1.0,
    scale: float = 1.0,
    memory: bool = True,
) -> list[dict[str, Any]]:
    """Fit the preset to the store and, of a real set, to rows in memory; print a line for each
    fit.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="rembrandt-stores-") as folder:
        root = Path(folder)
        if name == "generated":
            n = int(EXAMPLES * scale)
            shards, test = generated(n, scale), next(generated(TEST_ROWS, scale, seed=1))
        else:
            train, test = real(name, part)
            n = train.n_examples
            shards = (train.rows(rows) for rows in np.array_split(np.arange(n), SHARDS))
            write_store([train], root / "memory")
        store = write_store(shards, root / "store")
        write_store([test], root / "test")
        print(
            f"{name}: {store.n:,} examples, {store.d:,} features, {store.c:,} labels, "
            f"{len(store.shards)} shards"
        )
        jobs = [
            ("store", "cpu", limit),
            *(("store", f"dask?workers={number}", 0) for number in workers),
        ]
        jobs += [("memory", "cpu", 0)] if memory and name != "generated" else []
        for source, device, bound in jobs:
            row = _child(
                {
                    "folder": folder,
                    "source": source,
                    "device": device,
                    "preset": preset,
                    "limit": bound,
                }
            )
            found.append(row)
            precisions = " / ".join(f"{100 * row[f'p@{k}']:.2f}" for k in KS)
            print(
                f"{source:<8}{device:<16}{precisions}  {row['cpu']:.0f} CPU s, {row['wall']:.0f} "
                "s, "
                f"peak {row['peak'] / 1e9:.2f} GB, estimate {row['estimate'] / 1e9:.2f} GB, model "
                f"{row['model'][:12]} "
                f"{'+'.join(row['parts'])}",
                flush=True,
            )
    same = {row["model"] for row in found if row["source"] == "store"}
    print(
        "the models of the store are the same"
        if len(same) == 1
        else "THE MODELS OF THE STORE DIFFER"
    )
    return found


def real(name: str, part: float) -> tuple[Dataset, Dataset]:
    """Return the training and test examples of a set as features; ``part`` of the training
    examples.
    """
    train, test = load(name)
    chosen = np.random.default_rng(0).permutation(train.n_examples)[: int(part * train.n_examples)]
    train = train.rows(np.sort(chosen))
    test = test.align_labels(train.label_ids)
    if train.texts is None or test.texts is None:
        return train, test
    text = TextFeatures()
    X, X_test = text.fit_transform(train.texts), text.transform(test.texts)
    names, task = train.label_ids, train.task
    return (
        Dataset.build(train.Y, X, label_ids=names, task=task),
        Dataset.build(test.Y, X_test, label_ids=names, task=task),
    )


def generated(n: int, scale: float, seed: int = 0) -> Iterator[Dataset]:
    """Yield shards of generated examples: counts of words with a Zipf distribution, and labels of
    groups of words.
    """
    shrink = min(1.0, max(scale, 0.01))
    d, c = int(FEATURES * shrink), int(LABELS * shrink)
    names = [str(i) for i in range(c)]
    for number, start in enumerate(range(0, n, SHARD_ROWS)):
        rows = min(SHARD_ROWS, n - start)
        X, Y = sparse_problem(
            rows, d, c, 200, seed=1000 * seed + number, features_each=WORDS, labels_each=3
        )
        yield Dataset.build(Y, X, label_ids=names, task="multilabel")


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Fit and measure in this process."""
    root = Path(job["folder"])
    if job["limit"]:
        size = int(job["limit"] * 1e9)
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
    data: Any = Store(root / job["source"]).dataset()
    if job["source"] == "memory":
        data = Dataset.build(data.Y, data.X[:], label_ids=data.label_ids, task=data.task)
    cpu, wall = cpu_seconds(), time.perf_counter()
    classifier = RembrandtClassifier(
        preset=job["preset"], device=job["device"], random_state=0
    ).fit_dataset(data)
    found = {"cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - wall, "peak": peak_bytes()}
    test = Store(root / "test").dataset()
    labels = answer(classifier.model_, Request(test.X[:], max(KS))).labels
    target = root / f"model-{job['source']}-{job['device'].replace('?', '-')}"
    classifier.save(target)
    digest = hashlib.sha256((target / "weights.safetensors").read_bytes()).hexdigest()
    found |= {"source": job["source"], "device": job["device"], "model": digest}
    found |= {
        "parts": list(classifier.model_.parts),
        "estimate": classifier.model_.facts.memory_estimate,
    }
    return found | {f"p@{k}": float(precision_at_k(test.Y, labels, k)) for k in KS}


def _child(job: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.stores", "--child", json.dumps(job)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(json.loads(sys.argv[2]))))
        sys.exit()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", default="nvd-products")
    parser.add_argument("--preset", default="balanced")
    parser.add_argument(
        "--workers",
        default="1,2,4",
        help="numbers of Dask workers, separated by commas; empty: none",
    )
    parser.add_argument(
        "--limit", type=float, default=1.5, help="GB that the fit in one process may allocate"
    )
    parser.add_argument(
        "--part", type=float, default=1.0, help="of the training examples of a real set"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the generated examples")
    parser.add_argument("--store-only", action="store_true", help="do not fit to rows in memory")
    given = parser.parse_args()
    numbers = [int(number) for number in given.workers.split(",") if number]
    main(
        given.name,
        given.preset,
        numbers,
        given.limit,
        given.part,
        given.scale,
        not given.store_only,
    )
