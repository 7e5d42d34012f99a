"""The likelihood that a label is right given how its names match: a small logistic model."""

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.examples import Examples, content_groups
from rembrandt.data.splits import hashed
from rembrandt.linalg import Array
from rembrandt.linalg.ranking import rank
from rembrandt.metrics.hits import hits
from rembrandt.parts.names.index import (
    FIRST_WEIGHTS,
    NameIndex,
    StemFrequencies,
)
from rembrandt.parts.names.label_texts import LabelTexts, label_texts

# Texts in which stems are counted, and texts that the weights are learned from.
COUNTED_TEXTS = 20_000
LEARNED_TEXTS = 6_000
# Matches of a text that weights are learned from.
LEARNED_MATCHES = 100
# Texts from which it is seen whether the names of labels occur in them, and labels listed for each.
CHECKED_TEXTS = 2_000
CHECKED_LABELS = 10
# True labels among those listed, below which the names are taken to be uninformative; and by how
# many standard errors they must be more than by chance.
FEWEST_HITS = 20
MIN_STANDARD_ERRORS = 3.0
FEWEST_EXAMPLES = 5
SMALLEST_FLOOR = 1e-7


def texts_of_labels(data: Examples) -> LabelTexts:
    """Return what is known of the labels of some examples as text."""
    return label_texts(data.classes, data.label_names, data.label_descriptions)


def some_rows(data: Examples, n_most: int) -> NDArray[np.int64]:
    """Return ``n_most`` rows by their content, whatever the order of the rows; all where there are
    fewer.
    """
    if data.n <= n_most:
        return np.arange(data.n)
    numbers = hashed(content_groups(data.X[:], None), seed=0)
    return np.sort(np.argsort(numbers, kind="stable")[:n_most])


def is_informative(data: Examples) -> bool:
    """Whether the labels whose names match a text best are labels of the text significantly more
    often than of any text.
    """
    if data.texts is None or data.n < 2:
        return False
    texts = texts_of_labels(data)
    if not texts.names and not any(texts.descriptions):
        return False
    rows = some_rows(data, CHECKED_TEXTS)
    some = data.texts[rows]
    index = NameIndex.of(texts, StemFrequencies.of(some))
    matches = index.match(some, FIRST_WEIGHTS)
    ranked, _ = rank(matches.labels, matches.log_odds)
    listed = ranked[:, :CHECKED_LABELS]
    true = data.Y[rows]
    n_hits = int(hits(true, listed).sum())
    n_listed = np.bincount(listed[listed >= 0], minlength=data.n_labels)
    n_true = np.bincount(true.indices, minlength=data.n_labels)
    n_by_chance = float(n_listed @ n_true) / len(rows)
    error = (n_hits + n_by_chance) ** 0.5
    return bool(n_hits >= FEWEST_HITS and n_hits - n_by_chance > MIN_STANDARD_ERRORS * error)


def learn_weights(data: Examples, index: NameIndex) -> tuple[Array, float]:
    """Learn the weights of the features of a match, and the rate of labels that do not match.

    The frequency of a label is one more feature, and the bias is that of a label of typical
    frequency. So what is learned does not depend on the examples of a single label, and holds for
    labels without examples too.
    """
    assert data.texts is not None
    rows = some_rows(data, LEARNED_TEXTS)
    matches = index.match(data.texts[rows], FIRST_WEIGHTS, LEARNED_MATCHES, with_features=True)
    is_true = hits(data.Y[rows], matches.labels) > 0
    n_examples = np.bincount(data.Y.indices, minlength=data.n_labels)
    is_used = matches.labels >= 0
    n_missed = data.Y[rows].nnz - int(is_true.sum())
    n_unmatched = len(rows) * data.n_labels - int(is_used.sum())
    floor = max(SMALLEST_FLOOR, n_missed / max(1, n_unmatched))
    # A label that nearly no example has is not like one that somebody adds because it is needed.
    is_typical = n_examples >= FEWEST_EXAMPLES
    if not is_typical[data.Y[rows].indices].any():
        is_typical = n_examples > 0
    is_used &= is_typical[matches.labels]
    log_counts = np.log(np.maximum(n_examples, 1))
    weights = _logistic_weights(
        matches.features[is_used], log_counts[matches.labels[is_used]], is_true[is_used]
    )
    *of_match, of_count, bias = weights
    typical = float(log_counts[is_typical].mean())
    with_bias = np.append(of_match, bias + of_count * typical)
    # As they are stored.
    return with_bias.astype(np.float32).astype(np.float64), min(floor, 0.5)


def _logistic_weights(features: Array, log_counts: Array, true: Array) -> Array:
    """Fit a logistic model; with too few true matches the weights are the first ones."""
    if true.sum() < FEWEST_HITS or true.all():
        return np.insert(FIRST_WEIGHTS, -1, 0.0)
    from sklearn.linear_model import LogisticRegression  # loads much

    model = LogisticRegression(C=1.0, solver="newton-cholesky", max_iter=100)
    model.fit(np.column_stack([features, log_counts]).astype(np.float64), true)
    return np.append(model.coef_[0], model.intercept_[0])
