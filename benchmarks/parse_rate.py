"""Speed of reading numeric text compared with scikit-learn, on the same file in one run.

python -m benchmarks.parse_rate
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.generated import sparse_problem
from rembrandt.data import read


def main(n: int = 30_000, repeats: int = 3) -> dict[str, float]:
    """Write a file of sparse rows, read it with both, and print the rates."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "examples.svm"
        _write(path, n)
        megabytes = path.stat().st_size / 1e6
        ours, theirs = read(path), load_svmlight_file(str(path), multilabel=True, zero_based=True)
        assert abs(ours.X - theirs[0].astype(np.float32)).max() == 0, (
            "the two readers return different values"
        )
        read_s = _median_seconds(lambda: read(path), repeats)
        sklearn_s = _median_seconds(
            lambda: load_svmlight_file(str(path), multilabel=True, zero_based=True), repeats
        )
    result = {
        "megabytes": megabytes,
        "rembrandt_mb_s": megabytes / read_s,
        "sklearn_mb_s": megabytes / sklearn_s,
        "ratio": sklearn_s / read_s,
    }
    print(f"{megabytes:.0f} MB, {n:,} examples, median of {repeats}")
    print(f"{'reader':<14}{'MB/s':>8}{'rows/s':>12}")
    print(f"{'rembrandt':<14}{result['rembrandt_mb_s']:>8.1f}{n / read_s:>12,.0f}")
    print(f"{'scikit-learn':<14}{result['sklearn_mb_s']:>8.1f}{n / sklearn_s:>12,.0f}")
    print(f"{'ratio':<14}{result['ratio']:>8.1f}")
    return result


def _write(path: Path, n: int) -> None:
    """Write rows like those of tf-idf features: about a hundred values of four digits, and a few
    labels.
    """
    X, Y = sparse_problem(n, 100_000, 5_000, rank=50, features_each=120)
    X.data *= np.random.default_rng(0).random(X.nnz, np.float32)
    with path.open("w") as file:
        for i in range(n):
            labels = Y.indices[Y.indptr[i] : Y.indptr[i + 1]]
            span = slice(X.indptr[i], X.indptr[i + 1])
            row = " ".join(map("%d:%.4f".__mod__, zip(X.indices[span], X.data[span], strict=True)))
            file.write(",".join(map(str, labels)) + " " + row + "\n")


def _median_seconds(work: Callable[[], Any], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=30_000)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    main(chosen.examples, chosen.repeats)
