"""Settings are chosen on held-out training rows, and only those that are open."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier, fitting, selection
from rembrandt.decoders.decoder import Decoder
from rembrandt.fitting import Labelled, Recipe, Settings
from rembrandt.selection import Open, select

RECIPE = Recipe(Settings(n_components=20, at_most=True), n_random_features=200, max_epochs=8)


def labelled(X, y, weights=None):
    Y = sparse.csr_array(np.eye(y.max() + 1, dtype=np.float32)[y])
    return Labelled(X.astype(np.float32), Y, np.arange(Y.shape[1]), multiclass=True, weights=weights)


def blobs(n=400, classes=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return 4 * np.eye(classes, 6)[y] + 0.3 * rng.standard_normal((n, 6)), y


def crossed(n=800, seed=0):
    """Far from the middle the quadrants are classes, near to it two classes lie crosswise, as in exclusive or."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    near = np.linalg.norm(X, axis=1) < 1.2
    right, up = X[:, 0] > 0, X[:, 1] > 0
    return X, np.where(near, 4 + (right ^ up), 2 * right + up)


def test_a_kernel_where_the_classes_lie_crosswise():
    data = labelled(*crossed())
    found = select(data, RECIPE, Open())
    assert found.recipe.kernel == "gaussian"
    best = {k: max(t.quality for t in found.trials if t.kernel == k) for k in (None, "gaussian")}
    assert best["gaussian"] > best[None] + 0.1


def test_no_kernel_where_a_line_will_do():
    found = select(labelled(*blobs()), RECIPE, Open())
    assert found.recipe.kernel is None
    assert max(t.quality for t in found.trials) == 1.0


def test_the_best_trial_is_taken_whole():
    found = select(labelled(*crossed(400)), RECIPE, Open())
    best = max(found.trials, key=lambda t: t.quality)
    for name in ("decoder", "kernel", "decoder_ridge", "leave_out", "normalize"):
        assert getattr(found.recipe, name) == getattr(best, name)
    assert {t.decoder for t in found.trials} == {"ridge", "transpose", "logistic"}
    assert {t.normalize for t in found.trials} == {False, True}
    assert all(0 <= t.quality <= 1 for t in found.trials)
    assert replace(found.recipe, **{n: getattr(RECIPE, n) for n in vars(best) if n != "quality"}) == RECIPE


@pytest.mark.parametrize(
    "settled",
    [
        {"decoder": "ridge"},
        {"decoder": "logistic"},
        {"decoder": "transpose", "kernel": None},
        {"kernel": None},
        {"kernel": "laplacian"},
        {"decoder_ridge": 0.7},
        {"normalize": True},
        {"normalize": False, "decoder": "ridge", "kernel": "gaussian"},
    ],
    ids=lambda s: "-".join(f"{k}={v}" for k, v in s.items()),
)
def test_what_is_settled_is_kept(settled):
    for data in (labelled(*crossed(300)), labelled(*blobs(300))):
        found = select(data, RECIPE, Open(**settled))
        assert {name: getattr(found.recipe, name) for name in settled} == settled
        for name in settled.keys() - {"kernel"}:
            assert {getattr(t, name) for t in found.trials} == {settled[name]}
        assert found.trials


def test_nothing_is_tried_when_nothing_is_open_or_hardly_anything_is_there():
    choices = Open("ridge", None, 0.1, False)
    found = select(labelled(*blobs()), RECIPE, choices)
    assert found.trials == []
    assert (found.recipe.decoder, found.recipe.kernel, found.recipe.decoder_ridge) == ("ridge", None, 0.1)
    few = select(labelled(*blobs(15)), RECIPE, Open(normalize=True))
    assert few.trials == []
    assert few.recipe == replace(RECIPE, normalize=True)


def test_rows_of_length_one_are_not_scaled():
    X, y = blobs()
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert {t.normalize for t in select(labelled(X, y), RECIPE, Open()).trials} == {False}


