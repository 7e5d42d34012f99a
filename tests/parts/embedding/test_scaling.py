"""Scaled labels: every method on every engine is the method on labels that were scaled before."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import LabelEmbedder
from rembrandt.data.convert import convert
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.engines.backend import CPU, backend_for
from rembrandt.engines.centring import Centred
from rembrandt.engines.cpu import CpuEngine
from rembrandt.engines.scaling import Scaled, label_factors, with_scaled_rows
from rembrandt.engines.shard_products import Data as ShardedData
from rembrandt.engines.shards import ShardedEngine
from rembrandt.linalg.blocks import as_numpy
from rembrandt.linalg.sparse import append_constant
from rembrandt.parts.embedding.fit import (
    Embedded,
    embed_labels,
    fit_decoder,
    label_scaling,
    leave_out,
)
from rembrandt.parts.embedding.solve import embed
from rembrandt.parts.protocol import Fitting
from tests.engines.test_shards import cut
from tests.parts.problems import embedding_settings

from . import test_methods as methods
from .problems import N, latent, scaled

METHODS = ["rembrandt", "plst", "cca", "cs"]  # those of the labels
BETA, ROW = 0.5, 0.25


class TestScaledRembrandt(methods.TestRembrandt):
    label_power, row_power = BETA, ROW


class TestScaledPlst(methods.TestPlst):
    label_power, row_power = BETA, 0.0


class TestScaledCca(methods.TestCca):
    label_power, row_power = 0.25, ROW

    def test_the_way_back(self, data, fitted):
        """It undoes the scaling of the labels."""
        counts = np.maximum(data.Y.sum(axis=0), 1)
        expected = counts[:, None] ** self.label_power * (self.metric(data) @ fitted.V)
        assert_allclose(fitted.back, expected, atol=1e-4 * np.abs(expected).max())


class TestScaledCs(methods.TestCs):
    label_power, row_power = 0.0, 1.0


def in_memory(data):
    return CPU._engine(as_rows(data.X), data.Y, data.weights, ROW)


def on_torch(data):
    pytest.importorskip("torch")
    from rembrandt.engines.torch_backend import torch_backend

    backend = torch_backend("cpu")
    assert backend is not None
    return backend._engine(as_rows(data.X), data.Y, data.weights, ROW)


def in_shards(data, executor=None):
    shards = cut(data.X, data.Y, data.weights, size=90)
    how = {"constant": True, "row_power": ROW}
    return ShardedEngine(ShardedData(shards, data.X.shape[1], data.Y.shape[1], **how), executor)


@pytest.fixture(scope="module")
def executor():
    dask = pytest.importorskip("rembrandt.engines.dask", reason="pip install 'rembrandt[dask]'")
    with dask.cluster(workers=2) as client:
        yield dask.DaskExecutor(client)


def weighted_data(weighted):
    """With a label and a row that are empty, and rows of weight zero."""
    data = latent()
    Y = data.Y.toarray()
    Y[:, 3] = Y[7] = 0
    weights = np.random.default_rng(0).integers(0, 4, N).astype(np.float64) if weighted else None
    return replace(data, Y=sparse.csr_array(Y), weights=weights)


def assert_agrees(raw, data, method, center):
    engine = Scaled(raw, label_factors(data.Y, data.weights, BETA))
    before = scaled(data, BETA, ROW)
    reference = CpuEngine(append_constant(before.X.astype(np.float64)), before.Y, before.weights)
    settings = embedding_settings(method=method, n_components=4, n_iter=4, ridge=0.1)
    if center:
        engine = Centred(engine)
        reference = Centred(reference)
    embedding = embed(engine, settings, seed=0)
    expected = embed(reference, settings, seed=0)
    assert_allclose(as_numpy(embedding.sigma), expected.sigma, rtol=1e-4)
    for name in ("V", "W"):
        exact = getattr(expected, name)
        assert_allclose(as_numpy(getattr(embedding, name)), exact, atol=5e-3 * np.abs(exact).max())
    counts = np.ones(N) @ data.Y if data.weights is None else data.weights @ data.Y
    back = np.where(counts > 0, counts, 1)[:, None] ** BETA * expected.back
    assert_allclose(as_numpy(embedding.back), back, atol=5e-3 * np.abs(back).max())


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("engine", [in_memory, on_torch, in_shards])
def test_agreement_with_labels_that_were_scaled_before(engine, method, weighted, center):
    data = weighted_data(weighted)
    assert_agrees(engine(data), data, method, center)


@pytest.mark.parametrize("method", METHODS)
def test_agreement_on_a_cluster(executor, method):
    data = weighted_data(True)
    assert_agrees(in_shards(data, executor), data, method, center=True)


def examples(data):
    classes = np.arange(data.Y.shape[1])
    return Examples(as_rows(data.X), data.Y, classes, multiclass=False, weights=data.weights)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_transpose_decoding_predicts_labels_as_they_were_given(method, center):
    """At full rank and without a ridge the embedding loses nothing: least squares on the labels,
    rows scaled.
    """
    data = examples(weighted_data(True))
    settings = embedding_settings(
        method=method,
        n_components=data.n_labels - 1,
        ridge=0.0,
        label_power=BETA,
        row_power=ROW,
        center=center,
        decoder="transpose",
    )
    if method == "cs":  # any basis of the whole space will do
        settings = replace(settings, n_components=data.n_labels)
    embedded = embed_labels(data, settings, seed=0)
    H = embedded.project(data.X, CPU)
    decoder = fit_decoder(embedded, data, settings, Fitting())
    scores = H @ decoder.weights + decoder.bias
    X = append_constant(data.X[:]).toarray().astype(np.float64)
    root = np.sqrt(data.weights)[:, None]
    Y = with_scaled_rows(data.Y, ROW).toarray()
    expected = X @ np.linalg.lstsq(root * X, root * Y, rcond=None)[0]
    assert_allclose(scores, expected, atol=2e-3)


@pytest.mark.parametrize("on_disk", [False, True])
def test_own_labels_are_left_out_as_they_were_scaled(tmp_path, on_disk):
    data = weighted_data(False)
    data_of_fit = examples(data)
    if on_disk:
        for name in "XY":
            sparse.save_npz(tmp_path / f"{name}.npz", getattr(data, name))
        store = convert(
            [tmp_path / "X.npz"],
            tmp_path / "store",
            rows=90,
            format="npz",
            labels=tmp_path / "Y.npz",
        )
        stored = store.dataset()
        data_of_fit = replace(data_of_fit, X=as_rows(stored.X), Y=stored.Y)
    backend = backend_for("cpu", data_of_fit.X)
    settings = embedding_settings(
        n_components=4, ridge=0.1, label_power=BETA, row_power=ROW, leave_out=1.0
    )
    embedded = embed_labels(data_of_fit, settings, 0, backend)
    H = embedded.project(data_of_fit.X, backend)
    e = embedded.embedding
    left = leave_out(embedded, H, data_of_fit, settings, backend)
    target = scaled(data, BETA, ROW).Y @ e.V
    assert (embedded.leverages is None) == on_disk
    leverages = e.leverage if on_disk else embedded.leverages[:, None]
    expected = (np.asarray(H[:]) - leverages * target) / (1 - leverages)
    assert_allclose(left[:], expected, atol=1e-4)
    moments = backend.statistics(left, data_of_fit.Y, None, None)  # computed shard by shard
    assert_allclose(moments.mean, expected.mean(axis=0), atol=1e-4)
    again = Embedded.from_arrays(*embedded.arrays(), backend, data_of_fit.n, data_of_fit.n_labels)
    assert_array_equal(leave_out(again, H, data_of_fit, settings, backend)[:], left[:])


@pytest.mark.parametrize("method", [*METHODS, "pca"])
def test_powers_of_zero_change_no_bit(method):
    data = latent()
    settings = embedding_settings(method=method, n_components=4, ridge=0.1)
    plain = embed(CpuEngine(append_constant(data.X), data.Y), settings, seed=0)
    engine = CPU.engine(as_rows(data.X), data.Y, None, label_scaling(settings))
    embedding = embed(engine, settings, seed=0)
    for name in ("V", "W", "sigma"):
        assert_array_equal(getattr(embedding, name), getattr(plain, name), strict=True)
    assert embedding.label_scale is None
    assert embedding.back is embedding.V or method in ("cca", "pca")


def test_one_label_a_row_makes_half_a_power_the_whitening_of_cca():
    """Then ``YᵀY`` is the diagonal of the counts, and CCA without a label ridge is Rembrandt on
    scaled labels.
    """
    data = latent()
    classes = np.arange(N) % 5 + (np.arange(N) % 7 > 2)
    Y = sparse.csr_array(np.eye(6, dtype=np.float32)[classes])
    settings = embedding_settings(
        n_components=4, n_iter=6, ridge=0.1, label_power=0.5, row_power=1.0
    )
    engine = CPU.engine(as_rows(data.X), Y, None, label_scaling(settings))
    embedding = embed(engine, settings, seed=0)
    X = append_constant(data.X).toarray().astype(np.float64)
    G = X.T @ X
    A = Y.T @ (
        X @ np.linalg.solve(G + 0.1 * np.trace(G) / len(G) * np.eye(len(G)), X.T @ Y.toarray())
    )
    whitened = np.linalg.eigvals(np.linalg.solve((Y.T @ Y).toarray().astype(np.float64), A))
    assert_allclose(embedding.sigma, np.sort(whitened.real)[::-1][:4], rtol=1e-4)


def test_the_embedder_takes_both_and_certifies_the_scaled_problem():
    data = latent()
    embedder = LabelEmbedder(
        4, n_iter=6, ridge=0.1, label_power=0.25, row_power=0.5, random_state=0
    )
    embedder.fit(data.X, data.Y)
    engine = CpuEngine(append_constant(data.X), scaled(data, 0.25, 0.5).Y.astype(np.float32))
    expected = embed(engine, embedding_settings(n_components=4, n_iter=6, ridge=0.1), seed=0)
    assert_allclose(embedder.singular_values_, expected.sigma, rtol=1e-4)
    proof = embedder.certify(data.X, data.Y)
    assert proof.residuals.max() < 1e-2 * embedder.singular_values_[0]
