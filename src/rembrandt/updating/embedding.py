"""More examples and labels for the embedding scorer.

A ridge decoder is a function of sums over the examples. With the sums over the old examples, which
a growable model keeps, every column becomes that of a ridge regression on all examples, in the
embedding and the kernel map of the fit. The sums can also be taken from the old examples again, or
estimated: then the old examples are taken to be distributed as the new ones. How labels were scaled
for the embedding is part of its projection, and does not change.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.data.rows import Rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.discriminant import fit_discriminant
from rembrandt.decoders.moments import Moments, learn_rows
from rembrandt.engines.place import CPU
from rembrandt.engines.rows_on_disk import RowsOnDisk
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.progress import Report
from rembrandt.recipe import Recipe
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.protocol import Array

ROWS = 8192  # rows projected at a time
SHRINKAGE = 0.1  # of the columns of new labels in a decoder without a closed form


def update_embedding(
    scorer: EmbeddingScorer,
    new: Examples,
    history: Examples | None,
    recipe: Recipe,
    n_train: int,
    report: Report,
) -> tuple[EmbeddingScorer, list[str]]:
    """Return the scorer after more examples, and what is not as a fit to all examples would be.

    The columns of ``new.Y`` are the labels of the scorer and then new ones. ``n_train`` is the
    number of old examples.
    """
    Y, weights, H, left = new.Y, new.weights, _projected(scorer, new.X), []
    seen = scorer.moments
    if seen is None and history is not None:
        old = CPU.statistics(
            _projected(scorer, history.X), None, scorer.decoder.fourier, history.weights
        )
        seen = Moments.of(old)
    elif seen is None:
        own = CPU.statistics(H, None, scorer.decoder.fourier, weights)
        seen = Moments.of(replace(own, total=float(n_train), gram=own.gram * (n_train / own.total)))
        left.append(
            "the old examples were taken to be like the new ones in the embedding; with them it "
            "would be exact"
        )
    strength = recipe.decoder_ridge if recipe.decoder == "ridge" else SHRINKAGE
    found = learn_rows(scorer.decoder, H, Y, seen, strength, weights, report)
    known, decoder = scorer.n_labels, found.decoder
    if recipe.decoder != "ridge":
        decoder = _with_columns(scorer, found.embedding, H, Y[:, known:], seen, weights)
        left.append(f"the {recipe.decoder} decoder scores the known labels as before")
    changed = replace(
        scorer,
        decoder=decoder,
        vectors=np.concatenate([scorer.vectors, found.embedding.astype(scorer.vectors.dtype)]),
        moments=None if scorer.moments is None else found.moments,
        index=None,
    )
    return changed, left


def _with_columns(
    scorer: EmbeddingScorer,
    vectors: Array,
    H: Block,
    Y: sparse.csr_array,
    seen: Moments,
    weights: Array | None,
) -> Decoder:
    """Return a decoder without a closed form for known labels, with columns for the new labels
    ``Y``.
    """
    old = scorer.decoder
    if old.link == "identity":  # the transpose of the embedding
        weights_of_new, bias = vectors.T, np.zeros(len(vectors))
    else:  # log-odds, as those of the old columns are
        statistics = CPU.statistics(H, Y, old.fourier, weights).with_unlabelled_rows(
            seen.total, seen.mean, seen.gram()
        )
        added = fit_discriminant(statistics, SHRINKAGE, multiclass=False)
        weights_of_new, bias = added.weights, added.bias
    joined = np.hstack([old.weights, weights_of_new.astype(old.weights.dtype)])
    return replace(old, weights=joined, bias=np.append(old.bias, bias.astype(old.bias.dtype)))


def _projected(scorer: EmbeddingScorer, X: Rows) -> Block:
    """Return rows in the embedding; rows on disk go to a file, as they may be many."""
    n, k = X.shape[0], scorer.vectors.shape[1]
    blocks = (as_numpy(scorer.project(rows)) for _, rows in X.blocks(ROWS))
    return np.vstack(list(blocks)) if X.resident()[0] == n else RowsOnDisk(n, k, blocks)
