"""Speed of sparse times dense products compared with SciPy, on Zipf-distributed word counts, in one
run.

python -m benchmarks.sparse_products
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.linalg.sparse import as_csr, csr_matmul
from rembrandt.linalg.threads import n_threads
from rembrandt.linalg.transposed import Transposed


def main(
    n: int = 50_000, d: int = 60_000, words: int = 60, k: int = 120, repeats: int = 7
) -> dict[str, float]:
    """Time ``X @ Z`` and ``Xᵀ @ U`` with both in turns, and print the median rates."""
    rng = np.random.default_rng(0)
    X = zipf_counts(n, d, words, rng)
    Xt = Transposed.of(X)
    Z = rng.standard_normal((d, k), dtype=np.float32)
    U = rng.standard_normal((n, k), dtype=np.float32)
    pairs = {
        "X @ Z": (lambda: X @ Z, lambda: csr_matmul(X, Z)),
        "Xᵀ @ U": (lambda: X.T @ U, lambda: Xt @ U),
    }
    result: dict[str, float] = {"threads": n_threads(), "nonzeros": X.nnz}
    print(
        f"{n:,} × {d:,}, {X.nnz:,} non-zeros, k = {k}, {n_threads()} threads, median of {repeats}"
    )
    print(f"{'product':<10}{'SciPy GFLOP/s':>15}{'ours':>8}{'ratio':>8}")
    for name, (theirs, ours) in pairs.items():
        np.testing.assert_allclose(ours(), theirs(), rtol=1e-2, atol=1e-2)
        scipy_s, ours_s = _in_turns(theirs, ours, repeats)
        rate = 2 * X.nnz * k / 1e9
        result[f"{name} ratio"] = scipy_s / ours_s
        print(f"{name:<10}{rate / scipy_s:>15.2f}{rate / ours_s:>8.2f}{scipy_s / ours_s:>8.2f}")
    return result


def zipf_counts(n: int, d: int, words: int, rng: np.random.Generator) -> sparse.csr_array:
    """Return word counts of documents of ``words`` words; word r has a probability proportional to
    1/r.
    """
    p = 1 / np.arange(1, d + 1)
    columns = rng.choice(d, size=n * words, p=p / p.sum())
    counts = sparse.csr_array(
        (np.ones(n * words, np.float32), (np.repeat(np.arange(n), words), columns)), shape=(n, d)
    )
    return as_csr(counts)


def _in_turns(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int
) -> tuple[float, float]:
    """Return the median seconds of two functions that run in turns, so that other load affects
    both.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for work, kept in zip((first, second), seconds, strict=True):
            start = time.perf_counter()
            work()
            kept.append(time.perf_counter() - start)
    return float(np.median(seconds[0])), float(np.median(seconds[1]))


if __name__ == "__main__":
    main()
