"""The search: nothing is varied unless that is asked for, budgets are kept, and what is chosen is
the model that is fitted.
"""

import importlib
import json
import threading
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt import RembrandtClassifier, load, memory
from rembrandt.blend import Blend
from rembrandt.candidates import LIST_LENGTH, Candidates, UnlistedSample
from rembrandt.data import Dataset
from rembrandt.data.generated import labelled_documents
from rembrandt.data.rows import as_rows
from rembrandt.declarations import ModelSettings, PartSpec
from rembrandt.errors import MemoryEstimateError, RembrandtWarning, SettingsError, StorageError
from rembrandt.fitting import fit_model
from rembrandt.parts.centroids.settings import CentroidSettings
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.registry import KINDS
from rembrandt.parts.trees.fit import _fit_tree as fit_tree
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.search import SearchResult, holdout, search
from rembrandt.search.blending import Blended
from rembrandt.search.holdout import FEWEST_EXAMPLES, MAX_SPLITS
from rembrandt.search.measures import SMALLEST_DIFFERENCE, Measures
from rembrandt.search.trial import Trial
from rembrandt.settings.view_names import VECTORS
from tests.estimators.problems import blobs, examples, skewed, words
from tests.parts.problems import embedding_settings, small_clusters, tree_settings

# The package has a function of the same name.
search_module = importlib.import_module("rembrandt.search.search")

TREES = PartSpec("trees", tree_settings(n_trees=3, max_example_node_pairs=4e3))
CENTROIDS = PartSpec("centroids", CentroidSettings())
EMBEDDING = PartSpec(
    "embedding",
    embedding_settings(
        n_components=8, n_random_features=40, normalize=True, leave_out=0.5, max_epochs=2
    ),
)
ALL = ModelSettings({"trees": TREES, "centroids": CENTROIDS, "embedding": EMBEDDING})
VARIED = ALL.with_parts(["trees", "embedding"])
CHEAP = ALL.with_parts(["centroids"])


def texts(n=600, seed=0):
    return examples(*words(n, 30, 200, seed))


def of_part(name, trials):
    return [trial for trial in trials if trial["part"] == name]


def without_seconds(trials):
    return [{name: value for name, value in trial.items() if name != "seconds"} for trial in trials]


