"""Contributions add up to the score, and point at the words that they come from."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rembrandt import RembrandtClassifier, TextFeatures
from rembrandt.data import catalogue
from rembrandt.data.generated import labelled_documents
from rembrandt.data.rows import as_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.errors import DataError
from rembrandt.explore.explain import explain, explain_rows
from rembrandt.features.fourier import KERNELS, draw
from rembrandt.model.model import Model
from rembrandt.recipe import TreeSettings
from rembrandt.scorers.tree_fit import fit_trees

EXACT = 1e-4
D, K, C = 60, 12, 25


def random_model(kernel, normalize, link, rng):
    """A model of random weights, whose scores lie within about ten of zero."""
    projection = rng.standard_normal((D + 1, K)).astype(np.float32)
    rows = random_rows(200, rng)
    hidden = (rows @ projection[:-1]).astype(np.float32) + projection[-1]
    fourier = None if kernel is None else draw(kernel, hidden, 150, seed=3)
    size = K if fourier is None else fourier.size
    weights = (rng.standard_normal((size, C)) / np.sqrt(size)).astype(np.float32)
    decoder = Decoder(weights, rng.standard_normal(C).astype(np.float32), link, fourier)
    return Model(
        classes=np.arange(C),
        multiclass=False,
        normalize=normalize,
        projection=projection,
        decoder=decoder,
        embedding=weights[:K].T,
        singular_values=np.ones(K),
        label_counts=np.ones(C, int),
        n_train=100,
    )


def random_rows(n, rng):
    return sparse.random_array((n, D), density=0.2, rng=rng, dtype=np.float32, format="csr")


@pytest.mark.parametrize("kernel", [None, *KERNELS])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("link", ["identity", "softmax"])
def test_contributions_sum_to_the_score(kernel, normalize, link):
    rng = np.random.default_rng(5)
    model = random_model(kernel, normalize, link, rng)
    X = random_rows(100, rng)
    labels = rng.integers(0, C, (100, 3))
    explanation = explain_rows(model, X, labels)
    rows = np.repeat(np.arange(100), np.diff(X.indptr))
    summed = explanation.base.copy()
    np.add.at(summed, rows, explanation.contributions)
    np.testing.assert_allclose(summed, np.take_along_axis(model.scores(X), labels, axis=1), atol=EXACT)
    np.testing.assert_allclose(explanation.score, summed, atol=1e-9)


@pytest.mark.parametrize("blend", [1.0, 0.5])
@pytest.mark.parametrize("pairs", [1e9, 500.0], ids=["one-vs-all", "clusters"])
@pytest.mark.parametrize("link", ["identity", "softmax", "sigmoid"])
def test_a_sparse_part_is_explained_too(link, pairs, blend):
    rng = np.random.default_rng(9)
    learned = random_rows(200, rng)
    Y = sparse.csr_array((np.ones(200, np.float32), rng.integers(0, C, 200), np.arange(201)), shape=(200, C))
    forest = fit_trees(as_rows(learned), Y, TreeSettings(pairs=pairs, n_trees=2))
    model = replace(random_model("gaussian", True, link, rng), forest=forest, blend=blend)
    X = sparse.vstack([random_rows(40, rng), sparse.csr_array((1, D), dtype=np.float32)], format="csr")
    labels = rng.integers(0, C, (41, 4))
    explanation = explain_rows(model, X, labels)
    np.testing.assert_allclose(explanation.score, np.take_along_axis(model.scores(X), labels, axis=1), atol=EXACT)
    assert np.abs(explanation.contributions).max() > EXACT


@pytest.mark.parametrize("kernel", [None, "gaussian"])
def test_labels_for_all_rows_are_labels_of_each_row(kernel):
    rng = np.random.default_rng(6)
    model = random_model(kernel, True, "identity", rng)
    X = random_rows(7, rng)
    shared = explain_rows(model, X, np.array([4, 1]))
    own = explain_rows(model, X, np.tile([4, 1], (7, 1)))
    np.testing.assert_array_equal(shared.contributions, own.contributions)
    np.testing.assert_array_equal(shared.base, own.base)


def test_the_base_is_the_score_of_an_empty_row_and_absent_features_add_nothing():
    rng = np.random.default_rng(7)
    model = random_model("gaussian", False, "identity", rng)
    X = random_rows(4, rng).toarray()
    X[0] = 0
    explanation = explain_rows(model, X, np.arange(C))
    np.testing.assert_allclose(explanation.base, np.tile(model.scores(X[:1])[0], (4, 1)), atol=EXACT)
    assert explanation.indptr[1] == explanation.indptr[0]


def test_kernel_contributions_are_integrated_gradients():
    """The closed form agrees with the integral of the gradient along the line, summed numerically."""
    rng = np.random.default_rng(8)
    model = random_model("gaussian", False, "identity", rng)
    x = random_rows(1, rng).toarray().astype(np.float64)
    W, fourier = model.projection.astype(np.float64), model.decoder.fourier
    q = model.decoder.weights[:, 3].astype(np.float64)
    share = (np.arange(2000) + 0.5)[:, None] / 2000
    hidden = share * (x @ W[:-1]) + W[-1]
    slopes = -np.sin(hidden @ fourier.frequencies + fourier.offsets) * q[: len(fourier.offsets)]
    gradient = (slopes @ fourier.frequencies.T).mean(axis=0) + fourier.linear * q[len(fourier.offsets) :]
    wanted = x[0] * (W[:-1] @ gradient)
    explanation = explain_rows(model, sparse.csr_array(x), np.array([3]))
    np.testing.assert_allclose(explanation.contributions[:, 0], wanted[explanation.features], atol=1e-5)


def test_blocks_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(10)
    model = random_model("matern3", True, "identity", rng)
    X = random_rows(9, rng)
    whole = explain_rows(model, X, np.arange(C)).contributions
    monkeypatch.setattr("rembrandt.explore.explain._ENTRIES", 1000)
    np.testing.assert_allclose(explain_rows(model, X, np.arange(C)).contributions, whole, atol=1e-12)


@pytest.mark.parametrize("kernel", [None, "gaussian"])
def test_a_model_on_a_device_is_explained_alike(kernel):
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'rembrandt[gpu]'")
    from rembrandt.engines.torch_place import TorchPlace

    rng = np.random.default_rng(12)
    model = random_model(kernel, True, "identity", rng)
    X = random_rows(6, rng)
    moved = explain_rows(model.on(TorchPlace((torch.device("cpu"),), torch.float32)), X, np.arange(C))
    np.testing.assert_allclose(moved.contributions, explain_rows(model, X, np.arange(C)).contributions, atol=1e-5)


def test_labels_that_are_none_are_refused():
    model = random_model(None, True, "identity", np.random.default_rng(0))
    with pytest.raises(DataError, match="from 0 to 24"):
        explain_rows(model, np.ones((1, D)), np.array([25]))


TEXTS = {
    "words": TextFeatures(),
    "pairs": TextFeatures(ngram_range=(1, 2)),
    "hashed": TextFeatures(weighting="hashed", n_features=2**10),
    "characters": TextFeatures(analyzer="char"),
}


@pytest.fixture(scope="module", params=TEXTS)
def fitted(request):
    train, test = labelled_documents(300, n_topics=4, labels_per_topic=4)
    kernel = "gaussian" if request.param == "pairs" else None
    settled = {"decoder": "ridge", "decoder_ridge": 0.1, "normalize": True, "n_random_features": 100}
    classifier = RembrandtClassifier(10, kernel=kernel, text=TEXTS[request.param], random_state=0, **settled)
    return classifier.fit_dataset(train), test.texts[:20]


def test_texts_are_explained_by_their_own_words(fitted):
    classifier, texts = fitted
    explanation = explain(classifier, texts, k=3)
    np.testing.assert_array_equal(explanation.labels, classifier.model_topk(texts, 3)[0])
    np.testing.assert_allclose(explanation.score, classifier.predict_topk(texts, 3)[1], atol=EXACT)
    for entry in range(*explanation.indptr[:2]):
        spelled = {texts[0][start:stop].lower() for start, stop in explanation.spans(entry)}
        assert set(explanation.word(entry).strip().split(" / ")) == spelled


def test_highlights_do_not_overlap_and_hold_everything(fitted):
    classifier, texts = fitted
    explanation = explain(classifier, texts, k=2)
    for row, text in enumerate(texts):
        pieces = explanation.highlights(row, 1)
        bounds = [bound for piece in pieces for bound in piece[:2]]
        assert bounds == sorted(bounds) and bounds[0] >= 0 and bounds[-1] <= len(text)
        added = explanation.score[row, 1] - explanation.base[row, 1]
        assert sum(piece.contribution for piece in pieces) == pytest.approx(added, abs=1e-9)


def test_a_document_adds_up(fitted):
    classifier, texts = fitted
    found = explain(classifier, texts[:2], [classifier.classes_[3]]).document(1, k=4)
    assert found["label"] == classifier.classes_[3] and len(found["words"]) == 4
    total = found["base"] + found["rest"] + sum(word["contribution"] for word in found["words"])
    assert total == pytest.approx(found["score"], abs=1e-9)
    sizes = [abs(word["contribution"]) for word in found["words"]]
    assert sizes == sorted(sizes, reverse=True)


@given(st.lists(st.text(alphabet="aA bİß_-é\n", max_size=12), min_size=1, max_size=4))
def test_terms_are_found_where_they_were_written(texts):
    """Every occurrence, made lower case, is its term: also where lower case is longer than what was written."""
    features = TextFeatures(weighting="hashed", n_features=2**20)
    places = features.fit(texts).locate(texts)
    for document, column, start, stop in zip(*places, strict=True):
        written = texts[document][start:stop]
        assert column in features.transform([written]).indices
    wanted = features.transform(texts).nonzero()
    assert set(zip(places.documents, places.columns, strict=True)) == set(zip(*wanted, strict=True))


def test_features_without_texts_have_names_or_numbers():
    rng = np.random.default_rng(1)
    X, y = random_rows(50, rng), rng.integers(0, 4, 50)
    classifier = RembrandtClassifier(n_components=3, decoder="transpose", random_state=0).fit(X, y)
    assert explain(classifier, X[:1], [2]).word(0) == str(X[:1].indices[0])
    classifier.feature_names_ = [f"feature {i}" for i in range(D)]
    assert explain(classifier, X[:1], [2]).word(0) == f"feature {X[:1].indices[0]}"


@pytest.mark.data
@pytest.mark.parametrize(("decoder", "kernel"), [("transpose", None), ("ridge", "laplacian"), ("logistic", "gaussian")])
def test_real_predictions_are_explained(real_data, decoder, kernel):
    if not (real_data / "cooking").is_dir():
        pytest.skip("the cooking set is not in REMBRANDT_DATA")
    train, test = (catalogue.load("cooking", part, real_data) for part in ("train", "test"))
    classifier = RembrandtClassifier(
        n_components=30,
        decoder=decoder,
        decoder_ridge=0.1,
        kernel=kernel,
        n_random_features=400,
        max_epochs=3,
        normalize=True,
        random_state=0,
    )
    classifier.fit_dataset(train.rows(np.arange(2000)))
    texts = test.texts[:340]
    explanation = explain(classifier, texts, k=3)
    np.testing.assert_allclose(explanation.score, classifier.predict_topk(texts, 3)[1], atol=EXACT)
