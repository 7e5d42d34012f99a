"""Every decoder on devices: by the shared contract, and the same as NumPy's."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt.engines import torch_descent, torch_shards
from rembrandt.engines.backend import CPU
from rembrandt.engines.torch_backend import TorchBackend
from rembrandt.engines.torch_shards import Truth
from rembrandt.errors import MemoryEstimateError
from rembrandt.features.fourier import draw
from rembrandt.linalg.blocks import as_numpy
from rembrandt.parts.embedding.decoders.logistic import LogisticSettings, fit_logistic
from rembrandt.parts.embedding.decoders.ridge import fit_ridge
from rembrandt.parts.embedding.decoders.transpose import fit_transpose
from tests.devices import CPU_ONE, CPU_TWO, HALVES, PLACES

from .contract import C, DecoderContract, problem

FAST = {"max_epochs": 12, "batch": 100}
ONE, TWO = TorchBackend(CPU_ONE, torch.float32), TorchBackend(CPU_TWO, torch.float32)


def ridge(H, Y, backend, kernel=None, weights=None):
    H = backend.asarray(H)
    fourier = None if kernel is None else draw(kernel, H, 100)
    return fit_ridge(backend.statistics(H, Y, fourier, weights), 0.01).moved(as_numpy)


def logistic(H, Y, backend, kernel=None, weights=None, multiclass=True, **more):
    H = backend.asarray(H)
    fourier = None if kernel is None else draw(kernel, H, 100)
    dropout = 0.0 if kernel is None else 0.5
    settings = LogisticSettings(**{"multiclass": multiclass, "dropout": dropout} | FAST | more)
    return fit_logistic(H, Y, settings, fourier, weights, backend=backend).moved(as_numpy)


class TestRidge(DecoderContract):
    def fit(self, H, Y, places):
        return ridge(H, Y, ONE, "gaussian")


class TestSoftmax(DecoderContract):
    backend = ONE
    more: ClassVar[dict] = {"kernel": "gaussian"}

    def fit(self, H, Y, places):
        return logistic(H, Y, self.backend, multiclass=self.multiclass, **self.more)


class TestIndependentOnTwoDevices(TestSoftmax):
    multiclass = False
    backend = TWO
    more: ClassVar[dict] = {}


class TestHalfPrecision(TestSoftmax):
    multiclass = False
    backend = TorchBackend(CPU_ONE, torch.bfloat16)

    def test_labels_in_another_order(self, train, test):
        """Rounded to eight bits, sums in another order differ: what is found stays the same."""
        H, Y, places = train
        order = np.random.default_rng(0).permutation(C)
        labels = self.ranked(self.fit(H, Y[:, order], places[order]), test[0], 1)
        assert (order[labels] == self.ranked(self.fit(*train), test[0], 1)).mean() > 0.97


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("multiclass", [True, False])
@pytest.mark.parametrize("kernel", [None, "gaussian"])
@pytest.mark.parametrize("backend", PLACES)
def test_the_same_as_on_the_processor(backend, kernel, multiclass, weighted):
    H, Y, _ = problem(multiclass=multiclass)
    w = np.random.default_rng(0).random(len(H)) if weighted else None
    backend = backend()
    assert_allclose(
        ridge(H, Y, backend, kernel, w).scores(H), ridge(H, Y, CPU, kernel, w).scores(H), atol=1e-4
    )
    scores, expected = (
        logistic(H, Y, p, kernel, w, multiclass, l2=0.01, max_epochs=6).scores(H)
        for p in (backend, CPU)
    )
    assert_allclose(scores, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("multiclass", [True, False])
@pytest.mark.parametrize("backend", HALVES)
def test_half_precision_learns_the_same(backend, multiclass):
    H, Y, _ = problem(multiclass=multiclass, noise=0.5)
    # Without a penalty scores grow until held-out rows say stop, and rounding may decide when that
    # is.
    settled = {"l2": 0.01, "max_epochs": 6}
    expected = logistic(H, Y, CPU, "gaussian", None, multiclass, **settled).scores(H)
    scores = logistic(H, Y, backend(), "gaussian", None, multiclass, **settled).scores(H)
    assert np.abs(scores - expected).mean() < 0.02 * np.abs(expected).mean()


@pytest.mark.parametrize("multiclass", [True, False])
@pytest.mark.parametrize("backend", [ONE, TWO], ids=["one", "two"])
def test_chunks_of_labels_do_not_change_the_result(backend, multiclass, monkeypatch):
    H, Y, _ = problem(multiclass=multiclass)
    whole = logistic(H, Y, backend, multiclass=multiclass)
    monkeypatch.setattr(torch_shards, "GRAIN", 2)
    monkeypatch.setattr(torch_descent, "GRAIN", 2)
    monkeypatch.setattr(torch_descent, "LOGIT_BYTES", 100 * 4 * 2)
    parts = logistic(H, Y, backend, multiclass=multiclass)
    assert_allclose(parts.weights, whole.weights, atol=1e-3)


def test_labels_take_turns_where_a_device_cannot_hold_them(monkeypatch):
    """Room for a few labels' weights and no features: shards come and go, features are made for
    each batch.
    """
    H, Y, _ = problem(multiclass=False)
    whole = logistic(H, Y, ONE, multiclass=False)
    monkeypatch.setattr(TorchBackend, "available", lambda _: 1000)
    made = []
    real = torch_descent.Shard
    monkeypatch.setattr(torch_descent, "Shard", lambda **a: made.append(real(**a)) or made[-1])
    streamed = logistic(H, Y, ONE, multiclass=False)
    assert len(made) > 1 and made[0].width < C
    assert_allclose(streamed.weights, whole.weights, atol=1e-3)


def test_a_softmax_that_does_not_fit_is_refused_with_the_estimate(monkeypatch):
    H, Y, _ = problem()
    monkeypatch.setattr(TorchBackend, "available", lambda _: 500)
    with pytest.raises(
        MemoryEstimateError, match=r"12 classes of 9 features needs about .* GiB .*decoder='ridge'"
    ):
        logistic(H, Y, ONE)


def test_a_step_that_does_not_fit_is_done_in_smaller_chunks(monkeypatch):
    H, Y, _ = problem(multiclass=False)
    whole = logistic(H, Y, ONE, multiclass=False)
    monkeypatch.setattr(torch_shards, "GRAIN", 1)
    monkeypatch.setattr(torch_descent, "GRAIN", 1)
    real, widths = torch_descent.probabilities_, []

    def limited(P, *rest):
        widths.append(P.shape[1])
        if P.shape[1] > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        real(P, *rest)

    monkeypatch.setattr(torch_descent, "probabilities_", limited)
    assert_allclose(logistic(H, Y, ONE, multiclass=False).weights, whole.weights, atol=1e-3)
    assert widths[0] == C and widths.count(C) == 1, "what did fit is kept to"


def test_a_step_that_never_fits_says_what_to_do(monkeypatch):
    def never(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch_descent, "probabilities_", never)
    H, Y, _ = problem(multiclass=False)
    with pytest.raises(MemoryEstimateError, match="smallest piece of a step"):
        logistic(H, Y, ONE, multiclass=False)


def test_targets_stay_sparse(monkeypatch):
    H, Y, _ = problem(multiclass=False)

    def refuse(*_, **__):
        raise AssertionError("the targets were made dense")

    for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    logistic(H, Y, TWO, multiclass=False)
    ridge(H, Y, ONE)


@pytest.mark.parametrize("grain", [1, 3, 5, 100])
def test_true_labels_of_batches(grain, monkeypatch):
    monkeypatch.setattr(torch_shards, "GRAIN", grain)
    Y = sparse.random_array((30, 11), density=0.3, rng=np.random.default_rng(0)).tocsr()
    order = np.random.default_rng(1).permutation(30).reshape(5, 6)
    csr = tuple(torch.as_tensor(x.astype(np.int64)) for x in (Y.indptr, Y.indices))
    truth = Truth.of(csr, torch.as_tensor(order), 11)
    for batch, rows in enumerate(order):
        for first in range(0, 11, grain):
            labels = slice(first, min(first + grain, 11))
            is_true = np.zeros((6, labels.stop - labels.start))
            is_true[truth.within(batch, labels)] = 1
            assert (is_true == (Y[rows].toarray()[:, labels] > 0)).all()


@pytest.mark.parametrize("backend", PLACES)
def test_transpose(backend):
    H, _, places = problem()
    backend = backend()
    decoder = fit_transpose(backend.asarray(places))
    assert_allclose(as_numpy(decoder.scores(backend.asarray(H))), H @ places.T, atol=1e-5)