def small_search(data, settings, **more):
    """Search on one split."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holdout, "ENOUGH_HELD_OUT", 1)
        return search(data, settings, **more)


class TestNothingVaried:
    def test_without_time_for_it_the_settings_stay_and_there_are_no_trials(self):
        result = search(texts(300), ALL)
        assert result.settings == ALL
        assert result.trials == []
        assert result.seconds == 0.0
        assert result.ended == "everything was tried"

    def test_each_part_is_fitted_once_to_each_split(self, monkeypatch):
        names = []
        fit = Trial.fit

        def counted(trial, name, *rest):
            names.append(name)
            return fit(trial, name, *rest)

        monkeypatch.setattr(Trial, "fit", counted)
        search(texts(300), ALL)
        assert Counter(names) == dict.fromkeys(ALL.parts, MAX_SPLITS)

    def test_where_memory_runs_out_parts_are_fitted_one_after_the_other(self, monkeypatch):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
        data = texts(300)
        expected = search(data, ALL)
        at_once = []
        fit = Trial.fit

        def fit_in_little_memory(trial, name, *rest):
            if threading.current_thread() is not threading.main_thread():
                at_once.append(name)
                raise MemoryError("no room")
            return fit(trial, name, *rest)

        monkeypatch.setattr(Trial, "fit", fit_in_little_memory)
        assert search(data, ALL) == expected
        assert at_once

    @pytest.mark.parametrize("multiclass", [False, True])
    def test_every_part_is_in_the_blend_and_measured_alone(self, multiclass):
        X, Y = skewed(multiclass=multiclass)
        data = examples(sparse.csr_array(np.abs(X)), Y)
        result = search(data, ALL)
        names = tuple(ALL.parts)
        together, *alone = result.held_out
        assert together.parts == names
        assert [measures.parts for measures in alone] == [(name,) for name in names]
        assert {measures.n_examples for measures in result.held_out} == {MAX_SPLITS * 67}
        assert tuple(result.learned.blend.weights) == names
        assert result.learned.blend != Blend.fixed(names)
        assert together.quality > max(measures.quality for measures in alone) - 0.02
        assert 0 <= result.calibration_error < 0.2

    def test_a_part_without_use_stays_and_does_no_harm(self):
        useless = replace(TREES.settings, cost=1e-6, prune_below=1e9)  # without weights
        result = search(texts(1500), ALL.with_part("trees", useless))
        assert tuple(result.settings.parts) == tuple(result.learned.blend.weights)
        together, *alone = (measures.quality for measures in result.held_out)
        assert together >= max(alone) - 0.01  # a standard error of 750 rows

    def test_a_part_that_finds_no_labels_itself_has_no_list(self):
        silent = replace(EMBEDDING.settings, retrieves_labels=False)
        result = search(texts(), ALL.with_part("embedding", silent))
        lengths = result.learned.blend.list_lengths
        assert lengths.keys() == {"trees", "centroids"}
        assert sum(lengths.values()) == 2 * LIST_LENGTH

    def test_vectors_have_a_part_of_their_own(self):
        data = texts()
        vectors = as_rows(np.random.default_rng(0).standard_normal((data.n, 5)))
        specs = CHEAP.parts | {"vectors": replace(EMBEDDING, view=VECTORS)}
        result = search(replace(data, vectors=(vectors,)), ModelSettings(specs))
        assert [measures.parts for measures in result.held_out[1:]] == [
            ("centroids",),
            ("vectors",),
        ]

    @pytest.mark.parametrize("threshold", [0.25, "micro", "macro"])
    def test_with_few_examples_the_weights_are_fixed(self, threshold):
        data = texts(FEWEST_EXAMPLES - 1)
        settings = replace(ALL, threshold=threshold)
        result = search(data, settings, varies=True)
        assert result.settings == settings
        assert result.trials == []
        assert result.held_out == ()
        assert result.learned.blend == Blend.fixed(ALL.parts, competing=data.multiclass)
        assert result.learned.threshold == (0.25 if threshold == 0.25 else 0.5)
        assert result.calibration_error is None
        assert "too few examples" in result.ended

    def test_a_trial_that_costs_more_than_is_allowed_is_left_out(self):
        data = texts(300)
        everything = of_part("embedding", small_search(data, VARIED, varies=True).trials)
        result = small_search(data, VARIED, varies=True, max_trial_seconds=0.0)
        ranks = [
            {trial["settings"]["n_components"] for trial in trials}
            for trials in (everything, of_part("embedding", result.trials))
        ]
        assert max(ranks[0]) > 8
        assert ranks[1] == {8}
        assert len(of_part("embedding", result.trials)) > 1, "those that cost no more are tried"

    def test_a_budget_alone_decides_where_there_is_one(self):
        result = small_search(texts(300), VARIED, budget=1e6, max_trial_seconds=0.0)
        ranks = {trial["settings"]["n_components"] for trial in of_part("embedding", result.trials)}
        assert max(ranks) > 8

    def test_the_same_seed_gives_the_same_search(self):
        data = texts(300)
        first, second, other = (small_search(data, replace(ALL, seed=seed)) for seed in (0, 0, 1))
        assert first == second
        assert first.held_out != other.held_out

    def test_the_order_of_the_rows_does_not_matter(self):
        """Centroids are sums, so that those of shuffled rows differ by rounding alone."""
        data = texts(1200)
        shuffled = data.take(np.random.default_rng(1).permutation(data.n))
        _, alone = search(data, CHEAP).held_out
        _, shuffled_alone = search(shuffled, CHEAP).held_out
        assert alone.p1 == pytest.approx(shuffled_alone.p1, abs=1e-6)
        assert alone.quality == pytest.approx(shuffled_alone.quality, abs=1e-6)

    def test_weights_of_rows_count(self):
        data = texts()
        weights = np.random.default_rng(0).random(data.n) ** 4
        weighted = small_search(replace(data, weights=weights), ALL)
        assert weighted.held_out != small_search(data, ALL).held_out

    @pytest.mark.parametrize("varies", [False, True])
    def test_progress_never_goes_back_and_ends_complete(self, varies):
        reports = []

        def report(stage, done, total):
            reports.append((stage, done, total))

        small_search(texts(300), VARIED, varies=varies, report=report)
        for stage, n_steps in (("fitting without held-out examples", 2), ("blending", 1)):
            steps = [(done, total) for name, done, total in reports if name == stage]
            assert {total for _, total in steps} == {n_steps}
            assert [done for done, _ in steps] == list(range(n_steps + 1))


class Clock:
    """A clock that advances with the counted work of fits, and with nothing else."""

    def __init__(self, monkeypatch):
        self.time = 0.0
        fit = Trial.fit

        def timed(trial, name, settings, *rest):
            spec = settings.parts[name]
            self.time += 1000 * KINDS[spec.kind].work(spec.settings, trial.fit_data).seconds
            return fit(trial, name, settings, *rest)

        monkeypatch.setattr(Trial, "fit", timed)

    def __call__(self):
        return self.time


class TestBudget:
    @pytest.fixture
    def timed_search(self, monkeypatch):
        def run(budget, settings=VARIED, **more):
            with monkeypatch.context() as patch:
                clock = Clock(patch)
                data = texts(300)
                return search(data, settings, budget=budget, now=clock, **more), clock.time

        return run

    @pytest.fixture
    def seconds_of_fits(self, timed_search):
        """Seconds of the first fits, to all splits."""
        _, seconds = timed_search(1e-9)
        return seconds

    @pytest.mark.parametrize("multiple", [1e-9, 1, 2, 4, 8])
    def test_it_is_kept(self, timed_search, seconds_of_fits, multiple):
        """The first fits are made in any case; later ones are expected to end in time."""
        budget = multiple * seconds_of_fits
        result, seconds = timed_search(budget)
        assert seconds <= max(budget, seconds_of_fits) + 1e-9
        assert result.seconds == seconds

    def test_without_time_for_another_fit_the_settings_stay(self, timed_search):
        result, _ = timed_search(1e-9)
        assert result.settings == VARIED
        assert [trial["outcome"] for trial in result.trials] == ["chosen", "chosen"]
        assert result.ended == "there was no time for more"

    def test_more_time_is_more_fits(self, timed_search, seconds_of_fits):
        n_fits = []
        for multiple in (1e-9, 3, 6, 1000):
            result, _ = timed_search(multiple * seconds_of_fits)
            n_fits.append(sum(trial["splits"] for trial in result.trials))
        assert n_fits == sorted(n_fits)
        assert n_fits[0] < n_fits[1] < n_fits[3]
        assert result.ended == "everything was tried"

    def test_little_time_is_for_one_split_and_much_for_all(self, timed_search, seconds_of_fits):
        result, _ = timed_search(3 * seconds_of_fits)
        assert {trial["splits"] for trial in result.trials} == {1}
        assert {trial["held_out"] for trial in result.trials} == {50}
        result, _ = timed_search(1000 * seconds_of_fits)
        assert {trial["splits"] for trial in result.trials} == {MAX_SPLITS}
        assert {trial["held_out"] for trial in result.trials} == {MAX_SPLITS * 50}

    def test_trials_have_seconds(self, timed_search):
        result, _ = timed_search(1e6)
        for name in VARIED.parts:
            first, *others = of_part(name, result.trials)
            assert "seconds" not in first
            assert all(trial["seconds"] > 0 for trial in others)

    def test_without_a_budget_trials_have_none(self):
        """A model depends on data, settings and seed alone."""
        result = small_search(texts(300), VARIED, varies=True)
        assert len(result.trials) > 2
        assert not any("seconds" in trial for trial in result.trials)
        assert result.seconds == 0.0

    def test_the_progress_is_watched(self, timed_search):
        watched = []

        def watch(progress):
            watched.append(replace(progress, trials=list(progress.trials)))

        result, seconds = timed_search(1e6, watch=watch)
        *running, last = watched
        assert [progress.seconds for progress in watched] == sorted(
            progress.seconds for progress in watched
        )
        assert [len(progress.trials) for progress in running] == list(range(1, len(watched)))
        assert [progress.ended for progress in running] == [None] * len(running)
        assert (last.ended, last.seconds) == (result.ended, seconds)
        assert last.trials == result.trials


class TestTrials:
    @pytest.fixture(scope="class")
    @classmethod
    def result(cls):
        return small_search(texts(), VARIED, varies=True)

    def test_each_says_what_was_tried_and_what_became_of_it(self, result):
        for trial in result.trials:
            assert trial.keys() == {
                "part",
                "words",
                "settings",
                "rows",
                "splits",
                "held_out",
                "p@1",
                "p@3",
                "p@5",
                "quality",
                "outcome",
            }
            kind = KINDS[VARIED.parts[trial["part"]].kind]
            settings = kind.settings_type.from_json(trial["settings"])
            assert trial["words"] == kind.words(settings)
            assert (trial["rows"], trial["held_out"], trial["splits"]) == (500, 100, 1)
            assert 0 <= trial["p@5"] <= trial["p@1"] <= 1
        assert json.loads(json.dumps(result.trials)) == result.trials

    def test_no_settings_are_tried_twice(self, result):
        for name in VARIED.parts:
            tried = [json.dumps(trial["settings"]) for trial in of_part(name, result.trials)]
            assert len(tried) == len(set(tried)) > 2

    def test_one_of_each_part_is_chosen_and_in_the_settings(self, result):
        for name in VARIED.parts:
            chosen = [
                trial for trial in of_part(name, result.trials) if trial["outcome"] == "chosen"
            ]
            assert len(chosen) == 1
            settings = result.settings.parts[name].settings
            assert type(settings).from_json(chosen[0]["settings"]) == settings

    def test_the_first_has_the_settings_of_the_preset(self, result):
        for name, spec in VARIED.parts.items():
            first = of_part(name, result.trials)[0]
            assert type(spec.settings).from_json(first["settings"]) == spec.settings

    def test_a_kernel_where_the_classes_lie_crosswise(self):
        data = examples(*crossed())
        settings = embedding_settings(n_components=2, n_random_features=200, normalize=False)
        result = small_search(
            data, ModelSettings({"embedding": PartSpec("embedding", settings)}), varies=True
        )
        chosen = result.settings.parts["embedding"].settings
        assert chosen.kernel in ("gaussian", "laplacian")
        best = {}
        for trial in result.trials:
            kernel = trial["settings"]["kernel"]
            best[kernel] = max(best.get(kernel, 0), trial["quality"])
        assert best[chosen.kernel] > best[None] + 0.1

    @pytest.mark.parametrize("varies", [False, True])
    def test_no_row_is_measured_that_was_fitted_to(self, monkeypatch, varies):
        """The first feature of a row is its number."""
        n = 400
        X, Y = words(n, 20, 100)
        X = sparse.csr_array(sparse.hstack([np.arange(1, n + 1)[:, None], X]))
        splits = []

        def numbers(rows):
            return set(rows[:][:, [0]].toarray().ravel().astype(int).tolist())

        for name in ("fit", "measure", "ranked_hits", "candidates"):
            original = getattr(Trial, name)

            def spy(trial, *rest, original=original):
                splits.append((numbers(trial.fit_data.X), numbers(trial.held_out.X)))
                return original(trial, *rest)

            monkeypatch.setattr(Trial, name, spy)
        small_search(examples(X, Y), CHEAP, varies=varies)
        assert splits
        for fitted, held_out in splits:
            assert fitted.isdisjoint(held_out)
            assert fitted | held_out == set(range(1, n + 1))


def crossed(n=800, seed=0):
    """Far from the origin the quadrants are classes; near it two classes lie crosswise, as in
    exclusive or.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    is_near = np.linalg.norm(X, axis=1) < 1.2
    is_right = X[:, 0] > 0
    is_up = X[:, 1] > 0
    return X, np.where(is_near, 4 + (is_right ^ is_up), 2 * is_right + is_up)


