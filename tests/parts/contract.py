"""What every kind of part and every fitted part must do; a subclass names the kind and the
settings.
"""

import json
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.data.rows import as_rows
from rembrandt.declarations import preset_settings
from rembrandt.engines.backend import CPU
from rembrandt.memory import Shape, estimate
from rembrandt.metrics import precision_at_k, top_k
from rembrandt.parts.allowance import ALLOWANCES
from rembrandt.parts.protocol import Fitting, Part, PartKind, Update
from rembrandt.parts.registry import KINDS
from rembrandt.settings import PRESET_NAMES, UNSET, PartSettings
from tests.devices import PLACES
from tests.estimators.problems import examples, words
from tests.parts.problems import all_likelihoods, all_scores

LABELS = 30
FEATURES = 120
# Labels without an example.
ABSENT = [0, 1, 2, 27, 28, 29]
# Settings whose "auto" each regression decides by itself, from the number of its columns.
DECIDED_BY_THE_ENGINE = {"solver"}


def problem(seed=0, n=300):
    """Rows of words with one label each; some labels have no example."""
    X, Y = words(n, LABELS - len(ABSENT), FEATURES, seed)
    wide = sparse.csr_array((n, LABELS), dtype=np.float32).tolil()
    wide[:, [label for label in range(LABELS) if label not in ABSENT]] = Y
    return X, sparse.csr_array(wide.tocsr())


def dense_examples(n=300):
    """The same rows, as dense features."""
    X, Y = problem(n=n)
    return examples(X.toarray(), Y)


