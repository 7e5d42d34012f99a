"""The scaling of labels: what is tried, on which rows, and that the better one is chosen."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt import LabelEmbedder
from rembrandt.recipe import EmbeddingSettings, Recipe
from rembrandt.selection import scaling
from rembrandt.selection.scaling import (
    LABEL_POWERS,
    ROW_POWERS,
    choose_scaling,
    few_labels,
    label_scalings,
)
from rembrandt.selection.trial import FEWEST, Measures, Trial
from tests.estimators.problems import examples, several

AUTO = Recipe(n_components=10, embedding=EmbeddingSettings(label_power="auto", row_power="auto"))


def zipf(n=3000, classes=300, d=400, seed=0):
    """One label a row, from common to rare; features are words, some of them a class's own."""
    rng = np.random.default_rng(seed)
    sizes = 1 / np.arange(1, classes + 1)
    y = np.append(
        np.repeat(np.arange(classes), 3),
        rng.choice(classes, n - 3 * classes, p=sizes / sizes.sum()),
    )
    own = np.random.default_rng(7).integers(0, d, (classes, 4))
    columns = np.hstack([own[y], rng.integers(0, d, (n, 3))])
    X = sparse.csr_array(
        (np.ones(columns.size), (np.repeat(np.arange(n), 7), columns.ravel())), shape=(n, d)
    )
    X.sum_duplicates()
    return X.astype(np.float32), y


class TestWhatIsTried:
    def test_powers_of_counts_that_are_alike_are_not(self):
        alike = examples(np.eye(12), np.arange(12) % 4)
        assert label_scalings(alike, AUTO) == [(0.0, 0.0)]
        skewed = examples(*zipf())
        assert label_scalings(skewed, AUTO) == [(power, 0.0) for power in LABEL_POWERS]
        X, Y = several()
        assert label_scalings(examples(X, Y), AUTO) == [(0.0, power) for power in ROW_POWERS]

    def test_given_powers_stay(self):
        given = AUTO.with_embedding(label_power=0.7)
        assert label_scalings(examples(*zipf()), given) == [(0.7, 0.0)]
        assert choose_scaling(examples(*zipf()), given)[0].embedding.label_power == 0.7

    def test_nothing_is_where_features_are_embedded_or_rows_are_few(self):
        assert label_scalings(examples(*zipf()), replace(AUTO, method="pca")) == [(0.0, 0.0)]
        X, y = zipf()
        recipe, found = choose_scaling(examples(X[: FEWEST - 1], y[: FEWEST - 1]), AUTO)
        assert recipe.embedding.label_power == recipe.embedding.row_power == 0 and found == {}


class TestSample:
    def test_drawn_labels_keep_their_rows(self, monkeypatch):
        monkeypatch.setattr(scaling, "ROWS", 500)
        X, y = zipf()
        data = examples(X, y)
        sample = few_labels(data, seed=0)
        assert sample.n == 500 and sample.Y.shape[1] == len(sample.classes)
        counts = np.bincount(y)
        kept = np.asarray(sample.Y.sum(axis=0)).ravel()
        whole = kept == counts[sample.classes]
        assert whole.sum() >= len(whole) - 1, "the last one may be cut"

    def test_long_rows_are_not_preferred(self, monkeypatch):
        rng = np.random.default_rng(0)
        Y = (rng.random((4000, 500)) < rng.choice([0.004, 0.04], 4000)[:, None]).astype(np.float32)
        monkeypatch.setattr(scaling, "ROWS", 1000)
        data = examples(rng.standard_normal((4000, 3)), Y)
        before, after = np.diff(data.Y.indptr), np.diff(few_labels(data, 0).Y.indptr)
        assert after.mean() == pytest.approx(before[before > 0].mean(), rel=0.15)

    def test_few_rows_are_all_used(self):
        data = examples(*zipf())
        assert few_labels(data, 0) is data


class TestChoice:
    def test_rare_classes_are_held_by_scaled_labels(self):
        """The choice agrees with new rows, where the best scaling has far fewer errors than
        none.
        """
        X, y = zipf()
        new, truth = zipf(seed=1)
        embedder = LabelEmbedder(20, label_power="auto", row_power="auto", random_state=0).fit(X, y)
        assert embedder.label_power_ > 0 and embedder.row_power_ == 0
        assert set(embedder.scalings_) == {(power, 0.0) for power in LABEL_POWERS}
        accuracy = {}
        for power in LABEL_POWERS:
            one = LabelEmbedder(20, label_power=power, random_state=0).fit(X, y)
            H, rows = one.transform(X), one.transform(new)
            means = np.stack([H[y == label].mean(axis=0) for label in range(300)])
            distances = (means**2).sum(axis=1) - 2 * rows @ means.T
            accuracy[power] = (distances.argmin(axis=1) == truth).mean()
        assert accuracy[embedder.label_power_] > accuracy[0.0] + 0.05
        assert accuracy[embedder.label_power_] > max(accuracy.values()) - 0.05
        fixed = LabelEmbedder(20, label_power=embedder.label_power_, random_state=0).fit(X, y)
        assert_array_equal(fixed.embedding_, embedder.embedding_)
        assert embedder.certify(X, y).residuals.max() == fixed.certify(X, y).residuals.max()

    def test_the_usual_scaling_where_it_does_not_matter(self, monkeypatch):
        """All pairs are as good: the usual one is taken, or of those that are tried the nearest to
        it.
        """
        monkeypatch.setattr(
            Trial, "measure", lambda trial, _: Measures((1.0,) * 3, 1.0, np.ones(trial.held.n))
        )
        recipe, found = choose_scaling(examples(*zipf(n=1000)), AUTO)
        assert len(found) == 3 and (recipe.embedding.label_power, recipe.embedding.row_power) == (
            0.25,
            0.0,
        )

    def test_another_scaling_is_better_by_more_than_a_standard_error(self):
        usual, rng = np.full(1000, 0.5), np.random.default_rng(0)
        noise = rng.normal(0, 1, 1000)
        noise -= noise.mean()
        for gain, better in ((0.02, False), (0.05, True)):  # the standard error is 0.03
            rows = usual + noise + gain
            found = Measures((0.0,) * 3, rows.mean(), rows)
            assert found.better_than(Measures((0.0,) * 3, usual.mean(), usual)) == better
