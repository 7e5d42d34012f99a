"""The search: rungs of training rows, measures that are those of a fit, a clock that is kept, choices that repeat."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from rembrandt.search import SEARCHED, Space, arena, rungs, search, space, space_of
from rembrandt.search.arena import Arena
from rembrandt.search.options import options
from rembrandt.search.rungs import rungs_of
from rembrandt.search.space import LowRank, Sparse
from sklearn.base import clone
from tests.estimators.problems import blobs
from tests.scorers.test_trees import words

from rembrandt import RembrandtClassifier, load
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import MemoryEstimateError, SettingsError
from rembrandt.fitting import Labelled, Recipe, Settings, fit_model
from rembrandt.metrics import precision_at_k
from rembrandt.recipe import TreeSettings

USUAL = LowRank(8, 1.0, True, None, 1.0, "ridge", 0.1, 0.5)
PARAMETERS = RembrandtClassifier(sparse_pairs=3e7, sparse_trees=2).get_params(deep=False)


def labelled(n=600, weights=None, seed=0):
    X, Y = words(n, 30, 200, seed=seed)
    return Labelled(X, Y, np.arange(30), multiclass=False, weights=weights)


def base(**more):
    return Recipe(Settings(n_components=20, at_most=True, seed=0), **more)


def small(shares=(0.0, 0.5, 1.0)):
    low_rank = [replace(USUAL, decoder_ridge=penalty) for penalty in (0.1, 0.03, 0.3)]
    low_rank += [replace(USUAL, n_components=3), replace(USUAL, ridge=10.0)]
    return Space(low_rank, [Sparse(1.0), Sparse(1e-4)], (1, 2), 4e3, (3.0,), shares)


@pytest.fixture
def few(monkeypatch):
    """Fewer candidates, for speed."""
    monkeypatch.setattr(space, "MOST", 5)


class TestRungs:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(100, 40_000), st.booleans(), st.integers(0, 5))
    def test_rows_are_cut_once_and_rungs_are_nested(self, n, weighted, seed):
        weights = (np.arange(n) % 5 > 0).astype(float) if weighted else None
        data = Labelled(np.empty((n, 1)), None, None, False, weights)
        found = rungs_of(data, seed)
        assert [rung.work for rung in found] == sorted(rung.work for rung in found)
        for rung in found:
            for fit, held in zip(rung.fit, rung.held, strict=True):
                assert len(np.intersect1d(fit, held)) == 0 and len(held) > 0
                used = np.concatenate([fit, held])
                assert len(np.unique(used)) == len(used) and used.max() < n
                assert weights is None or weights[used].all()
        for low, high in pairwise(found):
            assert np.isin(low.fit[0], high.fit[0]).all() and np.isin(low.held[0], high.held[0]).all()
            assert high.work <= (rungs.GROWTH + 1) * low.work
        everything = n if weights is None else int(weights.sum())
        assert len(found[-1].fit[0]) >= everything - rungs.MOST_HELD - 1
        assert rungs_of(data, seed)[0].fit[0].tolist() == found[0].fit[0].tolist()


class TestSpace:
    def of(self, given, data=None, **preset):
        data = labelled() if data is None else data
        asked = PARAMETERS | {"ridge": 1.0, "kernel_scale": 1.0} | preset | given
        return space_of(data, base(), asked, frozenset(SEARCHED) - given.keys())

    def test_what_is_given_is_the_same_in_all_candidates(self):
        everything = self.of({})
        for name, value in {
            "n_components": 7,
            "ridge": 0.5,
            "normalize": False,
            "kernel": "matern3",
            "kernel_scale": 0.7,
            "decoder": "logistic",
            "decoder_ridge": 0.25,
            "leave_out": 0.25,
        }.items():
            assert len({getattr(part, name) for part in everything.low_rank}) > 1
            found = self.of({name: value})
            assert {getattr(part, name) for part in found.low_rank} == {value}, name
            assert len(found.low_rank) > 1
        assert [part.sparse_cost for part in self.of({"sparse_cost": 0.7}).sparse] == [0.7]
        assert self.of({"sparse_power": 2.5}).powers == (2.5,)
        assert self.of({"sparse_share": 0.4}).shares == (0.4,)
        assert self.of({"sparse_trees": 4}).trees == (4,) and everything.trees == (1, 2)
        assert self.of({"sparse": False}).sparse == [] and self.of({"sparse": "alone"}).low_rank == []
        growable = self.of({}, growable=True)
        assert growable.shares == (0.0,) and {part.decoder for part in growable.low_rank} == {"ridge"}

    def test_nothing_is_named_twice_and_the_usual_comes_first(self):
        found = self.of({}).low_rank
        assert len(set(found)) == len(found) <= space.MOST
        assert found[0] == LowRank(30, 1.0, True, None, 1.0, "ridge", 0.1, 0.5)
        assert self.of({}).low_rank == found

    def test_more_labels_than_a_block_leave_the_sparse_part_alone(self, monkeypatch):
        monkeypatch.setattr(space, "LABELS", 10)
        found = self.of({})
        assert found.shares == (1.0,) and found.low_rank == [] and found.sparse[0].sparse_cost == 3.0
        assert self.of({"sparse": False}).low_rank


class TestMeasures:
    @pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
    @pytest.mark.parametrize(
        "part",
        [
            USUAL,
            replace(USUAL, kernel="gaussian", kernel_scale=0.5),
            replace(USUAL, n_components=3, normalize=False, decoder="transpose", decoder_ridge=0.0, leave_out=0.0),
            replace(USUAL, decoder="logistic", decoder_ridge=0.0, leave_out=0.0),
        ],
    )
    def test_a_candidate_is_measured_as_its_fit_would_be(self, part, share):
        fit, held = labelled(), labelled(300, seed=1)
        recipe = base(n_random_features=40, max_epochs=3)
        wanted = Space([part], [Sparse(1.0)], (1, 2), 4e3, (2.0, 3.0), (0.0, 0.3, 1.0))
        ring = Arena(fit, held, recipe, wanted, fit.X.shape[0])
        ring.try_sparse(Sparse(1.0))
        ring.prepare(part)
        answers = ring.try_low_rank(part)
        for key in [(1.0, 1, 3.0), (1.0, 2, 2.0)]:
            found = ring.measure(answers, key, share)
            tree = TreeSettings(cost=1.0, pairs=4e3, n_trees=key[1], power=key[2])
            labels = fit_model(fit, replace(part.recipe(recipe), tree=tree, blend=share)).top_k(held.X, 5)[0]
            assert_allclose(found.p, [precision_at_k(held.Y, labels, k) for k in (1, 3, 5)], atol=1e-6)
            assert 0 <= found.quality <= 1

    def test_smaller_ranks_are_the_first_columns_of_larger_ones(self):
        large, part = replace(USUAL, n_components=25), replace(USUAL, n_components=15)
        own, shared = (Arena(labelled(), labelled(300, seed=1), base(), small(), 600) for _ in range(2))
        own.prepare(part)
        shared.prepare(large)
        assert shared.is_prepared(part) and not own.is_prepared(large)
        first, second = (ring.measure(ring.try_low_rank(part), None, 0.0) for ring in (own, shared))
        assert_allclose(first.p, second.p, atol=0.03)

    def test_options_keep_to_the_shares(self):
        ring = Arena(labelled(), labelled(200, seed=1), base(), small((0.5,)), 600)
        ring.try_sparse(Sparse(1.0))
        assert not ring.is_prepared(USUAL)
        ring.prepare(USUAL)
        found = options([ring], small((0.5,)), USUAL, [ring.try_low_rank(USUAL)], list(ring.sparse))
        assert {option.share for option in found} == {0.5} and len(found) == 2
        assert all(option.parameters()["sparse_share"] == 0.5 for option in found)


class Clock:
    """A time that passes by rows that are fitted to, and by nothing else."""

    def __init__(self, monkeypatch):
        self.time = 0.0
        for name, cost in (("try_low_rank", 1.0), ("try_sparse", 2.0)):
            monkeypatch.setattr(Arena, name, self._charged(getattr(Arena, name), cost))

    def _charged(self, method, cost):
        def called(ring, part):
            self.time += cost * ring.fit.X.shape[0] * getattr(part, "n_components", 5) / 1000
            return method(ring, part)

        return called

    def __call__(self):
        return self.time


class TestClock:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch):
        monkeypatch.setattr(rungs, "FIRST", 50)
        monkeypatch.setattr(rungs, "FEWEST_HELD", 50)
        monkeypatch.setattr(rungs, "FEW", 10)

    def found(self, monkeypatch, budget, **more):
        clock = Clock(monkeypatch)
        return search(labelled(**more), base(), small(), budget, now=clock), clock.time

    @pytest.mark.parametrize("budget", [0.001, 3, 8, 15, 30, 60])
    def test_the_budget_is_kept(self, monkeypatch, budget):
        found, seconds = self.found(monkeypatch, budget)
        first = [trial["seconds"] for trial in found.trials if trial["rung"] == 1]
        # The first trial of each part is made whatever the time; what follows is known to end in time.
        assert seconds <= max(budget, 2 * max(first))
        assert found.chosen and found.seconds == seconds

    def test_more_time_is_more_rows(self, monkeypatch):
        rows = []
        for budget in (0.001, 8, 30, 1000):
            with monkeypatch.context() as patch:
                found, _ = self.found(patch, budget)
            rows.append(max(trial["rows"] for trial in found.trials))
            chosen = [trial for trial in found.trials if trial["outcome"] == "chosen"]
            assert len(chosen) == 1 and chosen[0]["rows"] == rows[-1]
            assert {name: chosen[0][name] for name in found.chosen} == found.chosen
        assert rows == sorted(rows) and rows[0] < rows[-1] == 500
        assert found.ended == "all rungs were climbed" and found.untried == 0

    def test_every_trial_says_what_became_of_it(self, monkeypatch):
        found, _ = self.found(monkeypatch, 1000)
        number = [sum(trial["rung"] == rung for trial in found.trials) for rung in (1, 2, 3)]
        assert number == [7, 4, 4]  # two sparse parts throughout; five of low rank, then two
        for trial in found.trials:
            assert trial["outcome"] == "kept" or trial["rung"] == 3 or trial["outcome"].startswith("dropped: number")
            assert 0 <= trial["p@5"] <= trial["p@1"] <= 1 and trial["held_out"] <= 100 and trial["seconds"] > 0
        assert {trial["outcome"] for trial in found.trials if trial["rung"] == 3} <= {
            *("chosen", "not chosen", "part of the choice"),
        }

    def test_without_time_for_the_best_the_rung_is_not_begun(self, monkeypatch):
        found, _ = self.found(monkeypatch, 9)
        assert found.ended.startswith("there was no time for")
        assert {trial["rung"] for trial in found.trials} < {1, 2, 3}

    def test_time_that_is_too_short_for_more_rows_goes_to_those_that_waited(self, monkeypatch):
        # A trial on the first rung takes 0.44 s, and the best would take more on the second than is left then.
        clock = Clock(monkeypatch)
        found = search(labelled(), base(), replace(small((0.0,)), sparse=[]), 2.0, now=clock)
        assert found.ended == "there was no time for 166 rows"
        assert len(found.trials) == 4 and found.untried == 1 and clock.time < 2

    def test_memory_that_is_not_there_is_no_end(self, monkeypatch):
        whole = arena.check_memory

        def check(data, recipe):
            if recipe.embedding.n_components > 3:
                raise MemoryEstimateError("too much")
            return whole(data, recipe)

        monkeypatch.setattr(arena, "check_memory", check)
        found = search(labelled(), base(), small((0.0,)), 100.0)
        assert found.chosen["n_components"] == 3
        monkeypatch.setattr(arena, "check_memory", lambda *_: check(None, base()))
        with pytest.raises(MemoryEstimateError, match="too much"):
            search(labelled(), base(), replace(small((0.0,)), sparse=[]), 100.0)


def without_time(trials):
    return [{name: value for name, value in trial.items() if name != "seconds"} for trial in trials]


class TestClassifier:
    def test_the_same_seed_gives_the_same_search_and_model(self, few):
        X, Y = words(400, 30, 200)
        one = RembrandtClassifier(budget=10_000, random_state=0).fit(X, Y)
        two = clone(one)
        assert two.get_params() == one.get_params() and two.budget == 10_000
        two.fit(X, Y)
        assert without_time(two.selection_) == without_time(one.selection_)
        assert_array_equal(two.decision_function(X), one.decision_function(X))
        assert one.blends_ == []

    @pytest.mark.parametrize("more", [{}, {"sparse": False}, {"sparse": "alone"}, {"sparse_share": 0.5}])
    def test_what_was_chosen_gives_the_same_model_without_a_search(self, few, more, tmp_path):
        X, Y = words(400, 30, 200)
        fitted = RembrandtClassifier(budget=10_000, random_state=0, **more).fit(X, Y)
        [chosen] = [trial for trial in fitted.selection_ if trial["outcome"] == "chosen"]
        given = {name: chosen[name] for name in (*SEARCHED, "sparse_pairs") if chosen[name] is not None}
        given |= {"kernel": chosen["kernel"]} if chosen["decoder"] else {}
        again = RembrandtClassifier(**given, random_state=0).fit(X, Y)
        assert again.selection_ == again.blends_ == []
        assert again.settings_ == fitted.settings_
        assert_array_equal(again.decision_function(X), fitted.decision_function(X))
        fitted.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.selection_ == fitted.selection_ and loaded.budget == 10_000
        assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))

    def test_labels_that_low_rank_cannot_tell_apart_bring_the_sparse_part(self, few):
        X, Y = words(600, 60, 300)
        fitted = RembrandtClassifier(budget=10_000, random_state=0, n_components=4).fit(X, Y)
        assert fitted.settings_["blend"] > 0 and fitted.settings_["tree"] is not None

    def test_one_label_a_row_and_few_features(self, few):
        X, y = blobs()
        fitted = RembrandtClassifier(budget=10_000, random_state=0).fit(X, y)
        assert fitted.score(X, y) > 0.95
        assert all(trial["quality"] == trial["p@1"] for trial in fitted.selection_)

    def test_fitting_again_keeps_what_was_chosen(self, few):
        data, _ = labelled_documents(300, n_topics=3, labels_per_topic=4)
        fitted = RembrandtClassifier(budget=10_000, random_state=0, sparse=False).fit_dataset(data)
        before, scores = fitted.settings_, fitted.decision_function(data.texts)
        fitted.refit_dataset(data)
        assert fitted.settings_ == before
        assert_array_equal(fitted.decision_function(data.texts), scores)

    def test_only_training_rows_are_seen(self, few, monkeypatch):
        """Every row that a search looks at is one of those that it was given, and labels change nothing elsewhere."""
        seen = []
        rows = Labelled.rows
        monkeypatch.setattr(Labelled, "rows", lambda data, index: seen.append(index) or rows(data, index))
        data, _ = labelled_documents(300, n_topics=3, labels_per_topic=4)
        found = RembrandtClassifier(budget=10_000, random_state=0, sparse=False).search_dataset(data)
        assert found.trials and seen
        fits, helds = seen[0::2], seen[1::2]
        for fit, held in zip(fits, helds, strict=True):
            assert len(np.intersect1d(fit, held)) == 0
            assert max(fit.max(), held.max()) < data.n_examples

    def test_a_search_fits_nothing(self, few):
        data, _ = labelled_documents(300, n_topics=3, labels_per_topic=4)
        classifier = RembrandtClassifier(budget=10_000, random_state=0, sparse=False)
        told = []
        found = classifier.search_dataset(data, watch=told.append)
        assert not hasattr(classifier, "model_") and not hasattr(classifier, "text_")
        assert told[-1].trials == found.trials and told[0].tried == 0 and told[-1].rung == told[-1].n_rungs
        assert without_time(classifier.fit_dataset(data).selection_) == without_time(found.trials)

    def test_nothing_open_or_too_few_examples_is_no_search(self):
        X, Y = words(80, 10, 60)
        assert RembrandtClassifier(budget=1, random_state=0).fit(X, Y).selection_ == []
        X, Y = words(200, 10, 60)
        settled = {name: getattr(USUAL, name) for name in vars(USUAL)}
        assert RembrandtClassifier(**settled, sparse=False, budget=1, random_state=0).fit(X, Y).selection_ == []

    @pytest.mark.parametrize("budget", [0, -1, "5m", np.inf])
    def test_a_budget_is_a_number_of_seconds(self, budget):
        with pytest.raises(SettingsError, match="budget"):
            RembrandtClassifier(budget=budget).fit(*words(120, 10, 60))

    def test_a_search_needs_a_budget(self):
        data, _ = labelled_documents(120, n_topics=3, labels_per_topic=4)
        with pytest.raises(SettingsError, match="budget"):
            RembrandtClassifier().search_dataset(data)