class StubPart:
    """A part of which only the settings are known."""

    def __init__(self, settings, retrieves_labels=True):
        self.settings = settings
        self.retrieves_labels = retrieves_labels


class TestDecision:
    """Choices from qualities that are given, without any fit."""

    @pytest.fixture
    def decide(self, monkeypatch):
        blended_parts = {}

        def candidates(trial, parts, *_):
            blended_parts.clear()
            blended_parts.update(parts)
            n = trial.held_out.n
            features = dict.fromkeys(parts, np.zeros((n, 1, 4), np.float32))
            labels = np.zeros((n, 1), np.int64)
            listed = Candidates(labels, features, np.zeros(labels.shape, np.float32))
            nothing = np.zeros(0)
            unlisted = UnlistedSample(np.zeros((0, len(parts))), nothing, nothing, nothing)
            return listed, unlisted

        def blended(quality, listed, *_):
            together = sum(quality(part.settings) for part in blended_parts.values())
            blend = Blend.fixed(listed.features)
            return Blended(blend, Measures((0.0, 0.0, 0.0), together), {}, 0.5, 0.0)

        def run(
            quality,
            settings=VARIED,
            multiclass=False,
            fixed=None,
            silent=(),
            refused=lambda settings: False,
        ):
            def fit(_, name, model_settings, *__):
                part_settings = model_settings.parts[name].settings
                if refused(part_settings):
                    raise MemoryError("no room")
                return StubPart(part_settings, name not in silent)

            monkeypatch.setattr(Trial, "fit", fit)
            monkeypatch.setattr(Trial, "ranked_hits", lambda *_: {})
            monkeypatch.setattr(Trial, "candidates", candidates)
            monkeypatch.setattr(search_module, "blended", partial(blended, quality))
            data = replace(texts(), multiclass=multiclass)
            return search(data, settings, varies=True, fixed=fixed or {})

        return run

    def test_among_equals_the_settings_of_the_preset_stay(self, decide):
        result = decide(lambda _: 0.5)
        assert result.settings == VARIED
        outcomes = {trial["outcome"] for trial in result.trials[1:] if trial["part"] == "trees"}
        assert outcomes == {"not chosen"}

    @pytest.mark.parametrize(("factor", "is_chosen"), [(0.5, False), (2.0, True)])
    def test_a_difference_has_to_be_large_enough(self, decide, factor, is_chosen):
        def quality(settings):
            is_special = isinstance(settings, TreeSettings) and settings.cost == 0.3
            return 0.5 + factor * SMALLEST_DIFFERENCE * is_special

        cost = decide(quality).settings.parts["trees"].settings.cost
        assert cost == (0.3 if is_chosen else 1.0)

    def test_the_best_value_of_each_choice_is_where_the_next_begins(self, decide):
        def quality(settings):
            if isinstance(settings, TreeSettings):
                return settings.cost / 10
            return (settings.kernel == "laplacian") + settings.decoder_ridge / 10

        result = decide(quality)
        assert result.settings.parts["trees"].settings.cost == 3.0
        embedding = result.settings.parts["embedding"].settings
        assert (embedding.kernel, embedding.decoder_ridge) == ("laplacian", 1.0)
        tried = [trial["settings"] for trial in of_part("embedding", result.trials)]
        is_chosen = [settings["kernel"] == "laplacian" for settings in tried]
        first = is_chosen.index(True)
        assert all(is_chosen[first:] or [False]), "later choices keep the kernel"
        last = [settings for settings in tried if settings["leave_out"] == 0.0]
        assert {settings["decoder_ridge"] for settings in last} == {1.0}

    @pytest.mark.parametrize("multiclass", [False, True])
    def test_every_choice_is_tried(self, decide, multiclass):
        with small_clusters(5):
            result = decide(lambda _: 0.5, multiclass=multiclass)
        tried = [trial["settings"] for trial in of_part("embedding", result.trials)]
        decoders = {"ridge", "logistic"} if multiclass else {"ridge"}
        assert {settings["decoder"] for settings in tried} == decoders
        assert {settings["kernel"] for settings in tried} == {None, "gaussian", "laplacian"}
        assert {settings["decoder_ridge"] for settings in tried} == {0.1, 0.3, 1.0}
        assert {settings["leave_out"] for settings in tried} == {0.0, 0.5}
        assert {settings["n_components"] for settings in tried} == {8, 30}
        powers = {(settings["label_power"], settings["row_power"]) for settings in tried}
        assert powers == {(0.0, 0.0), (0.5, 0.5)}
        tried = [trial["settings"] for trial in of_part("trees", result.trials)]
        assert {settings["cost"] for settings in tried} == {0.1, 0.3, 1.0, 3.0}
        assert {settings["max_example_node_pairs"] for settings in tried} == {4e3, 600 * 30}

    def test_trees_without_clusters_have_no_number_of_pairs_to_choose(self, decide):
        result = decide(lambda _: 0.5)
        tried = [trial["settings"] for trial in of_part("trees", result.trials)]
        assert {settings["max_example_node_pairs"] for settings in tried} == {4e3}
        assert len(tried) == 4

    @pytest.mark.parametrize(
        ("part", "name"),
        [
            ("embedding", "kernel"),
            ("embedding", "decoder"),
            ("embedding", "decoder_ridge"),
            ("embedding", "n_components"),
            ("embedding", "leave_out"),
            ("embedding", "label_power"),
            ("trees", "cost"),
            ("trees", "max_example_node_pairs"),
        ],
    )
    def test_settings_that_are_fixed_are_not_varied(self, decide, part, name):
        qualities = iter(np.linspace(0, 1, 1000))
        with small_clusters(5):
            result = decide(lambda _: next(qualities), fixed={part: [name]})
        value = getattr(VARIED.parts[part].settings, name)
        tried = of_part(part, result.trials)
        assert {trial["settings"][name] for trial in tried} == {value}
        assert getattr(result.settings.parts[part].settings, name) == value
        assert len(tried) > 1, "others are varied"

    def test_what_is_fixed_in_one_part_is_free_in_another(self, decide):
        result = decide(lambda _: 0.5, fixed={"trees": ["cost", "max_example_node_pairs"]})
        assert len(of_part("trees", result.trials)) == 1
        assert len(of_part("embedding", result.trials)) > 1

    def test_a_growable_embedding_keeps_what_updates_need(self, decide):
        growable = replace(EMBEDDING.settings, growable=True)
        result = decide(lambda _: 0.5, VARIED.with_part("embedding", growable))
        tried = [trial["settings"] for trial in of_part("embedding", result.trials)]
        assert {settings["decoder"] for settings in tried} == {"ridge"}
        assert {settings["kernel"] for settings in tried} == {None}
        assert {settings["label_power"] for settings in tried} == {0.0}
        assert all(settings["growable"] for settings in tried)

    def test_a_decoder_without_a_kernel_and_a_penalty_gets_none(self, decide):
        transpose = replace(EMBEDDING.settings, decoder="transpose")
        result = decide(lambda _: 0.5, VARIED.with_part("embedding", transpose))
        tried = [trial["settings"] for trial in of_part("embedding", result.trials)]
        assert {(settings["decoder"], settings["kernel"]) for settings in tried} == {
            ("transpose", None)
        }
        assert {settings["n_components"] for settings in tried} == {8, 30}

    def test_a_part_that_finds_no_labels_itself_is_measured_in_the_blend(self, decide):
        def quality(settings):
            return 0.5 + (getattr(settings, "leave_out", None) == 0.0)

        result = decide(quality, silent=("embedding",))
        assert result.settings.parts["embedding"].settings.leave_out == 0.0

    def test_a_part_begins_with_the_measures_of_the_model_so_far(self, decide):
        def quality(settings):
            return getattr(settings, "cost", 0.0)

        result = decide(quality)
        begun = of_part("embedding", result.trials)[0]
        chosen = [
            trial for trial in of_part("trees", result.trials) if trial["outcome"] == "chosen"
        ]
        assert begun["quality"] == chosen[-1]["quality"] == 3.0

    def test_settings_without_memory_are_passed_over(self, decide):
        def has_kernel(settings):
            return getattr(settings, "kernel", None) is not None

        result = decide(lambda _: 0.5, refused=has_kernel)
        tried = [trial["settings"] for trial in of_part("embedding", result.trials)]
        assert {settings["kernel"] for settings in tried} == {None}
        assert len(tried) > 1


