"""Orthogonal matching pursuit (Hsu et al., 2009): the decoder that compressed sensing comes with.

A projected example ``h ≈ Vᵀy`` is explained by few labels, picked one at a time: the label that fits what is left
best, then all picked labels are fitted anew. All rows move together, so there is no loop over rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def pursue(H: NDArray[Any], basis: NDArray[Any], n_labels: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The ``n_labels`` best labels of each row of ``H``, and scores that fall in the order they were picked."""
    rows, k = H.shape
    lengths = np.maximum(np.linalg.norm(basis, axis=1), 1e-12)
    unit = (basis / lengths[:, None]).astype(H.dtype)
    n_labels = min(n_labels, len(basis), k)
    picked = np.zeros((rows, n_labels), dtype=np.int64)
    scores = np.zeros((rows, n_labels), dtype=H.dtype)
    left = H
    taken = np.arange(rows)
    for i in range(n_labels):
        match = left @ unit.T
        match[taken[:, None], picked[:, :i]] = -np.inf
        picked[:, i] = match.argmax(axis=1)
        # A later label never outranks an earlier one, even where its match with a changed remainder is larger.
        scores[:, i] = match[taken, picked[:, i]]
        if i:
            scores[:, i] = np.minimum(scores[:, i], scores[:, i - 1])
        atoms = basis[picked[:, : i + 1]].astype(np.float64)  # rows × (i+1) × k
        gram = atoms @ atoms.transpose(0, 2, 1) + 1e-8 * np.eye(i + 1)
        weights = np.linalg.solve(gram, np.einsum("rik,rk->ri", atoms, H.astype(np.float64))[..., None])[..., 0]
        left = (H - np.einsum("ri,rik->rk", weights, atoms)).astype(H.dtype)
    return picked, scores
