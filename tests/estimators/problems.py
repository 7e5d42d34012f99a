"""Small data for the estimators, and settings that leave nothing to search for."""

import numpy as np

SETTLED = {
    "n_components": "auto",
    "decoder": "ridge",
    "decoder_ridge": 0.01,
    "kernel": None,
    "normalize": False,
    "random_state": 0,
}


def blobs(n=300, classes=6, d=8, noise=0.2, seed=0):
    """Points around one centre per class; every class occurs."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    centres = np.random.default_rng(77).standard_normal((classes, d))
    return centres[y] + noise * rng.standard_normal((n, d)), y


def several(n=300, labels=8, seed=0):
    """Examples with none to three labels, each label marked by a feature of its own."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((n, labels), dtype=int)
    for row in Y:
        row[rng.choice(labels, rng.integers(0, 4), replace=False)] = 1
    return (Y + 0.1 * rng.standard_normal(Y.shape)), Y
