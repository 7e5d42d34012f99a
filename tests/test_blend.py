"""The blend: features of scores by their definitions, weights as references find them, and
probabilities.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from rembrandt.blend import (
    AS_STATED,
    LOG_SCALE,
    Blend,
    competing_probabilities,
    fit_blend,
    fit_unseen,
)
from rembrandt.candidates import (
    LARGEST_LIKELIHOOD,
    LIKELIHOOD,
    LIST_LENGTH,
    LOG_ODDS,
    SMALLEST_LIKELIHOOD,
    Candidates,
    UnlistedSample,
    all_scores,
    choose_list_lengths,
    collect,
    features_of,
    is_among,
    log_frequencies_of,
    log_odds_of,
    sample_unlisted,
    union,
    unlisted_scores,
)
from rembrandt.errors import StorageError
from rembrandt.linalg.logistic import PENALTY, logistic
from rembrandt.linalg.ranking import rank, top_k
from rembrandt.parts.centroids.settings import CentroidSettings
from rembrandt.parts.protocol import Fitting
from rembrandt.parts.registry import KINDS
from tests.estimators.problems import examples, words
from tests.parts.problems import embedding_settings, small_clusters, tree_settings

NAMES = "trees", "embedding"
N_LABELS = 40


def candidates(n=200, m=12, seed=0, multiclass=False, names=NAMES):
    """Candidates with random likelihoods, some rows with fewer labels, and which of them are
    true.
    """
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.permuted(np.tile(np.arange(N_LABELS), (n, 1)), axis=1)[:, :m], axis=1)
    labels = np.where(np.arange(m) < rng.integers(3, m + 1, (n, 1)), labels, -1)
    truth = rng.standard_normal((n, m))
    features = {}
    for name in names:
        likelihood = 1 / (1 + np.exp(1.5 - truth - rng.standard_normal((n, m))))
        listed, best = rank(labels, np.where(labels < 0, -np.inf, likelihood))
        features[name] = features_of(likelihood, labels, listed[:, :5], best[:, :5], best[:, :1])
    log_frequencies = -4 * rng.random((n, m)).astype(np.float32)
    score = np.where(labels < 0, -np.inf, 2 * truth - 1)
    if multiclass:
        drawn = np.where(np.isinf(score), -np.inf, score + rng.gumbel(size=(n, m)))
        chosen = drawn.argmax(axis=1)
        true = (np.arange(m) == chosen[:, None]) & (
            drawn.max(axis=1, keepdims=True) > rng.gumbel(size=(n, 1))
        )
    else:
        true = rng.random((n, m)) < 1 / (1 + np.exp(-score))
    return Candidates(labels, features, log_frequencies), true


def some_blend(names=NAMES, competing=False):
    """A blend with weights of the kind that are learned."""
    size = len(tuple(names)) + 1
    rng = np.random.default_rng(0)
    form = 0.02 * rng.standard_normal((size, size))
    return Blend(
        weights=dict.fromkeys(names, (0.5, 0.2, -0.3, 1.0)),
        quadratic=tuple(map(tuple, (form + form.T).tolist())),
        frequency=0.1,
        bias=-1.0,
        unlisted=(0.3,) * (size - 1) + (0.1, -2.0),
        competing=competing,
    )


def soft(log_odds):
    """Log-odds that approach four: the bound of what the quadratic form sees."""
    return log_odds / np.sqrt(1 + (log_odds / 4) ** 2)


def penalised(block):
    """The columns whose weights are penalised, for each label of the candidates."""
    is_label = block.is_label
    columns = []
    for features in block.features.values():
        columns.append(features[is_label] / np.array([1, LOG_SCALE, 1, 1]))
    log_odds = [soft(features[is_label][:, 1]) for features in block.features.values()]
    frequencies = block.log_frequencies[is_label] * (len(block.features) > 1)
    u = np.stack([*log_odds, frequencies], axis=1).astype(float) / LOG_SCALE
    products = u[:, :, None] * u[:, None, :]
    lower = np.tril_indices(u.shape[1])
    return np.hstack([*columns, products[:, lower[0], lower[1]], u[:, -1:]])


class TestOnePart:
    def test_frequencies_have_no_weight(self):
        block, true = candidates(names=("trees",))
        blend = fit_blend(block, true)
        assert blend.frequency == 0
        assert all(row[-1] == 0 for row in blend.quadratic)


class TestFeatures:
    def test_each_by_its_definition(self):
        rng = np.random.default_rng(0)
        scores = rng.uniform(-0.2, 1.2, (30, 25))
        labels = np.sort(rng.permuted(np.tile(np.arange(25), (30, 1)), axis=1)[:, :9], axis=1)
        labels[::3, -4:] = -1
        listed, best = top_k(scores, 6)
        likelihood = np.take_along_axis(scores, np.maximum(labels, 0), axis=1)
        features = features_of(likelihood, labels, listed, best, best[:, :1])
        for row, row_labels in enumerate(labels.tolist()):
            for at, label in enumerate(row_labels):
                if label < 0:
                    continue
                p = scores[row, label]
                inside = min(max(p, SMALLEST_LIKELIHOOD), 1 - SMALLEST_LIKELIHOOD)
                reciprocal_rank = 0.0
                if label in listed[row]:
                    reciprocal_rank = 1 / (listed[row].tolist().index(label) + 1)
                log_odds = np.log(inside / (1 - inside))
                expected = [p, log_odds, scores[row].max() - p, reciprocal_rank]
                assert_allclose(features[row, at], expected, atol=1e-5)

    @given(arrays(np.float64, (3, 4), elements=st.floats(-1e30, 1e30)))
    def test_they_are_bounded(self, likelihood):
        labels = np.tile(np.arange(4), (3, 1))
        listed, best = rank(labels, likelihood)
        features = features_of(likelihood, labels, listed, best, best[:, :1])
        assert np.isfinite(features).all()
        largest = max(2 * LARGEST_LIKELIHOOD, -np.log(SMALLEST_LIKELIHOOD) + 1)
        assert np.abs(features[..., :3]).max() <= largest

    def test_log_odds_of_likelihoods(self):
        p = np.array([0.01, 0.5, 0.9])
        assert_allclose(log_odds_of(p), np.log(p / (1 - p)))
        assert_allclose(
            log_odds_of(np.array([-3.0, 0.0, 2.0])),
            log_odds_of(np.array([SMALLEST_LIKELIHOOD] * 2 + [1 - SMALLEST_LIKELIHOOD])),
        )

    def test_log_frequencies_are_finite_and_rise_with_the_counts(self):
        log_frequencies = log_frequencies_of(np.array([0, 1, 50, 100]), 100)
        assert log_frequencies.dtype == np.float32 and np.isfinite(log_frequencies).all()
        assert (np.diff(log_frequencies) > 0).all() and log_frequencies[-1] <= 0
        assert_allclose(log_frequencies[2], np.log(0.5), atol=1e-3)

    @pytest.mark.parametrize("competing", [False, True])
    def test_blocks_of_different_width_are_stacked(self, competing):
        """A row has the same bits whatever the width of its block."""
        first, second = candidates(20, 12)[0], candidates(30, 7, seed=1)[0]
        joined = Candidates.joined([first, second])
        assert joined.labels.shape == (50, 12) and (joined.labels[20:, 7:] == -1).all()
        assert_array_equal(joined.is_label, joined.labels >= 0)
        blend = some_blend(competing=competing)
        for block, rows in ((first, slice(20)), (second, slice(20, None))):
            width = block.labels.shape[1]
            taken = joined.take(np.arange(50)[rows])
            assert_array_equal(blend.log_odds(taken)[:, :width], blend.log_odds(block))
            P = blend.probabilities(taken, N_LABELS)
            assert_array_equal(P[:, :width], blend.probabilities(block, N_LABELS))
            assert not P[:, width:].any()


class TestWeights:
    def test_log_odds_by_their_definition(self):
        block, _ = candidates()
        blend = some_blend()
        z = blend.log_odds(block)
        Q = np.array(blend.quadratic)
        for row in range(5):
            for at in range(block.is_label[row].sum()):
                features = [block.features[name][row, at].astype(float) for name in NAMES]
                f = float(block.log_frequencies[row, at])
                u = np.array([*(soft(values[1]) for values in features), f])
                linear = sum(
                    np.dot(blend.weights[name], values)
                    for name, values in zip(NAMES, features, strict=True)
                )
                expected = blend.bias + linear + blend.frequency * f + u @ Q @ u
                assert z[row, at] == pytest.approx(expected, rel=1e-5, abs=1e-5)

    @pytest.mark.parametrize("names", [("trees",), NAMES], ids="-".join)
    def test_those_of_logistic_regression(self, names):
        block, true = candidates(names=names)
        is_label = block.is_label
        F = penalised(block)
        settings_ = {"C": 1 / PENALTY, "tol": 1e-10, "max_iter": 5000}
        reference = LogisticRegression(**settings_).fit(F, true[is_label])
        for start in (None, Blend.fixed(names)):
            blend = fit_blend(block, true, start=start)
            assert not blend.competing
            z = blend.log_odds(block)[is_label]
            assert_allclose(z, reference.decision_function(F), atol=2e-3)
            assert tuple(blend.weights) == names

    def test_those_of_a_conditional_logit(self):
        """Candidates of a row compete with each other and with none of them; minimised without
        derivatives by hand.
        """
        block, true = candidates(n=120, multiclass=True)
        F = penalised(block)
        is_label = block.is_label
        dense = np.zeros((*is_label.shape, F.shape[1] + 1))
        dense[is_label] = np.hstack([F, np.ones((len(F), 1))])
        share = (true & is_label).any(axis=1).mean()
        assert 0.1 < share < 0.95, "some rows have none, and some have one"

        def loss(w):
            z = np.where(is_label, dense @ w, -np.inf)
            total = logsumexp(np.hstack([z, np.zeros((len(z), 1))]), axis=1).sum()
            return total - z[true & is_label].sum() + PENALTY / 2 * w[:-1] @ w[:-1]

        best = minimize(loss, np.zeros(F.shape[1] + 1), method="BFGS", options={"gtol": 1e-5}).x
        blend = fit_blend(block, true, multiclass=True)
        assert blend.competing
        assert_allclose(blend.log_odds(block)[is_label], (dense @ best)[is_label], atol=5e-3)
        assert is_label.any(axis=1).all()

    def test_before_anything_is_learned_it_is_the_mean_of_the_log_odds(self):
        """The mean likelihood decides where these are equal."""
        block, _ = candidates()
        means = np.mean([block.features[name] for name in NAMES], axis=0)
        expected = means[..., LOG_ODDS] + 0.001 * means[..., LIKELIHOOD]
        log_odds = Blend.fixed(NAMES).log_odds(block)
        is_label = block.is_label
        assert_allclose(log_odds[is_label], expected[is_label], atol=1e-5)

    def test_labels_compete_where_that_describes_the_rows_better(self):
        single = candidates(n=2000, multiclass=True)
        several = candidates(n=2000)
        assert fit_blend(*single).competing
        assert not fit_blend(*several).competing
        fixed = Blend.fixed(NAMES)
        assert not fit_blend(*single, start=fixed).competing
        assert fit_blend(*several, start=replace(fixed, competing=True)).competing

    @pytest.mark.parametrize("multiclass", [False, True])
    def test_the_start_changes_nothing_but_whether_labels_compete(self, multiclass):
        block, true = candidates(multiclass=multiclass)
        blend = fit_blend(block, true, multiclass=multiclass)
        start = some_blend(competing=blend.competing)
        for other in (start, blend):
            again = fit_blend(block, true, multiclass=multiclass, start=other)
            assert_allclose(again.log_odds(block), blend.log_odds(block), atol=2e-3)

    def test_rows_whose_labels_no_part_lists_change_nothing(self):
        block, true = candidates(multiclass=True)
        more = candidates(50, seed=1)[0]
        hidden = replace(
            more,
            labels=np.full_like(more.labels, -1),
            features={name: 0 * features for name, features in more.features.items()},
        )
        wide = Candidates.joined([block, hidden])
        more_true = np.vstack([true, np.zeros((50, 12), dtype=bool)])
        for multiclass in (False, True):
            blend = fit_blend(block, true, multiclass=multiclass)
            wide_blend = fit_blend(wide, more_true, multiclass=multiclass)
            assert_allclose(wide_blend.log_odds(block), blend.log_odds(block), rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("truth", [False, True])
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_where_all_or_none_are_true_they_are_finite(self, truth, multiclass):
        block, true = candidates(n=30)
        blend = fit_blend(block, np.full_like(true, truth), multiclass=multiclass)
        P = blend.probabilities(block, N_LABELS)[block.is_label]
        assert np.isfinite(P).all()
        assert multiclass or not truth or (P > 0.9).all()
        assert truth or blend == Blend.fixed(NAMES, competing=multiclass)  # nothing to learn from

    def test_a_better_part_has_more_influence(self):
        block, true = candidates(n=2000)
        noise = np.random.default_rng(0).random(true.shape)
        listed, best = rank(block.labels, np.where(block.is_label, noise, -np.inf))
        useless = features_of(noise, block.labels, listed[:, :5], best[:, :5], best[:, :1])
        mixed = replace(block, features={"trees": block.features["trees"], "embedding": useless})
        blend = fit_blend(mixed, true)
        z = blend.log_odds(mixed)[mixed.is_label]
        spread = {}
        for name, features in mixed.features.items():
            shuffled = np.random.default_rng(1).permutation(features[mixed.is_label])
            changed = features.copy()
            changed[mixed.is_label] = shuffled
            other = replace(mixed, features=mixed.features | {name: changed})
            spread[name] = np.std(blend.log_odds(other)[mixed.is_label] - z)
        assert spread["embedding"] < 0.2 * spread["trees"]

    @pytest.mark.parametrize("competing", [False, True])
    def test_without_rows_to_learn_from_they_average_the_log_odds(self, competing):
        block, _ = candidates()
        expected = np.mean([block.features[name][..., 1] for name in NAMES], axis=0)
        is_label = block.is_label
        blend = Blend.fixed(NAMES, competing=competing)
        assert_allclose(
            blend.log_odds(block)[is_label], expected[is_label], atol=LARGEST_LIKELIHOOD * 1e-3
        )
        z = [np.array([1.0, -2.0]), np.array([3.0, 0.0])]
        assert_allclose(blend.unlisted_log_odds(z, np.zeros(2)), [2.0, -1.0])
        assert blend.competing == competing

    def test_json_restores_them(self):
        block, true = candidates()
        lengths = {"trees": 20, "embedding": 0}
        for blend in (
            fit_blend(block, true),
            fit_blend(block, true, multiclass=True, list_lengths=lengths),
        ):
            assert Blend.from_json(json.loads(json.dumps(blend.to_json()))) == blend

    @pytest.mark.parametrize("weights", [[1.0] * 3, [1.0] * 5, [], [np.inf] * 4])
    def test_other_weights_are_refused(self, weights):
        facts = Blend.fixed(["trees"]).to_json()
        Blend.from_json(facts)
        with pytest.raises(StorageError):
            Blend.from_json(facts | {"weights": {"trees": weights}})

    @pytest.mark.parametrize(
        "changes",
        [
            {"quadratic": [[0.0] * 2]},
            {"quadratic": [[0.0] * 3] * 2},
            {"quadratic": [[0.0, np.nan], [0.0, 0.0]]},
            {"unlisted": [0.0] * 2},
            {"unlisted": [0.0] * 4},
            {"unlisted": [0.0, 0.0, np.inf]},
            {"frequency": np.nan},
            {"bias": np.inf},
            {"competing": 1},
            {"list_lengths": {"trees": 0}},
            {"list_lengths": {"trees": -1}},
            {"list_lengths": {"trees": 2.5}},
            {"list_lengths": {"embedding": 5}},
            {"unseen": [1.0]},
            {"unseen": [-1.0, 0.0]},
            {"unseen": [1.0, np.nan]},
        ],
        ids=str,
    )
    def test_other_sizes_and_values_are_refused(self, changes):
        with pytest.raises(StorageError):
            Blend.from_json(Blend.fixed(["trees"]).to_json() | changes)

    def test_there_are_no_log_odds_without_a_label(self):
        block, true = candidates()
        blend = fit_blend(block, true)
        assert_array_equal(np.isneginf(blend.log_odds(block)), ~block.is_label)
        P = blend.probabilities(block, N_LABELS)
        assert P.dtype == np.float32
        assert_array_equal(P == 0, ~block.is_label)


class TestUnseen:
    """Labels that a fit knew and had no examples of."""

    @staticmethod
    def matches(n=20_000, slope=1.6, bias=-1.5, seed=0):
        """Likelihoods by names, and which labels are true: fewer than the names say."""
        rng = np.random.default_rng(seed)
        log_odds = rng.normal(-2.0, 1.5, size=n)
        is_true = rng.random(n) < logistic(slope * log_odds + bias)
        return logistic(log_odds).astype(np.float32), is_true

    def test_what_names_say_is_learned(self):
        likelihood, is_true = self.matches()
        weight, bias = fit_unseen(likelihood, is_true)
        assert weight == pytest.approx(1.6, abs=0.15)
        assert bias == pytest.approx(-1.5, abs=0.2)
        blend = replace(Blend.fixed(NAMES), unseen=(weight, bias))
        others, is_true = self.matches(seed=1)
        P = blend.unseen_probabilities(others)
        assert P.dtype == np.float32
        assert P.sum() == pytest.approx(is_true.sum(), rel=0.1)
        assert others.sum() > 3 * is_true.sum()
        assert_array_equal(np.argsort(P, kind="stable"), np.argsort(others, kind="stable"))

    def test_with_few_they_are_as_stated(self):
        likelihood, is_true = self.matches(n=60)
        assert fit_unseen(likelihood, is_true) == AS_STATED
        assert fit_unseen(likelihood[:0], is_true[:0]) == AS_STATED
        blend = Blend.fixed(NAMES)
        assert_array_equal(blend.unseen_probabilities(likelihood), likelihood)

    def test_names_that_are_never_right_are_unlikely(self):
        likelihood, _ = self.matches()
        never = np.zeros(len(likelihood), dtype=bool)
        blend = replace(Blend.fixed(NAMES), unseen=fit_unseen(likelihood, never))
        assert blend.unseen_probabilities(likelihood).max() < 1e-3

    def test_names_that_mislead_keep_no_order(self):
        likelihood, _ = self.matches(n=2000)
        weight, _ = fit_unseen(likelihood, likelihood < np.median(likelihood))
        assert weight == 0.0

    def test_a_blend_of_an_earlier_version_has_none(self):
        facts = Blend.fixed(NAMES).to_json()
        del facts["unseen"]
        assert Blend.from_json(facts).unseen == AS_STATED


class TestProbabilities:
    @settings(deadline=None)
    @given(
        arrays(np.float64, (4, 6), elements=st.floats(-80, 80)),
        arrays(np.bool_, (4, 6)),
        st.integers(6, 100),
    )
    def test_they_are_probabilities(self, z, is_label, n_labels):
        z = np.where(is_label, z, -np.inf)
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            independent = logistic(z)
            competing = competing_probabilities(z, n_labels)
        for P in (independent, competing):
            assert ((P >= 0) & (P <= 1)).all()
        assert not competing[~is_label].any()
        sums = competing.sum(axis=1)
        assert (sums <= 1 + 1e-9).all()
        n_others = n_labels - is_label.sum(axis=1)
        assert_allclose(sums[n_others == 0], 1)
        # Each is at least as likely as an unlisted label is on average.
        average = ((1 - sums) / np.maximum(n_others, 1))[:, None]
        assert (~is_label | (competing >= average - 1e-9)).all()

    @pytest.mark.parametrize("competing", [False, True])
    def test_they_lie_strictly_between_zero_and_one(self, competing):
        block, _ = candidates()
        for bias in (-1e4, 1e4):
            blend = replace(some_blend(competing=competing), bias=bias)
            P = blend.probabilities(block, N_LABELS)[block.is_label]
            assert ((P > 0) & (P < 1)).all()

    def test_with_one_label_they_are_a_softmax_with_none_of_them(self):
        z = np.array([[1.0, -0.5, 2.0]])
        assert_allclose(competing_probabilities(z, 50), np.exp(z) / (1 + np.exp(z).sum()))
        assert_allclose(competing_probabilities(z, 3), np.exp(z) / np.exp(z).sum())
        assert_allclose(logistic(z), 1 / (1 + np.exp(-z)))

    @pytest.mark.parametrize("competing", [False, True])
    def test_places_without_a_label_change_no_other(self, competing):
        rng = np.random.default_rng(0)
        z, is_label = rng.standard_normal((20, 8)), rng.random((20, 8)) < 0.6
        probabilities = (lambda z: competing_probabilities(z, 50)) if competing else logistic
        P = probabilities(np.where(is_label, z, -np.inf))
        for row in range(20):
            alone = probabilities(z[row, is_label[row]][None])
            assert_array_equal(alone[0], P[row, is_label[row]])


@pytest.fixture(scope="module")
def scored():
    """Three parts of 150 labels, and their prepared rows."""
    data = examples(*words(600, 150, 700))
    settings_of = {
        "trees": tree_settings(max_example_node_pairs=4e3, beam=1000),
        "centroids": CentroidSettings(),
        "embedding": embedding_settings(n_components=8, leave_out=0.0),
    }
    with small_clusters(20):
        parts = {
            name: KINDS[name].fit(data, part_settings, Fitting())
            for name, part_settings in settings_of.items()
        }
    assert parts["trees"].trees[0].has_clusters
    X = words(40, 150, 700, seed=1)[0]
    log_frequencies = log_frequencies_of(np.bincount(data.Y.indices, minlength=150), data.n)
    rows = {name: part.prepare(X) for name, part in parts.items()}
    return parts, rows, log_frequencies


class TestCollect:
    @pytest.mark.parametrize("seed", range(3))
    def test_among_keeps_some_labels_of_each_row_in_their_order(self, seed):
        rng = np.random.default_rng(seed)
        labels = np.full((6, 5), -1)
        for row in labels:
            chosen = np.sort(rng.choice(9, rng.integers(0, 6), replace=False))
            row[: len(chosen)] = chosen
        features = rng.standard_normal((6, 5, 4))
        candidates = Candidates(labels, {"a": features}, rng.standard_normal((6, 5)))
        is_wanted = rng.random(9) < 0.5
        kept = candidates.among(is_wanted)
        for row in range(6):
            places = [at for at in range(5) if labels[row, at] >= 0 and is_wanted[labels[row, at]]]
            n = len(places)
            assert kept.labels[row].tolist() == labels[row, places].tolist() + [-1] * (5 - n)
            assert_array_equal(kept.features["a"][row, :n], features[row, places])
            frequencies = candidates.log_frequencies[row, places]
            assert_array_equal(kept.log_frequencies[row, :n], frequencies)

    def test_candidates_are_the_union_of_the_lists(self, scored):
        parts, rows, log_frequencies = scored
        block = collect(parts, rows, log_frequencies)
        lists = [part.top(rows[name], LIST_LENGTH)[0] for name, part in parts.items()]
        assert_array_equal(block.labels, union(lists))
        is_label = block.is_label
        ranks = np.max([features[..., 3] for features in block.features.values()], axis=0)
        assert_array_equal(ranks > 0, is_label)
        expected = log_frequencies[block.labels[is_label]]
        assert_array_equal(block.log_frequencies[is_label], expected)

    def test_features_are_those_of_all_labels(self, scored):
        """They depend on the row and the label alone, not on what other parts list."""
        parts, rows, log_frequencies = scored
        block = collect(parts, rows, log_frequencies)
        row, column = np.nonzero(block.is_label)
        every = np.tile(np.arange(150), (40, 1))
        for name, part in parts.items():
            listed, scores = part.top(rows[name], LIST_LENGTH)
            likelihood = part.likelihood(rows[name], every, part.at(rows[name], every))
            best = part.likelihood(rows[name], listed[:, :1], scores[:, :1])
            expected = features_of(likelihood, every, listed, scores, best)
            features = block.features[name][row, column]
            assert_allclose(features, expected[row, block.labels[row, column]], atol=2e-4)
            alone = collect({name: part}, rows, log_frequencies)
            for i in range(40):
                labels = alone.labels[i][alone.is_label[i]]
                at = np.searchsorted(block.labels[i][block.is_label[i]], labels)
                features = alone.features[name][i, : len(labels)]
                assert_array_equal(features, block.features[name][i, at])

    @pytest.mark.parametrize("size", [1, 7])
    def test_a_row_has_the_same_bits_in_any_block(self, scored, size):
        parts, rows, log_frequencies = scored
        X = words(40, 150, 700, seed=1)[0]
        whole = collect(parts, rows, log_frequencies)
        blocks = []
        for start in range(0, 40, size):
            block_rows = X[start : start + size]
            prepared = {name: part.prepare(block_rows) for name, part in parts.items()}
            blocks.append(collect(parts, prepared, log_frequencies))
        joined = Candidates.joined(blocks)
        assert_array_equal(joined.labels, whole.labels)
        for name in parts:
            features = joined.features[name][whole.is_label]
            assert_array_equal(features, whole.features[name][whole.is_label])

    def test_a_part_that_does_not_retrieve_labels_ranks_what_others_list(self, scored):
        parts, rows, log_frequencies = scored
        silent = parts | {"embedding": replace(parts["embedding"], searches_labels=False)}
        block = collect(silent, rows, log_frequencies)
        others = {name: parts[name] for name in ("trees", "centroids")}
        assert_array_equal(block.labels, collect(others, rows, log_frequencies).labels)
        common = union([part.top(rows[name], LIST_LENGTH)[0] for name, part in others.items()])
        ranked, scores = rank(common, parts["embedding"].at(rows["embedding"], common))
        features = block.features["embedding"]
        for row in range(40):
            reciprocal_ranks = {
                label: 1 / (at + 1)
                for at, label in enumerate(ranked[row, :LIST_LENGTH].tolist())
                if label >= 0
            }
            for at, label in enumerate(block.labels[row].tolist()):
                if label >= 0:
                    assert features[row, at, 3] == pytest.approx(reciprocal_ranks.get(label, 0.0))
                    distance = scores[row, 0] - features[row, at, 0]
                    assert features[row, at, 2] == pytest.approx(distance, abs=1e-5)


class TestListLengths:
    def test_a_precise_part_lists_more(self):
        rng = np.random.default_rng(0)
        rates = {"trees": 0.5 / np.arange(1, 31), "centroids": 0.1 / np.arange(1, 31)}
        rates["embedding"] = np.zeros(30)
        hits_by_rank = {name: rng.random((4000, 30)) < rate for name, rate in rates.items()}
        lengths = choose_list_lengths(hits_by_rank)
        assert sum(lengths.values()) == 3 * LIST_LENGTH
        assert lengths["trees"] > lengths["centroids"] > lengths["embedding"] == 0

    def test_equal_parts_list_equally_many(self):
        hits_by_rank = np.eye(20)[:, ::-1].cumsum(axis=1)[:, ::-1]  # most at the first rank
        lengths = choose_list_lengths({"trees": hits_by_rank, "embedding": hits_by_rank})
        assert lengths == {"trees": LIST_LENGTH, "embedding": LIST_LENGTH}

    @given(arrays(np.bool_, (3, 5, 30)))
    def test_together_they_are_ten_for_each(self, blocks):
        lengths = choose_list_lengths(dict(zip("abc", blocks, strict=True)))
        assert sum(lengths.values()) == 3 * LIST_LENGTH
        assert min(lengths.values()) >= 0 and max(lengths.values()) <= 30

    def test_candidates_are_the_lists_of_these_lengths(self, scored):
        parts, rows, log_frequencies = scored
        lengths = {"trees": 17, "centroids": 4, "embedding": 0}
        block = collect(parts, rows, log_frequencies, lengths)
        lists = [parts[name].top(rows[name], lengths[name])[0] for name in ("trees", "centroids")]
        assert_array_equal(block.labels, union(lists))
        n_ranked = {
            name: (values[..., 3] > 0).sum(axis=1) for name, values in block.features.items()
        }
        assert (n_ranked["trees"] == 17).all() and (n_ranked["centroids"] == 4).all()
        assert (n_ranked["embedding"] == LIST_LENGTH).all(), "it ranks what the others list"

    def test_they_go_with_the_blend(self):
        block, true = candidates()
        lengths = {"trees": 15, "embedding": 5}
        assert fit_blend(block, true, list_lengths=lengths).list_lengths == lengths
        nothing_true = np.zeros_like(true)
        assert fit_blend(block, nothing_true, list_lengths=lengths).list_lengths == lengths


class TestUnlisted:
    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls, scored):
        parts, rows, log_frequencies = scored
        block = collect(parts, rows, log_frequencies)
        rng = np.random.default_rng(0)
        true_labels = np.sort(rng.integers(0, 150, (40, 3)), axis=1)
        true_labels[:, 1:][np.diff(true_labels, axis=1) == 0] = -1
        unlisted = sample_unlisted(parts, rows, block, true_labels, log_frequencies, rng)
        return block, true_labels, unlisted

    def test_all_true_labels_and_some_others_stand_for_all(self, sample):
        block, true_labels, unlisted = sample
        is_unlisted = (true_labels >= 0) & ~is_among(true_labels, block.labels)
        n_true = is_unlisted.sum()
        assert unlisted.true.sum() == n_true > 0
        assert (unlisted.weights[unlisted.true] == 1).all()
        n_others = 40 * 150 - block.is_label.sum() - n_true
        assert unlisted.weights[~unlisted.true].sum() == pytest.approx(n_others)

    def test_each_label_is_drawn(self, scored):
        parts, rows, _ = scored
        of_labels = np.arange(150.0)
        block = collect(parts, rows, of_labels)
        no_labels = np.full((40, 1), -1)
        rng = np.random.default_rng(0)
        unlisted = sample_unlisted(parts, rows, block, no_labels, of_labels, rng, per_row=200)
        is_listed_everywhere = [np.all((block.labels == label).any(axis=1)) for label in range(150)]
        assert set(unlisted.log_frequencies) == set(of_labels[~np.array(is_listed_everywhere)])

    def test_their_log_odds_are_those_of_the_parts(self, scored, sample):
        parts, rows, log_frequencies = scored
        _, _, unlisted = sample
        every = np.stack(all_scores(parts, rows, 40), axis=2)
        of_all = np.dstack([every, np.broadcast_to(log_frequencies, (40, 150))]).reshape(-1, 4)
        pairs = np.hstack([unlisted.log_odds, unlisted.log_frequencies[:, None]])
        for pair in pairs[::20]:
            assert np.abs(of_all - pair).max(axis=1).min() < 1e-3

    def test_scores_of_some_labels_are_those_among_all(self, scored):
        parts, rows, _ = scored
        labels = np.random.default_rng(0).integers(-1, 150, (40, 6))
        some = unlisted_scores(parts, rows, labels)
        every = all_scores(parts, rows, 40)
        for values, of_all in zip(some, every, strict=True):
            expected = np.take_along_axis(of_all, np.maximum(labels, 0), axis=1)
            smallest = log_odds_of(np.zeros(1))[0]
            assert_allclose(values, np.where(labels < 0, smallest, expected), atol=1e-3)

    def test_weights_are_those_of_weighted_logistic_regression(self):
        rng = np.random.default_rng(0)
        log_odds = 2 * rng.standard_normal((3000, 2)) - 4
        log_frequencies = -4 * rng.random(3000)
        true = rng.random(3000) < logistic(log_odds.sum(axis=1) / 2 + 0.5 * log_frequencies + 2)
        weights = np.where(true, 1.0, 15.0)
        sample = UnlistedSample(log_odds, log_frequencies, true, weights)
        block, listed_true = candidates()
        blend = fit_blend(block, listed_true, sample)
        F = np.column_stack([log_odds, log_frequencies]) / LOG_SCALE
        settings_ = {"C": 1 / PENALTY, "tol": 1e-10, "max_iter": 5000}
        reference = LogisticRegression(**settings_).fit(F, true, sample_weight=weights)
        z = blend.unlisted_log_odds(list(log_odds.T), log_frequencies)
        assert_allclose(z, reference.decision_function(F), atol=2e-3)
        assert fit_blend(block, listed_true).unlisted == Blend.fixed(NAMES).unlisted

    @given(
        arrays(np.int64, (3, 5), elements=st.integers(-1, 8)),
        arrays(np.int64, (3, 4), elements=st.integers(-1, 8)),
    )
    def test_labels_among_others_of_their_row(self, labels, others):
        among = is_among(labels, others)
        for row in range(3):
            wanted = set(others[row].tolist()) - {-1}
            assert among[row].tolist() == [label in wanted for label in labels[row].tolist()]


lists_of_labels = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6).flatmap(
    lambda shape: st.lists(
        arrays(np.int64, shape, elements=st.integers(-1, 8)), min_size=1, max_size=3
    )
)


@given(lists_of_labels)
def test_the_union_has_each_label_of_a_row_once(lists):
    labels_of_rows = union(lists)
    wanted = [
        {label for labels in lists for label in labels[row].tolist()} - {-1}
        for row in range(len(lists[0]))
    ]
    assert labels_of_rows.shape == (len(wanted), max(1, *map(len, wanted), 0))
    for row, expected in zip(labels_of_rows.tolist(), wanted, strict=True):
        listed = row[: len(expected)]
        assert listed == sorted(expected) and set(row[len(expected) :]) <= {-1}
