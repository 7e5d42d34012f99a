"""Fitting the embedding scorer: embed the labels, project the rows, fit the decoder (Algorithm
3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.data.examples import Examples
from rembrandt.data.rows import Rows, as_rows
from rembrandt.decoders.candidates import fit_candidates
from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.discriminant import fit_discriminant
from rembrandt.decoders.logistic import LogisticSettings, fit_logistic, stopping_rows
from rembrandt.decoders.moments import Moments
from rembrandt.decoders.ridge import fit_ridge
from rembrandt.decoders.transpose import fit_transpose
from rembrandt.embeddings.fit import Embedding, Regression, embed
from rembrandt.embeddings.regressor import FittedRegressor, embed_with_regressor
from rembrandt.engines.place import CPU, Place
from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.errors import SettingsError
from rembrandt.features.fourier import FourierMap, draw
from rembrandt.linalg.blocks import Block, as_numpy, in_rows
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.protocol import BLOCK_ROWS, Scorer
from rembrandt.scorers.trees import Trees
from rembrandt.storage.arrays import Arrays, checked
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints

USUAL_FEATURES = 2000  # of a kernel
MOST_LEVERAGE = 0.9  # of an example on its own prediction
PROPOSED = 10  # labels of each other scorer that a decoder of candidates learns from
NO_OTHERS: Mapping[str, Scorer] = MappingProxyType({})


@dataclass(frozen=True)
class Embedded:
    """An embedding of labels, and the projection of the features on it with the row of the constant
    last.
    """

    embedding: Embedding
    projection: Block
    regressor: FittedRegressor | None = None
    leverages: NDArray[np.float32] | None = None  # of each training row, where that is cheap

    @property
    def size(self) -> int:
        """Number of values in the largest arrays."""
        return int(
            self.projection.shape[1] * (self.projection.shape[0] + self.embedding.V.shape[0])
        )

    def project(self, X: Rows, place: Place) -> Block:
        """Return rows in the embedding."""
        return place.project(
            X if self.regressor is None else as_rows(self.regressor(X[:])), self.projection
        )

    def truncated(self, rank: int) -> "Embedded":
        """Return the embedding of a smaller rank: its columns are nested."""
        return replace(
            self, embedding=self.embedding.truncated(rank), projection=self.projection[:, :rank]
        )

    def contiguous(self) -> "Embedded":
        """Return the same arrays in the layout of arrays that are read from a file, so that
        products round alike.
        """
        e = self.embedding
        V = in_rows(e.V)
        back = V if e.back is e.V else None if e.back is None else in_rows(e.back)
        return replace(
            self, embedding=replace(e, V=V, back=back), projection=in_rows(self.projection)
        )

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the embedding as named arrays and JSON."""
        e = self.embedding
        blocks = {"V": e.V, "sigma": e.sigma, "projection": self.projection, "means": e.means}
        blocks |= {"label_scale": e.label_scale, "leverages": self.leverages}
        if e.back is not e.V:
            blocks["back"] = e.back
        facts = {
            name: getattr(e, name) for name in ("residual", "leverage", "iterations", "rank_reason")
        }
        arrays = {name: as_numpy(block) for name, block in blocks.items() if block is not None}
        return arrays, {"facts": facts, "has_back": e.back is not None}

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, facts: dict[str, Any], place: Place, n: int, c: int
    ) -> "Embedded":
        """Rebuild what `arrays` returned for ``n`` examples and ``c`` labels."""
        k = checked("V", arrays, (c, None)).shape[1]
        shapes: dict[str, Any] = {
            "V": (c, k),
            "sigma": (k,),
            "projection": (None, k),
            "back": (c, k),
        }
        shapes |= {"means": (c,), "label_scale": (c,), "leverages": (n,)}
        sound = {
            name: checked(name, arrays, shape) for name, shape in shapes.items() if name in arrays
        }
        blocks = {name: place.asarray(array) for name, array in sound.items()}
        V, projection = blocks["V"], blocks["projection"]
        back = blocks.get("back", V) if facts["has_back"] else None
        e = Embedding(
            V, blocks["sigma"], projection, back, **facts["facts"], means=blocks.get("means")
        )
        e = replace(e, label_scale=blocks.get("label_scale"))
        return cls(e, projection, leverages=arrays.get("leverages"))


