"""The sparse part beside the low-rank one: chosen where it helps, blended as said, kept in the files."""

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier, blending, load, settling
from rembrandt.fitting import Labelled, Recipe, Settings, fit_model
from rembrandt.metrics import precision_at_k, top_k
from rembrandt.recipe import TreeSettings
from tests.scorers.test_trees import words

FIXED = {"n_components": 4, "decoder": "ridge", "decoder_ridge": 0.1, "kernel": None, "normalize": False}


def labelled(**more):
    X, Y = words(600, 60, 300, **more)
    return Labelled(X, Y, np.arange(60), multiclass=False)


def recipe(**more):
    return Recipe(Settings(n_components=4, seed=0), **more)


def test_rare_labels_that_low_rank_cannot_tell_apart_are_found() -> None:
    data, new = labelled(), labelled(seed=1)
    chosen, trials = blending.choose_blend(data, recipe(), TreeSettings())
    assert chosen.blend > 0
    assert len(trials) == len(blending.COSTS) * len(blending.POWERS) * len(blending.SHARES)
    low_rank, both = fit_model(data, recipe()), fit_model(data, chosen)
    first = [precision_at_k(new.Y, model.top_k(new.X, 1)[0], 1) for model in (low_rank, both)]
    assert first[1] > first[0] + 0.3


def test_where_it_does_not_help_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blending, "COSTS", (1e-6,))  # weights of next to nothing
    chosen, _ = blending.choose_blend(labelled(), recipe(), TreeSettings())
    assert chosen.blend == 0
    assert fit_model(labelled(), chosen).forest is None


def test_with_very_many_labels_it_answers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "MANY", 10)
    data = labelled()
    fitted = RembrandtClassifier(sparse=True, random_state=0).fit(data.X, data.Y)
    assert fitted.model_.blend == 1
    assert fitted.selection_ == fitted.blends_ == []
    assert precision_at_k(data.Y, fitted.model_topk(data.X, 1)[0], 1) > 0.9


@pytest.mark.parametrize("decoder", ["ridge", "logistic"])
@pytest.mark.parametrize("blend", [0.3, 1.0])
def test_the_best_labels_are_those_of_full_decoding(decoder: str, blend: float) -> None:
    data = labelled()
    tree = TreeSettings(pairs=4e3, beam=1000, n_trees=2)
    model = fit_model(data, recipe(decoder=decoder, tree=tree, blend=blend, max_epochs=3))
    assert model.forest is not None
    assert [len(tree.levels) for tree in model.forest.trees] == [2, 2]
    full = model.scores(data.X)
    labels, scores = model.top_k(data.X, 3)
    np.testing.assert_allclose(scores, top_k(full, 3)[1], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(full, labels, axis=1), scores, rtol=1e-3, atol=1e-5)
    allowed = np.array([2, 5, 8])
    assert set(model.top_k(data.X, 3, allowed)[0].ravel()) == set(allowed.tolist())
    np.testing.assert_allclose(model.scores(data.X, allowed), full[:, allowed], rtol=1e-3, atol=1e-5)
    assert ((model.probabilities(data.X) >= 0) & (model.probabilities(data.X) <= 1)).all()


def test_a_classifier_with_a_sparse_part_is_saved_whole(tmp_path) -> None:
    data = labelled()
    fitted = RembrandtClassifier(**FIXED, sparse=True, sparse_pairs=4e3, sparse_trees=2, random_state=0).fit(
        data.X, data.Y
    )
    assert fitted.model_.forest is not None
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(data.X), fitted.decision_function(data.X))
    for one, two in zip(again.predict_topk(data.X, 5), fitted.predict_topk(data.X, 5), strict=True):
        np.testing.assert_array_equal(one, two)
    assert again.blends_ == fitted.blends_
    assert sparse.issparse(again.predict(data.X))
