"""Prediction: the best labels of blends are those of all probabilities, for whatever labels are
allowed.
"""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.blend import Blend
from rembrandt.declarations import PART_NAMES
from rembrandt.fitting import Learned, fit_model
from rembrandt.linalg.ranking import top_k
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.predict import Request, all_probabilities, answer
from tests.devices import PLACES
from tests.estimators.problems import examples, settings_for, words

TREES = TreeSettings(n_trees=2, max_example_node_pairs=4e3, cost=1.0, passes=10, beam=1000)
BLENDS = [names for size in (2, 3) for names in combinations(PART_NAMES, size)]
SUBSETS = [("embedding",), ("trees",), *BLENDS]


def blend_of(names, competing):
    """Weights of the kind that are learned: a label is more probable where a part lists it."""
    size = len(names) + 1
    form = 0.01 * np.random.default_rng(0).standard_normal((size, size))
    return Blend(
        weights={name: (0.5 + at, 0.4, -0.3, 1.5) for at, name in enumerate(names)},
        quadratic=tuple(map(tuple, (form + form.T).tolist())),
        frequency=0.1,
        bias=-3.0,
        unlisted=(0.5 / len(names),) * len(names) + (0.1, -4.0),
        competing=competing,
    )


def fitted(names, n_labels=60, multiclass=False, **changes):
    data = replace(examples(*words(600, n_labels, 5 * n_labels)), multiclass=multiclass)
    options = {"parts": names, "n_components": 4, "max_epochs": 3, "trees": TREES} | changes
    learned = Learned(blend_of(names, multiclass))
    return fit_model(data, settings_for(data, **options), learned), data.X[:100]


class TestAnswer:
    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    @pytest.mark.parametrize("decoder", ["ridge", "logistic"])
    @pytest.mark.parametrize("n_labels", [60, 150])
    def test_it_is_the_top_of_all_probabilities(self, names, decoder, n_labels):
        """Of more labels than are listed too."""
        model, X = fitted(names, n_labels, decoder=decoder)
        P = all_probabilities(model, X)
        for k in (3, 25, n_labels):
            ranked = answer(model, Request(X, k))
            labels, best = top_k(P, k)
            assert_array_equal(ranked.labels, labels)
            assert_array_equal(ranked.probabilities, best, strict=True)
        assert_array_equal(np.sort(ranked.labels, axis=1), np.tile(np.arange(n_labels), (100, 1)))
        allowed = np.array([2, 5, 8])
        ranked = answer(model, Request(X, 5, allowed=allowed))
        labels, best = top_k(P[:, allowed], 3)
        assert_array_equal(ranked.labels, allowed[labels])
        assert_array_equal(ranked.probabilities, best, strict=True)
        assert ranked.weighted is None

    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_no_rows_no_allowed_labels_and_more_than_all(self, names, multiclass):
        model, X = fitted(names, multiclass=multiclass)
        nothing = answer(model, Request(X[:0], 3))
        assert len(nothing.labels) == len(nothing.probabilities) == 0
        nothing = answer(model, Request(X[:4], 2, allowed=np.array([], dtype=np.int64)))
        assert (nothing.labels == -1).all() and (nothing.probabilities == 0).all()
        assert nothing.labels.shape == (4, 0)
        every = answer(model, Request(X[:4], 70))
        assert every.labels.shape == (4, 60) and (every.labels >= 0).all()
        assert (every.probabilities > 0).all()

    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    @pytest.mark.parametrize("multiclass", [False, True])
    @pytest.mark.parametrize("decoder", ["ridge", "logistic"])
    def test_a_row_has_the_same_bits_in_any_block(self, names, multiclass, decoder, monkeypatch):
        model, X = fitted(names, multiclass=multiclass, decoder=decoder)
        requests = (
            Request(X, 4),
            Request(X, 40),
            Request(X, 4, allowed=np.arange(0, 60, 7)),
            Request(X, threshold=0.1),
            Request(X, 4, tail=(0.55, 1.5)),
        )
        whole = [answer(model, request) for request in requests]
        P = all_probabilities(model, X)
        for size in (1, 7):
            blocks = [X[start : start + size] for start in range(0, 100, size)]
            assert_array_equal(np.vstack([all_probabilities(model, block) for block in blocks]), P)
        for part in model.parts.values():
            monkeypatch.setattr(type(part), "block_rows", 7)
        assert_array_equal(all_probabilities(model, X), P, strict=True)
        for request, expected in zip(requests, whole, strict=True):
            in_blocks = answer(model, request)
            assert_array_equal(in_blocks.labels, expected.labels, strict=True)
            assert_array_equal(in_blocks.probabilities, expected.probabilities, strict=True)
            if expected.weighted is not None:
                assert_array_equal(in_blocks.weighted, expected.weighted, strict=True)

    def test_an_embedding_that_retrieves_no_labels_ranks_what_the_trees_list(self):
        model, X = fitted(("trees", "embedding"))
        embedding = replace(model.parts["embedding"], searches_labels=False)
        without_search = replace(model, parts=model.parts | {"embedding": embedding})
        trees = model.parts["trees"]
        ranked = answer(without_search, Request(X, 5))
        listed_by_trees = trees.top(trees.prepare(X), 10)[0]
        assert all(
            set(labels) <= set(listed)
            for labels, listed in zip(ranked.labels.tolist(), listed_by_trees.tolist(), strict=True)
        )
        expected = np.take_along_axis(all_probabilities(without_search, X), ranked.labels, axis=1)
        assert_array_equal(ranked.probabilities, expected)

    @pytest.mark.parametrize("backend", PLACES)
    @pytest.mark.parametrize("names", [("embedding",), ("trees", "embedding")], ids="-".join)
    def test_it_is_the_same_on_a_device(self, names, backend):
        model, X = fitted(names)
        there = model.on(backend())
        for allowed in (None, np.array([1, 4, 11])):
            for tail in (None, (0.55, 1.5)):
                request = Request(X, 3, allowed=allowed, tail=tail)
                expected = answer(model, request)
                on_device = answer(there, request)
                same = (on_device.labels == expected.labels).mean()
                assert same > 0.99, "except where rounding decides"
                scores = "probabilities" if tail is None else "weighted"
                assert_allclose(
                    getattr(on_device, scores), getattr(expected, scores), rtol=1e-3, atol=1e-5
                )

    def test_progress_is_reported(self):
        model, X = fitted(("trees",))
        told = []
        answer(model, Request(X, 3), lambda *step: told.append(step))
        assert told[0] == ("predicting", 0, 100) and told[-1] == ("predicting", 100, 100)
        told.clear()
        all_probabilities(model, X, lambda *step: told.append(step))
        assert told[0] == ("predicting", 0, 100) and told[-1] == ("predicting", 100, 100)


class TestRest:
    def test_what_only_updates_need_can_be_dropped(self):
        model, X = fitted(("embedding",), growable=True)
        smaller = model.for_prediction()
        assert model.parts["embedding"].moments is not None
        assert smaller.parts["embedding"].moments is None
        assert_array_equal(all_probabilities(smaller, X), all_probabilities(model, X))

    def test_names_of_labels_and_their_columns(self):
        model, _ = fitted(("trees",))
        assert (model.n_labels, model.n_features) == (60, 300)
        assert model.labels.columns([5, 59, 60]).tolist() == [5, 59, -1]
