"""Settings chosen on a held-out part of the training data: what ``"auto"`` means.

A sample of the training rows is cut in two. The larger part is embedded once for each way to scale the rows; every
candidate decoder is fitted on it and measured on the smaller part. The winner is then fitted on all rows.
"""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rembrandt.decoders.decoder import Decoder, draw_rows
from rembrandt.decoders.ridge import RidgeStatistics
from rembrandt.embeddings import Embedding
from rembrandt.features.fourier import Kernel
from rembrandt.fitting import (
    DecoderName,
    Labelled,
    Recipe,
    fit_decoder,
    fit_used_features,
    fourier_map,
    left_out,
    n_random_features,
    rank_limit,
)
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import normalize_rows, row_sums_of_squares
from rembrandt.metrics import precision_at_k, top_k
from rembrandt.progress import Report, silent

Auto = Literal["auto"]
Array = NDArray[Any]

FEWEST = 100  # examples: with fewer, a held-out part says nothing and the plain settings stand
SAMPLE = 12_000  # rows looked at: enough to tell candidates a point apart, cheap beside the fit
HELD_OUT = 1 / 6
RANK = 300  # directions that candidates are compared on, at most
EPOCHS = 10  # of a logistic candidate, at most
FEATURES = 1000  # random features that candidates are compared on, at most
RIDGES = (0.003, 0.03, 0.1)
LEAVE_OUT = (0.0, 0.5)
LOGISTIC_FLOPS = 2e13  # a logistic fit beyond this is not tried: minutes on two cores


@dataclass(frozen=True)
class Open:
    """The choices: ``"auto"`` where one is open, its value where it is not."""

    decoder: DecoderName | Auto = "auto"
    kernel: Kernel | Auto | None = "auto"
    decoder_ridge: float | Auto = "auto"
    normalize: bool | Auto = "auto"

    def settled(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value != "auto"}

    @property
    def is_settled(self) -> bool:
        return "auto" not in asdict(self).values()


@dataclass(frozen=True)
class Trial:
    """One candidate and the fraction of its answers that were right on the held-out rows."""

    decoder: str
    kernel: str | None
    decoder_ridge: float
    leave_out: float
    normalize: bool
    quality: float


@dataclass(frozen=True)
class Selection:
    """The recipe chosen and every trial behind it."""

    recipe: Recipe
    trials: list[Trial] = field(default_factory=list)


def select(data: Labelled, recipe: Recipe, choices: Open, report: Report = silent) -> Selection:
    """``recipe`` with every open choice settled; sees nothing but ``data``, the training rows."""
    recipe = replace(recipe, **choices.settled())
    if choices.is_settled or data.X.shape[0] < FEWEST:
        return Selection(recipe)
    return _Search(data, recipe, choices, report).run()


