"""The search: it keeps to its budget, repeats, and what it chooses is the model that is fitted."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt import RembrandtClassifier, load, memory
from rembrandt.data import Dataset
from rembrandt.data.generated import labelled_documents
from rembrandt.data.splits import draw_rows
from rembrandt.errors import MemoryEstimateError, RembrandtWarning, SettingsError
from rembrandt.fitting import check_memory, fit_model
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings
from rembrandt.scorers.blend import LIST_LENGTH, Blend, Candidates, UnlistedSample
from rembrandt.selection import Choice, choose, halving
from rembrandt.selection.blending import Blended
from rembrandt.selection.rungs import Rung
from rembrandt.selection.trial import CHANCE, FEWEST, Measures, Trial
from tests.estimators.problems import blobs, examples, skewed, words
from tests.scorers.problems import all_scores

# With a budget: four costs of the trees, four penalties of the decoder and three of the regression.
OPEN = Recipe(
    scorers=("trees", "embedding"),
    n_components=8,
    ridge="auto",
    decoder_ridge="auto",
    normalize=True,
    embedding=EmbeddingSettings(kernel_scale=1.0, leave_out=0.5),
    trees=TreeSettings(n_trees=2, pairs=4e3),
)
EMBEDDING = replace(OPEN, scorers=("embedding",))
AUTO = Recipe(
    n_components=20,
    decoder="auto",
    decoder_ridge="auto",
    kernel="auto",
    normalize="auto",
    embedding=EmbeddingSettings(kernel_scale=1.0, n_random_features=200, max_epochs=8),
    trees=OPEN.trees,
)


def texts(n=600, seed=0):
    return examples(*words(n, 30, 200, seed))


def short_rungs(data):
    """Rungs of 55, 166 and 500 rows of 600."""
    fit, held = draw_rows(data.n, 1 / 6, seed=1)
    order = np.random.default_rng(0).permutation(fit)
    sizes = len(fit) // 9, len(fit) // 3, len(fit)
    return [Rung([np.sort(order[:size])], [held], last=size == len(fit)) for size in sizes]


@pytest.mark.parametrize("recipe", [AUTO, EMBEDDING], ids=["auto", "embedding"])
def test_progress_never_goes_back_and_ends_complete(recipe):
    seen = []
    choose(texts(), recipe, report=lambda stage, done, total: seen.append((stage, done, total)))
    steps = [(done, total) for stage, done, total in seen if stage == "choosing settings"]
    assert len({total for _, total in steps}) == 1 and len(steps) > 3
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[0][0] == 0 and steps[-1][0] == steps[-1][1]


class Clock:
    """A clock that advances with the rows that trials fit to, and with nothing else."""

    def __init__(self, monkeypatch):
        self.time = 0.0
        scorer = Trial.scorer

        def timed(split, candidate):
            self.time += split.fit.n * (10 if candidate.scorers == ("trees",) else 5) / 1000
            return scorer(split, candidate)

        monkeypatch.setattr(Trial, "scorer", timed)

    def __call__(self):
        return self.time


def without_time(trials):
    return [{name: value for name, value in one.items() if name != "seconds"} for one in trials]


def of(scorer, trials):
    return [one for one in trials if list(one["scorers"]) == [scorer]]


class TestBudget:
    @pytest.fixture
    def search(self, monkeypatch):
        def searched(budget, recipe=OPEN, **more):
            with monkeypatch.context() as patch:
                clock = Clock(patch)
                data = texts()
                return choose(
                    data, recipe, 1, budget, now=clock, rungs=short_rungs(data), **more
                ), clock.time

        return searched

    @pytest.mark.parametrize("budget", [0.001, 3, 8, 15, 30, 60])
    def test_it_is_kept(self, search, budget):
        found, seconds = search(budget)
        first = [of(name, found.trials)[0]["seconds"] for name in ("trees", "embedding")]
        # The first trial of each scorer is made in any case; later ones are known to end in time.
        assert seconds <= max(budget, sum(first)) + 1e-9
        assert found.seconds == seconds

    def test_more_time_is_more_rows(self, search):
        rows = []
        for budget in (0.001, 8, 30, 1000):
            found, _ = search(budget)
            rows.append(max(one["rows"] for one in found.trials))
            [*_, chosen] = [one for one in found.trials if one["outcome"] == "chosen"]
            assert chosen["rows"] == rows[-1]
        assert rows == sorted(rows) and rows[0] < rows[-1] == 500
        assert found.ended == "all rungs were completed"

    def test_without_time_for_the_best_the_next_rung_is_not_begun(self, search):
        found, _ = search(3)
        assert found.ended == "there was no time for 166 rows"
        assert {one["rung"] for one in found.trials} == {1}

    def test_one_setting_is_varied_at_a_time_and_the_best_value_kept(self, search):
        found, _ = search(1000)
        first = [one for one in found.trials if one["rung"] == 1]
        trees = [one["trees"] for one in of("trees", first)]
        costs = [one["cost"] for one in trees if one["passes"] == 6]
        assert costs in ([1.0, 0.3, 3.0], [1.0, 0.3, 0.1])
        own = of("embedding", first)
        tried = [one for one in own if one["ridge"] == 1.0]
        assert tried == own[: len(tried)] and tried[0]["decoder_ridge"] == 0.1
        assert {one["ridge"] for one in own[len(tried) :]} <= {0.3, 3.0}
        best = max(tried, key=lambda one: one["quality"])
        usual = own[0]["quality"] >= best["quality"] - CHANCE
        assert {one["decoder_ridge"] for one in own[len(tried) :]} == {
            0.1 if usual else best["decoder_ridge"]
        }

    def test_every_trial_says_what_became_of_it(self, search):
        found, _ = search(1000)
        number = {
            name: [sum(one["rung"] == rung for one in of(name, found.trials)) for rung in (1, 2, 3)]
            for name in ("trees", "embedding")
        }
        assert all(
            first >= 3 and rest == [2, 2] for first, *rest in number.values()
        )  # a third goes on, two at least
        for one in found.trials:
            known = one["outcome"] in ("kept", "chosen", "not chosen")
            assert known or one["outcome"].startswith("dropped: number")
            assert (
                one["rung"] == 3 or one["outcome"] == "kept" or one["outcome"].startswith("dropped")
            )
            assert 0 <= one["p@5"] <= one["p@1"] <= 1 and one["held_out"] == 100
        json.dumps(found.trials)

    def test_the_progress_is_reported(self, search):
        told = []
        found, seconds = search(1000, watch=told.append)
        assert [one.seconds for one in told] == sorted(one.seconds for one in told)
        assert {one.rung for one in told} == {1, 2, 3} and {one.n_rungs for one in told} == {3}
        assert [one.ended for one in told[:-1]] == [None] * (len(told) - 1)
        last = told[-1]
        assert (last.ended, last.seconds) == (found.ended, seconds)
        assert last.trials == found.trials and Recipe.from_json(last.best) == found.recipe


class TestMemory:
    def test_candidates_that_do_not_fit_are_passed_over(self, monkeypatch):
        data = texts()
        recipe = replace(EMBEDDING, kernel="auto")
        small = check_memory(data, replace(recipe, kernel=None, ridge=1.0, decoder_ridge=0.1))
        monkeypatch.setattr(memory, "available", lambda: small + 2**20)
        found = choose(data, recipe, 1, 100.0, rungs=short_rungs(data))
        assert found.recipe.kernel is None and {one["kernel"] for one in found.trials} == {None}

    @pytest.mark.parametrize("budget", [None, 100.0])
    @pytest.mark.parametrize("error", [MemoryError("no room"), MemoryEstimateError("no room")])
    def test_a_scorer_for_which_memory_runs_out_is_left_out_with_a_warning(
        self, monkeypatch, budget, error
    ):
        def embed(*_, **__):
            raise error

        monkeypatch.setattr("rembrandt.selection.trial.embed_labels", embed)
        data = texts()
        with pytest.warns(RembrandtWarning, match="no scorer 'embedding'.*: no room"):
            found = choose(
                data,
                replace(OPEN, scorers=("centroids", "embedding")),
                1,
                budget,
                rungs=short_rungs(data),
            )
        assert found.recipe.scorers == ("centroids",)

    @pytest.mark.parametrize("budget", [None, 100.0])
    def test_where_none_fits_the_refusal_is_raised(self, monkeypatch, budget):
        monkeypatch.setattr(memory, "available", lambda: 1000)
        with pytest.raises(MemoryEstimateError, match="GiB is free"):
            choose(texts(), OPEN, 1, budget)


def crossed(n=800, seed=0):
    """Far from the origin the quadrants are classes; near it two classes lie crosswise, as in
    exclusive or.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    near = np.linalg.norm(X, axis=1) < 1.2
    right, up = X[:, 0] > 0, X[:, 1] > 0
    return X, np.where(near, 4 + (right ^ up), 2 * right + up)


