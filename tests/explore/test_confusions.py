"""Pairs of labels that are confused."""

import numpy as np
from scipy import sparse

from rembrandt.explore.confusions import confusions


def counted(truth, labels):
    """All ordered pairs (missed, wrong) by a loop."""
    pairs = {}
    for row, predicted in zip(truth, labels, strict=True):
        true, said = set(np.flatnonzero(row)), set(predicted.tolist()) - {-1}
        for a in true - said:
            for b in said - true:
                pairs[a, b] = pairs.get((a, b), 0) + 1
    return pairs


def test_counts_agree_with_a_loop_over_rows():
    rng = np.random.default_rng(0)
    truth = rng.random((200, 12)) < 0.2
    labels = np.argsort(-(truth + 1.5 * rng.random((200, 12))), axis=1)[:, :4]
    labels[::7, 3] = -1
    pairs = counted(truth, labels)
    confused = confusions(sparse.csr_array(truth * 3.0), labels, n_pairs=1000, n_examples=1000)
    assert confused
    for confusion in confused:
        a, b = confusion.true, confusion.predicted
        assert confusion.count == pairs[a, b] >= confusion.reverse == pairs.get((b, a), 0)
        assert confusion.rate == confusion.count / truth[:, a].sum()
        assert confusion.count + confusion.reverse > confusion.expected
        wanted = [
            i
            for i in range(200)
            if truth[i, a] and not truth[i, b] and b in labels[i] and a not in labels[i]
        ]
        assert confusion.examples == wanted
    assert len({frozenset((c.true, c.predicted)) for c in confused}) == len(confused)


def test_a_confused_pair_comes_before_a_label_that_is_always_predicted():
    """Label 0 is predicted as 1; label 2 is predicted for all other rows."""
    n = 200
    truth = np.zeros((n, 8), int)
    truth[np.arange(n), 3 + np.arange(n) % 5] = 1
    truth[:40] = np.eye(8, dtype=int)[0]
    labels = np.column_stack([np.where(np.arange(n) < 40, 1, 2), np.full(n, -1)])
    first = confusions(truth, labels)[0]
    assert (first.true, first.predicted, first.count, first.rate) == (0, 1, 40, 1.0) and len(
        first.examples
    ) == 3


def test_a_model_without_mistakes_confuses_nothing():
    truth = np.eye(5, dtype=int)
    assert confusions(truth, np.arange(5)[:, None]) == []
