"""A linear model of few features after more examples: the embedding and the decoder anew, out of sums alone.

With XᵀX, XᵀY and YᵀY at hand no example needs to be seen again, and the model is that of a fit to all of them.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.moments import Moments
from rembrandt.decoders.ridge import RidgeStatistics
from rembrandt.decoders.transpose import fit_transpose
from rembrandt.embeddings import largest_rank
from rembrandt.engines.sums import Sums, SumsEngine
from rembrandt.fitting import Embedded, Recipe, embed_by, normalized, share_left_out
from rembrandt.linalg.sparse import Matrix
from rembrandt.model.model import Model
from rembrandt.progress import Report, silent

Array = NDArray[Any]


def refreshed(
    model: Model, X: Matrix, Y: sparse.csr_array, weights: Array | None = None, report: Report = silent
) -> Model:
    """``model`` fitted with its own recipe to the examples it has seen and the rows ``X``, labels ``Y``."""
    assert model.sums is not None
    sums = model.sums.plus(Sums.of(normalized(X) if model.normalize else X, Y, weights))
    recipe = recipe_of(model, sums)
    engine: Any = SumsEngine(sums.of_used(), recipe.center, recipe.center, not recipe.center, model.dtype)
    embedded = embed_by(engine, recipe, report=report).over(np.flatnonzero(sums.used), model.n_features).in_rows()
    statistics = statistics_of(sums, embedded, share_left_out(embedded.embedding, recipe.leave_out), model.dtype)
    e = embedded.embedding
    decoder: Decoder
    if recipe.decoder == "ridge":
        decoder = statistics.solve(recipe.decoder_ridge)
    else:
        assert e.back is not None
        decoder = fit_transpose(e.back, e.unreached_means())
    found = {"rank": int(e.sigma.shape[0]), "rank_reason": embedded.reason}
    return replace(
        model,
        projection=embedded.projection,
        decoder=decoder,
        embedding=e.V,
        singular_values=e.sigma,
        moments=Moments.seen_by(statistics),
        sums=sums,
        settings=model.settings | found | {"residual": e.residual, "iterations": e.iterations},
    )


def recipe_of(model: Model, sums: Sums) -> Recipe:
    """The recipe that made the model; where the rank is read off the spectrum, with room for what came since."""
    recipe = Recipe.of({field.name: model.settings[field.name] for field in fields(Recipe)})
    if not recipe.auto_rank:
        return recipe
    limit = largest_rank(sums.n, *sums.cross.shape)
    return replace(recipe, embedding=replace(recipe.embedding, n_components=limit))


def statistics_of(sums: Sums, embedded: Embedded, share: float, dtype: Any) -> RidgeStatistics:
    """What ridge needs of the projected rows ``(XW − s YV) / (1 − s)``, with ``share`` s of their own labels out."""
    W, V = (block.astype(np.float64) for block in (embedded.projection, embedded.embedding.V))
    total = sums.total
    label_mean = sums.cross[-1] / total
    HY, VY = W.T @ sums.cross, (sums.labels @ V).T
    mean = (W.T @ sums.features[-1] / total - share * (label_mean @ V)) / (1 - share)
    mixed = HY @ V
    gram = (W.T @ sums.features @ W - share * (mixed + mixed.T) + share**2 * (VY @ V)) / (1 - share) ** 2
    cross = (HY - share * VY) / (1 - share)
    statistics = RidgeStatistics.of_sums(total, mean, gram, label_mean, np.ascontiguousarray(cross.T))
    statistics.cross = statistics.cross.astype(dtype)
    return statistics
