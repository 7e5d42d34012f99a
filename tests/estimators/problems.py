"""Small data sets, and parameters that leave nothing to choose."""

from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.data.targets import read_targets
from rembrandt.declarations import PARAMETERS, ModelSettings
from rembrandt.estimators import RembrandtClassifier
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.planning import resolve

SETTLED_EMBEDDING: dict[str, Any] = {
    "leave_out": 0.0,
    "label_power": 0.0,
    "row_power": 0.0,
    "tol": 0.02,
}
SETTLED: dict[str, Any] = {
    "parts": ("embedding",),
    "n_components": "auto",
    "decoder": "ridge",
    "decoder_ridge": 0.01,
    "kernel": None,
    "normalize": False,
    "embedding": EmbeddingSettings(**SETTLED_EMBEDDING),
    "random_state": 0,
}


def settled(**changes):
    """Return `SETTLED` with changes; those that are no parameters of the classifier become part of
    ``embedding``.
    """
    declared = {setting.name for setting in EmbeddingSettings.declared("embedding")}
    names = (declared - PARAMETERS.keys()) & changes.keys()
    embedding = SETTLED_EMBEDDING | {name: changes.pop(name) for name in names}
    return SETTLED | {"embedding": EmbeddingSettings(**embedding)} | changes


def settings_for(data: Examples, **changes: Any) -> ModelSettings:
    """Return the settings of a model with `SETTLED` and changes, as `settled` takes them."""
    params = RembrandtClassifier(**settled(**changes)).get_params(deep=False)
    return resolve(params, data)


def examples(X, y, weights=None):
    """Return features and labels as a fit sees them."""
    targets = read_targets(y)
    return Examples(as_rows(X), targets.Y, targets.classes, targets.multiclass, weights)


def blobs(n=300, classes=6, d=8, noise=0.2, seed=0):
    """Points around one centre for each class; every class occurs."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    centres = np.random.default_rng(77).standard_normal((classes, d))
    return centres[y] + noise * rng.standard_normal((n, d)), y


def several(n=300, labels=8, seed=0):
    """Examples with none to three labels; each label has a feature of its own."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((n, labels), dtype=int)
    for row in Y:
        row[rng.choice(labels, rng.integers(0, 4), replace=False)] = 1
    return (Y + 0.1 * rng.standard_normal(Y.shape)), Y


def directions(n=500, labels=12, d=16, seed=0, multiclass=False):
    """Examples whose features are the sum of a direction for each of their labels, and noise."""
    rng = np.random.default_rng(seed)
    if multiclass:
        Y = np.eye(labels, dtype=np.float32)[rng.integers(0, labels, n)]
    else:
        Y = (rng.random((n, labels)) < 0.12).astype(np.float32)
    return Y @ np.random.default_rng(5).standard_normal((labels, d)) + 0.3 * rng.standard_normal(
        (n, d)
    ), Y


def skewed(n=400, labels=30, d=20, multiclass=False, seed=0):
    """Labels from common to rare, each with a direction, under much noise."""
    rng = np.random.default_rng(seed)
    rates = 1 / np.arange(1, labels + 1)
    if multiclass:
        y = np.append(np.arange(labels), rng.choice(labels, n - labels, p=rates / rates.sum()))
        Y = np.eye(labels)[y]
    else:
        y = Y = (rng.random((n, labels)) < rates).astype(int)
    X = Y @ np.random.default_rng(7).standard_normal((labels, d)) + rng.standard_normal((n, d))
    return X.astype(np.float32), y


def words(n=300, labels=40, d=200, seed=0):
    """Rows of words with one label: each label has two words of its own, and each row has some
    common words.
    """
    rng = np.random.default_rng(seed)
    label = rng.integers(0, labels, n)
    columns = np.hstack(
        [2 * label[:, None] + rng.integers(0, 2, (n, 1)), rng.integers(2 * labels, d, (n, 5))]
    )
    X = sparse.csr_array(
        (np.ones(columns.size), (np.repeat(np.arange(n), 6), columns.ravel())), shape=(n, d)
    )
    X.sum_duplicates()
    Y = sparse.csr_array((np.ones(n, dtype=np.float32), (np.arange(n), label)), shape=(n, labels))
    return X.astype(np.float32), Y
