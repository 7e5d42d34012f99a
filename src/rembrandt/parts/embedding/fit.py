"""Fitting the label embedding: embed the labels, project the rows, fit the decoder (Algorithm
3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.data.examples import Examples
from rembrandt.data.rows import Rows
from rembrandt.engines.backend import CPU, Backend
from rembrandt.engines.scaling import LabelScaling
from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.errors import SettingsError
from rembrandt.features.fourier import FourierMap, draw
from rembrandt.linalg.blocks import Block, as_numpy, in_rows
from rembrandt.parts.embedding.decoders.candidates import fit_candidates
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.parts.embedding.decoders.discriminant import fit_discriminant
from rembrandt.parts.embedding.decoders.logistic import (
    LogisticSettings,
    fit_logistic,
    stopping_rows,
)
from rembrandt.parts.embedding.decoders.moments import Moments
from rembrandt.parts.embedding.decoders.ridge import fit_ridge
from rembrandt.parts.embedding.decoders.transpose import fit_transpose
from rembrandt.parts.embedding.part import EmbeddingFacts, LabelEmbedding
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.embedding.solve import Embedding, embed
from rembrandt.parts.protocol import NO_PARTS, SCORED_BLOCK_ROWS, Facts, Fitting, Part
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import Arrays, checked

# Random features of a kernel unless the settings say how many.
N_RANDOM_FEATURES = 2000
# Leverage of an example on its own prediction, at most.
MAX_LEVERAGE = 0.9
# Labels of each other part that a decoder of candidates learns from.
N_LISTED_LABELS = 10
# Dropout of random features in a logistic fit.
KERNEL_DROPOUT = 0.5


@dataclass(frozen=True)
class Embedded:
    """An embedding of labels, and the projection of the features on it with the row of the constant
    last.
    """

    embedding: Embedding
    projection: Block
    leverages: NDArray[np.float32] | None = None  # of each training row, where that is cheap

    def project(self, X: Rows, backend: Backend) -> Block:
        """Return rows in the embedding."""
        return backend.project(X, self.projection)

    def contiguous(self) -> "Embedded":
        """Return the same arrays in the layout of arrays that are read from a file, so that
        products round alike.
        """
        embedding = self.embedding
        V = in_rows(embedding.V)
        back = embedding.back
        if back is embedding.V:
            back = V
        elif back is not None:
            back = in_rows(back)
        projection = in_rows(self.projection)
        return replace(self, embedding=replace(embedding, V=V, back=back), projection=projection)

    def arrays(self) -> tuple[Arrays, Facts]:
        """Return the embedding as named arrays and JSON."""
        embedding = self.embedding
        blocks = {
            "V": embedding.V,
            "sigma": embedding.sigma,
            "projection": self.projection,
            "means": embedding.means,
            "label_scale": embedding.label_scale,
            "leverages": self.leverages,
        }
        if embedding.back is not embedding.V:
            blocks["back"] = embedding.back
        arrays = {name: as_numpy(block) for name, block in blocks.items() if block is not None}
        numbers = {
            "residual": embedding.residual,
            "leverage": embedding.leverage,
            "iterations": embedding.iterations,
            "rank_reason": embedding.rank_reason,
        }
        return arrays, {"numbers": numbers, "has_back": embedding.back is not None}

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, facts: Facts, backend: Backend, n: int, c: int
    ) -> "Embedded":
        """Rebuild what `arrays` returned for ``n`` examples and ``c`` labels."""
        k = checked("V", arrays, (c, None)).shape[1]
        shapes: dict[str, Any] = {
            "V": (c, k),
            "sigma": (k,),
            "projection": (None, k),
            "back": (c, k),
            "means": (c,),
            "label_scale": (c,),
            "leverages": (n,),
        }
        blocks = {}
        for name, shape in shapes.items():
            if name in arrays:
                blocks[name] = backend.asarray(checked(name, arrays, shape))
        back = None
        if facts["has_back"]:
            back = blocks.get("back", blocks["V"])
        embedding = Embedding(
            blocks["V"],
            blocks["sigma"],
            blocks["projection"],
            back,
            **facts["numbers"],
            means=blocks.get("means"),
            label_scale=blocks.get("label_scale"),
        )
        return cls(embedding, blocks["projection"], leverages=arrays.get("leverages"))


def fit_embedding(data: Examples, settings: EmbeddingSettings, fitting: Fitting) -> LabelEmbedding:
    """Fit the part that ``settings`` describe."""
    backend = fitting.backend
    if settings.normalize:
        data = replace(data, X=data.X.normalized())
    stopping, embedded_examples = hold_out(data, settings, fitting.seed)

    def unpack_embedding(arrays: Arrays, facts: Facts) -> Embedded:
        return Embedded.from_arrays(arrays, facts, backend, data.n, data.n_labels)

    checkpoints = fitting.checkpoints
    embedding_key = _embedding_key(settings)
    embedded: Embedded | None = fitting.shared.get("embedding", embedding_key)
    if embedded is None:
        embedded = checkpoints.load("embedding", unpack_embedding)
        if embedded is None:
            embedded = embed_labels(
                embedded_examples, settings, fitting.seed, backend, fitting.report
            )
            embedded = embedded.contiguous()
            checkpoints.save("embedding", embedded.arrays)
        fitting.shared.keep("embedding", embedding_key, embedded)
    # Rows are projected again after a restart: that costs no more than reading them from a file.
    decoder = checkpoints.load("decoder", Decoder.from_arrays)
    if decoder is None:
        decoder = fit_decoder(embedded, data, settings, fitting, stopping)
        checkpoints.save("decoder", decoder.arrays)
    moments = None
    if settings.growable:
        with backend.session():
            H = leave_out(embedded, embedded.project(data.X, backend), data, settings, backend)
            moments = Moments.of(backend.statistics(H, None, decoder.fourier, data.weights))
    embedding = embedded.embedding
    return LabelEmbedding(
        projection=as_numpy(embedded.projection),
        decoder=decoder.moved(as_numpy),
        vectors=as_numpy(embedding.V),
        singular_values=as_numpy(embedding.sigma),
        normalize=bool(settings.normalize),
        moments=moments,
        searches_labels=settings.retrieves_labels is not False,
        fitted=EmbeddingFacts(embedding.rank_reason, embedding.residual, embedding.iterations),
    )


def _embedding_key(settings: EmbeddingSettings) -> EmbeddingSettings:
    """Return the settings on which the embedding depends; the decoder's are all the same in it."""
    # The rows that stop a logistic decoder have no weight in the embedding.
    decoder = "logistic" if settings.decoder == "logistic" else "ridge"
    return _statistics_key(
        replace(
            settings,
            decoder=decoder,
            kernel=None,
            kernel_scale=1.0,
            n_random_features=None,
            leave_out=0.0,
        )
    )


