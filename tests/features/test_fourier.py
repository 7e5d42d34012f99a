"""Random Fourier features approximate the kernels they are drawn for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rembrandt.features.fourier import KERNELS, FourierMap, draw, median_distance

MANY = 40_000
SLACK = 5 / MANY**0.5  # five standard errors of a mean of products of cosines


def rows(n=30, k=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)


def differences(H):
    return (H[:, None] - H[None]).astype(np.float64)


def kernel_of(kernel, H, h):
    """The kernel itself, at bandwidth ``h``."""
    delta = differences(H)
    if kernel == "laplacian":
        return np.exp(-np.abs(delta).sum(axis=2) / h)
    r = np.linalg.norm(delta, axis=2) / h
    if kernel == "gaussian":
        return np.exp(-(r**2) / 2)
    if kernel == "matern3":
        return (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r)
    return (1 + 5**0.5 * r + 5 * r**2 / 3) * np.exp(-(5**0.5) * r)


def bandwidth(kernel, H):
    """The median over all pairs of different rows, in the kernel's own norm."""
    delta = differences(H)[np.triu_indices(len(H), 1)]
    return np.median(
        np.abs(delta).sum(axis=1) if kernel == "laplacian" else np.linalg.norm(delta, axis=1)
    )


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_cosines_approximate_the_kernel(kernel, scale, monkeypatch):
    H = rows()
    h = bandwidth(kernel, H)
    monkeypatch.setattr("rembrandt.features.fourier.median_distance", lambda *_: h)
    phi = draw(kernel, H, MANY, scale)
    cosines = phi(H)[:, :MANY].astype(np.float64)
    assert_allclose(2 / MANY * cosines @ cosines.T, kernel_of(kernel, H, scale * h), atol=SLACK)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bandwidth_is_the_median_distance(kernel):
    H = rows(200)
    found = median_distance(H, kernel, np.random.default_rng(0))
    assert found == pytest.approx(bandwidth(kernel, H), rel=0.05)
    assert median_distance(7 * H, kernel, np.random.default_rng(0)) == pytest.approx(
        7 * found, rel=1e-5
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_map_does_not_depend_on_units(kernel):
    """The median brings every scale of the rows to the same features."""
    H = rows(50)
    assert_allclose(
        draw(kernel, 100 * H, 20)(100 * H), draw(kernel, H, 20)(H), atol=2e-2, rtol=1e-3
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_shape_precision_and_seed(kernel):
    H = rows()
    phi = draw(kernel, H, 50, seed=3)
    assert phi(H).shape == (len(H), phi.size) == (30, 54)
    assert phi(H).dtype == np.float32
    assert np.abs(phi(H)[:, :50]).max() <= 1
    assert np.array_equal(draw(kernel, H, 50, seed=3)(H), phi(H))
    assert not np.array_equal(draw(kernel, H, 50, seed=4)(H), phi(H))


def test_the_linear_part_is_as_long_as_the_cosines():
    H = rows(300)
    mapped = draw("gaussian", H, 2000)(H).astype(np.float64)
    assert_allclose(mapped[:, 2000:] / H, np.full_like(H, mapped[0, 2000] / H[0, 0]), rtol=1e-3)
    cosines, linear = (
        np.mean(part**2) * part.shape[1] for part in (mapped[:, :2000], mapped[:, 2000:])
    )
    assert linear == pytest.approx(cosines, rel=0.05)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "H", [np.ones((10, 3)), np.zeros((10, 3)), np.ones((1, 3))], ids=["equal", "zero", "one row"]
)
def test_rows_without_a_distance_divide_nothing_by_zero(kernel, H):
    H = H.astype(np.float32)
    with np.errstate(all="raise"):
        phi = draw(kernel, H, 20)
    assert np.isfinite(phi(H)).all()
    assert median_distance(H, kernel, np.random.default_rng(0)) == 1.0


def test_an_unknown_kernel_is_named():
    with pytest.raises(ValueError, match=r"'rbf' is none of gaussian, laplacian"):
        draw("rbf", rows(), 10)


def test_the_map_by_hand():
    phi = FourierMap(np.float32([[np.pi]]), np.float32([0.0]), 2.0)
    assert_allclose(phi(np.float32([[1.0], [0.5]])), [[-1, 2], [0, 1]], atol=1e-6)
