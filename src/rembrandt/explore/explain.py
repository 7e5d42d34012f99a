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
from rembrandt.model.ranked import ranked_labels
from rembrandt.scorers.blend import LARGEST, log_odds
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
        columns = ranked_labels(classifier.device_model(), rows, k)[0]
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

    A scorer's part of the log-odds is a function g of its likelihood p. From the likelihood ``p₀``
    of an empty row it changes by ``m (p − p₀)`` with the slope m of g between the two, and ``p −
    p₀`` is a sum over the features. The end point is the feature that the blend has seen, so
    rounding and the limits of likelihoods are part of the sum.
    """
    ascending, order = np.unique(labels, return_inverse=True)
    found = model.features_at(row, ascending)
    base = model.blend.bias + model.blend.count * found.log_counts[0, order].astype(np.float64)
    values, comparison = np.zeros((row.nnz, len(labels))), np.zeros(len(labels))
    for name, scorer in model.scorers.items():
        weights, features = (
            np.array(model.blend.weights[name]),
            found.features[name][0, order].astype(np.float64),
        )
        part = scorer.explain(row, labels, likelihood=True)
        empty = np.clip(part.base, -LARGEST, LARGEST)
        start, end = (
            weights[0] * empty + weights[1] * log_odds(empty),
            features[:, :2] @ weights[:2],
        )
        added = part.values * secant(start, end, part.values.sum(axis=0), np.zeros(len(labels)))
        base, values = base + end - added.sum(axis=0), values + added
        comparison = comparison + features[:, 2:] @ weights[2:]
    return Contributions(base, values), comparison


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