ALL = replace(OPEN, scorers=("trees", "centroids", "embedding"))


class TestChoice:
    def test_a_kernel_where_the_classes_lie_crosswise(self):
        found = choose(examples(*crossed()), AUTO, 2)
        assert found.recipe.kernel == "gaussian"
        best = {
            k: max(one["quality"] for one in found.trials if one["kernel"] == k)
            for k in (None, "gaussian")
        }
        assert best["gaussian"] > best[None] + 0.1
        assert {one["decoder"] for one in found.trials} == {"ridge", "discriminant", "logistic"}
        assert {one["normalize"] for one in found.trials} == {False, True}

    def test_no_kernel_where_the_classes_are_linearly_separable(self):
        found = choose(examples(*blobs()), AUTO, 1)
        assert found.recipe.kernel is None and max(one["quality"] for one in found.trials) == 1.0

    @pytest.mark.parametrize("effort", [0, 1, 2])
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_every_scorer_is_in_the_blend_and_measured_alone(self, effort, multiclass):
        X, Y = skewed(multiclass=multiclass)
        found = choose(examples(sparse.csr_array(np.abs(X)), Y), ALL, effort)
        assert [one["scorers"] for one in found.blends] == [
            list(ALL.scorers),
            *([name] for name in ALL.scorers),
        ]
        assert found.recipe.scorers == tuple(found.blend.weights) == ALL.scorers
        together, *alone = (one["quality"] for one in found.blends)
        assert together >= max(alone) - (0 if effort == 2 else CHANCE)

    def test_a_scorer_without_use_stays_and_does_no_harm(self):
        useless = ALL.with_trees(cost=1e-6, threshold=1e9)  # without weights
        found = choose(texts(), useless, 1)
        assert found.recipe.scorers == tuple(found.blend.weights) == ALL.scorers
        together, *alone = (one["quality"] for one in found.blends)
        assert together >= max(alone) - CHANCE

    def test_rare_labels_that_a_small_embedding_cannot_tell_apart_bring_the_trees(self):
        data = examples(*words(600, 60, 300))
        found = choose(data, replace(OPEN, n_components=4), 1)
        assert "trees" in found.recipe.scorers
        model = fit_model(data, found.recipe, found.blend, found.threshold)
        assert list(model.scorers) == list(found.recipe.scorers)

    def test_an_embedding_that_proposes_nothing_has_no_list(self):
        silent = ALL.with_embedding(proposes=False)
        found = choose(texts(), silent, 1)
        assert found.recipe.scorers == ALL.scorers
        assert "embedding" not in found.blend.list_lengths
        n_listing = len(found.blend.list_lengths)  # two, or the best of them alone
        assert sum(found.blend.list_lengths.values()) == n_listing * LIST_LENGTH

    @pytest.mark.parametrize("budget", [None, 1e4])
    def test_the_same_seed_gives_the_same_search(self, budget):
        data = texts(400)
        first, second, other = (
            choose(data, replace(ALL, seed=seed, ridge=1.0), 1, budget) for seed in (0, 0, 1)
        )
        assert without_time(first.trials) == without_time(second.trials)
        assert replace(first, trials=[], seconds=0) == replace(second, trials=[], seconds=0)
        assert without_time(other.trials) != without_time(first.trials)

    def test_weights_follow_their_rows(self):
        w = np.random.default_rng(0).random(400)
        data = texts(400)
        assert choose(replace(data, weights=w), AUTO, 2).trials != choose(data, AUTO, 2).trials

    @pytest.mark.parametrize("threshold", [0.25, "micro", "macro"])
    def test_with_few_examples_the_weights_are_fixed_and_the_settings_usual(self, threshold):
        found = choose(texts(FEWEST - 1), replace(ALL, normalize=True, threshold=threshold))
        expected = Blend.fixed(ALL.scorers, competing=texts().multiclass)
        assert found.trials == found.blends == [] and found.blend == expected
        assert found.recipe.scorers == ALL.scorers and found.recipe.trees.cost == 1.0
        assert (
            found.threshold == (threshold if threshold == 0.25 else 0.5)
            and found.calibration_error is None
        )

    def test_where_nothing_is_open_the_blend_alone_is_learned(self):
        closed = replace(OPEN, ridge=1.0, decoder_ridge=0.3).with_trees(cost=1.0, passes=10)
        found = choose(texts(), closed, 1)
        assert found.trials == [] and replace(found.recipe, scorers=OPEN.scorers) == closed
        assert found.blend != Blend.fixed(found.recipe.scorers) and found.calibration_error < 0.1

    @pytest.mark.parametrize("threshold", ["micro", "macro", 0.2])
    def test_a_choice_can_be_kept_in_a_checkpoint(self, threshold):
        data = examples(*skewed())
        found = choose(data, replace(AUTO, kernel=None, normalize=False, threshold=threshold), 1)
        assert np.shape(found.threshold) == ((30,) if threshold == "macro" else ())
        arrays, facts = found.arrays()
        again = Choice.from_arrays(arrays, json.loads(json.dumps(facts)))
        assert (again.recipe, again.blend, again.blends) == (
            found.recipe,
            found.blend,
            found.blends,
        )
        assert_array_equal(again.threshold, found.threshold)
        assert again.trials == json.loads(json.dumps(found.trials))


