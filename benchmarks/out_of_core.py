"""An embedding of data on disk: speed compared with data in memory, and peak memory.

python -m benchmarks.out_of_core [--scale 1] [--folder /tmp]

With --scale 1, a store of 5,000,000 generated examples with 40 words each and 200,000 labels is
embedded at k = 100. The speed is compared on a part that fits in memory. Every measurement has its
own process. Its peak is the largest resident memory, including the pages of mapped files.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.complete import embedding_settings
from benchmarks.generated import sparse_problem
from benchmarks.resident import peak_bytes
from rembrandt.data import Dataset
from rembrandt.data.convert import write_store
from rembrandt.data.store import Store
from rembrandt.engines.cpu import CpuEngine
from rembrandt.engines.shard_products import Data
from rembrandt.engines.shards import ShardedEngine
from rembrandt.linalg.sparse import append_constant
from rembrandt.parts.embedding.solve import embed
from rembrandt.progress import bars

EXAMPLES, FEATURES, LABELS, GROUPS = 5_000_000, 250_000, 200_000, 200
WORDS = 48  # about 40 of them different
ROWS = 200_000  # in a shard
COMPONENTS, OVERSAMPLES = 100, 20


def main(scale: float = 0.002, folder: str | None = None, iterations: int = 10) -> dict[str, Any]:
    """Generate the stores, measure both kinds of data, and print the results."""
    root = Path(tempfile.mkdtemp(dir=folder, prefix="rembrandt-out-of-core-"))
    try:
        n = max(2000, int(EXAMPLES * scale))
        rows = max(500, min(ROWS, n // 4))
        start = time.perf_counter()
        store = write_store(examples(n, rows, scale), root / "store")
        size = sum(shard.entry.bytes for shard in store.shards)
        nonzeros = sum(sum(shard.entry.nonzeros) for shard in store.shards)
        print(
            f"{n:,} examples, {store.d:,} features, {store.c:,} labels, {nonzeros:,} non-zeros, "
            f"{len(store.shards)} shards, {size / 1e9:.2f} GB, generated in "
            f"{time.perf_counter() - start:.0f} s",
            flush=True,
        )
        small = (
            store
            if len(store.shards) <= 4
            else write_store(examples(3 * rows, rows, scale), root / "small")
        )
        rates = {kind: _child("passes", kind, small.path) for kind in ("memory", "store")}
        ratio, busy = (rates["memory"][unit] / rates["store"][unit] for unit in ("seconds", "cpu"))
        print(
            f"{f'one pass of XᵀX Z, {small.n:,} examples':<44}{'s':>8}{'CPU s':>13}{'peak GB':>10}"
        )
        for kind, found in rates.items():
            took = f"{found['seconds']:>8.2f}{found['cpu']:>13.2f}"
            print(f"{'  from ' + kind:<44}{took}{found['peak'] / 1e9:>10.2f}")
        print(
            f"  rate from the store relative to memory: {ratio:.2f}, by CPU seconds {busy:.2f}",
            flush=True,
        )
        whole = _child("embed", str(iterations), store.path)
        print(
            f"embedding of all examples, k = {whole['components']}: {whole['seconds']:.0f} s, "
            f"{whole['passes']} passes "
            f"of {whole['per_pass']:.1f} s, residual {whole['residual']:.1e}, peak "
            f"{whole['peak'] / 1e9:.2f} GB"
        )
        return {
            "examples": n,
            "bytes": size,
            "ratio": ratio,
            "cpu_ratio": busy,
            "rates": rates,
            "embedding": whole,
        }
    finally:
        shutil.rmtree(root)


def examples(n: int, rows: int, scale: float) -> Iterator[Dataset]:
    """Yield shards of generated examples: counts of words with a Zipf distribution, and labels of
    groups of words.
    """
    shrink = min(1.0, max(scale, 0.01))
    d, c = int(FEATURES * shrink), int(LABELS * shrink)
    names = [str(i) for i in range(c)]
    for number, start in enumerate(range(0, n, rows)):
        m = min(rows, n - start)
        X, Y = sparse_problem(
            m, d, c, min(GROUPS, c), seed=number, features_each=WORDS, labels_each=3
        )
        yield Dataset.build(Y, X, label_ids=names, task="multilabel")


def _child(what: str, how: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--child", what, how, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _measure(what: str, how: str, path: Path) -> dict[str, Any]:
    """Run one measurement in this process; return it with the peak memory."""
    found = _passes(how, path) if what == "passes" else _embedding(int(how), path)
    return found | {"peak": peak_bytes()}


def _passes(kind: str, path: Path, repeats: int = 3) -> dict[str, Any]:
    store = Store(path)
    data = store.dataset()
    if kind == "memory":
        engine: Any = CpuEngine(append_constant(data.X[:]), data.Y)
    else:
        engine = ShardedEngine(Data(store.shards, store.d, store.c, constant=True))
    Z = np.random.default_rng(0).standard_normal(
        (engine.d, COMPONENTS + OVERSAMPLES), dtype=np.float32
    )
    engine.gram(Z)  # compiles, and transposes data in memory
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        engine.gram(Z)
        seconds.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, cpu = np.median(seconds, axis=0).tolist()
    return {"seconds": wall, "cpu": cpu}


def _embedding(iterations: int, path: Path) -> dict[str, Any]:
    store = Store(path)
    start = time.perf_counter()
    engine = ShardedEngine(Data(store.shards, store.d, store.c, constant=True))
    k = min(COMPONENTS, store.c // 2)
    settings = embedding_settings(
        n_components=k, n_oversamples=OVERSAMPLES, tol=0.02, max_iter=iterations, solver="pcg"
    )
    with bars() as report:
        found = embed(engine, settings, seed=0, report=report)
    return {
        "components": k,
        "seconds": time.perf_counter() - start,
        "passes": engine.tally.passes,
        "per_pass": engine.tally.seconds / engine.tally.passes,
        "residual": found.residual,
        "largest": float(found.sigma[0]),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--folder")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--child", nargs=3)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(_measure(given.child[0], given.child[1], Path(given.child[2]))))
    else:
        main(given.scale, given.folder, given.iterations)
