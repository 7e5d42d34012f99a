"""What a match says is learned by a logistic regression on the matches of labels."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from rembrandt.data.content import row_keys
from rembrandt.linalg.logistic import PENALTY
from rembrandt.parts.names import fit
from rembrandt.parts.names.fit import FEWEST_EXAMPLES, learn_weights, texts_of_labels
from rembrandt.parts.names.index import FIRST_WEIGHTS, MAX_MATCHES, N_FEATURES, NameIndex
from rembrandt.parts.names.similarity import similarity_features
from rembrandt.parts.names.terms import spell
from rembrandt.parts.names.word_map import WordMap
from tests.estimators.problems import examples

from .texts import STEMS, Counted

N_TEXTS = 300
# Of each label, the last ones too few to be typical.
COUNTS = [90, 60, 45, 35, 30, 25, 12, 3]


def problem():
    """Examples whose texts mostly have a word of the name of their label, and of some others."""
    rng = np.random.default_rng(0)
    names = [f"{STEMS[label]}x {STEMS[(label + 1) % 8]}y" for label in range(8)]
    labels = np.repeat(np.arange(8), COUNTS)
    texts = []
    for label in labels.tolist():
        words = list(rng.choice([f"{stem}z" for stem in STEMS], 2))
        if rng.random() < 0.7:
            words += names[label].split()[: rng.integers(1, 3)]
        texts.append(" ".join(rng.permutation(words)))
    Y = np.eye(8, dtype=np.float32)[labels]
    data = examples(np.ones((N_TEXTS, 1), dtype=np.float32), Y)
    return replace(data, texts=np.array(texts, dtype=object), label_names=names)


def test_weights_are_those_of_a_penalised_logistic_regression():
    data = problem()
    index = NameIndex.of(texts_of_labels(data), Counted(data.texts.tolist()).frequencies)
    weights, floor = learn_weights(data, index)
    assert weights.shape == (N_FEATURES + 1,)

    matches = index.match(spell(data.texts), FIRST_WEIGHTS, MAX_MATCHES, with_features=True)
    truth = data.Y.toarray() > 0
    rows, entries = np.nonzero(matches.labels >= 0)
    labels = matches.labels[rows, entries]
    is_true = truth[rows, labels]
    n_unmatched = truth.size - len(labels)
    assert_allclose(floor, (truth.sum() - is_true.sum()) / n_unmatched)

    counts = np.array(COUNTS)
    is_typical = counts >= FEWEST_EXAMPLES
    used = is_typical[labels]
    features = matches.features[rows, entries][used].astype(float)
    log_counts = np.log(counts)
    design = np.column_stack([features, log_counts[labels[used]], np.ones(used.sum())])
    y = is_true[used].astype(float)

    def loss(w):
        z = design @ w
        gradient = design.T @ (1 / (1 + np.exp(-z)) - y)
        gradient[:-1] += PENALTY * w[:-1]
        value = (np.logaddexp(0, z) - y * z).sum() + PENALTY / 2 * (w[:-1] @ w[:-1])
        return value, gradient

    best = minimize(loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B", tol=1e-12).x
    bias = best[-1] + best[-2] * log_counts[is_typical].mean()
    assert_allclose(weights, np.append(best[:-2], bias), atol=0.03)


def test_stems_of_two_texts_are_in_a_map_and_those_of_one_are_not():
    data = problem()
    texts = data.texts.tolist()
    texts[0] += " oncex"
    texts[1] += " twicex"
    texts[2] += " twicex"
    frequencies = Counted(texts).frequencies
    word_map = WordMap.of(spell(texts), data.Y, texts_of_labels(data), frequencies)
    once, _, twice, _ = spell(["oncex", "twicex"]).keys.tolist()
    assert twice in word_map.text_keys.tolist()
    assert once not in word_map.text_keys.tolist()


def test_a_hidden_label_is_learned_to_be_true_of_its_own_texts_alone(monkeypatch):
    data = problem()
    # Rows that differ, since their content decides which are hidden.
    numbered = np.arange(1, N_TEXTS + 1, dtype=np.float32)[:, None]
    data = replace(data, X=examples(numbered, data.Y.toarray()).X)
    texts = texts_of_labels(data)
    frequencies = Counted(data.texts.tolist()).frequencies
    index = NameIndex.of(texts, frequencies)
    learned = []

    def recorded(used, frequency, is_true):
        learned.append((used.labels, frequency, is_true))
        return np.zeros(len(similarity_features(used)[0]) + 1)

    monkeypatch.setattr(fit, "HIDDEN_LABELS", 3)
    monkeypatch.setattr(fit, "HIDDEN_TEXTS", 2)
    monkeypatch.setattr(fit, "FEWEST_HIDDEN_HITS", 1)
    monkeypatch.setattr(fit, "_similarity_weights", recorded)
    fit.learn_similarity(data, texts, frequencies, index, FIRST_WEIGHTS)

    [(labels, frequency, is_true)] = learned
    counts = np.array(COUNTS)
    typical = np.log(counts[counts >= FEWEST_EXAMPLES]).mean()
    assert_allclose(frequency, np.log(counts[labels]) - typical)
    rows = np.arange(N_TEXTS)
    is_hidden = fit._is_drawn(row_keys(data, rows), 2)
    n_texts = data.Y[rows[is_hidden]].sum(axis=0)
    hidden = np.unique(labels)
    assert len(hidden) > 1
    for label in hidden.tolist():
        is_this = labels == label
        assert is_this.sum() > n_texts[label]
        assert is_true[is_this].sum() == n_texts[label]
