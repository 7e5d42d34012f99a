"""How many directions to keep."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rembrandt.errors import RembrandtWarning
from rembrandt.metrics.percent import percent

# Largest rank that an automatic choice tries.
MAX_AUTO_RANK = 1000
# Share of the spectrum found that the directions kept must hold.
SPECTRUM_SHARE = 0.995


def largest_rank(n: int, d: int, c: int) -> int:
    """Return the rank from which an automatic choice starts."""
    return max(1, min(n, d, c, MAX_AUTO_RANK))


def choose_rank(sigma: ArrayLike) -> tuple[int, str]:
    """Return the smallest rank that holds nearly all of the spectrum, and the reason as a
    sentence.
    """
    values = np.asarray(sigma, dtype=np.float64)
    held = np.cumsum(values) / values.sum()
    n_needed = int(np.searchsorted(held, SPECTRUM_SHARE)) + 1
    rank = min(n_needed, len(values))
    reason = (
        f"{rank} of the {len(values)} directions found hold {percent(held[rank - 1])} of their "
        "spectrum"
    )
    return rank, reason


def warn_if_fewer(found: int, n_components: Any) -> None:
    """Warn when fewer directions were found than a user asked for."""
    if n_components != "auto" and found < n_components:
        message = (
            f"n_components={n_components} is more than the rank of this problem: reduced to "
            f"{found}. Use n_components={found} or less to avoid this warning."
        )
        warnings.warn(RembrandtWarning(message, "n_components"), stacklevel=3)