def fit_embedding_scorer(
    data: Examples,
    recipe: Recipe,
    place: Place = CPU,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    others: Mapping[str, Scorer] = NO_OTHERS,
) -> tuple[EmbeddingScorer, dict[str, Any]]:
    """Fit the scorer that ``recipe`` describes; also return facts about the embedding."""
    if recipe.normalize:
        data = replace(data, X=data.X.normalized())
    stopping, known = hold_out(data, recipe)
    embedded = checkpoints.stage(
        "embedding",
        lambda: embed_labels(known, recipe, place, report).contiguous(),
        Embedded.arrays,
        lambda arrays, facts: Embedded.from_arrays(arrays, facts, place, data.n, data.n_labels),
    )
    # Rows are projected again after a restart: that costs no more than reading them from a file.
    decoder = checkpoints.stage(
        "decoder",
        lambda: fit_decoder(
            embedded,
            embedded.project(data.X, place),
            data,
            recipe,
            place,
            report,
            checkpoints,
            stopping,
            others,
        ),
        Decoder.arrays,
        Decoder.from_arrays,
    )
    moments = None
    if recipe.growable:
        with place.session():
            H = leave_out(embedded, embedded.project(data.X, place), data, recipe, place)
            moments = Moments.of(place.statistics(H, None, decoder.fourier, data.weights))
    e = embedded.embedding
    facts = {"rank": int(embedded.projection.shape[1]), "rank_reason": e.rank_reason}
    scorer = EmbeddingScorer(
        as_numpy(embedded.projection),
        decoder.moved(as_numpy),
        as_numpy(e.V),
        as_numpy(e.sigma),
        bool(recipe.normalize),
        embedded.regressor,
        moments,
        proposes=recipe.embedding.proposes is not False,
    )
    return scorer, facts | {"residual": e.residual, "iterations": e.iterations}


def hold_out(data: Examples, recipe: Recipe) -> tuple[NDArray[np.int64] | None, Examples]:
    """Return the rows that stop the decoder, and the examples for the embedding, in which they have
    no weight.

    An embedding predicts the rows that it was fitted to better than others, so they would stop the
    decoder too late. The weights of a store are on disk with its rows, so its embedding sees all of
    them.
    """
    if recipe.decoder != "logistic":
        return None, data
    stopping = stopping_rows(data.Y, data.weights, data.multiclass, recipe.seed)
    if data.X.resident()[0] < data.n:
        return stopping, data
    weights = np.ones(data.n) if data.weights is None else np.array(data.weights, dtype=np.float64)
    weights[stopping] = 0
    return stopping, data if not weights.any() else replace(data, weights=weights)


def embed_labels(
    data: Examples,
    recipe: Recipe,
    place: Place = CPU,
    report: Report = silent,
    regression: Regression | None = None,
) -> Embedded:
    """Embed the labels. Columns that no row uses are skipped: hashing leaves most of them empty."""
    if recipe.regressor is not None:
        embedding, fitted = embed_with_regressor(data.X[:], data.Y, data.weights, recipe, report)
        V, W, scale = place.asarray(embedding.V), place.asarray(embedding.W), embedding.label_scale
        back = V if scale is None else V / place.asarray(scale)[:, None]
        return Embedded(replace(embedding, V=V, back=back, W=W), W, fitted)
    d, used = data.X.shape[1], data.X.used_columns()
    rows = data.X if len(used) == d else data.X.select(used)
    with place.session():
        embedding = embed(
            place.engine(rows, data.Y, data.weights, recipe.embedding), recipe, report, regression
        )
        root, leverages = embedding.inverse_root, None
        if root is not None:
            leverages = place.leverages(rows, data.weights, root)
            embedding = replace(embedding, inverse_root=None)
    projection = embedding.W
    if len(used) < d:
        xp = array_namespace(projection)
        wide = xp.zeros(
            (d + 1, projection.shape[1]), dtype=projection.dtype, device=projection.device
        )
        wide[place.asarray(np.append(used, d))] = projection
        projection = wide
    return Embedded(embedding, projection, leverages=leverages)