def _statistics_key(settings: EmbeddingSettings) -> EmbeddingSettings:
    """Return the settings on which the statistics of a decoder in closed form depend."""
    decoder = "ridge" if settings.decoder == "discriminant" else settings.decoder
    return replace(
        settings,
        decoder=decoder,
        decoder_ridge=0.0,
        retrieves_labels=True,
        max_epochs=1,
        growable=False,
    )


def hold_out(
    data: Examples, settings: EmbeddingSettings, seed: int
) -> tuple[NDArray[np.int64] | None, Examples]:
    """Return the rows that stop the decoder, and the examples for the embedding, in which they have
    no weight.

    An embedding predicts the rows that it was fitted to better than others, so they would stop the
    decoder too late. The weights of a store are on disk with its rows, so its embedding sees all of
    them.
    """
    if settings.decoder != "logistic":
        return None, data
    stopping = stopping_rows(data.Y, data.weights, data.multiclass, seed)
    if data.X.resident()[0] < data.n:
        return stopping, data
    weights = np.ones(data.n)
    if data.weights is not None:
        weights = np.array(data.weights, dtype=np.float64)
    weights[stopping] = 0
    if not weights.any():
        return stopping, data
    return stopping, replace(data, weights=weights)


def embed_labels(
    data: Examples,
    settings: EmbeddingSettings,
    seed: int,
    backend: Backend = CPU,
    report: Report = silent,
) -> Embedded:
    """Embed the labels. Columns that no row uses are skipped: hashing leaves most of them empty."""
    d = data.X.shape[1]
    used = data.X.used_columns()
    rows = data.X
    if len(used) < d:
        rows = data.X.select(used)
    with backend.session():
        engine = backend.engine(rows, data.Y, data.weights, label_scaling(settings))
        embedding = embed(engine, settings, seed, report)
        leverages = None
        if embedding.inverse_root is not None:
            leverages = backend.leverages(rows, data.weights, embedding.inverse_root)
            embedding = replace(embedding, inverse_root=None)
    projection = embedding.W
    if len(used) < d:
        xp = array_namespace(projection)
        wide = xp.zeros(
            (d + 1, projection.shape[1]), dtype=projection.dtype, device=projection.device
        )
        wide[backend.asarray(np.append(used, d))] = projection
        projection = wide
    return Embedded(embedding, projection, leverages=leverages)


def label_scaling(settings: EmbeddingSettings) -> LabelScaling:
    """Return how the labels are scaled and centred before they are embedded."""
    return LabelScaling(settings.label_power, settings.row_power, settings.center)