class TestMemory:
    @pytest.mark.parametrize("budget", [None, 1e4])
    @pytest.mark.parametrize("error", [MemoryError("no room"), MemoryEstimateError("no room")])
    def test_a_part_for_which_it_runs_out_is_left_out_with_a_warning(
        self, monkeypatch, budget, error
    ):
        def fit(*_):
            raise error

        monkeypatch.setattr(type(KINDS["embedding"]), "fit", fit)
        with pytest.warns(RembrandtWarning, match="no part 'embedding'.*: no room"):
            result = search(texts(300), ALL.with_parts(["centroids", "embedding"]), budget=budget)
        assert list(result.settings.parts) == ["centroids"]
        assert list(result.learned.blend.weights) == ["centroids"]

    def test_one_that_fails_on_a_later_split_is_left_out_everywhere(self, monkeypatch):
        fits = []
        fit = type(KINDS["embedding"]).fit

        def others_fail(kind, *rest):
            fits.append(1)
            if len(fits) >= 2:
                raise MemoryError("no room")
            return fit(kind, *rest)

        monkeypatch.setattr(type(KINDS["embedding"]), "fit", others_fail)
        with pytest.warns(RembrandtWarning, match="no part 'embedding'"):
            result = search(texts(300), ALL.with_parts(["centroids", "embedding"]))
        assert list(result.settings.parts) == ["centroids"]

    @pytest.mark.parametrize("budget", [None, 1e4])
    def test_where_none_fits_the_refusal_is_raised(self, monkeypatch, budget):
        monkeypatch.setattr(memory, "available", lambda: 1000)
        with pytest.raises(MemoryEstimateError, match="GiB is free"):
            search(texts(), VARIED, budget=budget)


