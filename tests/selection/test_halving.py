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
from rembrandt.errors import MemoryEstimateError, SettingsError
from rembrandt.fitting import check_memory, fit_model
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings
from rembrandt.selection import Choice, choose, trial
from rembrandt.selection import candidates as candidates_module
from rembrandt.selection.candidates import is_open
from rembrandt.selection.halving import CHANCE
from rembrandt.selection.rungs import rungs_of
from rembrandt.selection.trial import Measures, Trial
from tests.estimators.problems import blobs, examples, settled, skewed, words

# Nine candidates of the embedding and three of the trees.
OPEN = Recipe(
    scorers=("trees", "embedding"),
    n_components=8,
    ridge="auto",
    decoder_ridge="auto",
    normalize=True,
    embedding=EmbeddingSettings(kernel_scale=1.0, leave_out=0.5),
    trees=TreeSettings(n_trees=2, pairs=4e3, power=3.0),
)
EMBEDDING = replace(OPEN, scorers=("embedding",), blend=(1.0,))


def texts(n=600, seed=0):
    return examples(*words(n, 30, 200, seed))


def short_rungs(data, seed=0):
    return rungs_of(data, seed, first=50, fewest_held=50, few=10)


@pytest.fixture(autouse=True)
def several_penalties(monkeypatch):
    """Candidates that are quick to fit and differ in a penalty alone."""
    monkeypatch.setattr(candidates_module, "LINEAR_RIDGES", (0.1, 0.03, 0.3))


class Clock:
    """A clock that advances with the rows that trials fit to, and with nothing else."""

    def __init__(self, monkeypatch):
        self.time = 0.0
        scorer, embed = Trial.scorer, Trial.embed

        def timed_scorer(split, candidate):
            self.time += split.fit.n * (10 if candidate.scorers == ("trees",) else 5) / 1000
            return scorer(split, candidate)

        def timed_embed(split, candidate):
            if not split.is_embedded(candidate):
                self.time += split.fit.n * candidate.n_components / 1000
            return embed(split, candidate)

        monkeypatch.setattr(Trial, "scorer", timed_scorer)
        monkeypatch.setattr(Trial, "embed", timed_embed)

    def __call__(self):
        return self.time


def without_time(trials):
    return [{name: value for name, value in one.items() if name != "seconds"} for one in trials]


def chosen_of(trials):
    [chosen] = [one for one in trials if one["outcome"] == "chosen"]
    return chosen


class TestBudget:
    @pytest.fixture
    def search(self, monkeypatch):
        def searched(budget, recipe=OPEN, **more):
            with monkeypatch.context() as patch:
                clock = Clock(patch)
                data = texts()
                return choose(data, recipe, budget, now=clock, rungs=short_rungs(data), **more), clock.time

        return searched

    @pytest.mark.parametrize("budget", [0.001, 3, 8, 15, 30, 60])
    def test_it_is_kept(self, search, budget):
        found, seconds = search(budget)
        first = [one["seconds"] for one in found.trials if one["rung"] == 1]
        # The first trial of each scorer is made in any case; later ones are known to end in time.
        assert seconds <= max(budget, 2 * max(first))
        assert found.seconds == seconds and not is_open(found.recipe)

    def test_more_time_is_more_rows(self, search):
        rows = []
        for budget in (0.001, 8, 30, 1000):
            found, _ = search(budget)
            rows.append(max(one["rows"] for one in found.trials))
            assert chosen_of(found.trials)["rows"] == rows[-1]
        assert rows == sorted(rows) and rows[0] < rows[-1] == 500
        assert found.ended == "all rungs were completed" and found.untried == 0

    def test_without_time_for_the_best_the_next_rung_is_not_begun(self, search):
        found, _ = search(3)
        assert found.ended == "there was no time for 166 rows" and found.untried > 0
        assert {one["rung"] for one in found.trials} == {1}

    def test_time_that_is_too_short_for_more_rows_goes_to_candidates_that_waited(self, search):
        _, one = search(0.001, EMBEDDING)
        found, seconds = search(3 * one, EMBEDDING)
        assert found.ended == "there was no time for 166 rows"
        assert len(found.trials) > 2 and found.untried == 9 - len(found.trials)
        assert 2 * one < seconds <= 3 * one

    def test_every_trial_says_what_became_of_it(self, search):
        found, _ = search(1000)
        tried = [one for one in found.trials if len(one["scorers"]) == 1]
        number = [sum(one["rung"] == rung for one in tried) for rung in (1, 2, 3)]
        assert number == [12, 5, 4]  # three of the trees, then two; nine of the embedding, then three and two
        for one in found.trials:
            assert one["outcome"] == "kept" or one["rung"] == 3 or one["outcome"].startswith("dropped: number")
            assert 0 <= one["p@5"] <= one["p@1"] <= 1 and one["held_out"] <= 100
        assert {one["outcome"] for one in found.trials if one["rung"] == 3} <= {
            "chosen",
            "not chosen",
            "part of the choice",
        }
        json.dumps(found.trials)

    def test_the_progress_is_reported(self, search):
        told = []
        found, seconds = search(1000, watch=told.append)
        assert [one.seconds for one in told] == sorted(one.seconds for one in told)
        assert {one.rung for one in told} == {1, 2, 3} and {one.n_rungs for one in told} == {3}
        assert all(one.tried <= one.candidates for one in told)
        assert [one.ended for one in told[:-1]] == [None] * (len(told) - 1)
        last = told[-1]
        assert (last.ended, last.untried, last.seconds) == (found.ended, 0, seconds)
        assert last.trials == found.trials and Recipe.from_json(last.best) == found.recipe


