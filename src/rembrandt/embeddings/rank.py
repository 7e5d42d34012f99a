"""How many directions to keep."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rembrandt.errors import RembrandtWarning
from rembrandt.metrics.percent import percent

MOST = 1000  # largest rank that an automatic choice tries
SHARE = 0.995  # of the spectrum found, in the directions kept


def largest_rank(n: int, d: int, c: int) -> int:
    """Return the rank from which an automatic choice starts."""
    return max(1, min(n, d, c, MOST))


def choose_rank(sigma: ArrayLike) -> tuple[int, str]:
    """Return the smallest rank that holds nearly all of the spectrum, and the reason as a
    sentence.
    """
    values = np.asarray(sigma, dtype=np.float64)
    held = np.cumsum(values) / values.sum()
    rank = min(int(np.searchsorted(held, SHARE)) + 1, len(values))
    return (
        rank,
        f"{rank} of the {len(values)} directions found hold {percent(held[rank - 1])} of their "
        "spectrum",
    )


def warn_if_fewer(found: int, n_components: Any) -> None:
    """Warn when fewer directions were found than a user asked for."""
    if n_components != "auto" and found < n_components:
        warnings.warn(
            RembrandtWarning(
                f"n_components={n_components} is more than the rank of this problem: reduced to "
                f"{found}. "
                f"Use n_components={found} or less to avoid this warning.",
                "n_components",
            ),
            stacklevel=3,
        )