def fit_decoder(
    embedded: Embedded,
    data: Examples,
    settings: EmbeddingSettings,
    fitting: Fitting,
    stopping: NDArray[np.int64] | None = None,
) -> Decoder:
    """Fit the decoder to the projected rows.

    ``stopping`` rows stop a logistic decoder; that of candidates learns from what earlier parts
    list.
    """
    backend = fitting.backend
    embedding = embedded.embedding
    if settings.decoder == "transpose":
        if embedding.back is None:
            raise SettingsError(
                "decoder='transpose' needs vectors over labels, and method='pca' has vectors over "
                "features; use decoder='ridge' or 'logistic', or another method",
                "decoder",
            )
        return fit_transpose(embedding.back, embedding.unreached_means())
    with backend.session():
        if settings.decoder in ("ridge", "discriminant"):
            key = _statistics_key(settings)
            statistics = fitting.shared.get("statistics", key)
            if statistics is None:
                statistics = _statistics(embedded, data, settings, fitting)
                fitting.shared.keep("statistics", key, statistics)
            return closed_form(statistics, settings, data.multiclass)
        H = leave_out(embedded, embedded.project(data.X, backend), data, settings, backend)
        if settings.decoder == "candidates":
            listed = listed_labels(data.X, fitting.earlier, fitting.report)
            decoder = fit_candidates(H, data.Y, listed, data.weights, fitting.seed, fitting.report)
            return decoder.moved(backend.asarray)
        fourier = fourier_map(H, settings, fitting.seed)
        width = H.shape[1] if fourier is None else fourier.size
        logistic = LogisticSettings(
            multiclass=data.multiclass,
            max_epochs=settings.max_epochs,
            dropout=0.0 if settings.kernel is None else KERNEL_DROPOUT,
            # A whitened row has a mean squared length of ``width``.
            l2=settings.decoder_ridge * width / data.n,
            seed=fitting.seed,
        )
        return fit_logistic(
            H,
            data.Y,
            logistic,
            fourier,
            data.weights,
            fitting.report,
            backend,
            fitting.checkpoints,
            stopping,
        )


def _statistics(
    embedded: Embedded, data: Examples, settings: EmbeddingSettings, fitting: Fitting
) -> RidgeStatistics:
    """Return the sums over the rows that a decoder in closed form is a function of."""
    backend = fitting.backend
    H = leave_out(embedded, embedded.project(data.X, backend), data, settings, backend)
    fourier = fourier_map(H, settings, fitting.seed)
    return backend.statistics(H, data.Y, fourier, data.weights, fitting.report)


def listed_labels(
    X: Rows, parts: Mapping[str, Part] = NO_PARTS, report: Report = silent
) -> NDArray[np.int32]:
    """Return the labels that other parts list for each row, n × m."""
    n = X.shape[0]
    listed = np.full((n, N_LISTED_LABELS * len(parts)), -1, dtype=np.int32)
    for block, rows in X.blocks(SCORED_BLOCK_ROWS):
        report("candidates", block.start, n)
        lists = [part.top(part.prepare(rows), N_LISTED_LABELS)[0] for part in parts.values()]
        listed[block] = np.hstack(lists)
    report("candidates", n, n)
    return listed


def closed_form(
    statistics: RidgeStatistics, settings: EmbeddingSettings, multiclass: bool
) -> Decoder:
    """Fit a decoder that is a function of sums over the rows."""
    if settings.decoder == "ridge":
        return fit_ridge(statistics, settings.decoder_ridge)
    decoder = fit_discriminant(statistics, settings.decoder_ridge, multiclass)
    if settings.retrieves_labels is False:
        # A softmax needs the scores of all labels.
        return replace(decoder, link="sigmoid")
    return decoder


def leave_out(
    embedded: Embedded,
    H: Block,
    data: Examples,
    settings: EmbeddingSettings,
    backend: Backend,
) -> Block:
    """Return training rows as if part of their own labels had been left out of the regression.

    Leaving row i out of a ridge regression gives ``(hᵢ − lᵢ ỹᵢV) / (1 − lᵢ)`` with its leverage
    ``lᵢ``, of which the fraction ``settings.leave_out`` is used. For few features in memory ``lᵢ``
    is each row's own; otherwise the mean stands for each, which is uninformative where rows have
    unequal lengths. The embedding ``V`` has seen the row in either case, so the result is nearer to
    a new row and does not replace held-out rows.
    """
    embedding = embedded.embedding
    leverages: Any = embedding.leverage
    if embedded.leverages is not None:
        leverages = embedded.leverages
    share: Any = settings.leave_out * np.minimum(leverages, MAX_LEVERAGE)
    if embedding.back is None or not np.any(share):
        return H
    if embedded.leverages is not None:
        share = backend.asarray(share[:, None])
    return backend.leave_out(H, share, data.Y, embedding.targets, settings.row_power)


def fourier_map(H: Block, settings: EmbeddingSettings, seed: int) -> FourierMap | None:
    """Draw the random features of the kernel, if there is one."""
    if settings.kernel is None:
        return None
    return draw(settings.kernel, H, n_random_features(settings), settings.kernel_scale, seed)


def n_random_features(settings: EmbeddingSettings) -> int:
    """Return the number asked for, or the usual one."""
    return settings.n_random_features or N_RANDOM_FEATURES
