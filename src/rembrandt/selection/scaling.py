"""The powers by which labels are scaled, chosen on rows that are held out before the embedding is
fitted.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.examples import Examples
from rembrandt.data.splits import draw_rows
from rembrandt.engines.place import CPU, Place
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe
from rembrandt.selection.trial import FEWEST, Measures, Trial

LABEL_POWERS, ROW_POWERS = (0.0, 0.25, 0.5), (0.0, 0.5)
# Squared coefficient of variation below which counts are alike, and a power of them does nothing
SPREAD = 0.1
ROWS = 30_000  # that are used, at most
HELD_OUT, MOST_HELD = 1 / 6, 4000
LEAVE_OUT, DECODER_RIDGE = 0.5, 0.1  # of a trial
USUAL = 0.25, 0.5  # the pair that others have to beat by more than a standard error


def label_scalings(data: Examples, recipe: Recipe) -> list[tuple[float, float]]:
    """Return the pairs of ``label_power`` and ``row_power`` that are worth a trial, no scaling
    first.
    """
    labels, rows = np.bincount(data.Y.indices, minlength=data.n_labels), np.diff(data.Y.indptr)

    def among(given: Any, powers: tuple[float, ...], counts: NDArray[Any]) -> tuple[float, ...]:
        if given != "auto":
            return (given,)
        counts = counts[counts > 0]
        alike = len(counts) == 0 or counts.var() <= SPREAD * counts.mean() ** 2
        return (0.0,) if alike or recipe.method == "pca" else powers

    s = recipe.embedding
    return list(
        product(among(s.label_power, LABEL_POWERS, labels), among(s.row_power, ROW_POWERS, rows))
    )


def choose_scaling(
    data: Examples, recipe: Recipe, place: Place = CPU, report: Report = silent
) -> tuple[Recipe, dict[tuple[float, float], float]]:
    """Return the recipe with powers for what it leaves "auto", and the quality of each pair that
    was tried.

    The best pair is taken if it is better than the usual one by more than a standard error.
    Embeddings are judged by a decoder in closed form; with one label a row, by one that does not
    prefer frequent labels.
    """
    pairs = label_scalings(data, recipe)
    found: dict[tuple[float, float], Measures] = {}
    chosen = pairs[0]
    if len(pairs) > 1 and data.n >= FEWEST:
        sample = few_labels(data, recipe.seed)
        k: Any = recipe.n_components
        if k != "auto":  # as many directions for a label as in the fit
            k = max(1, -(-k * sample.n_labels // np.count_nonzero(np.bincount(data.Y.indices))))
        fit, held = (
            sample.take(rows) for rows in draw_rows(sample.n, HELD_OUT, recipe.seed + 1, MOST_HELD)
        )
        trial, judge = (
            Trial(fit, held, data.n, place),
            "discriminant" if data.multiclass else "ridge",
        )
        judged = replace(
            recipe, n_components=k, decoder=judge, decoder_ridge=DECODER_RIDGE, kernel=None
        )
        for done, (label_power, row_power) in enumerate(pairs):
            report("choosing the scaling", done, len(pairs))
            powers = {"label_power": label_power, "row_power": row_power, "leave_out": LEAVE_OUT}
            found[label_power, row_power] = trial.measure(
                trial.scorer(judged.with_embedding(**powers))
            )
        best = max(found, key=lambda pair: found[pair].quality)
        usual = min(
            found, key=lambda pair: (abs(pair[0] - USUAL[0]) + abs(pair[1] - USUAL[1]), pair)
        )
        chosen = best if found[best].better_than(found[usual]) else usual
    qualities = {pair: each.quality for pair, each in found.items()}
    return recipe.with_embedding(label_power=chosen[0], row_power=chosen[1]), qualities


def few_labels(data: Examples, seed: int) -> Examples:
    """Return at most `ROWS` examples: all whose rarest label is among some labels, drawn at random.

    Rare labels keep all their examples, which a sample of rows would take from them; and a row's
    chance does not depend on its number of labels. Rows without labels are dropped where there are
    too many.
    """
    if data.n <= ROWS:
        return data
    Y, c = data.Y, data.n_labels
    counts, labelled = np.bincount(Y.indices, minlength=c), np.flatnonzero(np.diff(Y.indptr))
    rarest = (
        np.minimum.reduceat(counts[Y.indices].astype(np.int64) * c + Y.indices, Y.indptr[labelled])
        % c
    )
    drawn = np.argsort(np.random.default_rng(seed).permutation(c)[rarest], kind="stable")[:ROWS]
    sample = data.take(np.sort(labelled[drawn]))
    present = np.unique(sample.Y.indices)
    return replace(sample, Y=sample.Y[:, present], classes=sample.classes[present])
