"""Settings chosen on a held-out part of the training data: what ``"auto"`` means.

A sample of the training rows is cut in two, several times where there are few. The larger part is embedded once for
each way to scale the rows; every candidate decoder is fitted on it and measured on the smaller part. The winner is then
fitted on all rows.
"""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.splits import draw_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.ridge import fit_ridge
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
    ridge_statistics,
)
from rembrandt.linalg.blocks import Block, spans
from rembrandt.linalg.sparse import normalize_rows, row_sums_of_squares
from rembrandt.metrics import ndcg_at_k, precision_at_k
from rembrandt.model.ranking import best_labels
from rembrandt.progress import Report, silent

Auto = Literal["auto"]
Array = NDArray[Any]

FEWEST = 100  # examples: with fewer, a held-out part says nothing and the plain settings stand
SAMPLE = 12_000  # rows looked at: enough to tell candidates a point apart, cheap beside the fit
HELD_OUT = 1 / 6
FOLDS = 4  # cuts that are averaged when there are few rows, and one held-out part would be mostly chance
RANK = 300  # directions that candidates are compared on, at most
EPOCHS = 10  # of a logistic candidate, at most
FEATURES = 1000  # random features that candidates are compared on, at most
RIDGES = (0.03, 0.1, 0.3)
LEAVE_OUT = (0.0, 0.5)
USUAL_RIDGE, USUAL_LEAVE_OUT = 0.1, 0.5  # what did well on every set that was looked at
CHANCE = 0.005  # of quality, that two candidates may differ by for no reason
LOGISTIC_FLOPS = 2e13  # a logistic fit beyond this is not tried: minutes on two cores


@dataclass(frozen=True)
class Open:
    """The choices: ``"auto"`` where one is open, its value where it is not."""

    decoder: DecoderName | Auto = "auto"
    kernel: Kernel | Auto | None = "auto"
    decoder_ridge: float | Auto = "auto"
    normalize: bool | Auto = "auto"
    leave_out: float | Auto = "auto"  # with all others settled nothing is taken out

    def settled(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value != "auto"}

    @property
    def is_settled(self) -> bool:
        return "auto" not in (self.decoder, self.kernel, self.decoder_ridge, self.normalize)


