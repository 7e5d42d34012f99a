"""The cost of products on this machine and on one to four Dask workers, and a simulation of larger
clusters.

python -m benchmarks.scale [--scale 0.1] [--part costs|workers|plan]

*costs* measures the CPU seconds of a product by the width of its block. *workers* runs the same
embedding and the same ridge decoder on one, two and four processes of a Dask cluster, once with a
worker killed during a pass, and counts the bytes transferred. *plan* simulates a pass on clusters
of given sizes: the computation of each worker, the broadcast of the block and the tree of partial
sums, with the measured costs and the published rates of the networks.
"""

import argparse
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.complete import embedding_settings
from benchmarks.out_of_core import examples
from rembrandt.data.convert import write_store
from rembrandt.data.store import Store
from rembrandt.engines.projected import ProjectedRows
from rembrandt.engines.shard_products import Data
from rembrandt.engines.shards import Executor, ShardedEngine, tree_cut
from rembrandt.parts.embedding.decoders.ridge import fit_ridge
from rembrandt.parts.embedding.solve import embed
from rembrandt.progress import silent

WIDTHS = (1, 8, 32, 120)
DIRECTIONS = 64  # of the preconditioner


@dataclass(frozen=True)
class Costs:
    """CPU seconds of ``XᵀX Z`` for each non-zero: a constant, and a part for each column of the
    block.
    """

    visit: float
    column: float
    add: float  # for each addition in a tree of partial sums
    dense: float  # for each operation of a dense product, as in the preconditioner

    def product(self, nonzeros: float, width: float) -> float:
        return nonzeros * (self.visit + self.column * width)


@dataclass(frozen=True)
class Cluster:
    """Machines of one kind, with the published network rate of one machine."""

    name: str
    machines: int
    cores: int
    memory: float  # GB
    network: float  # GB/s in each direction
    disk: float  # GB/s of reading shards on one machine


@dataclass(frozen=True)
class Problem:
    """The size of an embedding."""

    examples: float = 1e9
    features: float = 1e7
    labels: float = 1e7
    words: float = 40
    labels_each: float = 5
    width: int = 120
    passes: int = (
        33  # two applications of the operator with five iterations, a solve, and the preconditioner
    )


CLUSTERS = (
    Cluster("one r6i.32xlarge", 1, 64, 1024, 6.25, 1.0),
    Cluster("16 × m6i.8xlarge", 16, 16, 128, 1.56, 1.0),
    Cluster("64 × m6i.8xlarge", 64, 16, 128, 1.56, 1.0),
    Cluster("64 × c6in.32xlarge", 64, 64, 256, 25.0, 1.0),
)