def test_candidates_are_measured_on_rows_they_were_not_fitted_to(monkeypatch):
    """Rows carry their number as a feature: what is embedded, fitted and measured can be told apart."""
    X, y = blobs()
    X[:, 5] = np.arange(len(X))
    embedded, fitted, measured = [], [], []
    wrapped = {name: getattr(selection, name) for name in ("ridge_statistics", "fit_decoder")}
    measure = selection._View.quality
    monkeypatch.setattr(selection, "FOLDS", 1)

    def ridge(H, data, *rest):
        fitted.append(data.Y.shape[0])
        return wrapped["ridge_statistics"](H, data, *rest)

    def decode(embedding, H, data, *rest):
        fitted.append(data.Y.shape[0])
        assert set(data.X[:, 5]) == embedded[0]
        return wrapped["fit_decoder"](embedding, H, data, *rest)

    def quality(view, decoder):
        measured.append(set(view.held.X[:, 5]))
        return measure(view, decoder)

    for name, spy in zip(wrapped, (ridge, decode), strict=True):
        monkeypatch.setattr(selection, name, spy)
    monkeypatch.setattr(selection._View, "quality", quality)
    spy_on_embeddings(monkeypatch, lambda X: embedded.append(set(X[:, 5])))
    select(labelled(X, y), RECIPE, Open(normalize=False))
    seen, held = embedded[0], measured[0]
    assert seen.isdisjoint(held)
    assert seen | held == set(range(len(X))), "every training row, and nothing else"
    assert all(part == seen for part in embedded)
    assert all(part == held for part in measured)
    assert set(fitted) == {len(seen)}


def spy_on_embeddings(monkeypatch, look):
    original = fitting.embed

    def spy(engine, *rest):
        look(engine._operands["X"].A)
        return original(engine, *rest)

    monkeypatch.setattr(fitting, "embed", spy)


def test_a_sample_of_many_rows_is_enough(monkeypatch):
    monkeypatch.setattr(selection, "SAMPLE", 60)
    rows = []
    spy_on_embeddings(monkeypatch, lambda X: rows.append(X.shape[0]))
    select(labelled(*blobs()), RECIPE, Open(normalize=False))
    assert rows == [50]


def test_logistic_is_not_tried_where_it_would_take_minutes(monkeypatch):
    monkeypatch.setattr(selection, "LOGISTIC_FLOPS", 0.0)
    assert "logistic" not in {t.decoder for t in select(labelled(*blobs()), RECIPE, Open()).trials}


def test_the_choice_does_not_change_from_one_time_to_the_next():
    data = labelled(*crossed(300))
    assert select(data, RECIPE, Open()) == select(data, RECIPE, Open())


def test_weights_follow_their_rows():
    X, y = crossed(300)
    w = np.random.default_rng(0).random(300)
    assert select(labelled(X, y, w), RECIPE, Open()).trials != select(labelled(X, y), RECIPE, Open()).trials


def test_what_was_not_trained_on_changes_nothing():
    X, y = crossed(300)
    first = RembrandtClassifier(n_random_features=50, max_epochs=3, random_state=0).fit(X, y)
    first.predict(1e3 * X)
    first.score(X, y[::-1])
    again = RembrandtClassifier(n_random_features=50, max_epochs=3, random_state=0).fit(X, y)
    assert again.selection_ == first.selection_


@pytest.mark.parametrize("several", [False, True])
def test_quality_by_hand(several):
    H = np.float32([[3, 2, 1, 0, -1], [0, 1, 2, 3, 4]])
    Y = sparse.csr_array(np.float32([[1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]))
    held = Labelled(H, Y, np.arange(5), multiclass=not several)
    view = selection._View(None, held, H, held, H)
    # The first row is ranked perfectly; the one label of the second comes fifth.
    ranking = np.mean([1, 1 / np.log2(6)])
    expected = np.mean([1 / 2, ranking]) if several else 1 / 2
    assert view.quality(Decoder(np.eye(5, dtype=np.float32), np.zeros(5, np.float32), "identity")) == pytest.approx(
        expected
    )
