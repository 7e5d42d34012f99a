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
from typing import Literal, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.random import Generator

from rembrandt.errors import SettingsError
from rembrandt.linalg import Array, Floats
from rembrandt.linalg.blocks import Block, as_numpy, column_dots, for_each_span

Kernel = Literal["gaussian", "laplacian", "matern3", "matern5"]
KERNELS: tuple[Kernel, ...] = get_args(Kernel)
Product = Callable[[Block, Block], Block]
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

    def __call__(self, H: Block, product: Product = matmul) -> Block:
        """Return the features of rows; ``product`` multiplies them by the frequencies."""
        products = product(H, self.frequencies)
        if isinstance(products, np.ndarray):
            return self._features_in_memory(H, products)
        xp = array_namespace(H)
        cosines = xp.cos(products + self.offsets)
        linear = self.linear * H
        return xp.concat([cosines, linear], axis=1)

    def _features_in_memory(self, H: Block, products: Array) -> Array:
        """Return the features of rows whose products with the frequencies are given.

        The products are overwritten.
        """
        n_rows, n_cosines = products.shape
        features = np.empty((n_rows, self.size), dtype=products.dtype)
        cosines = features[:, :n_cosines]
        linear = features[:, n_cosines:]

        def fill(rows: slice) -> None:
            phases = products[rows]
            phases += self.offsets
            np.cos(phases, out=cosines[rows])
            np.multiply(self.linear, H[rows], out=linear[rows])

        for_each_span(fill, n_rows, MAPPED_ROWS)
        return features


def draw(
    kernel: Kernel,
    H: Block,
    n_features: int,
    scale: float = 1.0,
    seed: int = 0,
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
    n_inputs = H.shape[1]
    directions = _directions(kernel, n_inputs, n_features, rng)
    bandwidth = scale * median_distance(H, kernel, rng)
    frequencies = directions / bandwidth
    offsets = rng.uniform(0, 2 * np.pi, n_features)
    return FourierMap(
        frequencies=xp.asarray(frequencies, dtype=H.dtype, device=H.device),
        offsets=xp.asarray(offsets, dtype=H.dtype, device=H.device),
        linear=_linear_scale(H, n_features),
    )


def _linear_scale(H: Block, n_cosines: int) -> float:
    """Return the factor with which rows are as long as their cosines; 0 where all rows are zero.

    The cosines of a row have squared length D/2 on average.
    """
    length = mean_square(H) ** 0.5
    if length > 0:
        length_of_cosines = np.sqrt(n_cosines / 2)
        return float(length_of_cosines / length)
    return 0.0


def _directions(kernel: Kernel, k: int, n_features: int, rng: Generator) -> Floats:
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


def _student(freedom: int, k: int, n: int, rng: Generator) -> Floats:
    """``n`` vectors of length ``k`` with a multivariate t distribution."""
    normal = orthogonal_normal(k, n, rng)
    mean_squares = rng.chisquare(freedom, n) / freedom
    return normal / np.sqrt(mean_squares)


def mean_square(H: Block) -> float:
    """Mean squared length of the rows; rows on disk have it as an attribute."""
    if hasattr(H, "mean_square"):
        return float(H.mean_square)
    xp = array_namespace(H)
    n_rows = H.shape[0]
    squares = column_dots(H, H)
    total = float(xp.sum(squares))
    return total / max(1, n_rows)


def orthogonal_normal(k: int, n: int, rng: Generator) -> Floats:
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
    squared_lengths = rng.chisquare(k, n)
    directions = np.hstack(groups)[:, :n]
    return directions * np.sqrt(squared_lengths)


def median_distance(H: Block, kernel: Kernel, rng: Generator) -> float:
    """Median distance between random pairs of rows, in the norm of the kernel.

    It is 1 if all rows are equal.
    """
    n_rows = H.shape[0]
    first, second = rng.integers(0, n_rows, (2, _N_DISTANCES))
    is_pair = first != second
    first = first[is_pair]
    second = second[is_pair]
    differences = as_numpy(H[first] - H[second])
    if len(differences) == 0:
        return 1.0
    if kernel == "laplacian":
        distances = np.abs(differences).sum(axis=1)
    else:
        distances = np.linalg.norm(differences, axis=1)
    median = float(np.median(distances))
    if median > 0:
        return median
    return 1.0