class TestMemory:
    def test_candidates_that_do_not_fit_are_passed_over(self, monkeypatch):
        data = texts()
        recipe = replace(EMBEDDING, kernel="auto")
        small = check_memory(data, replace(recipe, kernel=None, ridge=1.0, decoder_ridge=0.1))
        monkeypatch.setattr(memory, "available", lambda: small + 2**20)
        found = choose(data, recipe, 100.0, rungs=short_rungs(data))
        assert found.recipe.kernel is None
        assert {one["kernel"] for one in found.trials} == {None} and found.untried > 0

    def test_where_none_fits_the_refusal_is_raised(self, monkeypatch):
        monkeypatch.setattr(memory, "available", lambda: 1000)
        with pytest.raises(MemoryEstimateError, match="GiB is free"):
            choose(texts(), EMBEDDING, 100.0)


def crossed(n=800, seed=0):
    """Far from the origin the quadrants are classes; near it two classes lie crosswise, as in exclusive or."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    near = np.linalg.norm(X, axis=1) < 1.2
    right, up = X[:, 0] > 0, X[:, 1] > 0
    return X, np.where(near, 4 + (right ^ up), 2 * right + up)


AUTO = Recipe(
    n_components=20,
    blend=(1.0,),
    decoder="auto",
    decoder_ridge="auto",
    kernel="auto",
    normalize="auto",
    embedding=EmbeddingSettings(kernel_scale=1.0, n_random_features=200, max_epochs=8),
    trees=OPEN.trees,
)


class TestChoice:
    def test_a_kernel_where_the_classes_lie_crosswise(self):
        found = choose(examples(*crossed()), AUTO)
        assert found.recipe.kernel == "gaussian"
        best = {k: max(one["quality"] for one in found.trials if one["kernel"] == k) for k in (None, "gaussian")}
        assert best["gaussian"] > best[None] + 0.1
        assert {one["decoder"] for one in found.trials} == {"ridge", "transpose", "logistic"}
        assert {one["normalize"] for one in found.trials} == {False, True}

    def test_no_kernel_where_the_classes_are_linearly_separable(self):
        found = choose(examples(*blobs()), AUTO)
        assert found.recipe.kernel is None and max(one["quality"] for one in found.trials) == 1.0

    @pytest.mark.parametrize("budget", [None, 1e4])
    @pytest.mark.parametrize("recipe", [AUTO, OPEN, replace(OPEN, blend=(0.5, 0.5))], ids=["auto", "open", "weights"])
    def test_the_best_is_chosen_and_it_is_one_of_the_trials(self, budget, recipe):
        data = texts(400)
        if budget is None:
            recipe = replace(recipe, ridge=1.0)
        found = choose(data, recipe, budget)
        chosen = chosen_of(found.trials)
        assert Recipe.from_json(chosen) == found.recipe
        last = [one for one in found.trials if one["rung"] == found.trials[-1]["rung"]]
        if recipe.blend == "auto" or len(recipe.scorers) == 1:
            assert chosen["quality"] >= max(one["quality"] for one in last) - CHANCE
        else:
            assert found.recipe.blend == recipe.blend and found.recipe.scorers == recipe.scorers

    @pytest.mark.parametrize("seed", range(3))
    def test_a_variant_of_the_trees_that_is_chosen_is_a_trial_of_its_own(self, seed):
        X, Y = skewed(seed=seed, n=300)
        data = examples(sparse.csr_array(np.abs(X)), sparse.csr_array(Y))
        recipe = replace(OPEN, scorers=("trees",), blend=(1.0,)).with_trees(power="auto", n_trees=3, pairs=2e3)
        found = choose(data, recipe, 1e4)
        assert Recipe.from_json(chosen_of(found.trials)) == found.recipe

    def test_a_scorer_that_does_not_help_is_left_out(self):
        useless = OPEN.with_trees(cost=1e-6)  # weights near zero
        found = choose(texts(), useless, 1e4)
        assert found.recipe.scorers == ("embedding",) and found.recipe.blend == (1.0,)

    def test_rare_labels_that_a_small_embedding_cannot_tell_apart_bring_the_trees(self):
        data = examples(*words(600, 60, 300))
        found = choose(data, replace(OPEN, n_components=4), 1e4)
        assert "trees" in found.recipe.scorers
        assert list(fit_model(data, found.recipe).scorers) == list(found.recipe.scorers)

    @pytest.mark.parametrize("scorers", [("centroids",), ("trees", "centroids", "embedding")], ids="-".join)
    def test_centroids_are_measured_like_the_others(self, scorers):
        recipe = replace(OPEN, scorers=scorers, blend="auto")
        found = choose(texts(400), recipe, 1e4)
        assert ["centroids"] in [list(one["scorers"]) for one in found.trials]
        assert sum(found.recipe.blend) == pytest.approx(1)

    @pytest.mark.parametrize("budget", [None, 1e4])
    def test_the_same_seed_gives_the_same_search(self, budget):
        data = texts(400)
        recipe = replace(OPEN, ridge=1.0)
        first, second, other = (choose(data, replace(recipe, seed=seed), budget) for seed in (0, 0, 1))
        assert without_time(first.trials) == without_time(second.trials) and first.recipe == second.recipe
        assert without_time(other.trials) != without_time(first.trials)

    def test_weights_follow_their_rows(self):
        w = np.random.default_rng(0).random(400)
        data = texts(400)
        assert choose(replace(data, weights=w), AUTO).trials != choose(data, AUTO).trials

    def test_nothing_is_tried_where_nothing_is_open_or_examples_are_few(self):
        closed = replace(EMBEDDING, ridge=1.0, decoder_ridge=0.3).with_trees(cost=1.0)
        assert choose(texts(), closed, 10.0) == Choice(closed)
        few = choose(texts(90), replace(AUTO, normalize=True))
        assert few.trials == [] and few.recipe.normalize is True and not is_open(few.recipe)

    def test_a_choice_can_be_kept_in_a_checkpoint(self):
        found = choose(texts(300), replace(AUTO, kernel=None, normalize=False))
        arrays, facts = found.arrays()
        assert Choice.from_arrays(arrays, json.loads(json.dumps(facts))).recipe == found.recipe


class Fitted:
    """A scorer of which only the quality is known."""

    def __init__(self, quality):
        self.quality = quality

    def variant(self, **changes):
        return self


class TestDecision:
    """Choices from qualities that are given, without any fit."""

    @pytest.fixture
    def decide(self, monkeypatch):
        def decided(quality, blends=0.0, recipe=OPEN):
            monkeypatch.setattr(Trial, "scorer", lambda split, candidate: Fitted(quality(candidate)))
            monkeypatch.setattr(Trial, "embed", lambda split, candidate: None)
            monkeypatch.setattr(Trial, "measure", lambda split, one: Measures((one.quality,) * 3, one.quality))
            monkeypatch.setattr(
                Trial,
                "measure_blends",
                lambda split, scorers, grid: [Measures((blends,) * 3, blends * (min(each) > 0)) for each in grid],
            )
            return choose(texts(), recipe, 1e4).recipe

        return decided

    def test_a_penalty_that_is_better_by_chance_is_not_preferred_to_the_usual_one(self, decide):
        better = {0.1: 0.8, 0.3: 0.8 + CHANCE / 2}

        def quality(one):
            return better.get(one.decoder_ridge, 0.1) if (one.scorers, one.ridge) == (("embedding",), 1.0) else 0.1

        found = decide(quality)
        assert (found.scorers, found.decoder_ridge) == (("embedding",), 0.1)
        better[0.3] = 0.8 + 2 * CHANCE
        assert decide(quality).decoder_ridge == 0.3

    def test_a_scorer_is_not_preferred_by_chance(self, decide):
        recipe = replace(OPEN, ridge=1.0)  # the trees' candidates then have the same settings of the embedding
        found = decide(lambda one: 0.8 if one.scorers == ("embedding",) else 0.8 - CHANCE / 2, recipe=recipe)
        assert found.scorers == ("embedding",)
        found = decide(lambda one: 0.8 if one.scorers == ("trees",) else 0.8 - CHANCE / 2)
        assert found.scorers == ("trees",)

    def test_a_blend_is_chosen_where_it_is_the_best(self, decide):
        assert decide(lambda one: 0.5, blends=0.6).scorers == ("trees", "embedding")


class TestRows:
    """The first feature of a row is its number, so that what is fitted to and measured on can be told apart."""

    @pytest.mark.parametrize("budget", [None, 1e4])
    def test_no_row_is_measured_that_was_fitted_to(self, monkeypatch, budget):
        n = 400
        X, Y = words(n, 20, 100)
        X = sparse.csr_array(sparse.hstack([np.arange(1, n + 1)[:, None], X]))
        data = examples(X, Y)
        fitted, measured = [], []

        def numbers(rows):
            return set(rows[:][:, [0]].toarray().ravel().astype(int).tolist())

        for name in ("embed_labels", "fit_trees", "fit_centroids"):
            original = getattr(trial, name)

            def spy(first, *rest, original=original, **more):
                fitted.append(numbers(getattr(first, "X", first)))
                return original(first, *rest, **more)

            monkeypatch.setattr(trial, name, spy)
        for name in ("measure", "measure_blends"):
            original = getattr(Trial, name)

            def spy_on(split, *rest, original=original):
                measured.append((numbers(split.fit.X), numbers(split.held.X)))
                return original(split, *rest)

            monkeypatch.setattr(Trial, name, spy_on)
        recipe = replace(OPEN, scorers=("trees", "centroids", "embedding"), normalize=False, ridge=1.0)
        choose(data, recipe, budget, rungs=None if budget is None else short_rungs(data))
        splits = {(tuple(sorted(fit)), tuple(sorted(held))) for fit, held in measured}
        assert {tuple(sorted(rows)) for rows in fitted} == {fit for fit, _ in splits}
        assert all(set(fit).isdisjoint(held) for fit, held in splits)
        assert set().union(*fitted, *(held for _, held in splits)) == set(range(1, n + 1))


SEARCHES = {
    "both": {"kernel": None, "normalize": True, "n_components": 8},
    "embedding": {"scorers": "embedding", "kernel": None, "n_components": 8},
    "trees": {"scorers": "trees"},
    "weights": {"scorers": {"trees": 1, "embedding": 1}, "kernel": None, "normalize": True, "n_components": 8},
}


class TestClassifier:
    @pytest.fixture(scope="class", params=[None, 1e4], ids=["short", "budget"])
    @classmethod
    def budget(cls, request):
        return request.param

    @pytest.fixture(scope="class", params=SEARCHES)
    @classmethod
    def fitted(cls, request, budget):
        X, Y = words(400, 30, 200)
        data = Dataset.from_arrays(X, Y)
        given = SEARCHES[request.param] | {"trees": None if "embedding" in str(request.param) else TreeSettings()}
        return data, RembrandtClassifier(budget=budget, random_state=0, **given).fit_dataset(data)

    def test_its_recipe_gives_the_same_model_without_a_search(self, fitted, tmp_path):
        data, classifier = fitted
        recipe = Recipe.from_json(chosen_of(classifier.selection_))
        assert recipe == Recipe.from_json(classifier.settings_)
        again = RembrandtClassifier(**classifier.get_params(deep=False)).fit_dataset(data, recipe=recipe)
        assert again.selection_ == [] and again.settings_ == classifier.settings_
        assert_array_equal(again.decision_function(data.X), classifier.decision_function(data.X))
        classifier.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.selection_ == json.loads(json.dumps(classifier.selection_))
        assert loaded.budget == classifier.budget
        assert_array_equal(loaded.decision_function(data.X), classifier.decision_function(data.X))

    def test_its_settings_as_parameters_give_the_same_model_without_a_search(self, fitted):
        data, classifier = fitted
        recipe = Recipe.from_json(classifier.settings_)
        names = ("n_components", "method", "ridge", "decoder", "decoder_ridge", "kernel", "normalize")
        given = {name: getattr(recipe, name) for name in names}
        scorers = dict(zip(recipe.scorers, recipe.blend, strict=True))
        again = RembrandtClassifier(
            scorers=scorers, embedding=recipe.embedding, trees=recipe.trees, random_state=0, **given
        ).fit_dataset(data)
        assert again.selection_ == [] and again.settings_ == classifier.settings_
        assert_array_equal(again.decision_function(data.X), classifier.decision_function(data.X))

    def test_a_search_fits_nothing(self):
        data, _ = labelled_documents(300, n_topics=3, labels_per_topic=4)
        given = {"scorers": "embedding", "kernel": None, "n_components": 4, "decoder": "ridge", "ridge": 1.0}
        classifier = RembrandtClassifier(budget=1e4, random_state=0, **given)
        told = []
        found = classifier.search_dataset(data, watch=told.append)
        assert not hasattr(classifier, "model_") and not hasattr(classifier, "n_features_in_")
        assert told[-1].trials == found.trials and told[-1].rung == told[-1].n_rungs
        assert without_time(classifier.fit_dataset(data).selection_) == without_time(found.trials)

    def test_one_label_a_row_is_measured_by_the_first_label(self):
        X, y = blobs()
        fitted = RembrandtClassifier(budget=1e4, random_state=0, kernel=None, n_components=5).fit(X, y)
        assert fitted.score(X, y) > 0.95
        assert all(one["quality"] == one["p@1"] for one in fitted.selection_)

    def test_what_is_predicted_later_changes_no_search(self):
        X, y = crossed(300)
        first, again = (
            RembrandtClassifier(embedding=EmbeddingSettings(n_random_features=50, max_epochs=3), random_state=0)
            for _ in range(2)
        )
        first.fit(X, y).predict(1e3 * X)
        first.score(X, y[::-1])
        assert without_time(again.fit(X, y).selection_) == without_time(first.selection_)

    def test_nothing_open_or_too_few_examples_is_no_search(self):
        assert RembrandtClassifier(budget=1, random_state=0).fit(*words(80, 10, 60)).selection_ == []
        closed = settled(ridge=1.0, kernel_scale=1.0, n_components=5, budget=1)
        assert RembrandtClassifier(**closed).fit(*words(200, 10, 60)).selection_ == []

    def test_a_search_needs_a_budget(self):
        data, _ = labelled_documents(120, n_topics=3, labels_per_topic=4)
        with pytest.raises(SettingsError, match="budget") as refused:
            RembrandtClassifier().search_dataset(data)
        assert refused.value.parameters == ("budget",)
