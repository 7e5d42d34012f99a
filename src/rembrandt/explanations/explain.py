"""Why a label got its log-odds: the contribution of every feature, exactly.

Log-odds are a function of the likelihoods that the parts of a model give, and every part says what
its likelihood is for an empty row and what each feature of the row adds. What a comparison with the
other labels of the row adds belongs to no single feature: ``log_odds = base + Σ contributions +
comparison``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.blend import softly_bounded
from rembrandt.candidates import LARGEST_LIKELIHOOD, log_odds_of
from rembrandt.data.views import Views
from rembrandt.explanations.explanation import Explanation
from rembrandt.features.text import TextFeatures
from rembrandt.linalg import Array
from rembrandt.linalg.sparse import as_csr
from rembrandt.model.model import Model
from rembrandt.parts.contributions import Contributions, secant
from rembrandt.probabilities import ScoredLabels, scored_labels
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
    view_names = {}
    for number, view in enumerate(_vector_views(model), start=model.n_features):
        view_names[number] = "the whole text" if view == TEXTS else f"the {view}"
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
            view_names=view_names,
            estimates={name: of_labels[number] for name, of_labels in estimates.items()},
            parts={name: float(added[number]) for name, added in explained.of_parts.items()},
        )
        explanations.append(explanation)
    return explanations


def _view_of(model: Model, name: str) -> str:
    """Return the view that a part reads."""
    return model.settings.parts[name].view


def _vector_views(model: Model) -> list[str]:
    """Return the views of vectors that parts read."""
    views = [_view_of(model, name) for name in model.parts]
    return [view for view in dict.fromkeys(views) if view != FEATURES]


def _entry_numbers(model: Model, entries: sparse.csr_array) -> Array:
    """Return the columns of the entries of a row; each view of vectors counts as one more."""
    n_views = len(_vector_views(model))
    of_views = model.n_features + np.arange(n_views)
    return np.append(entries.indices, of_views)


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
    n_entries = as_csr(row.features).nnz
    n_labels = len(labels)
    vector_views = _vector_views(model)
    values = np.zeros((n_entries + len(vector_views), n_labels))
    nothing = np.zeros(n_labels)
    of_parts: dict[str, Array] = {}
    if n_labels == 0:
        return _Explained(Contributions(nothing, values), nothing, of_parts)
    scored = scored_labels(model, row, labels)
    likelihoods = {}
    for name, part in model.parts.items():
        likelihoods[name] = part.explain(_entries(row, _view_of(model, name)), labels)
    empty = np.stack([_bounded(likelihood.base) for likelihood in likelihoods.values()])
    changes = _changes(model, scored, empty)
    base = scored.log_odds - scored.comparison
    for change, (name, likelihood) in zip(changes, likelihoods.items(), strict=True):
        total = likelihood.values.sum(axis=0)
        slope = secant(nothing, change, total, nothing)
        added = likelihood.values * slope
        view = _view_of(model, name)
        if view == FEATURES:
            values[:n_entries] += added
        else:
            entry = n_entries + vector_views.index(view)
            values[entry] += added.sum(axis=0)
        of_parts[name] = added.sum(axis=0)
        base = base - of_parts[name]
    return _Explained(Contributions(base, values), scored.comparison, of_parts)


def _entries(row: Views, view: str) -> Any:
    """Return what a part reads of a row."""
    entries = row.view(view)
    if view == TEXTS:
        return entries
    return as_csr(entries)


def _changes(model: Model, scored: ScoredLabels, empty: Array) -> Array:
    """Return what each part adds to the log-odds (parts × labels) from the likelihoods ``empty`` of
    an empty row on; see `explain_row`.
    """
    start = log_odds_of(empty)
    end = scored.log_odds_of_parts
    frequency = scored.log_frequencies[None]  # the same in any row
    bounded_start = np.vstack([softly_bounded(start), frequency])
    bounded_end = np.vstack([softly_bounded(end), frequency])
    slopes = np.array(model.blend.quadratic) @ (bounded_start + bounded_end)
    likelihood_rise = scored.likelihood - empty
    rise = end - start
    bounded_rise = bounded_end - bounded_start
    changes = np.empty_like(rise)
    for number, name in enumerate(model.parts):
        linear = model.blend.weights[name]
        listed = linear[0] * likelihood_rise[number]
        listed += linear[1] * rise[number]
        listed += slopes[number] * bounded_rise[number]
        unlisted = model.blend.unlisted[number] * rise[number]
        changes[number] = np.where(scored.is_listed, listed, unlisted)
    return changes


def _estimates(
    model: Model,
    row: Views,
    labels: Columns,
    of_parts: dict[str, Array],
) -> dict[str, list[WordEstimates]]:
    """Return what single words are worth to parts that read the text as a whole: for each such
    part and label the start, the end and the contribution of words.

    A part says how its own log-odds change without a word; that is scaled by what the part adds to
    the log-odds of the model for the whole text.
    """
    estimates: dict[str, list[WordEstimates]] = {}
    nothing = np.zeros(len(labels))
    if len(labels) == 0:
        return estimates
    for name, part in model.parts.items():
        if _view_of(model, name) != TEXTS:
            continue
        changes = part.word_changes(row.texts, labels)
        if changes is None:
            continue
        empty, added = part.explain(row.texts, labels)
        full = empty + added.sum(axis=0)
        rise = log_odds_of(full) - log_odds_of(empty)
        slope = secant(nothing, of_parts[name], rise, nothing)
        contributions = changes.changes * slope
        starts = changes.starts.tolist()
        stops = changes.stops.tolist()
        estimates[name] = []
        for of_label in contributions.T.tolist():
            words = zip(starts, stops, of_label, strict=True)
            estimates[name].append(list(words))
    return estimates


def _bounded(likelihood: Array) -> Array:
    return np.clip(likelihood, -LARGEST_LIKELIHOOD, LARGEST_LIKELIHOOD)


def term_names(text: TextFeatures) -> Sequence[str] | None:
    """Return the names of the columns of texts; None if they are hashed."""
    return text.terms_
