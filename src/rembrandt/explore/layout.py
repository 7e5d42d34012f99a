"""Two-dimensional layout of label vectors by t-SNE (openTSNE): labels close in the embedding are
close on the map.
"""

from importlib.util import find_spec
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import RembrandtError
from rembrandt.linalg.threads import n_threads
from rembrandt.progress import Report, silent

# Half of the usual: a map shows which labels are near, and fewer neighbours are faster.
PERPLEXITY = 15
# Iterations with and without early exaggeration, half of the usual: label maps change little after
# that.
EARLY_ITERATIONS = 125
LATE_ITERATIONS = 250
N_ITERATIONS = EARLY_ITERATIONS + LATE_ITERATIONS
# For very many labels only the leading columns of their vectors are used, to save time: as many as
# have this many entries, but at least MIN_COLUMNS.
MAX_ENTRIES = 1 << 24
MIN_COLUMNS = 100
# With fewer labels, threads wait for each other longer than they work.
MIN_THREADED_LABELS = 10_000
ITERATIONS_PER_REPORT = 5


def lay_out(vectors: NDArray[Any], seed: int = 0, report: Report = silent) -> NDArray[np.float32]:
    """Return positions in the plane (n × 2) for vectors, close where the angle between two vectors
    is small.

    The same seed gives the same positions. The columns are expected in order of decreasing
    importance, as those of an embedding are. A vector of zeros gets a random position.
    """
    check_installed()
    from openTSNE import TSNE

    n = len(vectors)
    if n < 4:
        return np.ascontiguousarray(np.eye(4, 2)[:n], dtype=np.float32)
    n_columns = max(MIN_COLUMNS, MAX_ENTRIES // n)
    unit = np.array(vectors[:, :n_columns], dtype=np.float32)
    is_zero = ~unit.any(axis=1)
    n_zero = int(is_zero.sum())
    unit[is_zero] = np.random.default_rng(seed).standard_normal((n_zero, unit.shape[1]))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)

    iterations_done = count(0, ITERATIONS_PER_REPORT)

    def advance(*_: Any) -> None:
        done = min(next(iterations_done), N_ITERATIONS)
        report("computing the map", done, N_ITERATIONS)

    advance()
    n_jobs = 1
    if n >= MIN_THREADED_LABELS:
        n_jobs = n_threads()
    tsne = TSNE(
        perplexity=min(PERPLEXITY, (n - 1) / 3),
        early_exaggeration_iter=EARLY_ITERATIONS,
        n_iter=LATE_ITERATIONS,
        random_state=seed,
        n_jobs=n_jobs,
        callbacks=advance,
        callbacks_every_iters=ITERATIONS_PER_REPORT,
    )
    positions = tsne.fit(unit)
    return np.asarray(positions, dtype=np.float32)


def is_installed(package: str = "openTSNE") -> bool:
    """Return whether a package, such as that of maps, can be imported."""
    return find_spec(package) is not None


def check_installed(package: str = "openTSNE", what: str = "maps of labels") -> None:
    """Raise an error that says what to install if a package is missing."""
    if not is_installed(package):
        raise RembrandtError(f"{what} need the package {package}: pip install 'rembrandt[report]'")
