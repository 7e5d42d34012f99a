"""Labels in the plane: those that lie together in the embedding lie together on the map (t-SNE, by openTSNE)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import RembrandtError
from rembrandt.linalg.threads import n_threads
from rembrandt.progress import Report, silent

PERPLEXITY = 15  # neighbours that a label is drawn to: a map shows who is near, and fewer are quicker
EARLY, LATE = 125, 250  # iterations: half of the usual ones; on labels the rest moves nothing that can be seen
NUMBERS = 1 << 24  # of the vectors looked at: with very many labels the strongest directions only, for time's sake
FEWEST = 100  # of these, at least
SHARED = 10_000  # labels: with fewer, threads wait for each other longer than they work


def lay_out(vectors: NDArray[Any], seed: int = 0, report: Report = silent) -> NDArray[np.float32]:
    """Places in the plane for the rows of ``vectors``, near where the angle is small; a row of zeros lies at random.

    The same seed gives the same map. Columns are taken to fall in strength, as those of an embedding do.
    """
    check_installed()
    from openTSNE import TSNE

    n = len(vectors)
    if n < 4:
        return np.ascontiguousarray(np.eye(4, 2)[:n], dtype=np.float32)
    kept = np.array(vectors[:, : max(FEWEST, NUMBERS // n)], dtype=np.float32)
    lengths = np.linalg.norm(kept, axis=1)
    empty = lengths == 0
    kept[empty] = np.random.default_rng(seed).standard_normal((int(empty.sum()), kept.shape[1]))
    kept /= np.where(empty, np.linalg.norm(kept, axis=1), lengths)[:, None]
    report("drawing the map", 0, EARLY + LATE)
    done = 0

    def tell(iteration: int, error: float, places: Any) -> bool:
        nonlocal done
        done += 5
        report("drawing the map", min(done, EARLY + LATE), EARLY + LATE)
        return False

    tsne = TSNE(
        perplexity=min(PERPLEXITY, (n - 1) / 3),
        early_exaggeration_iter=EARLY,
        n_iter=LATE,
        random_state=seed,
        n_jobs=n_threads() if n >= SHARED else 1,
        callbacks=tell,
        callbacks_every_iters=5,
    )
    places = np.asarray(tsne.fit(kept), dtype=np.float32)
    report("drawing the map", EARLY + LATE, EARLY + LATE)
    return places


def check_installed() -> None:
    """Refuse early where what draws maps is not there."""
    try:
        import openTSNE  # noqa: F401
    except ImportError as missing:
        raise RembrandtError("maps of labels need the package openTSNE: pip install 'rembrandt[report]'") from missing
