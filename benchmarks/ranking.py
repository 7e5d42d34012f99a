"""The ranking of one part by its own scores, without the blend of a model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.blocks import spans


def best_labels(part: Any, X: Any, k: int) -> NDArray[np.int64]:
    """Return the ``k`` labels of each row with the largest scores, best first."""
    blocks = [part.top(part.prepare(X[rows]), k)[0] for rows in spans(X.shape[0], part.block_rows)]
    return np.concatenate(blocks)