class TestKeptTrees:
    @pytest.fixture(autouse=True)
    def nearly_all(self, monkeypatch):
        monkeypatch.setattr(search_module, "NEARLY_ALL", 0.5)

    def test_trees_of_nearly_all_examples_are_the_first_of_the_model(self):
        data = texts()
        with small_clusters(5):
            result = small_search(data, ALL)
            model = fit_model(data, result.settings, result.learned)
        assert result.learned.begun.keys() == {"trees"}
        kept = result.learned.begun["trees"].trees
        assert len(kept) == 2
        trees = model.parts["trees"].trees
        assert trees[:2] == kept
        assert len(trees) == 3

    def test_no_tree_is_fitted_twice(self, monkeypatch):
        numbers = []

        def counted(data, settings, number, *others):
            numbers.append(number)
            return fit_tree(data, settings, number, *others)

        monkeypatch.setattr("rembrandt.parts.trees.fit._fit_tree", counted)
        data = texts()
        with small_clusters(5):
            five = ALL.with_part("trees", replace(TREES.settings, n_trees=5))
            result = small_search(data, five)
            assert sorted(numbers) == [0, 1, 2]
            fit_model(data, result.settings, result.learned)
        assert sorted(numbers) == [0, 1, 2, 3, 4]

    def test_one_tree_at_least_sees_all_examples(self):
        with small_clusters(5):
            two = ALL.with_part("trees", replace(TREES.settings, n_trees=2))
            assert len(small_search(texts(), two).learned.begun["trees"].trees) == 1
            one = ALL.with_part("trees", replace(TREES.settings, n_trees=1))
            assert small_search(texts(), one).learned.begun == {}

    def test_where_there_are_no_clusters_none_is_kept(self):
        assert small_search(texts(), ALL).learned.begun == {}

    def test_of_several_splits_none_is_kept(self):
        with small_clusters(5):
            assert search(texts(), ALL).learned.begun == {}

    def test_of_few_examples_none_is_kept(self, monkeypatch):
        monkeypatch.setattr(search_module, "NEARLY_ALL", 0.9)
        with small_clusters(5):
            assert small_search(texts(), ALL).learned.begun == {}


