"""The search: it keeps to its budget, repeats, and what it chooses is the model that is fitted."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rembrandt import RembrandtClassifier, memory
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import MemoryEstimateError, SettingsError
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings
from rembrandt.scorers.blend import Blend
from rembrandt.selection import Choice, choose
from rembrandt.selection.trial import Trial
from tests.estimators.problems import blobs, examples, settled, words

OPEN = Recipe(
    scorers=("trees", "embedding"),
    n_components=8,
    decoder_ridge="auto",
    normalize=True,
    embedding=EmbeddingSettings(kernel_scale=1.0, leave_out=0.5, proposes=True),
    trees=TreeSettings(n_trees=2, pairs=4e3),
)
EMBEDDING = replace(OPEN, scorers=("embedding",))
CLOSED = replace(OPEN, decoder_ridge=0.1).with_trees(cost=1.0)


def texts(n=400, seed=0):
    return examples(*words(n, 30, 200, seed))


def without_time(trials):
    return [{name: value for name, value in one.items() if name != "seconds"} for one in trials]


def same(one, other):
    assert one.recipe == other.recipe and one.blend == other.blend and one.blends == other.blends
    assert_array_equal(one.threshold, other.threshold)
    assert without_time(one.trials) == without_time(other.trials)


class TestBudget:
    @pytest.fixture
    def clock(self, monkeypatch):
        """Time that passes with the rows that trials fit to, and with nothing else."""
        time, scorer = [0.0], Trial.scorer

        def timed(split, candidate):
            time[0] += split.fit.n / 1000
            return scorer(split, candidate)

        monkeypatch.setattr(Trial, "scorer", timed)
        return lambda: time[0]

    @pytest.mark.parametrize("budget", [0.001, 4.0, 8.0])
    def test_it_is_kept(self, clock, budget):
        told = []
        found = choose(texts(), OPEN, budget=budget, now=clock, watch=told.append)
        first = max(one["seconds"] for one in found.trials)
        assert found.seconds == clock() <= max(budget, 2 * first)  # the first trial of each scorer is always made
        assert told[-1].ended == found.ended and told[-1].trials == found.trials
        assert Recipe.from_json(told[-1].best) == found.recipe
        json.dumps(found.trials)


class TestMemory:
    def test_where_none_fits_the_refusal_is_raised(self, monkeypatch):
        monkeypatch.setattr(memory, "available", lambda: 1000)
        with pytest.raises(MemoryEstimateError, match="GiB is free"):
            choose(texts(), EMBEDDING)


class TestChoice:
    @pytest.mark.parametrize("budget", [None, 1e4])
    def test_the_same_seed_gives_the_same_search(self, budget):
        data = texts()
        first, second = (choose(data, OPEN, budget=budget) for _ in range(2))
        same(first, second)

    @pytest.mark.parametrize("threshold", ["micro", "macro", 0.3])
    def test_a_choice_can_be_kept_in_a_checkpoint(self, threshold):
        found = choose(texts(), replace(CLOSED, threshold=threshold))
        arrays, facts = found.arrays()
        same(Choice.from_arrays(arrays, json.loads(json.dumps(facts))), found)
        assert np.shape(found.threshold) == ((30,) if threshold == "macro" else ())
        assert threshold != 0.3 or found.threshold == 0.3

    def test_a_scorer_that_does_not_help_is_left_out(self):
        data = examples(*blobs())  # one scorer is always right
        found = choose(data, CLOSED)
        assert len(found.recipe.scorers) == 1 and tuple(found.blend.weights) == found.recipe.scorers
        assert found.blends[0]["scorers"] == list(found.recipe.scorers)
        assert len(found.blends) == 3

    def test_rare_labels_that_a_small_embedding_cannot_tell_apart_bring_the_trees(self):
        found = choose(examples(*words(600, 60, 300)), replace(CLOSED, n_components=4))
        assert "trees" in found.recipe.scorers

    def test_a_scorer_that_does_not_propose_is_not_alone(self):
        found = choose(texts(), CLOSED.with_embedding(proposes=False))
        assert ["embedding"] not in [one["scorers"] for one in found.blends]

    def test_few_examples_give_usual_settings_and_fixed_weights(self):
        found = choose(texts(99), OPEN)
        assert found.trials == [] and found.blend == Blend.fixed(OPEN.scorers) and found.threshold == 0.5
        assert found.recipe == CLOSED

    def test_nothing_is_tried_where_nothing_is_open(self):
        found = choose(texts(), CLOSED)
        assert found.trials == [] and replace(found.recipe, scorers=CLOSED.scorers) == CLOSED


class TestClassifier:
    def test_a_search_fits_nothing(self):
        data, _ = labelled_documents(300, n_topics=3, labels_per_topic=4)
        classifier = RembrandtClassifier(budget=1e4, random_state=0, scorers="trees")
        told = []
        found = classifier.search_dataset(data, watch=told.append)
        assert not hasattr(classifier, "model_") and not hasattr(classifier, "n_features_in_")
        assert told[-1].trials == found.trials

    def test_too_few_examples_are_no_search(self):
        closed = settled(n_components=5, budget=1)
        assert RembrandtClassifier(**closed).fit(*words(80, 10, 60)).selection_ == []

    def test_a_search_needs_a_budget(self):
        data, _ = labelled_documents(120, n_topics=3, labels_per_topic=4)
        with pytest.raises(SettingsError, match="budget") as refused:
            RembrandtClassifier().search_dataset(data)
        assert refused.value.parameters == ("budget",)
