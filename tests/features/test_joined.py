"""Blocks of features side by side, and estimators that are given several."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import LabelEmbedder, RembrandtClassifier, load
from rembrandt.errors import DataError
from rembrandt.explore.explain import explain
from rembrandt.features.joined import Joined, is_blocks
from rembrandt.linalg.sparse import row_sums_of_squares
from tests.estimators.problems import SETTLED, several

TEXTS = ["red apple", "green apple", "red car", "fast car"] * 20


def vectors(seed=0):
    """What the texts do not say: every second example is of another kind."""
    rng = np.random.default_rng(seed)
    return (
        1000 * (2 * (np.arange(80) % 2)[:, None] - 1) + 100 * rng.standard_normal((80, 3))
    ).astype(np.float32)


LABELS = [
    [kind, "odd" if i % 2 else "even"]
    for i, kind in enumerate(["fruit", "fruit", "vehicle", "vehicle"] * 20)
]


def test_blocks_have_the_same_strength():
    X = several()[0].astype(np.float32)
    blocks = X, 50 * sparse.csr_array(X[:, :3]), np.zeros((300, 2))
    joined = Joined.of(blocks)
    found = joined(blocks)
    assert sparse.issparse(found) and found.shape == (300, 13)
    for columns in (slice(0, 8), slice(8, 11)):
        assert row_sums_of_squares(found[:, columns]).mean() == pytest.approx(1, rel=1e-5)
    assert_allclose(
        joined((X[:5], 50 * X[:5, :3], np.zeros((5, 2)))), found[:5].toarray(), rtol=1e-5
    )


def test_only_a_tuple_of_texts_and_matrices_is_blocks():
    X = np.ones((2, 2))
    assert is_blocks((X, X)) and is_blocks((["a", "b"], sparse.csr_array(X)))
    assert not any(map(is_blocks, [X, (X,), [X, X], ("a", "b"), ((1, 2), (3, 4)), (X, None)]))


def test_texts_and_vectors_together_say_more_than_each(tmp_path):
    both = RembrandtClassifier(**SETTLED).fit((TEXTS, vectors()), LABELS)
    new = ["apple", "car", "apple", "car"], vectors(1)[:4]
    assert [set(row) for row in both.predict_topk(new, 2)[0]] == [
        {"fruit", "even"}, {"vehicle", "odd"}, {"fruit", "even"}, {"vehicle", "odd"},
    ]  # fmt: skip
    both.save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").decision_function(new), both.decision_function(new))
    explained = explain(both, new, k=1)[0][0]
    assert "block 2, column 0" in str(explained.top(100))


def test_an_embedder_takes_blocks_too():
    X, Y = several()
    found = LabelEmbedder(3, random_state=0).fit((X[:, :4], sparse.csr_array(X[:, 4:])), Y)
    assert found.transform((X[:, :4], sparse.csr_array(X[:, 4:]))).shape == (300, 3)
    assert found.n_features_in_ == 8


def test_refusals():
    X, Y = several()
    with pytest.raises(DataError, match="300 and 299 rows"):
        LabelEmbedder(3).fit((X, X[:-1]), Y)
    found = LabelEmbedder(3, random_state=0).fit((X, X), Y)
    with pytest.raises(DataError, match="same order"):
        found.transform((X, X[:, :2]))
    with pytest.raises(DataError, match="one matrix"):
        LabelEmbedder(3, random_state=0).fit(X, Y).transform((X, X))
    with pytest.raises(DataError, match="more than one block of texts"):
        RembrandtClassifier(**SETTLED).fit((TEXTS, TEXTS), LABELS)
    with pytest.raises(ValueError, match="NaN"):
        LabelEmbedder(3).fit((X, np.full((300, 1), np.nan)), Y)
