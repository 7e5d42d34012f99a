"""Which scorers a model keeps: blends of subsets, measured on rows that they were not learned
on.
"""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics import f1_score

from rembrandt.linalg.ranking import rank, top_k
from rembrandt.scorers.blend import Candidates, features_of, probabilities
from rembrandt.selection.blending import blends
from rembrandt.selection.trial import measures
from tests.estimators.problems import examples

NAMES = "trees", "centroids", "embedding"
N, C, LISTED = 800, 40, 12


def problem(noise, multiclass=False, n=N, seed=0):
    """Scorers that see the log-odds of all labels under noise, their candidates, and the true
    labels.
    """
    rng = np.random.default_rng(seed)
    z = 2.5 * rng.standard_normal((n, C)) - 4
    if multiclass:
        Y = np.eye(C, dtype=np.float32)[(z + rng.gumbel(size=z.shape)).argmax(axis=1)]
    else:
        Y = (rng.random((n, C)) < 1 / (1 + np.exp(-z))).astype(np.float32)
    labels, features = np.tile(np.arange(C), (n, 1)), {}
    for name, size in noise.items():
        likely = 1 / (1 + np.exp(-z - size * rng.standard_normal((n, C))))
        listed, best = top_k(likely, LISTED)
        features[name] = features_of(likely, labels, listed, best[:, :1])
    held = replace(examples(np.zeros((n, 1)), sparse.csr_array(Y)), multiclass=multiclass)
    return Candidates(labels, features, np.zeros((n, C), np.float32)), held


def alone(candidates, held, name):
    """Measure the ranking by a scorer's own likelihood."""
    return measures(held, rank(candidates.labels, candidates.features[name][..., 0])[0][:, :5])


@pytest.mark.parametrize("multiclass", [False, True])
class TestSubsets:
    def test_every_subset_with_a_scorer_that_proposes_is_there(self, multiclass):
        candidates, held = problem(dict.fromkeys(NAMES, 1.0), multiclass)
        every = {names for size in (1, 2, 3) for names in combinations(NAMES, size)}
        assert {each.names for each in blends(candidates, held, 0.5, set(NAMES), 0.0)} == every
        some = blends(candidates, held, 0.5, {"trees", "centroids"}, 0.0)
        assert {each.names for each in some} == every - {("embedding",)}

    def test_the_first_is_the_best_or_has_fewer_scorers(self, multiclass):
        candidates, held = problem({"trees": 1.0, "centroids": 1.0, "embedding": 3.0}, multiclass)
        found = blends(candidates, held, 0.5, set(NAMES), 0.0)
        assert found[0].measures.quality == max(each.measures.quality for each in found)
        for chance in (0.001, 0.05, 1.0):
            first = blends(candidates, held, 0.5, set(NAMES), chance)[0]
            good = [
                each
                for each in found
                if each.measures.quality >= found[0].measures.quality - chance
            ]
            assert len(first.names) == min(len(each.names) for each in good)
        assert len(first.names) == 1

    def test_it_is_no_worse_than_the_best_scorer(self, multiclass):
        for seed in range(3):
            candidates, held = problem(
                {"trees": 0.5, "centroids": 2.0, "embedding": 6.0}, multiclass, seed=seed
            )
            found = blends(candidates, held, 0.5, set(NAMES), 0.001)
            best = max(alone(candidates, held, name).quality for name in NAMES)
            assert found[0].measures.quality >= best - 0.002

    def test_two_that_err_independently_are_better_together(self, multiclass):
        candidates, held = problem({"trees": 2.0, "embedding": 2.0}, multiclass)
        found = {
            each.names: each.measures.quality
            for each in blends(candidates, held, 0.5, set(NAMES), 0.001)
        }
        assert found["trees", "embedding"] > max(found["trees",], found["embedding",]) + 0.02

    def test_a_scorer_of_noise_is_dropped(self, multiclass):
        candidates, held = problem({"trees": 0.5, "embedding": 60.0}, multiclass, n=2000)
        assert blends(candidates, held, 0.5, set(NAMES), 0.005)[0].names == ("trees",)

    def test_rows_are_measured_by_a_blend_of_others(self, multiclass):
        """Scores of pure noise on few rows: a blend that saw the row would find its label more
        often than by chance.
        """
        few = [
            problem({"trees": 60.0, "embedding": 60.0}, multiclass, n=60, seed=seed)
            for seed in range(20)
        ]
        found = [blends(*each, 0.5, set(NAMES), 0.0)[0].measures.p[0] for each in few]
        share = np.mean([each.Y.sum() / each.n / C for _, each in few])
        assert np.mean(found) < 3 * share + 0.05

    def test_probabilities_are_calibrated(self, multiclass):
        candidates, held = problem({"trees": 1.0, "embedding": 1.0}, multiclass, n=3000)
        assert all(
            each.calibration_error < 0.04 for each in blends(candidates, held, 0.5, set(NAMES), 0.0)
        )

    def test_facts(self, multiclass):
        candidates, held = problem({"trees": 1.0}, multiclass)
        [only] = blends(candidates, held, 0.5, {"trees"}, 0.0)
        assert only.facts() == {"scorers": ["trees"], **only.measures.facts()}


class TestThreshold:
    def test_a_number_is_kept(self):
        candidates, held = problem({"trees": 1.0})
        assert blends(candidates, held, 0.3, {"trees"}, 0.0)[0].threshold == 0.3

    def test_micro_is_near_the_best_on_new_rows(self):
        candidates, held = problem({"trees": 1.0})
        [only] = blends(candidates, held, "micro", {"trees"}, 0.0)
        new, truth = problem({"trees": 1.0}, seed=1)
        P, Y = probabilities(only.blend.log_odds(new), new.listed, C, False), truth.Y.toarray()

        def f1(threshold):
            return f1_score(Y, threshold <= P, average="micro")

        assert isinstance(only.threshold, float)
        assert f1(only.threshold) > 0.98 * max(map(f1, np.linspace(0.05, 0.95, 19)))

    def test_macro_has_one_for_each_label(self):
        candidates, held = problem({"trees": 1.0})
        [only] = blends(candidates, held, "macro", {"trees"}, 0.0)
        assert only.threshold.shape == (C,)
        assert_allclose(
            only.threshold.mean(),
            blends(candidates, held, "micro", {"trees"}, 0.0)[0].threshold,
            atol=0.15,
        )