class KindContract:
    """Tests of a kind of part: what it says before a fit, and what a fit and an update give."""

    name: ClassVar[str]
    # P@1 on new rows.
    least_precision = 0.7
    # Settings that are found out by the fit.
    decided_by_the_fit = DECIDED_BY_THE_ENGINE
    n_features = FEATURES

    @classmethod
    def examples(cls, n=300):
        return examples(*problem(n=n))

    @classmethod
    def forms(cls):
        """Functions from a number of rows to examples of one form."""
        return [cls.examples, dense_examples]

    @classmethod
    def view(cls, X):
        """What the view of the part holds for these rows."""
        return X

    @classmethod
    def with_view(cls, data, X):
        """Return examples of these rows with all that the part reads."""
        return data

    @classmethod
    def user(cls):
        """The settings that a user has to give."""
        return KINDS[cls.name].settings_type()

    @pytest.fixture(scope="class")
    @classmethod
    def kind(cls) -> PartKind:
        return KINDS[cls.name]

    @pytest.fixture(scope="class")
    @classmethod
    def data(cls):
        return cls.examples()

    @pytest.fixture(scope="class")
    @classmethod
    def settings(cls, kind, data):
        return cls.resolved(kind, data, "fast")

    @pytest.fixture(scope="class")
    @classmethod
    def part(cls, kind, data, settings) -> Part:
        return kind.fit(data, settings, Fitting())

    @classmethod
    def resolved(cls, kind, data, preset, is_alone=True, user=None) -> Any:
        """Return the settings of a preset, completed from the data."""
        settings = preset_settings(cls.name, preset, user or cls.user())
        return kind.resolve(settings, data, ALLOWANCES[preset], is_alone)

    def test_names_and_types(self, kind):
        assert kind.name == self.name
        assert kind.title
        assert issubclass(kind.part_type, Part)
        assert issubclass(kind.settings_type, PartSettings)
        assert tuple(kind.presets) == PRESET_NAMES
        assert all(type(settings) is kind.settings_type for settings in kind.presets.values())

    @pytest.mark.parametrize("multiclass", [False, True])
    @pytest.mark.parametrize("is_alone", [False, True])
    @pytest.mark.parametrize("preset", PRESET_NAMES)
    def test_resolved_settings_are_complete(self, kind, preset, is_alone, multiclass):
        for form in self.forms():
            data = replace(form(), multiclass=multiclass)
            settings = self.resolved(kind, data, preset, is_alone)
            assert type(settings) is kind.settings_type
            settings.check()
            for field in fields(settings):
                value = getattr(settings, field.name)
                assert value is not UNSET, field.name
                assert value != "auto" or field.name in self.decided_by_the_fit, field.name

    @pytest.mark.parametrize("preset", PRESET_NAMES)
    def test_complete_settings_stay_as_they_are(self, kind, data, preset):
        settings = self.resolved(kind, data, preset)
        for other in PRESET_NAMES:
            assert kind.resolve(settings, data, ALLOWANCES[other], True) == settings

    @pytest.mark.parametrize("preset", PRESET_NAMES)
    def test_work_is_positive_and_grows_with_the_examples(self, kind, data, preset):
        settings = self.resolved(kind, data, preset)
        for form in self.forms():
            seconds = [kind.work(settings, form(n)).seconds for n in (100, 300, 900)]
            assert 0 < seconds[0] < seconds[1] < seconds[2] < np.inf

    @pytest.mark.parametrize("preset", PRESET_NAMES)
    def test_what_a_fit_falls_back_on_costs_less_each_time(self, kind, data, preset):
        settings = self.resolved(kind, data, preset)
        forms = [settings, *kind.alternatives(settings, data, ALLOWANCES[preset])]
        seconds = [kind.work(form, data).seconds for form in forms]
        assert seconds == sorted(set(seconds), reverse=True)

    def test_memory_is_never_less_with_a_part_than_without(self, kind, data, settings):
        nothing = Shape(n=data.n, d=FEATURES + 1, c=LABELS, nonzeros=data.X.nnz + data.Y.nnz)
        with_part = kind.shape(nothing, settings, data)
        assert estimate(with_part)["total"] >= estimate(nothing)["total"] > 0

    def test_choices_of_a_search_are_complete_settings(self, kind, data, settings):
        for choice in kind.choices(settings, data):
            assert choice.applied(settings, fixed=choice.names) == []
            for other in choice.applied(settings):
                assert other != settings
                other.check()
                assert kind.work(other, data).seconds > 0
                assert kind.resolve(other, data, ALLOWANCES["best"], True) == other

    def test_words_describe_settings_and_a_part(self, kind, settings, part):
        assert isinstance(kind.words(settings), str)
        assert isinstance(kind.words(settings, part), str)
        assert "\n" not in kind.words(settings, part)

    def test_a_fit_finds_the_labels(self, kind, part):
        assert type(part) is kind.part_type
        assert (part.n_labels, part.n_features) == (LABELS, self.n_features)
        X, Y = problem(1, 200)
        labels, _ = part.top(part.prepare(self.view(X)), 1)
        assert precision_at_k(Y, labels, 1) > self.least_precision

    def test_arrays_and_json_restore_a_part(self, kind, part):
        X = self.view(problem(1, 60)[0])
        arrays, facts = part.arrays()
        assert all(isinstance(array, np.ndarray) for array in arrays.values())
        restored = kind.part_type.from_arrays(arrays, json.loads(json.dumps(facts)))
        assert type(restored) is type(part)
        assert restored.facts() == part.facts()
        assert restored.sizes() == part.sizes()
        rows = part.prepare(X)
        assert_array_equal(all_scores(restored, restored.prepare(X)), all_scores(part, rows))

    def test_what_is_kept_of_a_fit_is_a_part_of_the_same_kind(self, kind, data, settings, part):
        kept = kind.kept(part, settings)
        if kept is None:
            return
        assert type(kept) is kind.part_type
        again = kind.fit(data, settings, Fitting(begun=kept))
        X = self.view(problem(1, 60)[0])
        assert_array_equal(all_scores(again, again.prepare(X)), all_scores(part, part.prepare(X)))

    @pytest.mark.parametrize("has_history", [True, False])
    def test_an_update_adds_labels(self, kind, data, settings, part, has_history):
        """Rows of the new label have the words of two others, which no row had together before."""
        n_new = 40
        X, Y = problem(2, 300)
        X = X.tolil()
        X[:n_new, [0, 20]] = 2
        no_examples = sparse.csr_array((300, 1), dtype=np.float32)
        Y = sparse.hstack([Y, no_examples], format="lil")
        Y[:n_new] = 0
        Y[:n_new, LABELS] = 1
        classes = np.arange(LABELS + 1)
        new_X = sparse.csr_array(X.tocsr())
        new = replace(data, X=as_rows(new_X), Y=sparse.csr_array(Y.tocsr()), classes=classes)
        new = self.with_view(new, new_X)
        history = None
        if has_history:
            wide = sparse.hstack([data.Y, no_examples], format="csr")
            history = replace(data, Y=sparse.csr_array(wide), classes=classes)
        centroids = KINDS["centroids"]
        update = Update(
            examples=new,
            history=history,
            settings=settings,
            label_counts=np.bincount(data.Y.indices, minlength=LABELS),
            n_train=data.n,
            others={"centroids": centroids.fit(data, centroids.settings_type(), Fitting())},
        )
        changed, missed = kind.update(part, update)
        assert type(changed) is kind.part_type
        assert (changed.n_labels, changed.n_features) == (LABELS + 1, self.n_features)
        assert all(isinstance(sentence, str) for sentence in missed)
        assert part.n_labels == LABELS, "the part before the update is not changed"
        scores = all_scores(changed, changed.prepare(self.view(new.X[:n_new])))
        old_scores = all_scores(changed, changed.prepare(self.view(data.X[:])))
        assert np.isfinite(scores).all()
        assert np.median(scores[:, LABELS]) > np.quantile(old_scores[:, LABELS], 0.99)


