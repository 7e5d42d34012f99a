"""Random Fourier features (Rahimi & Recht, 2007): a kernel as a finite map, ``φ(h) = [cos(hΩ + b),
s·h]``.

The columns of ``Ω`` are drawn from the spectral density of the kernel: normal for the Gaussian
kernel, Cauchy for the Laplacian, Student's t for Matérn (ν = 3/2: three degrees of freedom, ν =
5/2: five). The linear part adds a linear kernel: a thousand features with it are as accurate as
three thousand without.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.errors import SettingsError
from rembrandt.linalg.blocks import Block, as_numpy, column_dots

Kernel = Literal["gaussian", "laplacian", "matern3", "matern5"]
KERNELS: tuple[Kernel, ...] = ("gaussian", "laplacian", "matern3", "matern5")
_WIDE = 4096  # number of inputs above which random directions are not made orthogonal
_PAIRS = 4096  # pairs of examples whose distances the median is taken of


@dataclass(frozen=True)
class FourierMap:
    """The map ``h ↦ [cos(hΩ + b), s·h]``."""

    frequencies: Block  # Ω, k × D
    offsets: Block  # b, D
    linear: float  # s

    @property
    def size(self) -> int:
        """Number of features of the map."""
        return int(sum(self.frequencies.shape))

    def moved(self, move: Callable[[Block], Block]) -> "FourierMap":
        """Apply ``move`` to the arrays, for instance to copy them to a device."""
        return replace(self, frequencies=move(self.frequencies), offsets=move(self.offsets))

    def __call__(self, H: Block) -> Block:
        xp = array_namespace(H)
        return xp.concat([xp.cos(H @ self.frequencies + self.offsets), self.linear * H], axis=1)


def draw(
    kernel: Kernel, H: Block, n_features: int, scale: float = 1.0, seed: int = 0
) -> FourierMap:
    """Draw a map for ``kernel`` with a bandwidth of ``scale`` times the median distance between
    rows of ``H``.
    """
    xp = array_namespace(H)
    rng = np.random.default_rng(seed)
    k = H.shape[1]
    if kernel == "laplacian":
        directions = rng.standard_cauchy((k, n_features))
    elif kernel == "gaussian":
        directions = orthogonal_normal(k, n_features, rng)
    elif kernel in ("matern3", "matern5"):
        freedom = 3 if kernel == "matern3" else 5
        directions = orthogonal_normal(k, n_features, rng) / np.sqrt(
            rng.chisquare(freedom, n_features) / freedom
        )
    else:
        raise SettingsError(f"kernel={kernel!r} is none of {', '.join(KERNELS)}")
    bandwidth = scale * median_distance(H, kernel, rng)
    offsets = rng.uniform(0, 2 * np.pi, n_features)
    # The cosines of a row have squared length D/2 on average; the linear part is scaled to the
    # same.
    length = mean_square(H) ** 0.5
    linear = float(np.sqrt(n_features / 2) / length) if length > 0 else 0.0
    frequencies, offsets = (
        xp.asarray(values, dtype=H.dtype, device=H.device)
        for values in (directions / bandwidth, offsets)
    )
    return FourierMap(frequencies, offsets, linear)


def mean_square(H: Block) -> float:
    """Mean squared length of the rows; rows on disk have it as an attribute."""
    if hasattr(H, "mean_square"):
        return float(H.mean_square)
    return float(array_namespace(H).sum(column_dots(H, H))) / max(1, H.shape[0])


def orthogonal_normal(k: int, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """``n`` normal vectors of length ``k``, orthogonal within groups of k (Yu et al., 2016).

    Each vector is normally distributed; together they cover the sphere more evenly and approximate
    the kernel better.
    """
    if k > _WIDE:
        return rng.standard_normal((k, n))  # nearly orthogonal anyway
    blocks = [np.linalg.qr(rng.standard_normal((k, k)))[0] for _ in range(-(-n // k))]
    return np.hstack(blocks)[:, :n] * np.sqrt(rng.chisquare(k, n))


def median_distance(H: Block, kernel: Kernel, rng: np.random.Generator) -> float:
    """Median distance between random pairs of rows, in the norm of the kernel; 1 if all rows are
    equal.
    """
    first, second = rng.integers(0, H.shape[0], (2, _PAIRS))
    first, second = first[first != second], second[first != second]
    difference = as_numpy(H[first] - H[second])
    distances = (
        np.abs(difference).sum(axis=1)
        if kernel == "laplacian"
        else np.linalg.norm(difference, axis=1)
    )
    median = float(np.median(distances)) if len(distances) else 0.0
    return median if median > 0 else 1.0
