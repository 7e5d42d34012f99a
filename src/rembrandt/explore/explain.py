"""Why a label got its score: the contribution of every feature, exactly.

A score is a sum over the scorers of a model, and every scorer says what its score is for an empty row and what each
feature of the row adds: ``score = base + Σ contributions``.

With a linear decoder the embedding's score is such a sum as it stands: feature f adds ``x_f W_f · q``. For a kernel map
``[cos(hΩ + b), s·h]`` the gradient is averaged along the straight line from the empty row ``h₀`` to ``h`` (integrated
gradients, or the Aumann-Shapley value), which for cosines has a closed form. With the phases ``p = hΩ + b`` and
``p₀ = h₀Ω + b``,

    cos p − cos p₀ = (p − p₀) m,    m = −sin((p + p₀)/2) · sinc((p − p₀)/2),

and ``p − p₀`` is linear in the features. So ``g = Ω (m ∘ q_cos) + s q_lin`` is a direction in the embedding along which
feature f adds ``x_f W_f · g``, with no remainder.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.checks import plain
from rembrandt.decoders.decoder import Decoder
from rembrandt.errors import SettingsError
from rembrandt.estimators import RembrandtClassifier
from rembrandt.estimators.columns import top_columns
from rembrandt.explore.explain_trees import explain_trees, secant
from rembrandt.explore.explanation import Contributions, Explanation, Words
from rembrandt.features.text import is_text
from rembrandt.linalg.blocks import as_numpy
from rembrandt.linalg.sparse import as_csr
from rembrandt.model.model import Model

Array = NDArray[Any]
Columns = NDArray[np.int64]


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
        For every row the explanations of its labels. Their scores are those of ``predict_topk``.

    Examples
    --------
    >>> texts = ["red apple", "green apple", "red car", "fast car"] * 10
    >>> classifier = RembrandtClassifier(random_state=0).fit(texts, ["fruit", "fruit", "vehicle", "vehicle"] * 10)
    >>> explain(classifier, ["an apple"], ["fruit"])[0][0].top(1)[0][0]
    'apple'
    """
    rows = classifier.model_rows(X)
    if labels is None:
        columns = top_columns(classifier, rows, min(k, len(classifier.classes_)))[0]
    else:
        columns = np.tile(classifier.model_columns(labels), (rows.shape[0], 1))
    texts = list(X) if classifier.text_ is not None and is_text(X) else None
    names = feature_names(classifier)
    return [
        explain_columns(classifier, rows[[i]], found[found >= 0], names, None if texts is None else texts[i])
        for i, found in enumerate(columns)
    ]


def explain_columns(
    classifier: RembrandtClassifier,
    row: Any,
    columns: Columns,
    names: Sequence[str] | None,
    text: str | None = None,
) -> list[Explanation]:
    """Explain the scores of ``columns`` for one row of features, which came from ``text`` if that is given."""
    model = classifier.model_
    prepared = as_csr(model.rows(row))
    values, base = explain_row(model, prepared, columns)
    located = None if text is None or classifier.text_ is None else classifier.text_.locate([text])
    words = Words(names, text, located)
    return [
        Explanation(plain(model.classes[column]), int(column), float(base[j]), prepared.indices, values[:, j], words)
        for j, column in enumerate(columns)
    ]


def feature_names(classifier: RembrandtClassifier) -> Sequence[str] | None:
    """Return the names of all features; None if they are numbered or hashed."""
    if classifier.joined_ is not None:
        return classifier.joined_.names([None] * len(classifier.joined_.widths))
    return classifier.feature_names_ if classifier.text_ is None else classifier.text_.terms_


def explain_row(model: Model, row: sparse.csr_array, labels: Columns) -> Contributions:
    """Join the explanations of the scorers, weighted by the blend; ``row`` is 1 × d, as `Model.rows` returns."""
    if model.lift is not None:
        raise SettingsError("contributions are known for a linear regression only; fit with regressor=None to explain")
    if model.forest is None:
        return explain_embedding(model, row, labels)
    weighted = [(model.blend, explain_trees(model.forest, row, labels))]
    if model.blend < 1:
        part = explain_embedding(model, row, labels)
        if model.decoder.link != "identity":
            part = _as_probability(model, row, labels, part)
        weighted.append((1 - model.blend, part))
    return Contributions(
        np.sum([weight * part.values for weight, part in weighted], axis=0),
        np.sum([weight * part.base for weight, part in weighted], axis=0),
    )


def explain_embedding(model: Model, row: sparse.csr_array, labels: Columns) -> Contributions:
    """Return what each stored entry of ``row`` (1 × d) adds to the decoder's score ``φ(xW) Q + b`` of ``labels``."""
    empty = as_numpy(model.projection[-1]).astype(np.float64)
    added = row.data[:, None] * as_numpy(model.projection[row.indices]).astype(np.float64)
    base, directions = _directions(model.decoder, empty, added.sum(axis=0), labels)
    return Contributions(added @ directions, base + as_numpy(model.decoder.bias[labels]))


def _directions(decoder: Decoder, empty: Array, change: Array, labels: Columns) -> tuple[Array, Array]:
    """Return the scores of the empty row without the bias (m), and the directions along which rows add to them (k × m).

    ``empty`` and ``change`` are the empty row in the embedding and what the row adds to it.
    """
    Q = as_numpy(decoder.columns(labels)).astype(np.float64)
    if decoder.fourier is None:
        return empty @ Q, Q
    frequencies = as_numpy(decoder.fourier.frequencies)  # large, so they keep their precision
    single = frequencies.dtype
    start = empty.astype(single) @ frequencies + as_numpy(decoder.fourier.offsets)
    half = change.astype(single) @ frequencies / 2
    slopes = -np.sin(start + half) * np.sinc(half / np.pi)
    cosines, linear = Q[: len(start)], decoder.fourier.linear * Q[len(start) :]
    directions = frequencies @ (slopes[:, None] * cosines).astype(single) + linear
    return np.cos(start) @ cosines + empty @ linear, directions


def _as_probability(model: Model, row: sparse.csr_array, labels: Columns, part: Contributions) -> Contributions:
    """Turn a sum of scores into a sum of probabilities, by the slope between the empty row and the row.

    Under a softmax, the change of the other labels' scores belongs to no single feature and is part of the base.
    """
    decoder = model.decoder
    scores = decoder.scores(model.place.project(row, model.projection))
    full = as_numpy(decoder.probabilities(scores)).astype(np.float64)[0, labels]
    change = part.values.sum(axis=0)
    if decoder.link == "softmax":
        empty, derivative = np.exp(np.log(np.maximum(full, 1e-300)) - change), full
    else:
        empty, derivative = 1 / (1 + np.exp(-np.clip(part.base, -60, 60))), full * (1 - full)
    return Contributions(part.values * secant(empty, full, change, derivative), empty)