class Fitted:
    """A scorer of which only the quality is known."""

    proposes = True

    def __init__(self, quality):
        self.quality = quality


class TestDecision:
    """Choices from qualities that are given, without any fit."""

    @pytest.fixture
    def decide(self, monkeypatch):
        def joined(split, scorers, *_):
            empty = np.zeros((split.held.n, 1, 4), np.float32)
            labels = np.zeros((split.held.n, 1), np.int64)
            listed = Candidates(
                labels, dict.fromkeys(scorers, empty), np.zeros(labels.shape, np.float32)
            )
            nothing = np.empty(0)
            return listed, UnlistedSample(np.empty((0, len(scorers))), nothing, nothing, nothing)

        def no_hits(split, scorers):
            n_ranks = LIST_LENGTH * len(scorers)
            return {name: np.zeros((split.held.n, n_ranks)) for name in scorers}

        def blend_all(candidates, *_):
            perfect = Measures((1.0,) * 3, 1.0)
            alone = dict.fromkeys(candidates.features, perfect)
            return Blended(Blend.fixed(candidates.features), perfect, alone, 0.5, 0.0)

        def decided(quality, budget, recipe=OPEN):
            monkeypatch.setattr(
                Trial, "scorer", lambda split, candidate: Fitted(quality(candidate))
            )
            monkeypatch.setattr(
                Trial, "measure", lambda split, one: Measures((one.quality,) * 3, one.quality)
            )
            monkeypatch.setattr(Trial, "candidates", joined)
            monkeypatch.setattr(Trial, "ranked_hits", no_hits)
            monkeypatch.setattr(halving, "blended", blend_all)
            return choose(texts(), recipe, 2, budget).recipe

        return decided

    @pytest.mark.parametrize("budget", [None, 1e4])
    def test_a_value_that_is_better_by_chance_is_not_preferred_to_the_usual_one(
        self, decide, budget
    ):
        better = {0.1: 0.8, 0.3: 0.8 + CHANCE / 2}

        def quality(one):
            return better.get(one.decoder_ridge, 0.1) if one.scorers == ("embedding",) else 0.5

        assert decide(quality, budget).decoder_ridge == 0.1
        better[0.3] = 0.8 + 2 * CHANCE
        assert decide(quality, budget).decoder_ridge == 0.3

    @pytest.mark.parametrize("budget", [None, 1e4])
    def test_the_best_of_each_scorer_is_kept(self, decide, budget):
        def quality(one):
            return one.trees.cost / 10 if one.scorers == ("trees",) else one.decoder_ridge

        found = decide(quality, budget)
        assert (found.trees.cost, found.decoder_ridge, found.scorers) == (3.0, 1.0, OPEN.scorers)