class _Search:
    def __init__(self, data: Labelled, recipe: Recipe, choices: Open, report: Report) -> None:
        self.recipe, self.choices, self.report = recipe, choices, report
        self.n, self.d = data.X.shape
        seed = recipe.embedding.seed
        counted = np.arange(self.n) if data.weights is None else np.flatnonzero(data.weights > 0)
        _, sample = draw_rows(len(counted), 1.0, seed, most=SAMPLE)
        data = data.rows(counted[sample])
        fit, held = draw_rows(len(sample), HELD_OUT, seed + 1, most=SAMPLE)
        self.fit, self.held = data.rows(fit), data.rows(held)
        self.trials: list[Trial] = []

    def run(self) -> Selection:
        views = {normalize: self._view(normalize) for normalize in self._scalings()}
        # Scaling is judged without a kernel, the kernel on the winner's embedding.
        for normalize, view in views.items():
            self._try(replace(self.recipe, normalize=normalize, kernel=None), view)
        scaled = replace(self.recipe, normalize=self._best().normalize)
        for kernel in self._kernels():
            self._try(replace(scaled, kernel=kernel), views[scaled.normalize])
        chosen = {name: value for name, value in asdict(self._best()).items() if name != "quality"}
        return Selection(replace(self.recipe, **chosen), self.trials)

    def _best(self) -> Trial:
        """The best trial that the settled choices allow; all were made without a kernel before any with one."""
        allowed = [t for t in self.trials if self.choices.kernel in ("auto", t.kernel)]
        return max(allowed or self.trials, key=lambda t: t.quality)

    def _scalings(self) -> list[bool]:
        if self.choices.normalize != "auto":
            return [self.choices.normalize]
        lengths = row_sums_of_squares(self.fit.X)
        lengths = lengths[lengths > 0]
        # Rows of length one already, as tf-idf makes them, leave nothing to choose.
        return [False] if len(lengths) == 0 or np.allclose(lengths, 1, atol=1e-3) else [False, True]

    def _kernels(self) -> list[Kernel]:
        if self.choices.kernel is None:
            return []
        return ["gaussian"] if self.choices.kernel == "auto" else [self.choices.kernel]

    def _view(self, normalize: bool) -> "_View":
        """The rows to fit on, embedded, and the held-out ones projected on the same embedding."""
        self.report("choosing settings", len(self.trials), None)
        fit, held = (normalize_rows(part.X) if normalize else part.X for part in (self.fit, self.held))
        rank = min(RANK, self.recipe.embedding.n_components, rank_limit(self.fit))
        recipe = replace(self.recipe, embedding=replace(self.recipe.embedding, n_components=rank, at_most=True))
        embedded = fit_used_features(replace(self.fit, X=fit), recipe)
        return _View(embedded.embedding, embedded.project(fit), embedded.project(held))

    def _try(self, recipe: Recipe, view: "_View") -> None:
        """Every decoder that goes with the kernel of ``recipe``."""
        recipe = replace(recipe, n_random_features=min(self._mapped(recipe), FEATURES))
        for name in self._decoders(recipe, view):
            tried = replace(recipe, decoder=name)
            if name == "ridge":
                self._try_ridge(tried, view)
            else:
                tried = replace(
                    tried, decoder_ridge=0.0 if self.choices.decoder_ridge == "auto" else tried.decoder_ridge
                )
                short = replace(tried, max_epochs=min(tried.max_epochs, EPOCHS))
                self._record(fit_decoder(view.embedding, view.fit, self.fit, short), tried, view.held)

    def _try_ridge(self, recipe: Recipe, view: "_View") -> None:
        strengths = RIDGES if self.choices.decoder_ridge == "auto" else (recipe.decoder_ridge,)
        for share in LEAVE_OUT:
            H = left_out(view.embedding, view.fit, self.fit, share)
            statistics = RidgeStatistics(H, self.fit.Y, fourier_map(H, recipe), self.fit.weights)
            for strength in strengths:
                tried = replace(recipe, leave_out=share, decoder_ridge=strength)
                self._record(statistics.solve(strength), tried, view.held)

    def _decoders(self, recipe: Recipe, view: "_View") -> list[DecoderName]:
        if self.choices.decoder != "auto":
            return [self.choices.decoder]
        names: list[DecoderName] = ["ridge"]
        if recipe.kernel is None and view.embedding.back is not None:
            names.append("transpose")
        width = view.fit.shape[1]
        if recipe.kernel is not None:
            width = self._mapped(replace(self.recipe, decoder="logistic"))
        epoch = 4.0 * self.n * width * self.fit.Y.shape[1]
        if self.fit.multiclass and 20 * epoch <= LOGISTIC_FLOPS:
            names.append("logistic")
        return names

    def _mapped(self, recipe: Recipe) -> int:
        return n_random_features(replace(recipe, n_random_features=self.recipe.n_random_features), self.n, RANK)

    def _record(self, decoder: Decoder, recipe: Recipe, H: Array) -> None:
        quality = _quality(decoder, H, self.held)
        tried = {f.name: getattr(recipe, f.name) for f in fields(Trial) if f.name != "quality"}
        self.trials.append(Trial(**tried, quality=quality))
        self.report("choosing settings", len(self.trials), None)


@dataclass(frozen=True)
class _View:
    embedding: Embedding
    fit: Array
    held: Array


def _quality(decoder: Decoder, H: Array, held: Labelled) -> float:
    """P@1 where an example has one label, the mean of P@1, P@3 and P@5 where it has several."""
    ks = (1,) if held.multiclass else (1, 3, 5)
    found = [top_k(decoder.scores(H[rows]), max(ks))[0] for rows in spans(len(H), 1024)]
    labels = np.vstack(found)
    return float(np.mean([precision_at_k(held.Y, labels, k) for k in ks]))
