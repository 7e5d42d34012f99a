"""Measures on held-out rows, and when one is better than another."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from rembrandt.metrics import ndcg_at_k, precision_at_k
from rembrandt.search.measures import (
    SMALLEST_DIFFERENCE,
    Measures,
    measure_hits,
    measure_labels,
)
from tests.estimators.problems import examples, several


def held_out(Y, multiclass):
    Y = np.asarray(Y, dtype=np.float32)
    data = examples(np.zeros((len(Y), 1)), sparse.csr_array(Y))
    return replace(data, multiclass=multiclass)


class TestQuality:
    # The first row is ranked perfectly; the only label of the second comes fifth.
    Y = ((1, 1, 0, 0, 0), (1, 0, 0, 0, 0))
    RANKED = np.array([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])

    def test_by_hand_with_several_labels(self):
        measures = measure_labels(held_out(self.Y, multiclass=False), self.RANKED)
        assert measures.precision == pytest.approx((1 / 2, 2 / 6, 3 / 10))
        ndcg = np.mean([1, 1 / np.log2(6)])
        assert measures.quality == pytest.approx(np.mean([1 / 2, ndcg]))

    def test_by_hand_with_one_label(self):
        measures = measure_labels(held_out(self.Y, multiclass=True), self.RANKED)
        assert measures.precision == pytest.approx((1 / 2, 2 / 6, 3 / 10))
        assert measures.quality == pytest.approx(1 / 2)

    def test_it_is_the_mean_over_the_rows(self):
        _, Y = several()
        data = held_out(Y, multiclass=False)
        labels = np.random.default_rng(0).permuted(np.tile(np.arange(8), (300, 1)), axis=1)[:, :5]
        measures = measure_labels(data, labels)
        assert measures.row_quality.shape == (300,)
        assert measures.row_quality.mean() == pytest.approx(measures.quality)
        precision = [precision_at_k(data.Y, labels, k) for k in (1, 3, 5)]
        assert measures.precision == pytest.approx(tuple(precision))
        expected = (precision[0] + ndcg_at_k(data.Y, labels, 5)) / 2
        assert measures.quality == pytest.approx(expected)

    def test_rows_without_labels_are_misses(self):
        Y = [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
        measures = measure_labels(held_out(Y, multiclass=False), np.array([[0, 1, 2, 3, 4]] * 2))
        assert measures.precision == pytest.approx((1 / 2, 1 / 6, 1 / 10))
        assert measures.quality == pytest.approx(1 / 2)

    def test_hits_of_more_labels_than_are_counted(self):
        data = held_out(self.Y, multiclass=False)
        hit = np.array([[1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0]])
        assert measure_hits(data, hit) == measure_labels(data, self.RANKED)


class TestFacts:
    MEASURES = Measures((0.9, 0.5, 0.3), 0.8)

    def test_as_json(self):
        expected = {"p@1": 0.9, "p@3": 0.5, "p@5": 0.3, "quality": 0.8}
        assert self.MEASURES.facts() == expected

    def test_of_parts(self):
        facts = self.MEASURES.of_parts({"trees": 1, "embedding": 2}, 70)
        assert facts.parts == ("trees", "embedding")
        assert (facts.p1, facts.p3, facts.p5, facts.quality) == (0.9, 0.5, 0.3, 0.8)
        assert facts.n_examples == 70


class TestBetter:
    def of_rows(self, row_quality):
        rows = np.asarray(row_quality, dtype=float)
        return Measures((0.0, 0.0, 0.0), float(rows.mean()), rows)

    def test_nothing_is_better_than_itself(self):
        measures = self.of_rows([0, 1, 1, 0])
        assert not measures.better_than(measures)

    def test_a_difference_within_its_standard_error_is_chance(self):
        """Of 100 rows, 10 are better and 4 worse: 6 more, with a standard error of 3.7."""
        before = self.of_rows(np.repeat([0, 1], [10, 90]))
        after = np.repeat([1, 0, 1], [10, 4, 86])
        assert self.of_rows(after).better_than(before)
        after = np.repeat([1, 0, 1], [10, 8, 82])  # 2 more, with a standard error of 4.2
        assert not self.of_rows(after).better_than(before)
        assert not before.better_than(self.of_rows(after))

    def test_a_tiny_difference_is_not_better_even_if_it_is_sure(self):
        before = self.of_rows(np.full(1000, 0.5))
        assert not self.of_rows(np.full(1000, 0.5 + SMALLEST_DIFFERENCE / 2)).better_than(before)
        assert self.of_rows(np.full(1000, 0.5 + 2 * SMALLEST_DIFFERENCE)).better_than(before)

    def test_without_rows_the_smallest_difference_decides(self):
        before = Measures((0.5, 0.5, 0.5), 0.5)
        assert replace(before, quality=0.51).better_than(before)
        assert not replace(before, quality=0.5001).better_than(before)
