"""Matrices with a known spectrum, as operators."""

import numpy as np


def with_spectrum(values, seed=0, dtype=np.float64):
    """A symmetric matrix with these eigenvalues, and its eigenvectors in their order."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    A = (U * values) @ U.T
    return (0.5 * (A + A.T)).astype(dtype), U.astype(dtype)


def angle(U, V, metric=None):
    """The sine of the largest angle between two subspaces given by orthonormal columns."""
    V = V if metric is None else metric @ V
    cosines = np.linalg.svd(U.astype(np.float64).T @ V.astype(np.float64), compute_uv=False)
    return float(np.sqrt(max(0.0, 1 - min(1.0, cosines.min()) ** 2)))
