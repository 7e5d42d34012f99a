"""Orthogonal matching pursuit (Hsu et al., 2009): the decoder that compressed sensing comes with.

A projected example ``h ≈ Vᵀy`` is explained by few labels, picked one at a time: the label that fits what is left
best, then all picked labels are fitted anew. All rows move together, so there is no loop over rows.
"""

from array_api_compat import array_namespace

from rembrandt.linalg.blocks import Block


def pursue(H: Block, basis: Block, n_labels: int) -> tuple[Block, Block]:
    """The ``n_labels`` best labels of each row of ``H``, and scores that fall in the order they were picked."""
    xp = array_namespace(H)
    rows, k = H.shape
    lengths = xp.sqrt(xp.sum(basis * basis, axis=1))
    unit = xp.astype(basis / xp.clip(lengths, min=1e-12)[:, None], H.dtype)
    n_labels = min(n_labels, basis.shape[0], k)
    picked = xp.zeros((rows, n_labels), dtype=xp.int64, device=H.device)
    scores = xp.zeros((rows, n_labels), dtype=H.dtype, device=H.device)
    wide, left = xp.astype(H, xp.float64), H
    every = xp.arange(rows, device=H.device)
    for i in range(n_labels):
        match = left @ unit.T
        match[every[:, None], picked[:, :i]] = -float("inf")
        picked[:, i] = xp.argmax(match, axis=1)
        # A later label never outranks an earlier one, even where its match with a changed remainder is larger.
        scores[:, i] = match[every, picked[:, i]]
        if i:
            scores[:, i] = xp.minimum(scores[:, i], scores[:, i - 1])
        atoms = xp.astype(basis[picked[:, : i + 1]], xp.float64)  # rows × (i+1) × k
        gram = atoms @ xp.matrix_transpose(atoms) + 1e-8 * xp.eye(i + 1, dtype=xp.float64, device=H.device)
        weights = xp.linalg.solve(gram, atoms @ wide[:, :, None])
        left = xp.astype(wide - (xp.matrix_transpose(weights) @ atoms)[:, 0], H.dtype)
    return picked, scores