class TestRows:
    """The first feature of a row is its number, so that what is fitted to and measured on can be
    told apart.
    """

    @pytest.mark.parametrize("budget", [None, 1e4])
    def test_no_row_is_measured_that_was_fitted_to(self, monkeypatch, budget):
        n = 400
        X, Y = words(n, 20, 100)
        X = sparse.csr_array(sparse.hstack([np.arange(1, n + 1)[:, None], X]))
        data, splits = examples(X, Y), []

        def numbers(rows):
            return set(rows[:][:, [0]].toarray().ravel().astype(int).tolist())

        for name in ("scorer", "measure", "ranked_hits", "candidates"):
            original = getattr(Trial, name)

            def spy(split, *rest, original=original):
                splits.append((numbers(split.fit.X), numbers(split.held.X)))
                return original(split, *rest)

            monkeypatch.setattr(Trial, name, spy)
        choose(data, replace(ALL, normalize=False, ridge=1.0), 1, budget)
        assert splits and all(fit.isdisjoint(held) for fit, held in splits)
        assert set().union(*(fit | held for fit, held in splits)) == set(range(1, n + 1))


SEARCHES = {
    "both": {
        "scorers": ("trees", "embedding"),
        "kernel": None,
        "normalize": True,
        "n_components": 8,
    },
    "embedding": {"scorers": "embedding", "kernel": None, "n_components": 8},
    "trees": {"scorers": "trees"},
}


