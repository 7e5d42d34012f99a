"""More examples and labels for the label embedding.

A ridge decoder is a function of sums over the examples. With the sums over the old examples, which
a growable model keeps, every column becomes that of a ridge regression on all examples, in the
embedding and the kernel map of the fit. The sums can also be taken from the old examples again, or
estimated: then the old examples are taken to be distributed as the new ones. How labels were scaled
for the embedding is part of its projection, and does not change.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from rembrandt.data.rows import Rows
from rembrandt.engines.backend import CPU
from rembrandt.engines.rows_on_disk import RowsOnDisk
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.parts.embedding.decoders.discriminant import fit_discriminant
from rembrandt.parts.embedding.decoders.moments import Moments, learn_rows
from rembrandt.parts.embedding.part import LabelEmbedding
from rembrandt.parts.protocol import Update, Updated

# Rows that are projected at a time.
PROJECTED_BLOCK_ROWS = 8192
# Penalty of the columns of new labels in a decoder without a closed form.
SHRINKAGE = 0.1


def updated(part: LabelEmbedding, update: Update) -> Updated:
    """Return the part after more examples, and what is not as a fit to all examples would be."""
    Y = update.examples.Y
    weights = update.examples.weights
    fourier = part.decoder.fourier
    H = _projected(part, update.examples.X)
    missed = []
    seen = part.moments
    if seen is None and update.history is not None:
        old_rows = _projected(part, update.history.X)
        old = CPU.statistics(old_rows, None, fourier, update.history.weights)
        seen = Moments.of(old)
    elif seen is None:
        new = CPU.statistics(H, None, fourier, weights)
        n_train = update.n_train
        gram = new.gram * (n_train / new.total)
        like_new = replace(new, total=float(n_train), gram=gram)
        seen = Moments.of(like_new)
        missed.append(
            "the old examples were taken to be like the new ones in the embedding; with them it "
            "would be exact"
        )
    decoder_name = update.settings.decoder
    strength = SHRINKAGE
    if decoder_name == "ridge":
        strength = update.settings.decoder_ridge
    learned = learn_rows(part.decoder, H, Y, seen, strength, weights, update.report)
    decoder = learned.decoder
    if decoder_name != "ridge":
        new_labels = Y[:, part.n_labels :]
        decoder = _with_columns(part, learned.embedding, H, new_labels, seen, weights)
        missed.append(f"the {decoder_name} decoder scores the known labels as before")
    new_vectors = learned.embedding.astype(part.vectors.dtype)
    changed = replace(
        part,
        decoder=decoder,
        vectors=np.concatenate([part.vectors, new_vectors]),
        moments=None if part.moments is None else learned.moments,
        index=None,
    )
    return Updated(changed, missed)


def with_empty_labels(part: LabelEmbedding, n_new: int) -> LabelEmbedding:
    """Return the part with labels that have no place in the embedding: they are less likely than
    any other.
    """
    old = part.decoder
    D = old.weights.shape[0]
    no_weights = np.zeros((D, n_new), dtype=old.weights.dtype)
    least = old.bias.min(initial=0)
    bias = np.full(n_new, least, dtype=old.bias.dtype)
    decoder = replace(
        old,
        weights=np.hstack([old.weights, no_weights]),
        bias=np.append(old.bias, bias),
    )
    rank = part.vectors.shape[1]
    no_vectors = np.zeros((n_new, rank), dtype=part.vectors.dtype)
    vectors = np.concatenate([part.vectors, no_vectors])
    return replace(part, decoder=decoder, vectors=vectors, index=None)


def _with_columns(
    part: LabelEmbedding,
    vectors: Array,
    H: Block,
    Y: sparse.csr_array,
    seen: Moments,
    weights: Array | None,
) -> Decoder:
    """Return a decoder without a closed form for known labels, with columns for the new labels
    ``Y``.
    """
    old = part.decoder
    if old.link == "identity":
        # The transpose of the embedding.
        new_weights = vectors.T
        new_bias = np.zeros(len(vectors))
    else:
        # Log-odds, as those of the old columns are.
        statistics = CPU.statistics(H, Y, old.fourier, weights)
        statistics = statistics.with_unlabelled_rows(seen.total, seen.mean, seen.gram())
        added = fit_discriminant(statistics, SHRINKAGE, multiclass=False)
        new_weights = added.weights
        new_bias = added.bias
    new_weights = new_weights.astype(old.weights.dtype)
    new_bias = new_bias.astype(old.bias.dtype)
    return replace(
        old,
        weights=np.hstack([old.weights, new_weights]),
        bias=np.append(old.bias, new_bias),
    )


def _projected(part: LabelEmbedding, X: Rows) -> Block:
    """Return rows in the embedding; rows on disk go to a file, as they may be many."""
    n = X.shape[0]
    rank = part.vectors.shape[1]
    blocks = (as_numpy(part.project(rows)) for _, rows in X.blocks(PROJECTED_BLOCK_ROWS))
    if X.resident()[0] == n:
        return np.vstack(list(blocks))
    return RowsOnDisk(n, rank, blocks)