def main(
    scale: float = 0.01, parts: tuple[str, ...] = ("costs", "workers", "plan")
) -> dict[str, Any]:
    """Run the parts and print their tables."""
    folder = Path(tempfile.mkdtemp(prefix="rembrandt-scale-"))
    try:
        n = max(4000, int(1_000_000 * scale))
        store = write_store(examples(n, max(500, n // 8), 10 * scale), folder / "store")
        found: dict[str, Any] = {
            "examples": n,
            "nonzeros": sum(sum(shard.entry.nonzeros) for shard in store.shards),
        }
        costs = measure(store)
        found["costs"] = vars(costs)
        if "workers" in parts:
            found["workers"] = on_workers(store)
        if "plan" in parts:
            found["plan"] = plan(costs)
        return found
    finally:
        shutil.rmtree(folder)


def measure(store: Store) -> Costs:
    """Fit the cost of a pass to passes of several widths."""
    engine = ShardedEngine(Data(store.shards, store.d, store.c, constant=True))
    nonzeros = sum(shard.entry.nonzeros[0] for shard in store.shards)
    print(f"{store.n:,} examples, {nonzeros:,} non-zeros, {store.d:,} features")
    print(f"{'columns':>8}{'CPU s':>14}{'ns per non-zero':>18}")
    seconds = []
    for width in WIDTHS:
        Z = np.ones((engine.d, width), np.float32)
        engine.gram(Z)
        seconds.append(min(_cpu_seconds(lambda Z=Z: engine.gram(Z)) for _ in range(3)))
        print(f"{width:>8}{seconds[-1]:>14.3f}{1e9 * seconds[-1] / nonzeros:>18.1f}", flush=True)
    column, visit = np.polyfit(WIDTHS, np.array(seconds) / nonzeros, 1)
    block = np.ones((1 << 16, 120), np.float32)
    added = min(_cpu_seconds(lambda: block + block) for _ in range(5)) / block.size
    basis = np.ones((1 << 16, DIRECTIONS), np.float32)
    dense = min(_cpu_seconds(lambda: basis.T @ block) for _ in range(5)) / (
        2 * DIRECTIONS * block.size
    )
    costs = Costs(max(float(visit), 0.0), float(column), added, dense)
    print(
        f"each non-zero costs {1e9 * costs.visit:.1f} ns, and {1e9 * costs.column:.2f} ns for each "
        "column"
    )
    return costs


def _cpu_seconds(work: Any) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def on_workers(store: Store) -> list[dict[str, Any]]:
    """Measure the same embedding and decoder in this process and on clusters of one, two and four
    workers.
    """
    from rembrandt.engines.dask import DaskExecutor, cluster

    settings = embedding_settings(
        n_components=20, ridge=10.0, n_oversamples=10, solver="pcg", tol=1e-2, max_iter=5
    )
    print(
        f"\n{'':<24}{'s':>7}{'passes':>8}{'s/pass':>10}{'MB sent':>9}{'between':>9}{'back':>9}{'difference':>14}"
    )
    here = ShardedEngine(Data(store.shards, store.d, store.c, constant=True))
    start = time.perf_counter()
    expected = embed(here, settings, seed=0)
    rows = [
        _row(
            "this process", here.tally, time.perf_counter() - start, expected.sigma, expected.sigma
        )
    ]
    decoder = _decoder(store, expected.W, Executor(), rows, "this process", None)
    for workers in (1, 2, 4):
        with cluster(workers=workers) as client:
            engine = ShardedEngine(
                Data(store.shards, store.d, store.c, constant=True), DaskExecutor(client)
            )
            start = time.perf_counter()
            found = embed(engine, settings, seed=0)
            name = f"{workers} workers"
            rows.append(
                _row(name, engine.tally, time.perf_counter() - start, found.sigma, expected.sigma)
            )
            _decoder(store, expected.W, DaskExecutor(client), rows, name, decoder)
            if workers == 2:
                pid = min(client.run(os.getpid).values())
                executor = _Killing(client, pid)
                engine = ShardedEngine(
                    Data(store.shards, store.d, store.c, constant=True), executor
                )
                start = time.perf_counter()
                found = embed(engine, settings, seed=0)
                assert executor.left < 0
                rows.append(
                    _row(
                        "2, one killed",
                        engine.tally,
                        time.perf_counter() - start,
                        found.sigma,
                        expected.sigma,
                    )
                )
    return rows


def _decoder(
    store: Store, W: Any, executor: Any, rows: list[dict[str, Any]], name: str, expected: Any
) -> Any:
    """Fit the ridge decoder of the projected rows, add its row to the table, and return its
    weights.
    """
    start = time.perf_counter()
    statistics = ProjectedRows.of(store.dataset().X, W, executor).statistics(None, True, silent)
    found = fit_ridge(statistics, 0.1).weights
    expected = found if expected is None else expected
    rows.append(
        _row(f"{name}, decoder", executor.tally, time.perf_counter() - start, found, expected)
    )
    return found


def _row(name: str, tally: Any, seconds: float, found: Any, expected: Any) -> dict[str, Any]:
    difference = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
    per_pass = tally.seconds / max(1, tally.passes)
    moved = {
        key: getattr(tally, key) for key in ("passes", "broadcasts", "sent", "between", "gathered")
    }
    ways = "".join(f"{moved[way] / 1e6:>9.1f}" for way in ("sent", "between", "gathered"))
    print(
        f"{name:<24}{seconds:>7.1f}{tally.passes:>8}{per_pass:>10.2f}{ways}{difference:>14.1e}",
        flush=True,
    )
    return {
        "name": name,
        "seconds": seconds,
        "per_pass": per_pass,
        "difference": difference,
        **moved,
    }


def _Killing(client: Any, pid: int, at: int = 60) -> Any:
    """Return an executor that kills a worker after it has submitted ``at`` tasks."""
    from rembrandt.engines.dask import DaskExecutor

    class Killing(DaskExecutor):
        left = at

        def _submit(self, *task: Any) -> Any:
            submitted = super()._submit(*task)
            self.left -= 1
            if self.left == 0:
                os.kill(pid, signal.SIGKILL)
            return submitted

    return Killing(client)


def plan(costs: Costs, problem: Problem | None = None) -> list[dict[str, Any]]:
    """Simulate one pass on every cluster, and print its time and memory."""
    problem = problem or Problem()
    print(
        f"\n{problem.examples:.0e} examples × {problem.labels:.0e} labels, {problem.features:.0e} "
        "features, "
        f"{problem.words:.0f} words each, {problem.width} columns"
    )
    print(
        f"{'cluster':<20}{'compute s':>11}{'disk s':>8}{'network s':>11}{'solver s':>10}{'pass s':>8}"
        f"{'fit h':>7}{'GB moved':>10}{'worker GB':>11}{'driver GB':>11}"
    )
    found = []
    for machines in CLUSTERS:
        row = simulate(costs, problem, machines)
        found.append(row)
        print(
            f"{row['cluster']:<20}{row['compute']:>11.0f}{row['disk']:>8.0f}{row['network']:>11.0f}"
            f"{row['solver']:>10.1f}{row['pass']:>8.0f}{row['fit'] / 3600:>7.1f}{row['moved'] / 1e9:>10,.0f}"
            f"{row['worker'] / 1e9:>11.0f}{row['driver'] / 1e9:>11.0f}"
        )
    return found


def simulate(costs: Costs, problem: Problem, cluster: Cluster) -> dict[str, Any]:
    """Simulate one pass of ``XᵀX Z`` until the sum is on the driver."""
    W = cluster.machines
    nonzeros = problem.examples * problem.words
    stored = problem.examples * (8 * (problem.words + problem.labels_each) + 16)
    block = 4.0 * problem.features * problem.width
    rate = cluster.network * 1e9
    compute = costs.product(nonzeros / W, problem.width) / cluster.cores
    # The block is copied down a tree of machines, as Dask replicates; partial sums are added on the
    # way up.
    down = np.ceil(np.log2(W + 1)) * block / rate if W > 1 else 0.0
    done = _tree([down] * W, 0, W, block / rate + costs.add * block / 4 / cluster.cores)
    network = done + (block / rate if W > 1 else 0.0)  # and back to the driver
    kept = stored / W
    disk = 0.0 if kept < 0.5e9 * cluster.memory else kept / (cluster.disk * 1e9)
    driving = costs.dense * 4 * DIRECTIONS * problem.features * problem.width / cluster.cores
    one = max(compute, disk) + network + driving
    return {
        "cluster": cluster.name,
        "compute": compute,
        "disk": disk,
        "network": network,
        "solver": driving,
        "pass": one,
        "fit": one * problem.passes,
        "moved": 2 * W * block if W > 1 else 0.0,
        "worker": 3 * block + 2e9,
        "driver": 12 * block + 2 * 4.0 * problem.labels * problem.width,
    }


def _tree(ready: list[float], first: int, last: int, step: float) -> float:
    """Return when the sum of workers ``first`` to ``last`` is ready; ``step`` is the time to send
    and add one.
    """
    if last - first == 1:
        return ready[first]
    middle = first + tree_cut(last - first)
    return max(_tree(ready, first, middle, step), _tree(ready, middle, last, step)) + step


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--part", action="append", choices=("costs", "workers", "plan"))
    given = parser.parse_args()
    main(given.scale, tuple(given.part or ("costs", "workers", "plan")))
