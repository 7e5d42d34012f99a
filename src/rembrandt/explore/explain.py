"""Why a label got its log-odds: the contribution of every feature, exactly.

Log-odds are a sum over the scorers of a model, and every scorer says what its likelihood is for an
empty row and what each feature of the row adds. What a comparison with the other labels of the row
adds belongs to no single feature: ``score = base + Σ contributions + comparison``.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.estimators import RembrandtClassifier
from rembrandt.explore.explanation import Explanation
from rembrandt.features.text import TextFeatures, is_text
from rembrandt.linalg.sparse import as_csr
from rembrandt.model.model import Model
from rembrandt.predict import Request, answer, scored_labels
from rembrandt.scorers.blend import LARGEST_LIKELIHOOD, log_odds_of, softly_bounded
from rembrandt.scorers.explanations import Contributions, secant

Array = NDArray[Any]
Columns = NDArray[np.int64]
ENCODER = "the encoder"  # stands for all its dimensions


def explain(
    classifier: RembrandtClassifier, X: Any, labels: Iterable[Any] | None = None, k: int = 5
) -> list[list[Explanation]]:
    """Explain the scores that a classifier gives to labels.

    Parameters
    ----------
    classifier : RembrandtClassifier
        A fitted classifier.
    X : list of str or matrix of shape (n_samples, n_features)
        Texts, if the classifier was fitted to texts, or features.
    labels : iterable of labels, optional
        The labels to explain, the same for every row. By default the ``k`` best labels of each row.
    k : int, default=5
        Number of labels per row if ``labels`` is not given.

    Returns
    -------
    list of list of Explanation
        For every row the explanations of its labels. Their scores are log-odds.

    Examples
    --------
    >>> texts = ["red apple", "green apple", "red car", "fast car"] * 10
    >>> labels = ["fruit", "fruit", "vehicle", "vehicle"] * 10
    >>> classifier = RembrandtClassifier(random_state=0).fit(texts, labels)
    >>> explain(classifier, ["an apple"], ["fruit"])[0][0].top(1)[0][0]
    'apple'
    """
    rows = classifier.rows(X)
    if labels is None:
        columns = answer(classifier.device_model(), Request(rows, k)).labels
    else:
        columns = np.tile(classifier.columns(labels), (rows.shape[0], 1))
    texts = list(X) if classifier.text_ is not None and is_text(X) else [None] * rows.shape[0]
    names = feature_names(classifier)
    return [
        explain_columns(classifier, rows[[i]], best[best >= 0], names, texts[i])
        for i, best in enumerate(columns)
    ]


def explain_columns(
    classifier: RembrandtClassifier,
    row: Any,
    columns: Columns,
    names: Sequence[str] | None,
    text: str | None = None,
) -> list[Explanation]:
    """Explain the scores of ``columns`` for one row of features, which came from ``text`` if that
    is given.
    """
    entries = as_csr(row)
    (base, values), comparison = explain_row(classifier.model_, entries, columns)
    features, values = _one_encoder(entries.indices, values, names)
    located = None if text is None or classifier.text_ is None else classifier.text_.locate([text])
    labels = classifier.classes_[columns].tolist()
    return [
        Explanation(
            label,
            column,
            float(base[j]),
            features,
            values[:, j],
            float(comparison[j]),
            names,
            text,
            located,
        )
        for j, (label, column) in enumerate(zip(labels, columns.tolist(), strict=True))
    ]


def explain_row(
    model: Model, row: sparse.csr_array, labels: Columns
) -> tuple[Contributions, Array]:
    """Return what the features of a row add to the log-odds of ``labels``, and what comparison with
    the row adds.

    The log-odds of the blend are a function of the likelihoods p of the scorers: linear in p and
    their log-odds, and quadratic in softly bounded log-odds u. From the empty row, with p₀ and u₀,
    a quadratic form changes by ``(u − u₀)ᵀ Q (u + u₀)``, so each scorer adds its own term, exactly,
    and ``p − p₀`` is a sum over the features. What the ranks in the row add, and for unlisted
    labels the bound by the listed ones, belongs to no single feature.
    """
    if len(labels) == 0:
        return Contributions(np.zeros(0), np.zeros((row.nnz, 0))), np.zeros(0)
    scored = scored_labels(model, row, labels)
    values = np.zeros((row.nnz, len(labels)))
    parts = {
        name: scorer.explain(row, labels, likelihood=True)
        for name, scorer in model.active_scorers.items()
    }
    empty = np.stack([_bounded(part.base) for part in parts.values()])
    start = log_odds_of(empty)
    end = scored.log_odds_of_scorers
    frequency = scored.log_frequencies[None]  # the same in any row
    bounded_start = np.vstack([softly_bounded(start), frequency])
    bounded_end = np.vstack([softly_bounded(end), frequency])
    slopes = np.array(model.active_blend.quadratic) @ (bounded_start + bounded_end)
    base = scored.log_odds - scored.comparison
    for number, (name, part) in enumerate(parts.items()):
        linear = np.array(model.active_blend.weights[name])
        listed = linear[0] * (scored.likelihood[number] - empty[number])
        listed += linear[1] * (end[number] - start[number])
        listed += slopes[number] * (bounded_end[number] - bounded_start[number])
        unlisted = model.active_blend.unlisted[number] * (end[number] - start[number])
        change = np.where(scored.is_listed, listed, unlisted)
        total = part.values.sum(axis=0)
        added = part.values * secant(np.zeros(len(labels)), change, total, np.zeros(len(labels)))
        values = values + added
        base = base - added.sum(axis=0)
    return Contributions(base, values), scored.comparison


def _bounded(likelihood: Array) -> Array:
    return np.clip(likelihood, -LARGEST_LIKELIHOOD, LARGEST_LIKELIHOOD)


def feature_names(classifier: RembrandtClassifier) -> Sequence[str] | None:
    """Return the names of all features; None if they are numbered or hashed."""
    if classifier.joined_ is not None:
        text = classifier.text_
        width, terms = (0, None) if text is None else (text.n_features_out_, _terms(text))
        return classifier.joined_.names(
            [terms if own == width else None for own in classifier.joined_.widths]
        )
    return classifier.feature_names_ if classifier.text_ is None else _terms(classifier.text_)


def _terms(text: TextFeatures) -> Sequence[str] | None:
    """Return the names of the columns of texts; None if they are hashed."""
    return (
        text.terms_
        if text.terms_ is None or not text.n_encoded_
        else [*text.terms_, *[ENCODER] * text.n_encoded_]
    )


def _one_encoder(
    features: Array, values: Array, names: Sequence[str] | None
) -> tuple[Array, Array]:
    """Sum the contributions of the dimensions of an encoder, which mean nothing one by one."""
    encoded = np.array(
        [names is not None and names[i] is ENCODER for i in features.tolist()], dtype=np.bool_
    )
    if not encoded.any():
        return features, values
    kept, group = np.unique(np.where(encoded, features[encoded][0], features), return_inverse=True)
    return kept, sparse.csr_array((np.ones(len(group)), (group, np.arange(len(group))))) @ values