class PartContract:
    """Tests of a fitted part, given a kind and settings."""

    name: ClassVar[str]
    settings: ClassVar[Any]
    # Of scores that are computed in different ways, relative to the largest.
    tolerance = 1e-5
    # P@1 on new rows.
    least_precision = 0.8
    # Difference between scores of fits on two devices, relative to the largest score.
    device_tolerance = 1e-4
    # There, rows have the same bits in any block of rows.
    on_host = True
    n_features = FEATURES
    # Labels without an example have equal scores.

    @classmethod
    def view(cls, X):
        """What the view of the part holds for these rows."""
        return X

    @classmethod
    def examples(cls):
        return examples(*problem())

    @classmethod
    def fit(cls, data, backend=CPU) -> Part:
        return KINDS[cls.name].fit(data, cls.settings, Fitting(backend=backend))

    @classmethod
    def n_entries(cls, row):
        """What an explanation of a row has contributions of."""
        return row.nnz

    def restored(self, part, arrays, facts):
        return KINDS[self.name].part_type.from_arrays(arrays, facts)

    def fitted_again(self, part):
        """Return a part of the same examples."""
        return self.fit(self.examples())

    @pytest.fixture(scope="class")
    @classmethod
    def part(cls):
        return cls.fit(cls.examples())

    @pytest.fixture(scope="class")
    @classmethod
    def X(cls):
        """New rows; the last two have no features."""
        X = problem(1, 60)[0].tolil()
        X[-2:] = 0
        return cls.view(sparse.csr_array(X.tocsr()))

    @pytest.fixture(scope="class")
    @classmethod
    def rows(cls, part, X):
        return part.prepare(X)

    @pytest.fixture(scope="class")
    @classmethod
    def scores(cls, part, rows):
        return all_scores(part, rows)

    def assert_close(self, values, expected):
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=1)
        assert_allclose(values, expected, rtol=self.tolerance, atol=self.tolerance * largest)

    def test_sizes(self, part, scores):
        assert (part.n_labels, part.n_features) == (LABELS, self.n_features)
        assert part.block_rows > 0
        assert scores.shape == (60, LABELS)
        assert scores.dtype.kind == "f"
        arrays, _ = part.arrays()
        assert sum(part.sizes().values()) == sum(array.nbytes for array in arrays.values()) > 0

    def test_scores_are_finite_even_of_rows_without_features(self, scores):
        assert np.isfinite(scores).all()

    def test_it_finds_the_labels(self, part):
        X, Y = problem(1, 200)
        labels, _ = part.top(part.prepare(self.view(X)), 1)
        assert precision_at_k(Y, labels, 1) > self.least_precision

    @pytest.mark.parametrize("k", [1, 5, LABELS])
    def test_the_best_labels_are_the_best_of_all(self, part, rows, scores, k):
        labels, best = part.top(rows, k)
        assert labels.dtype == np.int64
        assert labels.shape == best.shape == (60, k)
        self.assert_close(best, top_k(scores, k)[1])
        self.assert_close(np.take_along_axis(scores, labels, axis=1), best)
        assert all(len(set(row)) == k for row in labels.tolist())

    def test_equal_scores_are_ranked_by_label_index(self, part, rows):
        labels, best = part.top(rows, LABELS)
        is_equal = np.diff(best, axis=1) == 0
        assert is_equal.any()
        assert (np.diff(labels, axis=1)[is_equal] > 0).all()
        assert (np.diff(best, axis=1) <= 0).all()

    def test_more_labels_than_there_are(self, part, rows):
        labels, best = part.top(rows, LABELS + 3)
        assert (labels[:, LABELS:] == -1).all()
        assert np.isneginf(best[:, LABELS:]).all()
        assert_array_equal(np.sort(labels[:, :LABELS], axis=1), np.tile(np.arange(LABELS), (60, 1)))

    def test_scores_of_given_labels(self, part, rows, scores):
        labels = np.random.default_rng(3).integers(-1, LABELS, (60, 7))
        of_all = np.take_along_axis(scores, np.maximum(labels, 0), axis=1)
        self.assert_close(part.at(rows, labels), np.where(labels < 0, -np.inf, of_all))

    def test_likelihoods_are_finite_and_rise_with_the_score(self, part, rows, scores):
        likelihoods = all_likelihoods(part, rows)
        assert likelihoods.shape == scores.shape
        assert np.isfinite(likelihoods).all()
        rising = np.take_along_axis(likelihoods, np.argsort(scores, axis=1), axis=1)
        assert (np.diff(rising, axis=1) >= 0).all()

    def test_likelihoods_of_some_labels_are_those_among_all(self, part, rows):
        labels = np.random.default_rng(3).integers(0, LABELS, (60, 4))
        likelihoods = part.likelihood(rows, labels, part.at(rows, labels))
        expected = np.take_along_axis(all_likelihoods(part, rows), labels, axis=1)
        self.assert_close(likelihoods, expected)

    def test_scores_of_every_label(self, part, rows, scores):
        every = part.every(rows)
        assert every.shape == (60, LABELS)
        assert every.dtype.kind == "f"
        self.assert_close(every, scores)

    @pytest.mark.parametrize("size", [1, 7])
    def test_results_do_not_depend_on_the_rows_passed_at_a_time(self, part, X, scores, size):
        blocks = [part.prepare(X[start : start + size]) for start in range(0, 60, size)]
        whole = part.prepare(X)
        assert_same = assert_array_equal if self.on_host else self.assert_close
        assert_same(np.vstack([all_scores(part, block) for block in blocks]), scores)
        assert_same(np.vstack([part.every(block) for block in blocks]), part.every(whole))
        likelihoods = np.vstack([all_likelihoods(part, block) for block in blocks])
        assert_same(likelihoods, all_likelihoods(part, whole))
        labels, best = part.top(whole, 3)
        assert_same(np.vstack([part.top(block, 3)[1] for block in blocks]), best)
        self.assert_close(best, top_k(scores, 3)[1])
        if self.on_host:
            assert_array_equal(np.vstack([part.top(block, 3)[0] for block in blocks]), labels)

    @pytest.mark.parametrize("k", [1, 4])
    def test_fewer_labels_are_the_first_of_more(self, part, rows, k):
        if self.on_host:
            for few, more in zip(part.top(rows, k), part.top(rows, 10), strict=True):
                assert_array_equal(few, more[:, :k])

    def test_no_rows(self, part, X):
        rows = part.prepare(X[:0])
        assert all_scores(part, rows).shape == part.every(rows).shape == (0, LABELS)
        labels, best = part.top(rows, 3)
        assert labels.shape == best.shape == (0, 3)

    def test_dense_rows_have_the_scores_of_sparse_ones(self, part, X, scores):
        self.assert_close(all_scores(part, part.prepare(X.toarray())), scores)

    def test_explanations_add_up_to_the_likelihoods(self, part, X, rows):
        labels, best = part.top(rows, 3)
        expected = part.likelihood(rows, labels, best)
        for row in range(X.shape[0]):
            base, values = part.explain(X[[row]], labels[row])
            assert base.shape == (3,)
            assert values.shape == (self.n_entries(X[[row]]), 3)
            assert_allclose(base + values.sum(axis=0), expected[row], rtol=1e-3, atol=1e-4)

    def test_arrays_and_json_restore_it_to_the_bit(self, part, X, scores):
        arrays, facts = part.arrays()
        restored = self.restored(part, arrays, json.loads(json.dumps(facts)))
        rows = restored.prepare(X)
        assert_array_equal(all_scores(restored, rows), scores, strict=True)
        best = zip(restored.top(rows, 5), part.top(part.prepare(X), 5), strict=True)
        for values, expected in best:
            assert_array_equal(values, expected, strict=True)
        assert restored.sizes() == part.sizes()
        assert restored.facts() == part.facts()

    def test_the_same_examples_give_the_same_part(self, part, X, scores):
        again = self.fitted_again(part)
        assert_array_equal(all_scores(again, again.prepare(X)), scores)

    @pytest.mark.parametrize("elsewhere", PLACES)
    def test_scores_and_ranks_do_not_depend_on_where_it_was_fitted(self, X, scores, elsewhere):
        part = self.fit(self.examples(), elsewhere())
        rows = part.prepare(X)
        largest = np.abs(scores).max()
        assert_allclose(
            all_scores(part, rows), scores, rtol=0, atol=self.device_tolerance * largest
        )
        labels, best = part.top(rows, LABELS)
        _, expected = top_k(scores, LABELS)
        tolerance = 2 * self.device_tolerance * largest + self.tolerance
        assert_allclose(best, expected, rtol=0, atol=tolerance)
        of_labels = np.take_along_axis(scores, labels, axis=1)
        assert_allclose(of_labels, expected, rtol=0, atol=tolerance)