@dataclass(frozen=True)
class Trial:
    """One candidate and its quality on the held-out rows, from 0 to 1."""

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
        self.n = data.X.shape[0]
        seed = recipe.embedding.seed
        counted = np.arange(self.n) if data.weights is None else np.flatnonzero(data.weights > 0)
        _, chosen = draw_rows(len(counted), 1.0, seed, most=SAMPLE)
        sample = data.rows(counted[chosen])
        cuts = FOLDS if len(chosen) <= SAMPLE // 2 else 1
        splits = (draw_rows(len(chosen), HELD_OUT, seed + 1 + cut, most=SAMPLE) for cut in range(cuts))
        self.splits = [(sample.rows(fit), sample.rows(held)) for fit, held in splits]
        self.trials: list[Trial] = []

    def run(self) -> Selection:
        views = {normalize: [self._view(*split, normalize) for split in self.splits] for normalize in self._scalings()}
        # Scaling is judged without a kernel, the kernel on the winner's embedding.
        for normalize in views:
            self._try(replace(self.recipe, normalize=normalize, kernel=None), views[normalize])
        scaled = replace(self.recipe, normalize=self._scaling())
        for kernel in self._kernels():
            self._try(replace(scaled, kernel=kernel), views[scaled.normalize])
        chosen = {name: value for name, value in asdict(self._best()).items() if name != "quality"}
        return Selection(replace(self.recipe, **chosen), self.trials)

    def _scaling(self) -> bool:
        """Rows of length one, unless rows as they are do better by more than chance."""
        best = dict.fromkeys(self._scalings(), 0.0)
        for trial in self.trials:
            best[trial.normalize] = max(best[trial.normalize], trial.quality)
        return True in best and best[True] >= best.get(False, 0.0) - CHANCE

    def _best(self) -> Trial:
        """The best trial that the settled choices allow; all were made without a kernel before any with one.

        Among trials that differ in penalties alone, the usual ones stand unless others are better by more than chance.
        """
        allowed = [t for t in self.trials if self.choices.kernel in ("auto", t.kernel)] or self.trials
        allowed = [t for t in allowed if t.normalize == self._scaling()]
        best = max(allowed, key=lambda t: t.quality)
        alike = [
            t for t in allowed if (t.decoder, t.kernel, t.normalize) == (best.decoder, best.kernel, best.normalize)
        ]
        close = [t for t in alike if t.quality >= best.quality - CHANCE]
        return max(close, key=lambda t: (t.decoder_ridge == USUAL_RIDGE, t.leave_out == USUAL_LEAVE_OUT, t.quality))

    def _scalings(self) -> list[bool]:
        if self.choices.normalize != "auto":
            return [self.choices.normalize]
        lengths = row_sums_of_squares(self.splits[0][0].X)
        lengths = lengths[lengths > 0]
        # Rows of length one already, as tf-idf makes them, leave nothing to choose.
        return [False] if len(lengths) == 0 or np.allclose(lengths, 1, atol=1e-3) else [False, True]

    def _kernels(self) -> list[Kernel]:
        if self.choices.kernel is None:
            return []
        return ["gaussian"] if self.choices.kernel == "auto" else [self.choices.kernel]

    def _view(self, fit: Labelled, held: Labelled, normalize: bool) -> "_View":
        """The rows to fit on, embedded, and the held-out ones projected on the same embedding."""
        self.report("choosing settings", len(self.trials), None)
        if normalize:
            fit, held = (replace(part, X=normalize_rows(part.X)) for part in (fit, held))
        rank = min(RANK, self.recipe.embedding.n_components, rank_limit(fit, self.recipe.regressor))
        settings = replace(self.recipe.embedding, n_components=rank, at_most=True)
        embedded = fit_used_features(fit, replace(self.recipe, embedding=settings))
        return _View(embedded.embedding, fit, embedded.project(fit.X), held, embedded.project(held.X))

    def _try(self, recipe: Recipe, views: "list[_View]") -> None:
        """Every decoder that goes with the kernel of ``recipe``."""
        recipe = replace(recipe, n_random_features=min(self._mapped(recipe), FEATURES))
        for name in self._decoders(recipe, views[0]):
            tried = replace(recipe, decoder=name)
            if name == "ridge":
                self._try_ridge(tried, views)
            else:
                penalty = 0.0 if self.choices.decoder_ridge == "auto" else tried.decoder_ridge
                tried = replace(tried, decoder_ridge=penalty)
                short = replace(tried, max_epochs=min(tried.max_epochs, EPOCHS))
                decoders = [fit_decoder(view.embedding, view.fit_H, view.fit, short) for view in views]
                self._record(tried, [view.quality(decoder) for view, decoder in zip(views, decoders, strict=True)])

    def _try_ridge(self, recipe: Recipe, views: "list[_View]") -> None:
        strengths = RIDGES if self.choices.decoder_ridge == "auto" else (recipe.decoder_ridge,)
        for share in LEAVE_OUT if self.choices.leave_out == "auto" else (recipe.leave_out,):
            qualities = []  # one row for each view, one column for each strength
            for view in views:
                H = left_out(view.embedding, view.fit_H, view.fit, share)
                statistics = ridge_statistics(H, view.fit, fourier_map(H, recipe))
                qualities.append([view.quality(fit_ridge(statistics, strength)) for strength in strengths])
            for strength, found in zip(strengths, zip(*qualities, strict=True), strict=True):
                self._record(replace(recipe, leave_out=share, decoder_ridge=strength), list(found))

    def _decoders(self, recipe: Recipe, view: "_View") -> list[DecoderName]:
        if self.choices.decoder != "auto":
            return [self.choices.decoder]
        names: list[DecoderName] = ["ridge"]
        if recipe.kernel is None and view.embedding.back is not None:
            names.append("transpose")
        width = view.fit_H.shape[1]
        if recipe.kernel is not None:
            width = self._mapped(replace(self.recipe, decoder="logistic"))
        epoch = 4.0 * self.n * width * view.fit.Y.shape[1]
        if view.fit.multiclass and 20 * epoch <= LOGISTIC_FLOPS:
            names.append("logistic")
        return names

    def _mapped(self, recipe: Recipe) -> int:
        return n_random_features(replace(recipe, n_random_features=self.recipe.n_random_features), self.n, RANK)

    def _record(self, recipe: Recipe, qualities: list[float]) -> None:
        tried = {f.name: getattr(recipe, f.name) for f in fields(Trial) if f.name != "quality"}
        self.trials.append(Trial(**tried, quality=float(np.mean(qualities))))
        self.report("choosing settings", len(self.trials), None)


@dataclass(frozen=True)
class _View:
    """One cut of the sample in rows to fit on and rows to measure on, both projected."""

    embedding: Embedding
    fit: Labelled
    fit_H: Block
    held: Labelled
    held_H: Block

    def quality(self, decoder: Decoder) -> float:
        """How often the first answer is right; with several labels a row, as much again how well five are ranked."""
        found = [best_labels(decoder, self.held_H[rows], 5)[0] for rows in spans(self.held_H.shape[0], 1024)]
        first = precision_at_k(self.held.Y, np.vstack(found), 1)
        return first if self.held.multiclass else (first + ndcg_at_k(self.held.Y, np.vstack(found), 5)) / 2
