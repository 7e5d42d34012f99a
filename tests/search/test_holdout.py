"""Which examples are held out: chosen by their content, in groups, or the latest."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt.data.convert import convert
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.search import holdout
from rembrandt.search.holdout import (
    ENOUGH_HELD_OUT,
    HELD_OUT_SHARE,
    MAX_HELD_OUT,
    MAX_SPLITS,
    splits_of,
)
from tests.estimators.problems import blobs, examples, several, skewed


def random_rows(n=600, d=12, n_labels=5, seed=0, kind=np.asarray):
    """Examples whose features are all different."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    return examples(kind(X), np.arange(n) % n_labels)


def one_label_for_each_group(groups):
    """Examples whose label says their group, and whose features are all different."""
    X = np.random.default_rng(0).standard_normal((len(groups), 4))
    return replace(examples(X, groups), groups=groups)


def contents(data, rows):
    """The features of some rows as sets of tuples."""
    X = data.X[rows]
    if sparse.issparse(X):
        X = X.toarray()
    return {tuple(row) for row in X.tolist()}


class TestOrder:
    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
    @pytest.mark.parametrize("n", [120, 600, 6000])
    def test_shuffled_rows_hold_out_the_same_examples(self, kind, n):
        data = random_rows(n, kind=kind)
        shuffled = data.take(np.random.default_rng(1).permutation(n))
        for split, again in zip(splits_of(data, 0), splits_of(shuffled, 0), strict=True):
            assert contents(data, split.held_out) == contents(shuffled, again.held_out)
            assert contents(data, split.fit) == contents(shuffled, again.fit)

    def test_shuffled_groups_hold_out_the_same_examples(self):
        data = one_label_for_each_group(np.arange(600) // 6)
        shuffled = data.take(np.random.default_rng(1).permutation(600))
        for split, again in zip(splits_of(data, 0), splits_of(shuffled, 0), strict=True):
            assert contents(data, split.held_out) == contents(shuffled, again.held_out)

    def test_an_example_that_is_added_changes_few_others(self):
        """Held-out examples are those with the smallest hashes."""
        data = random_rows(1200)
        fewer = data.take(np.arange(1190))
        held_out = contents(data, splits_of(data, 0)[0].held_out)
        held_out_of_fewer = contents(fewer, splits_of(fewer, 0)[0].held_out)
        assert len(held_out - held_out_of_fewer) <= 10

    def test_the_seed_does_not_matter_and_another_split_holds_out_others(self):
        data = random_rows()
        first, second = splits_of(data, 0, n_splits=2)
        again = splits_of(data, 1)[0]
        assert_array_equal(first.held_out, again.held_out)
        assert len(np.intersect1d(first.held_out, second.held_out)) < 0.5 * len(first.held_out)


class TestSize:
    @pytest.mark.parametrize("n", [100, 600, 1500, 6000])
    def test_a_sixth_is_held_out(self, n):
        for split in splits_of(random_rows(n), 0):
            assert len(split.held_out) == round(HELD_OUT_SHARE * n)
            assert_array_equal(np.sort(np.append(split.fit, split.held_out)), np.arange(n))

    def test_at_most_a_fixed_number_is_held_out(self, monkeypatch):
        monkeypatch.setattr(holdout, "MAX_HELD_OUT", 50)
        monkeypatch.setattr(holdout, "ENOUGH_HELD_OUT", 50)
        [split] = splits_of(random_rows(), 0)
        assert len(split.held_out) == 50
        assert len(split.fit) == 550
        assert MAX_HELD_OUT >= ENOUGH_HELD_OUT

    @pytest.mark.parametrize(("n", "n_splits"), [(100, 3), (600, 3), (2400, 2), (4500, 1)])
    def test_few_examples_are_split_several_times(self, n, n_splits):
        splits = splits_of(random_rows(n), 0)
        assert len(splits) == n_splits <= MAX_SPLITS
        held_out = {tuple(split.held_out.tolist()) for split in splits}
        assert len(held_out) == n_splits, "each split holds out other examples"

    def test_a_number_of_splits_can_be_given(self):
        assert len(splits_of(random_rows(6000), 0, n_splits=3)) == 3
        assert len(splits_of(random_rows(100), 0, n_splits=1)) == 1


class TestTogether:
    def test_examples_with_equal_features_are_on_one_side(self):
        X, y = blobs(600)
        copies = np.append(np.arange(300), np.arange(300))
        data = examples(X[copies], y[copies])
        for split in splits_of(data, 0):
            assert contents(data, split.fit).isdisjoint(contents(data, split.held_out))
            assert len(split.held_out) == 100

    def test_examples_of_a_group_are_on_one_side(self):
        groups = np.arange(600) // 7
        data = replace(random_rows(), groups=groups)
        for split in splits_of(data, 0):
            assert not np.isin(groups[split.held_out], groups[split.fit]).any()
            assert 90 <= len(split.held_out) <= 100

    def test_groups_are_kept_where_that_hides_labels(self):
        groups = np.arange(600) // 6
        data = one_label_for_each_group(groups)
        for split in splits_of(data, 0):
            assert not np.isin(groups[split.held_out], groups[split.fit]).any()

    def test_labels_with_one_text_that_occurs_many_times_are_not_hidden(self):
        X = np.repeat(np.eye(30), 20, axis=0)
        y = np.repeat(np.arange(30), 20)
        data = examples(X, y)
        for split in splits_of(data, 0):
            assert len(split.held_out) == 100
            assert np.isin(y[split.held_out], y[split.fit]).all()

    @pytest.mark.parametrize("n_texts", [1, 3])
    def test_equal_texts_are_held_out_in_the_shares_of_their_labels(self, n_texts):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 5, 500) + 5 * np.repeat(np.arange(n_texts), 500 // n_texts + 1)[:500]
        X = np.eye(n_texts)[y // 5]
        splits = splits_of(examples(X, y), 0)
        assert len(splits) == 3
        for split in splits:
            assert len(split.held_out) == 83
            shares = np.bincount(y[split.held_out], minlength=5 * n_texts) / 83
            expected = np.bincount(y, minlength=5 * n_texts) / 500
            np.testing.assert_allclose(shares, expected, atol=1.5 / 83)


class TestTimes:
    def test_the_latest_examples_are_held_out_in_one_split(self):
        times = np.random.default_rng(0).permutation(600)
        data = replace(random_rows(), times=times)
        [split] = splits_of(data, 0)
        assert_array_equal(np.sort(times[split.held_out]), np.arange(500, 600))
        assert times[split.fit].max() == 499

    def test_the_seed_does_not_matter(self):
        data = replace(random_rows(), times=np.arange(600))
        assert_array_equal(splits_of(data, 0)[0].held_out, splits_of(data, 5)[0].held_out)

    def test_several_splits_by_time_are_one(self):
        data = replace(random_rows(), times=np.arange(600))
        assert len(splits_of(data, 0, n_splits=3)) == 1


class TestRows:
    def test_examples_without_weight_are_not_used(self):
        weights = (np.arange(600) % 3 > 0).astype(float)
        data = replace(random_rows(), weights=weights)
        for split in splits_of(data, 0):
            used = np.append(split.fit, split.held_out)
            assert_array_equal(np.sort(used), np.flatnonzero(weights))

    def test_with_one_label_an_example_those_without_are_not_used(self):
        X, Y = several()
        data = examples(X, Y)
        is_labelled = Y.any(axis=1)
        assert not data.multiclass
        for multiclass, expected in ((False, np.arange(300)), (True, np.flatnonzero(is_labelled))):
            for split in splits_of(replace(data, multiclass=multiclass), 0):
                used = np.append(split.fit, split.held_out)
                assert_array_equal(np.sort(used), expected)

    def test_labels_that_are_rare_stay_possible_to_learn(self):
        """No label is lost but by chance: most that are held out occur in the others too."""
        data = examples(*skewed(multiclass=True))
        for split in splits_of(data, 0):
            known = np.unique(data.Y[split.fit].indices)
            assert np.isin(data.Y[split.held_out].indices, known).mean() > 0.8

    def test_some_examples_of_a_store_are_used(self, tmp_path, monkeypatch):
        rng = np.random.default_rng(0)
        lines = [f"{i % 3} 0:{rng.random():.6f} 1:1" for i in range(300)]
        (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
        stored = convert([tmp_path / "rows.svm"], tmp_path / "store", rows=40).dataset()
        data = Examples(as_rows(stored.X), stored.Y, np.arange(3), multiclass=True)
        monkeypatch.setattr(holdout, "MAX_FROM_DISK", 120)
        for split in splits_of(data, 0):
            used = np.append(split.fit, split.held_out)
            assert len(used) == len(np.unique(used)) == 120
            assert len(split.held_out) == 20
            assert_array_equal(split.fit, np.sort(split.fit))
