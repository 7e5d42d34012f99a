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

PERPLEXITY = (
    15  # half of the usual: a map shows which labels are near, and fewer neighbours are faster
)
EARLY, LATE = 125, 250  # iterations, half of the usual: label maps change little after that
ENTRIES = (
    1 << 24
)  # of the vectors that are used: for very many labels only the leading columns, to save time
MIN_COLUMNS = 100
MIN_THREADED = 10_000  # labels; below, threads wait for each other longer than they work
STEP = 5  # iterations between two progress reports


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
    kept = np.array(vectors[:, : max(MIN_COLUMNS, ENTRIES // n)], dtype=np.float32)
    empty = ~kept.any(axis=1)
    kept[empty] = np.random.default_rng(seed).standard_normal((int(empty.sum()), kept.shape[1]))
    kept /= np.linalg.norm(kept, axis=1, keepdims=True)
    done = count(0, STEP)

    def advance(*_: Any) -> None:
        report("computing the map", min(next(done), EARLY + LATE), EARLY + LATE)

    advance()
    perplexity, n_jobs = min(PERPLEXITY, (n - 1) / 3), n_threads() if n >= MIN_THREADED else 1
    iterations = {"early_exaggeration_iter": EARLY, "n_iter": LATE}
    progress = {"callbacks": advance, "callbacks_every_iters": STEP}
    tsne = TSNE(perplexity=perplexity, random_state=seed, n_jobs=n_jobs, **iterations, **progress)
    return np.asarray(tsne.fit(kept), dtype=np.float32)


def check_installed(package: str = "openTSNE", what: str = "maps of labels") -> None:
    """Raise an error that says what to install if a package is missing."""
    if find_spec(package) is None:
        raise RembrandtError(f"{what} need the package {package}: pip install 'rembrandt[report]'")
