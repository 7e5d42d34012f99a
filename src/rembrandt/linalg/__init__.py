"""Products, eigensolver, ridge solvers, ranking: plain functions of arrays.

This module defines the types of those arrays.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import rembrandt.deferred  # noqa: F401  before SciPy is imported

Array = NDArray[Any]
Arrays = tuple[Array, ...]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
