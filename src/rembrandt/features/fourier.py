"""Random Fourier features (Rahimi & Recht, 2007): a kernel as a finite map, ``φ(h) = [cos(hΩ + b),
s·h]``.

The columns of ``Ω`` are drawn from the spectral density of the kernel: normal for the Gaussian
kernel, Cauchy for the Laplacian, Student's t for Matérn (ν = 3/2: three degrees of freedom, ν =
5/2: five). The linear part adds a linear kernel: a thousand features with it are as accurate as
three thousand without.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import matmul
from typing import Literal

import numpy as np
from array_api_compat import array_namespace

from rembrandt.errors import SettingsError
from rembrandt.linalg import Floats
from rembrandt.linalg.blocks import Block, as_numpy, column_dots, for_each_span

Kernel = Literal["gaussian", "laplacian", "matern3", "matern5"]
KERNELS: tuple[Kernel, ...] = ("gaussian", "laplacian", "matern3", "matern5")
_MAX_ORTHOGONAL_INPUTS = 4096  # with more, random directions are nearly orthogonal anyway
MAPPED_ROWS = 128  # that one thread maps
_N_DISTANCES = 4096  # pairs of examples whose median distance is taken


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
        frequencies = move(self.frequencies)
        offsets = move(self.offsets)
        return replace(self, frequencies=frequencies, offsets=offsets)

    def __call__(self, H: Block, product: Callable[[Block, Block], Block] = matmul) -> Block:
        """Return the features of rows; ``product`` multiplies them by the frequencies."""
        products = product(H, self.frequencies)
        if not isinstance(products, np.ndarray):
            xp = array_namespace(H)
            return xp.concat([xp.cos(products + self.offsets), self.linear * H], axis=1)
        n_cosines = products.shape[1]
        features = np.empty((len(H), self.size), dtype=products.dtype)

        def fill(rows: slice) -> None:
            products[rows] += self.offsets
            np.cos(products[rows], out=features[rows, :n_cosines])
            np.multiply(self.linear, H[rows], out=features[rows, n_cosines:])

        for_each_span(fill, len(H), MAPPED_ROWS)
        return features


def draw(
    kernel: Kernel, H: Block, n_features: int, scale: float = 1.0, seed: int = 0
) -> FourierMap:
    """Draw a random map that approximates a kernel.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "matern3", "matern5"}
        The kernel.
    H : array of shape (n_examples, n_inputs)
        Examples, from which the bandwidth and the scale of the linear part are taken.
    n_features : int
        Number of cosines.
    scale : float, default=1.0
        The bandwidth is this times the median distance between rows of ``H``.
    seed : int, default=0
        Seed of the random generator.

    Returns
    -------
    FourierMap
        Its arrays have the type of ``H`` and are on the same device.
    """
    xp = array_namespace(H)
    rng = np.random.default_rng(seed)
    directions = _directions(kernel, H.shape[1], n_features, rng)
    bandwidth = scale * median_distance(H, kernel, rng)
    frequencies = directions / bandwidth
    offsets = rng.uniform(0, 2 * np.pi, n_features)
    # The cosines of a row have squared length D/2 on average; the linear part is scaled to the
    # same.
    length = mean_square(H) ** 0.5
    linear = 0.0
    if length > 0:
        linear = float(np.sqrt(n_features / 2) / length)
    return FourierMap(
        frequencies=xp.asarray(frequencies, dtype=H.dtype, device=H.device),
        offsets=xp.asarray(offsets, dtype=H.dtype, device=H.device),
        linear=linear,
    )


def _directions(kernel: Kernel, k: int, n_features: int, rng: np.random.Generator) -> Floats:
    """Draw ``n_features`` columns from the spectral density of a kernel of bandwidth one."""
    if kernel == "gaussian":
        return orthogonal_normal(k, n_features, rng)
    if kernel == "laplacian":
        return rng.standard_cauchy((k, n_features))
    if kernel == "matern3":
        return _student(3, k, n_features, rng)
    if kernel == "matern5":
        return _student(5, k, n_features, rng)
    raise SettingsError(f"kernel={kernel!r} is none of {', '.join(KERNELS)}")


def _student(freedom: int, k: int, n: int, rng: np.random.Generator) -> Floats:
    """``n`` vectors of length ``k`` with a multivariate t distribution."""
    normal = orthogonal_normal(k, n, rng)
    mean_squares = rng.chisquare(freedom, n) / freedom
    return normal / np.sqrt(mean_squares)


def mean_square(H: Block) -> float:
    """Mean squared length of the rows; rows on disk have it as an attribute."""
    if hasattr(H, "mean_square"):
        return float(H.mean_square)
    xp = array_namespace(H)
    total = float(xp.sum(column_dots(H, H)))
    return total / max(1, H.shape[0])


def orthogonal_normal(k: int, n: int, rng: np.random.Generator) -> Floats:
    """``n`` normal vectors of length ``k``, orthogonal within groups of k (Yu et al., 2016).

    Each vector is normally distributed; together they cover the sphere more evenly and approximate
    the kernel better.
    """
    if k > _MAX_ORTHOGONAL_INPUTS:
        return rng.standard_normal((k, n))
    n_groups = -(-n // k)
    groups = []
    for _ in range(n_groups):
        normal = rng.standard_normal((k, k))
        orthogonal, _ = np.linalg.qr(normal)
        groups.append(orthogonal)
    lengths = np.sqrt(rng.chisquare(k, n))
    return np.hstack(groups)[:, :n] * lengths


def median_distance(H: Block, kernel: Kernel, rng: np.random.Generator) -> float:
    """Median distance between random pairs of rows, in the norm of the kernel.

    It is 1 if all rows are equal.
    """
    first, second = rng.integers(0, H.shape[0], (2, _N_DISTANCES))
    is_pair = first != second
    difference = as_numpy(H[first[is_pair]] - H[second[is_pair]])
    if len(difference) == 0:
        return 1.0
    if kernel == "laplacian":
        distances = np.abs(difference).sum(axis=1)
    else:
        distances = np.linalg.norm(difference, axis=1)
    median = float(np.median(distances))
    if median > 0:
        return median
    return 1.0
