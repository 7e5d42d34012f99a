"""The blend of all parts: measured on rows that it was not learned on, with its threshold."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics import f1_score

from rembrandt.blend import Blend
from rembrandt.candidates import Candidates, UnlistedSample, features_of, log_odds_of, union
from rembrandt.linalg.ranking import top_k
from rembrandt.metrics.hits import hits
from rembrandt.search.blending import blended
from rembrandt.search.measures import measure_labels
from tests.estimators.problems import examples

NAMES = ("trees", "centroids", "embedding")
N = 800
C = 40
LISTED = 12


def problem(noise, multiclass=False, n=N, seed=0):
    """Parts that see the log-odds of all labels under noise: their candidates, all other labels,
    and the true ones.
    """
    rng = np.random.default_rng(seed)
    z = 2.5 * rng.standard_normal((n, C)) - 4
    if multiclass:
        Y = np.eye(C, dtype=np.float32)[(z + rng.gumbel(size=z.shape)).argmax(axis=1)]
    else:
        Y = (rng.random((n, C)) < 1 / (1 + np.exp(-z))).astype(np.float32)
    likelihoods = {
        name: 1 / (1 + np.exp(-z - size * rng.standard_normal((n, C))))
        for name, size in noise.items()
    }
    lists = {name: top_k(likelihood, LISTED) for name, likelihood in likelihoods.items()}
    labels = union([listed for listed, _ in lists.values()])
    features = {}
    for name, (listed, best) in lists.items():
        likelihood = np.take_along_axis(likelihoods[name], np.maximum(labels, 0), axis=1)
        features[name] = features_of(likelihood, labels, listed, best, best[:, :1])
    is_listed = np.zeros((n, C + 1), dtype=bool)
    np.put_along_axis(is_listed, labels, True, axis=1)
    is_unlisted = ~is_listed[:, :C]
    unlisted = UnlistedSample(
        np.stack([log_odds_of(values[is_unlisted]) for values in likelihoods.values()], axis=1),
        np.zeros(is_unlisted.sum(), np.float32),
        Y[is_unlisted] > 0,
        np.ones(is_unlisted.sum()),
    )
    held = replace(examples(np.zeros((n, 1)), sparse.csr_array(Y)), multiclass=multiclass)
    candidates = Candidates(labels, features, np.zeros(labels.shape, np.float32))
    rankings = {name: listed for name, (listed, _) in lists.items()}
    return candidates, unlisted, held, rankings


@pytest.mark.parametrize("multiclass", [False, True])
class TestBlend:
    def test_every_part_is_in_it_and_is_measured_alone(self, multiclass):
        noise = {"trees": 0.5, "centroids": 2.0, "embedding": 6.0}
        candidates, unlisted, held, rankings = problem(noise, multiclass)
        ranked_hits = {name: hits(held.Y, ranking) for name, ranking in rankings.items()}
        result = blended(candidates, unlisted, held, 0.5, ranked_hits=ranked_hits)
        assert tuple(result.blend.weights) == NAMES
        assert tuple(result.alone) == NAMES
        for name, ranking in rankings.items():
            assert result.alone[name] == measure_labels(held, ranking[:, :5])

    def test_a_part_without_a_list_is_measured_on_those_of_others(self, multiclass):
        """Few of its best labels are missing in the lists of the others."""
        noise = {"trees": 0.5, "centroids": 2.0, "embedding": 1.0}
        candidates, unlisted, held, rankings = problem(noise, multiclass)
        ranked_hits = {name: hits(held.Y, rankings[name]) for name in ("trees", "centroids")}
        result = blended(candidates, unlisted, held, 0.5, ranked_hits=ranked_hits)
        expected = measure_labels(held, rankings["embedding"][:, :5])
        assert result.alone["embedding"].quality == pytest.approx(expected.quality, abs=0.03)

    def test_labels_compete_where_rows_have_one(self, multiclass):
        candidates, unlisted, held, _ = problem({"trees": 1.0}, multiclass)
        assert blended(candidates, unlisted, held, 0.5).blend.competing == multiclass

    def test_it_is_no_worse_than_the_best_part(self, multiclass):
        """With rows enough to learn from: nothing is left out of the blend."""
        noise = {"trees": 0.5, "centroids": 2.0, "embedding": 6.0}
        for seed in range(3):
            candidates, unlisted, held, _ = problem(noise, multiclass, n=2000, seed=seed)
            result = blended(candidates, unlisted, held, 0.5)
            best = max(measures.quality for measures in result.alone.values())
            assert result.measures.quality >= best - 0.002

    def test_two_that_err_independently_are_better_together(self, multiclass):
        candidates, unlisted, held, _ = problem({"trees": 2.0, "embedding": 2.0}, multiclass)
        result = blended(candidates, unlisted, held, 0.5)
        best = max(measures.quality for measures in result.alone.values())
        assert result.measures.quality > best + 0.02

    def test_a_part_of_noise_does_no_harm(self, multiclass):
        noise = {"trees": 0.5, "embedding": 60.0}
        candidates, unlisted, held, _ = problem(noise, multiclass, n=2000)
        result = blended(candidates, unlisted, held, 0.5)
        assert result.measures.quality >= result.alone["trees"].quality - 0.005
        assert result.alone["embedding"].quality < 0.5 * result.alone["trees"].quality

    def test_rows_are_measured_by_a_blend_of_others(self, multiclass):
        """Scores of pure noise on few rows: a blend that saw the row would find its label more
        often than by chance.
        """
        precisions = []
        shares = []
        for seed in range(20):
            noise = {"trees": 60.0, "embedding": 60.0}
            candidates, unlisted, held, _ = problem(noise, multiclass, n=60, seed=seed)
            result = blended(candidates, unlisted, held, 0.5)
            precisions.append(result.measures.precision[0])
            shares.append(held.Y.sum() / held.n / C)
        assert np.mean(precisions) < 3 * np.mean(shares) + 0.05

    def test_probabilities_are_calibrated(self, multiclass):
        for names in (("trees", "embedding"), ("trees",)):
            candidates, unlisted, held, _ = problem(dict.fromkeys(names, 1.0), multiclass, n=3000)
            assert blended(candidates, unlisted, held, 0.5).calibration_error < 0.04

    def test_the_blend_is_first_among_the_facts(self, multiclass):
        candidates, unlisted, held, _ = problem({"trees": 1.0, "embedding": 1.0}, multiclass)
        result = blended(candidates, unlisted, held, 0.5)
        together, trees, embedding = result.held_out_measures(N)
        assert together == result.measures.of_parts(("trees", "embedding"), N)
        assert trees == result.alone["trees"].of_parts(("trees",), N)
        assert embedding == result.alone["embedding"].of_parts(("embedding",), N)

    def test_labels_that_are_not_listed_have_weights_of_their_own(self, multiclass):
        candidates, unlisted, held, _ = problem({"trees": 1.0, "embedding": 1.0}, multiclass)
        learned = blended(candidates, unlisted, held, 0.5).blend.unlisted
        assert learned != Blend.fixed(("trees", "embedding")).unlisted
        assert np.isfinite(learned).all()
        assert len(learned) == 4

    def test_lengths_of_lists_go_with_the_blend(self, multiclass):
        candidates, unlisted, held, _ = problem({"trees": 1.0, "embedding": 1.0}, multiclass)
        lengths = {"trees": 12, "embedding": 8}
        result = blended(candidates, unlisted, held, 0.5, lengths)
        assert result.blend.list_lengths == lengths


class TestThreshold:
    def test_a_number_is_kept(self):
        candidates, unlisted, held, _ = problem({"trees": 1.0})
        assert blended(candidates, unlisted, held, 0.3).threshold == 0.3

    def test_micro_is_near_the_best_on_new_rows(self):
        candidates, unlisted, held, _ = problem({"trees": 1.0})
        result = blended(candidates, unlisted, held, "micro")
        new, _, truth, _ = problem({"trees": 1.0}, seed=1)
        probabilities = np.zeros((N, C + 1), dtype=np.float32)
        np.put_along_axis(probabilities, new.labels, result.blend.probabilities(new, C), axis=1)
        Y = truth.Y.toarray()

        def f1(threshold):
            return f1_score(Y, threshold <= probabilities[:, :C], average="micro")

        assert isinstance(result.threshold, float)
        assert f1(result.threshold) > 0.98 * max(map(f1, np.linspace(0.05, 0.95, 19)))

    def test_macro_has_one_for_each_label(self):
        candidates, unlisted, held, _ = problem({"trees": 1.0})
        result = blended(candidates, unlisted, held, "macro")
        assert result.threshold.shape == (C,)
        micro = blended(candidates, unlisted, held, "micro").threshold
        assert_allclose(result.threshold.mean(), micro, atol=0.15)
