"""Orthogonal matching pursuit, the decoder that Hsu et al. (2009) propose for compressed sensing.

The projection of an example is ``h ≈ Vᵀy`` with few labels in ``y``. Labels are selected one at a
time: first the label that matches the residual best, then a least-squares fit of ``h`` by all
selected labels gives the next residual. All rows advance together.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.estimators import LabelEmbedder
from rembrandt.linalg.blocks import spans

BLOCK = 1 << 24  # entries of the largest block of matches


def greedy_labels(
    embedder: LabelEmbedder, X: Any, n_labels: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the ``n_labels`` best labels of each row of ``X`` and their scores, from a fitted
    label embedding.
    """
    H, V = embedder.transform(X), np.asarray(embedder.embedding_)
    blocks = [pursue(H[rows], V, n_labels) for rows in spans(len(H), max(1, BLOCK // len(V)))]
    labels, scores = zip(*blocks, strict=True)
    return np.concatenate(labels), np.concatenate(scores)


def pursue(
    H: NDArray[Any], V: NDArray[Any], n_labels: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return labels of each projected row in the order of selection, and scores that decrease in
    that order.

    At most as many labels are selected as the embedding ``V`` (labels × components) has components.
    """
    n, k = H.shape
    n_labels = min(n_labels, len(V), k)
    unit = (V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12)).astype(H.dtype)
    selected = np.zeros((n, n_labels), dtype=np.int64)
    scores = np.zeros((n, n_labels), dtype=H.dtype)
    target, residual = H.astype(np.float64), H
    rows = np.arange(n)
    for i in range(n_labels):
        match = residual @ unit.T
        match[rows[:, None], selected[:, :i]] = -np.inf
        selected[:, i] = match.argmax(axis=1)
        scores[:, i] = match[rows, selected[:, i]]
        if i:  # a match with a later residual may be larger
            scores[:, i] = np.minimum(scores[:, i], scores[:, i - 1])
        atoms = V[selected[:, : i + 1]].astype(np.float64)  # n × (i + 1) × k
        gram = atoms @ atoms.swapaxes(1, 2) + 1e-8 * np.eye(
            i + 1
        )  # nearly equal labels would make it singular
        weights = np.linalg.solve(gram, atoms @ target[:, :, None])
        residual = (target - (weights.swapaxes(1, 2) @ atoms)[:, 0]).astype(H.dtype)
    return selected, scores