def fit_decoder(
    embedded: Embedded,
    H: Block,
    data: Examples,
    recipe: Recipe,
    place: Place = CPU,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    stopping: NDArray[np.int64] | None = None,
    others: Mapping[str, Scorer] = NO_OTHERS,
) -> Decoder:
    """Fit the decoder of ``recipe`` to the projected rows ``H``.

    ``stopping`` rows stop a logistic decoder; that of candidates learns from what ``others``
    propose.
    """
    e = embedded.embedding
    if recipe.decoder == "transpose":
        if e.back is None:
            raise SettingsError(
                "decoder='transpose' needs vectors over labels, and method='pca' has vectors over "
                "features; use "
                "decoder='ridge' or 'logistic', or another method",
                "decoder",
            )
        return fit_transpose(e.back, e.unreached_means())
    with place.session():
        H = leave_out(embedded, H, data, recipe, place)
        if recipe.decoder == "candidates":
            proposals = proposed_labels(data.X, others, report)
            return fit_candidates(H, data.Y, proposals, data.weights, recipe.seed, report).moved(
                place.asarray
            )
        fourier = fourier_map(H, recipe)
        if recipe.decoder in ("ridge", "discriminant"):
            found = place.statistics(H, data.Y, fourier, data.weights, report)
            return closed_form(found, recipe, data.multiclass)
        width = H.shape[1] if fourier is None else fourier.size
        settings = LogisticSettings(
            multiclass=data.multiclass,
            max_epochs=recipe.embedding.max_epochs,
            dropout=0.0 if recipe.kernel is None else 0.5,
            l2=recipe.decoder_ridge
            * width
            / data.n,  # a whitened row has a mean squared length of ``width``
            seed=recipe.seed,
        )
        return fit_logistic(
            H, data.Y, settings, fourier, data.weights, report, place, checkpoints, stopping
        )


def proposed_labels(
    X: Rows, others: Mapping[str, Scorer], report: Report = silent
) -> NDArray[np.int32]:
    """Return the labels that other scorers propose for each row, n × m. Of several trees the first
    is asked.
    """
    few = [
        replace(each, trees=each.trees[:1]) if isinstance(each, Trees) else each
        for each in others.values()
    ]
    found = np.full((X.shape[0], PROPOSED * len(few)), -1, dtype=np.int32)
    for rows, part in X.blocks(BLOCK_ROWS):
        report("candidates", rows.start, X.shape[0])
        found[rows] = np.hstack([each.top(each.prepare(part), PROPOSED)[0] for each in few])
    report("candidates", X.shape[0], X.shape[0])
    return found


def closed_form(statistics: RidgeStatistics, recipe: Recipe, multiclass: bool) -> Decoder:
    """Fit a decoder that is a function of sums over the rows."""
    if recipe.decoder == "ridge":
        return fit_ridge(statistics, recipe.decoder_ridge)
    decoder = fit_discriminant(statistics, recipe.decoder_ridge, multiclass)
    # A softmax needs the scores of all labels.
    return decoder if recipe.embedding.proposes is not False else replace(decoder, link="sigmoid")


def leave_out(embedded: Embedded, H: Block, data: Examples, recipe: Recipe, place: Place) -> Block:
    """Return training rows as if part of their own labels had been left out of the regression.

    Leaving row i out of a ridge regression gives ``(hᵢ − lᵢ ỹᵢV) / (1 − lᵢ)`` with its leverage
    ``lᵢ``, of which the fraction ``recipe.embedding.leave_out`` is used. For few features in memory
    ``lᵢ`` is each row's own; otherwise the mean stands for each, which says little where rows have
    unequal lengths. The embedding ``V`` has seen the row in either case, so the result is nearer to
    a new row and does not replace held-out rows.
    """
    e, strength = embedded.embedding, recipe.embedding.leave_out
    leverages = e.leverage if embedded.leverages is None else embedded.leverages
    share = strength * np.minimum(leverages, MOST_LEVERAGE)
    if e.back is None or not np.any(share):
        return H
    share = share if embedded.leverages is None else place.asarray(share[:, None])
    return place.leave_out(H, share, data.Y, e.targets, recipe.embedding.row_power)


def fourier_map(H: Block, recipe: Recipe) -> FourierMap | None:
    """Draw the random features of the kernel of ``recipe``, if it has one."""
    if recipe.kernel is None:
        return None
    return draw(
        recipe.kernel, H, n_random_features(recipe), recipe.embedding.kernel_scale, recipe.seed
    )


def n_random_features(recipe: Recipe) -> int:
    """Return the number asked for, or the usual one."""
    return recipe.embedding.n_random_features or USUAL_FEATURES