class TestCheckpoint:
    def round_trip(self, result):
        arrays, facts = result.arrays()
        return SearchResult.from_arrays(arrays, json.loads(json.dumps(facts)))

    @pytest.mark.parametrize("threshold", ["micro", "macro", 0.2])
    def test_there_and_back(self, threshold):
        data = examples(*skewed())
        settings = replace(VARIED, threshold=threshold)
        result = small_search(data, settings, varies=True)
        n_labels = (30,) if threshold == "macro" else ()
        assert np.shape(result.learned.threshold) == n_labels
        again = self.round_trip(result)
        assert_array_equal(again.learned.threshold, result.learned.threshold)
        assert replace(again.learned, threshold=0.0) == replace(result.learned, threshold=0.0)
        assert replace(again, learned=None) == replace(result, learned=None)

    def test_without_a_setting_it_is_refused(self):
        arrays, facts = small_search(texts(), ALL).arrays()
        facts = json.loads(json.dumps(facts))
        del facts["settings"]["parts"]["embedding"]["settings"]["n_components"]
        with pytest.raises(StorageError, match="settings of the part 'embedding' are missing"):
            SearchResult.from_arrays(arrays, facts)

    def test_kept_trees_come_back(self, monkeypatch):
        monkeypatch.setattr(search_module, "NEARLY_ALL", 0.5)
        with small_clusters(5):
            result = small_search(texts(), ALL)
        again = self.round_trip(result)
        arrays, facts = again.learned.begun["trees"].arrays()
        expected_arrays, expected_facts = result.learned.begun["trees"].arrays()
        assert facts == expected_facts
        assert arrays.keys() == expected_arrays.keys()
        for name, array in arrays.items():
            assert_array_equal(array, expected_arrays[name], strict=True)

    def test_with_few_examples(self):
        result = search(texts(50), ALL)
        assert self.round_trip(result) == result


