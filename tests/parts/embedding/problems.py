"""A small problem whose embeddings are known, and the dense way to each of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

N, D, C = 400, 30, 16


@dataclass(frozen=True)
class Data:
    X: Any
    Y: sparse.csr_array
    weights: Any = None


def latent(seed=0, n=N, d=D, c=C, kind="sparse"):
    """Labels that the features predict along a few directions of falling strength."""
    rng = np.random.default_rng(seed)
    X = (
        rng.standard_normal((n, d))
        * (rng.random((n, d)) < 0.5)
        * np.maximum(3 * 0.7 ** np.arange(d), 0.2)
    )
    strengths = 3.0 * 0.7 ** np.arange(c)
    logits = (
        X
        @ rng.standard_normal((d, c))
        @ (strengths[:, None] * rng.standard_normal((c, c)))
        / d**0.5
    )
    Y = (logits + rng.standard_normal((n, c)) > np.linspace(0, 6, c)).astype(np.float32)
    X = X.astype(np.float32)
    return Data(sparse.csr_array(X) if kind == "sparse" else X, sparse.csr_array(Y))


def dense_parts(data):
    """``[X, 1]`` and ``Y``, each row times the root of its weight."""
    X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    X = np.hstack([X, np.ones((len(X), 1))]).astype(np.float64)
    root = np.ones(len(X)) if data.weights is None else np.sqrt(data.weights)
    return X * root[:, None], data.Y.toarray().astype(np.float64) * root[:, None]


def scaled(data, label_power, row_power):
    """The same data with each row of Y over a power of its sum, and each column over one of its
    weighted sum.
    """
    Y = data.Y.toarray().astype(np.float64)
    w = np.ones(len(Y)) if data.weights is None else data.weights
    rows, columns = (np.where(sums > 0, sums, 1) for sums in (Y.sum(axis=1), w @ Y))
    return replace(data, Y=sparse.csr_array(Y / rows[:, None] ** row_power / columns**label_power))


def relative(ridge, G):
    return ridge * np.trace(G) / np.count_nonzero(np.diag(G))


def regression(X, B, ridge):
    """``(XᵀX + tI)⁻¹ B`` with ``t = ridge · trace(XᵀX)/d``."""
    G = X.T @ X
    return np.linalg.solve(G + relative(ridge, G) * np.eye(len(G)), B)


def dense_eigh(method, data, ridge, label_ridge=None):
    """All eigenvalues and eigenvectors of a method's problem, largest first, and its metric."""
    X, Y = dense_parts(data)
    if method == "plst":
        A, B = Y.T @ Y, np.eye(Y.shape[1])
    elif method == "pca":
        A, B = X.T @ X, np.eye(X.shape[1])
    else:
        A, B = Y.T @ X @ regression(X, X.T @ Y, ridge), np.eye(Y.shape[1])
    if method == "cca":
        G = Y.T @ Y
        B = G + relative(ridge if label_ridge is None else label_ridge, G) * np.eye(len(G))
    values, vectors = eigh(0.5 * (A + A.T), B)
    return values[::-1], vectors[:, ::-1], B
