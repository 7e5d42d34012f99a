"""Estimators give the same results on every device; devices that do not exist are refused."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from rembrandt import LabelEmbedder, RembrandtClassifier, load
from rembrandt.declarations import PART_NAMES
from rembrandt.engines import backend as module
from rembrandt.engines.backend import CPU, backend_for
from rembrandt.errors import SettingsError
from rembrandt.estimators.requests import rows_of, top_columns
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.trees.settings import TreeSettings
from tests.devices import needs_gpu

from .problems import settled

TWO = "cpu,cpu"
DEVICES = [TWO, pytest.param("cuda", marks=needs_gpu)]


def blobs(seed=0, n=400, d=60, c=12, several=False):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).standard_normal((c, d))
    y = rng.integers(0, c, n)
    X = (centres[y] + 0.8 * rng.standard_normal((n, d))) * (rng.random((n, d)) < 0.5)
    X = sparse.csr_array(X.astype(np.float32))
    if not several:
        return X, y
    Y = np.zeros((n, c), dtype=np.int8)
    Y[np.arange(n), y] = Y[np.arange(n), (y + 1) % c] = 1
    return X, sparse.csr_array(Y)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("decoder", ["transpose", "ridge", "logistic", "blend"])
@pytest.mark.parametrize("device", DEVICES)
def test_the_same_predictions_on_every_device(device, decoder, several):
    X, y = blobs(several=several)
    test, _ = blobs(1)
    params = {"kernel": None if decoder == "transpose" else "gaussian", "decoder": decoder}
    if decoder == "blend":
        trees = TreeSettings(n_trees=2, max_example_node_pairs=1000.0, cost=1.0)
        params = {"parts": PART_NAMES, "trees": trees}
    here = RembrandtClassifier(
        **settled(n_components=6, n_random_features=60, normalize=True, max_epochs=6, **params)
    ).fit(X, y)
    there = clone(here).set_params(device=device).fit(X, y)
    assert there.model_.parts.keys() == here.model_.parts.keys()
    assert_allclose(there.singular_values_, here.singular_values_, rtol=1e-3)
    rows = rows_of(there, test)
    assert (top_columns(there, rows, 12)[0] == top_columns(here, rows, 12)[0]).mean() > 0.98
    best = top_columns(there, rows, 3)[0]
    there.device = "cpu"
    best_on_the_cpu = top_columns(there, rows, 3)[0]
    there.device = device
    assert (best_on_the_cpu == best).mean() > 0.99, "the model is the same wherever it predicts"
    difference = np.abs(there.predict_proba(test) - here.predict_proba(test))
    assert difference.max() < 0.05
    assert (there.predict(test) != here.predict(test)).mean() < 0.03


def test_settings_are_chosen_on_a_device_too():
    X, y = blobs(n=600, d=20, c=5)
    settings = EmbeddingSettings(max_epochs=3)
    params = {"kernel": None, "embedding": settings, "random_state": 0}
    here = RembrandtClassifier(**params).fit(X, y)
    there = RembrandtClassifier(**params, device=TWO).fit(X, y)
    assert there.settings_ == here.settings_
    assert len(here.facts_.held_out) == len(there.facts_.held_out) > 1
    for on_device, on_cpu in zip(there.facts_.held_out, here.facts_.held_out, strict=True):
        assert on_device.parts == on_cpu.parts
        assert on_device.quality == pytest.approx(on_cpu.quality, abs=0.02)


def test_a_search_runs_on_a_device_too():
    X, y = blobs(n=900, d=20, c=5)
    params = settled(parts="auto", n_components=4, max_epochs=3, budget=1e5)
    here = RembrandtClassifier(**params).fit(X, y)
    there = RembrandtClassifier(**params, device=TWO).fit(X, y)
    first_here, *_ = here.selection_
    first_there, *_ = there.selection_
    assert first_there["part"] == first_here["part"]
    assert first_there["settings"] == first_here["settings"]
    assert first_there["quality"] == pytest.approx(first_here["quality"], abs=0.05)
    assert there.facts_.held_out[0].quality == pytest.approx(
        here.facts_.held_out[0].quality, abs=0.05
    )


@pytest.mark.parametrize("device", DEVICES)
def test_an_embedder_on_a_device(device):
    X, y = blobs()
    here, there = (
        LabelEmbedder(5, n_iter=3, random_state=0, device=d).fit(X, y) for d in ("cpu", device)
    )
    for one in (there.embedding_, there.projection_, there.singular_values_, there.transform(X)):
        assert isinstance(one, np.ndarray)
    assert_allclose(there.embedding_, here.embedding_, atol=1e-3)
    assert_allclose(there.transform(X), here.transform(X), atol=1e-3)
    assert there.certify(X, y).residuals.shape == (5,)


def test_a_model_belongs_to_no_device(tmp_path):
    X, y = blobs()
    fitted = RembrandtClassifier(**settled(n_components=4, device=TWO)).fit(X, y)
    fitted.predict(X)
    fitted.save(tmp_path / "model")
    assert load(tmp_path / "model").device == "cpu"
    there = load(tmp_path / "model", device=TWO)
    assert_array_equal(there.predict(X), fitted.predict(X))
    assert_array_equal(load(tmp_path / "model").predict(X), fitted.predict(X))
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))


def test_names_of_devices():
    assert backend_for("cpu") is CPU
    assert backend_for(TWO).device == TWO
    expected = "cuda:0" if torch.cuda.is_available() else "cpu"
    assert backend_for("auto").device == expected


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("gpu7", "is not a supported device: use 'cpu', 'cuda'"),
        ("mps", "is not a supported device"),
        ("cuda:99", "does not exist" if torch.cuda.is_available() else "finds no GPU"),
        ("", "must be a name"),
        (3, "must be a name"),
    ],
)
@pytest.mark.parametrize("estimator", [RembrandtClassifier, LabelEmbedder])
def test_a_device_that_does_not_exist_is_refused(estimator, device, says):
    X, y = blobs(n=50)
    with pytest.raises(SettingsError, match=says) as refused:
        estimator(n_components=2, device=device).fit(X, y)
    assert refused.value.parameters == ("device",)


def test_without_torch_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install 'rembrandt\[gpu\]'"):
        backend_for("cuda")
    assert backend_for("auto") is CPU


def test_work_on_the_cpu_never_imports_torch():
    code = (
        "import sys, numpy as np; from rembrandt import RembrandtClassifier, LabelEmbedder\n"
        "X, y = np.random.default_rng(0).standard_normal((60, 5)), np.arange(60) % 3\n"
        "for decoder in ('ridge', 'logistic', 'transpose'):\n"
        "    RembrandtClassifier(preset='best', decoder=decoder, kernel=None).fit(X, "
        "y).predict(X)\n"
        "LabelEmbedder(2).fit(X, y).transform(X)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