PARAMETERS = {
    "both": {"parts": ("trees", "embedding"), "kernel": None, "n_components": 8},
    "embedding": {"parts": "embedding", "kernel": None, "n_components": 8},
    "trees": {"parts": "trees"},
}


class TestClassifier:
    @pytest.mark.parametrize("preset", ["fast", "balanced"])
    def test_without_a_budget_presets_vary_nothing(self, preset):
        X, y = words(300, 30, 200)
        classifier = RembrandtClassifier(preset=preset, random_state=0).fit(X, y)
        assert classifier.selection_ == []
        assert len(classifier.facts_.held_out) > 1

    def test_the_preset_best_varies_settings(self):
        X, y = words(300, 30, 200)
        classifier = RembrandtClassifier(preset="best", parts="trees", random_state=0).fit(X, y)
        costs = {trial["settings"]["cost"] for trial in classifier.selection_}
        assert costs == {0.1, 0.3, 1.0, 3.0}

    def test_what_a_user_sets_is_not_varied(self):
        X, y = words(300, 30, 200)
        classifier = RembrandtClassifier(
            preset="best",
            parts=("trees", "embedding"),
            kernel=None,
            n_components=8,
            embedding=EmbeddingSettings(leave_out=0.25),
            trees=TreeSettings(cost=0.7),
            random_state=0,
        ).fit(X, y)
        trees = [trial["settings"] for trial in of_part("trees", classifier.selection_)]
        assert {settings["cost"] for settings in trees} == {0.7}
        tried = [trial["settings"] for trial in of_part("embedding", classifier.selection_)]
        assert {settings["kernel"] for settings in tried} == {None}
        assert {settings["n_components"] for settings in tried} == {8}
        assert {settings["leave_out"] for settings in tried} == {0.25}
        assert len({settings["decoder_ridge"] for settings in tried}) > 1

    def test_with_a_budget_any_preset_varies_settings(self):
        X, y = words(300, 30, 200)
        classifier = RembrandtClassifier(
            preset="fast", parts="trees", budget=1e4, random_state=0
        ).fit(X, y)
        assert len(classifier.selection_) == 4

    @pytest.fixture(scope="class", params=[None, 1e4], ids=["short", "budget"])
    @classmethod
    def budget(cls, request):
        return request.param

    @pytest.fixture(scope="class", params=PARAMETERS)
    @classmethod
    def fitted(cls, request, budget):
        data = Dataset.from_arrays(*words(400, 30, 200))
        params = PARAMETERS[request.param]
        return data, RembrandtClassifier(budget=budget, random_state=0, **params).fit_dataset(data)

    def test_its_settings_give_the_same_model_without_a_search(self, fitted):
        data, classifier = fitted
        settings = ModelSettings.from_json(classifier.settings_)
        params = classifier.get_params(deep=False)
        again = RembrandtClassifier(**params).fit_dataset(data, settings=settings)
        assert again.selection_ == [], "settings that are given are not searched"
        assert ModelSettings.from_json(again.settings_) == settings
        for name, part in classifier.model_.parts.items():
            arrays, facts = again.model_.parts[name].arrays()
            expected_arrays, expected_facts = part.arrays()
            assert facts == expected_facts
            for array_name, array in arrays.items():
                assert_array_equal(array, expected_arrays[array_name])

    def test_its_trials_are_saved_with_it(self, fitted, tmp_path):
        data, classifier = fitted
        classifier.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.selection_ == json.loads(json.dumps(classifier.selection_))
        assert loaded.budget == classifier.budget
        assert_array_equal(loaded.decision_function(data.X), classifier.decision_function(data.X))

    def test_what_was_learned_goes_with_the_model(self, fitted):
        _, classifier = fitted
        together, *alone = (measures.parts for measures in classifier.facts_.held_out)
        names = tuple(classifier.model_.parts)
        assert together == names == tuple(classifier.model_.blend.weights)
        assert alone == [(name,) for name in names]
        assert 0 <= classifier.facts_.calibration_error < 0.2

    def test_a_search_fits_nothing(self):
        data, _ = labelled_documents(300, n_topics=3, labels_per_topic=4)
        classifier = RembrandtClassifier(
            parts="embedding",
            kernel=None,
            n_components=4,
            decoder="ridge",
            budget=1e4,
            random_state=0,
        )
        watched = []
        result = classifier.search_dataset(data, watch=watched.append)
        assert not hasattr(classifier, "model_")
        assert not hasattr(classifier, "n_features_in_")
        assert watched[-1].trials == result.trials
        trials = classifier.fit_dataset(data).selection_
        assert without_seconds(trials) == without_seconds(result.trials)

    def test_one_label_a_row_is_measured_by_the_first_label(self):
        X, y = blobs()
        classifier = RembrandtClassifier(
            preset="best", parts="embedding", kernel=None, n_components=5, random_state=0
        ).fit(X, y)
        assert classifier.score(X, y) > 0.95
        assert classifier.selection_
        assert all(trial["quality"] == trial["p@1"] for trial in classifier.selection_)

    def test_what_is_predicted_later_changes_no_search(self):
        X, y = blobs()
        params = {"preset": "best", "parts": "embedding", "kernel": None, "random_state": 0}
        first = RembrandtClassifier(**params).fit(X, y)
        first.predict(1e3 * X)
        first.score(X, y[::-1])
        assert RembrandtClassifier(**params).fit(X, y).selection_ == first.selection_

    def test_a_search_needs_a_budget(self):
        data, _ = labelled_documents(120, n_topics=3, labels_per_topic=4)
        with pytest.raises(SettingsError, match="budget") as refused:
            RembrandtClassifier().search_dataset(data)
        assert refused.value.parameters == ("budget",)
