"""Why a label got its log-odds: the contribution of every feature, exactly.

Log-odds are a function of the likelihoods that the parts of a model give, and every part says what
its likelihood is for an empty row and what each feature of the row adds. What a comparison with the
other labels of the row adds belongs to no single feature: ``log_odds = base + Σ contributions +
comparison``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.blend import LARGEST_LIKELIHOOD, log_odds_of, softly_bounded
from rembrandt.data.views import Views
from rembrandt.explanations.explanation import Explanation
from rembrandt.features.text import TextFeatures
from rembrandt.linalg import Array
from rembrandt.linalg.sparse import as_csr
from rembrandt.model.model import Model
from rembrandt.parts.contributions import Contributions, secant
from rembrandt.predict import scored_labels
from rembrandt.settings.view_names import FEATURES, TEXTS

Columns = NDArray[np.int64]
WordEstimates = list[tuple[int, int, float]]


def explain_labels(
    model: Model,
    row: Views,
    columns: Columns,
    names: Sequence[str] | None,
    text: str | None = None,
) -> list[Explanation]:
    """Explain the log-odds of labels for one row.

    Parameters
    ----------
    model : Model
        A fitted model.
    row : Views
        One row.
    columns : ndarray
        Columns of the labels.
    names : sequence of str or None
        Names of the features; None if they are numbered or hashed.
    text : str, optional
        The text that the row comes from.

    Returns
    -------
    list of Explanation
        One for each label.
    """
    entries = as_csr(row.features)
    explained = _explained(model, row, columns)
    base, values = explained.contributions
    estimates = _estimates(model, row, columns, explained.of_parts)
    features = _entry_numbers(model, entries)
    located = None
    if text is not None and model.text is not None:
        located = model.text.locate([text])
    views = {model.n_features + i: f"the {view}" for i, view in enumerate(_vector_views(model))}
    labels = model.classes[columns].tolist()
    explanations = []
    for number, column in enumerate(columns.tolist()):
        explanation = Explanation(
            label=labels[number],
            column=column,
            base=float(base[number]),
            features=features,
            contributions=values[:, number],
            comparison=float(explained.comparison[number]),
            names=names,
            text=text,
            occurrences=located,
            view_names=views,
            estimates={name: estimate[number] for name, estimate in estimates.items()},
        )
        explanations.append(explanation)
    return explanations


def _vector_views(model: Model) -> list[str]:
    """Return the views of vectors that parts read."""
    views = [model.settings.parts[name].view for name in model.parts]
    return [view for view in dict.fromkeys(views) if view != FEATURES]


def _entry_numbers(model: Model, entries: sparse.csr_array) -> Array:
    """Return the columns of the entries of a row; each view of vectors counts as one more."""
    n_views = len(_vector_views(model))
    return np.append(entries.indices, model.n_features + np.arange(n_views))


def explain_row(model: Model, row: Views, labels: Columns) -> tuple[Contributions, Array]:
    """Return what the entries of a row add to the log-odds of ``labels``, and what comparison with
    the row adds. Each view of vectors is one entry, after those of the features.

    The log-odds of the blend are a function of the likelihoods p of the parts: linear in p and
    their log-odds, and quadratic in softly bounded log-odds u. From the empty row, with p₀ and u₀,
    a quadratic form changes by ``(u − u₀)ᵀ Q (u + u₀)``, so each part adds its own term, exactly,
    and ``p − p₀`` is a sum over the features. What the ranks in the row add, and for unlisted
    labels the bound by the listed ones, belongs to no single feature.
    """
    explained = _explained(model, row, labels)
    return explained.contributions, explained.comparison


@dataclass(frozen=True)
class _Explained:
    """The log-odds of some labels of one row as sums."""

    contributions: Contributions
    comparison: Array  # m
    of_parts: dict[str, Array]  # m each: what a part adds in total


def _explained(model: Model, row: Views, labels: Columns) -> _Explained:
    """Explain the log-odds of labels; see `explain_row`."""
    entries = as_csr(row.features)
    vector_views = _vector_views(model)
    values = np.zeros((entries.nnz + len(vector_views), len(labels)))
    of_parts: dict[str, Array] = {}
    if len(labels) == 0:
        return _Explained(Contributions(np.zeros(0), values), np.zeros(0), of_parts)
    scored = scored_labels(model, row, labels)
    explained = {}
    for name, part in model.parts.items():
        view = model.settings.parts[name].view
        entry = row.view(view)
        explained[name] = part.explain(entry if view == TEXTS else as_csr(entry), labels)
    empty = np.stack([_bounded(contributions.base) for contributions in explained.values()])
    start = log_odds_of(empty)
    end = scored.log_odds_of_parts
    frequency = scored.log_frequencies[None]  # the same in any row
    bounded_start = np.vstack([softly_bounded(start), frequency])
    bounded_end = np.vstack([softly_bounded(end), frequency])
    slopes = np.array(model.blend.quadratic) @ (bounded_start + bounded_end)
    base = scored.log_odds - scored.comparison
    nothing = np.zeros(len(labels))
    for number, (name, contributions) in enumerate(explained.items()):
        linear = np.array(model.blend.weights[name])
        listed = linear[0] * (scored.likelihood[number] - empty[number])
        listed += linear[1] * (end[number] - start[number])
        listed += slopes[number] * (bounded_end[number] - bounded_start[number])
        unlisted = model.blend.unlisted[number] * (end[number] - start[number])
        change = np.where(scored.is_listed, listed, unlisted)
        total = contributions.values.sum(axis=0)
        added = contributions.values * secant(nothing, change, total, nothing)
        view = model.settings.parts[name].view
        if view == FEATURES:
            values[: entries.nnz] += added
        else:
            values[entries.nnz + vector_views.index(view)] += added.sum(axis=0)
        of_parts[name] = added.sum(axis=0)
        base = base - of_parts[name]
    return _Explained(Contributions(base, values), scored.comparison, of_parts)


def _estimates(
    model: Model, row: Views, labels: Columns, of_parts: dict[str, Array]
) -> dict[str, list[WordEstimates]]:
    """Return what single words are worth to parts that read the text as a whole: for each such
    part and label the start, the end and the contribution of words.

    A part says how its own log-odds change without a word; that is scaled by what the part adds to
    the log-odds of the model for the whole text.
    """
    estimates: dict[str, list[WordEstimates]] = {}
    if len(labels) == 0:
        return estimates
    for name, part in model.parts.items():
        if model.settings.parts[name].view != TEXTS:
            continue
        changes = part.word_changes(row.texts, labels)
        if changes is None:
            continue
        empty, added = part.explain(row.texts, labels)
        full = empty + added.sum(axis=0)
        rise = log_odds_of(full) - log_odds_of(empty)
        nothing = np.zeros(len(labels))
        slope = secant(nothing, of_parts[name], rise, nothing)
        spans = list(zip(changes.starts.tolist(), changes.stops.tolist(), strict=True))
        contributions = (changes.changes * slope).T.tolist()
        estimates[name] = [
            [(*span, value) for span, value in zip(spans, row_values, strict=True)]
            for row_values in contributions
        ]
    return estimates


def _bounded(likelihood: Array) -> Array:
    return np.clip(likelihood, -LARGEST_LIKELIHOOD, LARGEST_LIKELIHOOD)


def term_names(text: TextFeatures) -> Sequence[str] | None:
    """Return the names of the columns of texts; None if they are hashed."""
    return text.terms_