class TestClassifier:
    @pytest.fixture(scope="class", params=[None, 1e4], ids=["short", "budget"])
    @classmethod
    def budget(cls, request):
        return request.param

    @pytest.fixture(scope="class", params=SEARCHES)
    @classmethod
    def fitted(cls, request, budget):
        data = Dataset.from_arrays(*words(400, 30, 200))
        return data, RembrandtClassifier(
            budget=budget, random_state=0, **SEARCHES[request.param]
        ).fit_dataset(data)

    def test_its_recipe_gives_the_same_scorers_without_a_search(self, fitted, tmp_path):
        data, classifier = fitted
        recipe = Recipe.from_json(classifier.settings_)
        params = classifier.get_params(deep=False) | {"budget": None}
        again = RembrandtClassifier(**params).fit_dataset(data, recipe=recipe)
        assert again.selection_ == [] and Recipe.from_json(again.settings_) == recipe
        for name, scorer in classifier.model_.scorers.items():
            own = again.model_.scorers[name]
            assert_array_equal(
                all_scores(own, own.prepare(data.X)), all_scores(scorer, scorer.prepare(data.X))
            )
        classifier.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.selection_ == json.loads(json.dumps(classifier.selection_))
        assert loaded.budget == classifier.budget
        assert_array_equal(loaded.decision_function(data.X), classifier.decision_function(data.X))

    def test_what_was_learned_goes_with_the_model(self, fitted):
        _, classifier = fitted
        together, *alone = (tuple(one["scorers"]) for one in classifier.settings_["blends"])
        scorers = tuple(classifier.model_.scorers)
        assert together == scorers == tuple(classifier.model_.blend.weights)
        assert alone == [(name,) for name in scorers]
        assert 0 <= classifier.settings_["calibration_error"] < 0.2

    def test_a_search_fits_nothing(self):
        data, _ = labelled_documents(300, n_topics=3, labels_per_topic=4)
        given = {
            "scorers": "embedding",
            "kernel": None,
            "n_components": 4,
            "decoder": "ridge",
            "ridge": 1.0,
        }
        classifier = RembrandtClassifier(budget=1e4, random_state=0, **given)
        told = []
        found = classifier.search_dataset(data, watch=told.append)
        assert not hasattr(classifier, "model_") and not hasattr(classifier, "n_features_in_")
        assert told[-1].trials == found.trials and told[-1].rung == told[-1].n_rungs
        assert without_time(classifier.fit_dataset(data).selection_) == without_time(found.trials)

    def test_one_label_a_row_is_measured_by_the_first_label(self):
        X, y = blobs()
        fitted = RembrandtClassifier(random_state=0, kernel=None, n_components=5).fit(X, y)
        assert fitted.score(X, y) > 0.95
        assert all(one["quality"] == one["p@1"] for one in fitted.selection_)

    def test_what_is_predicted_later_changes_no_search(self):
        X, y = crossed(300)
        first, again = (
            RembrandtClassifier(
                embedding=EmbeddingSettings(n_random_features=50, max_epochs=3), random_state=0
            )
            for _ in range(2)
        )
        first.fit(X, y).predict(1e3 * X)
        first.score(X, y[::-1])
        assert again.fit(X, y).selection_ == first.selection_

    def test_a_search_needs_a_budget(self):
        data, _ = labelled_documents(120, n_topics=3, labels_per_topic=4)
        with pytest.raises(SettingsError, match="budget") as refused:
            RembrandtClassifier().search_dataset(data)
        assert refused.value.parameters == ("budget",)
