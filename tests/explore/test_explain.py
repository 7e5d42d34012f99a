"""Contributions sum to the score and point to the words they come from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rembrandt import RembrandtClassifier, TextFeatures
from rembrandt.blend import Blend
from rembrandt.candidates import LIST_LENGTH
from rembrandt.data import catalogue
from rembrandt.data.generated import labelled_documents
from rembrandt.data.views import Views
from rembrandt.declarations import SETTINGS_TYPES, ModelSettings, PartSpec
from rembrandt.estimators.requests import rows_of, top_columns
from rembrandt.explanations.explain import explain_row
from rembrandt.features.fourier import KERNELS, draw
from rembrandt.model.facts import Facts
from rembrandt.model.model import Model
from rembrandt.parts.centroids.settings import CentroidSettings
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.parts.embedding.part import LabelEmbedding
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.protocol import Fitting
from rembrandt.parts.registry import KINDS
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.predict import Request, all_probabilities, answer, indicator
from rembrandt.probabilities import log_odds
from tests.estimators.problems import examples

EXACT = 1e-4
ROUNDING = (
    1e-3  # of log-odds, where random least-squares scores in single precision are near 0 or 1
)
D, K, C = 60, 12, 25


def random_embedding(kernel, normalize, link, rng):
    """An embedding of random weights, whose scores are within about ten of zero."""
    projection = rng.standard_normal((D + 1, K)).astype(np.float32)
    rows = random_rows(200, rng)
    hidden = (rows @ projection[:-1]).astype(np.float32) + projection[-1]
    fourier = None if kernel is None else draw(kernel, hidden, 150, seed=3)
    size = K if fourier is None else fourier.size
    weights = (rng.standard_normal((size, C)) / np.sqrt(size)).astype(np.float32)
    decoder = Decoder(weights, rng.standard_normal(C).astype(np.float32), link, fourier)
    return LabelEmbedding(projection, decoder, weights[:K].T, np.ones(K), normalize)


def model_of(**parts):
    weights = {name: (0.5, 1 / (1 + i), -0.3, 0.8) for i, name in enumerate(parts)}
    size = len(parts) + 1
    numbers = np.arange(size)
    quadratic = 0.02 * np.cos(numbers[:, None] + numbers)
    blend = Blend(
        weights,
        quadratic=tuple(tuple(row) for row in quadratic.tolist()),
        frequency=0.2,
        bias=-1.0,
        unlisted=(*(0.8 / (1 + numbers[:-1])).tolist(), 0.3, -2.0),
    )
    specs = {name: PartSpec(name, SETTINGS_TYPES[name]()) for name in parts}
    return Model(
        classes=np.arange(C),
        multiclass=False,
        parts=parts,
        blend=blend,
        label_counts=np.arange(C),
        n_train=100,
        settings=ModelSettings(specs),
        facts=Facts(version="0"),
    )


def all_log_odds(model, X):
    return log_odds(all_probabilities(model, X))


def random_rows(n, rng):
    return sparse.random_array((n, D), density=0.2, rng=rng, dtype=np.float32, format="csr")


def explained(model, X, labels):
    """Log-odds of the labels (n × m) as sums of contributions, and the contributions of every
    row.
    """
    labels = np.broadcast_to(labels, (X.shape[0], np.shape(labels)[-1]))
    contributions = []
    sums = []
    for i, row_labels in enumerate(labels):
        added, comparison = explain_row(model, Views(X[[i]]), np.array(row_labels))
        contributions.append(added)
        sums.append(added.base + added.values.sum(axis=0) + comparison)
    return np.array(sums), contributions


@pytest.mark.parametrize("kernel", [None, *KERNELS])
@pytest.mark.parametrize("normalize", [True, False])
def test_contributions_sum_to_the_log_odds(kernel, normalize):
    rng = np.random.default_rng(5)
    model = model_of(embedding=random_embedding(kernel, normalize, "identity", rng))
    X = random_rows(100, rng)
    labels = rng.integers(0, C, (100, 3))
    sums, _ = explained(model, X, labels)
    np.testing.assert_allclose(
        sums, np.take_along_axis(all_log_odds(model, X), labels, axis=1), atol=ROUNDING
    )


@pytest.mark.parametrize(
    "names", [("trees",), ("centroids",), ("trees", "centroids", "embedding")], ids="-".join
)
@pytest.mark.parametrize("pairs", [1e9, 500.0], ids=["one-vs-all", "clusters"])
@pytest.mark.parametrize("link", ["identity", "softmax", "sigmoid"])
def test_contributions_to_a_blend_sum_to_the_log_odds(link, pairs, names):
    rng = np.random.default_rng(9)
    rows = random_rows(200, rng)
    Y = sparse.csr_array(
        (np.ones(200, np.float32), rng.integers(0, C, 200), np.arange(201)), shape=(200, C)
    )
    data = examples(rows, Y)
    settings = TreeSettings(n_trees=2, max_example_node_pairs=pairs, passes=4).with_defaults()
    parts = {
        "trees": KINDS["trees"].fit(data, settings, Fitting()),
        "centroids": KINDS["centroids"].fit(data, CentroidSettings(), Fitting()),
        "embedding": random_embedding("gaussian", True, link, rng),
    }
    model = model_of(**{name: parts[name] for name in names})
    X = sparse.vstack(
        [random_rows(40, rng), sparse.csr_array((1, D), dtype=np.float32)], format="csr"
    )
    labels = rng.integers(0, C, (41, 4))
    sums, contributions = explained(model, X, labels)
    np.testing.assert_allclose(
        sums, np.take_along_axis(all_log_odds(model, X), labels, axis=1), atol=EXACT
    )
    assert max(np.abs(added.values).max(initial=0) for added in contributions) > EXACT


@pytest.mark.parametrize("length", [LIST_LENGTH, C])
def test_the_base_is_that_of_an_empty_row_and_absent_features_add_nothing(length, monkeypatch):
    monkeypatch.setattr("rembrandt.candidates.LIST_LENGTH", length)
    rng = np.random.default_rng(7)
    model = model_of(embedding=random_embedding("gaussian", False, "identity", rng))
    X = sparse.vstack(
        [sparse.csr_array((1, D), dtype=np.float32), random_rows(3, rng)], format="csr"
    )
    _, contributions = explained(model, X, np.arange(C))
    comparison = explain_row(model, Views(X[[0]]), np.arange(C))[1]
    # Listed and unlisted labels have weights of their own.
    listed = indicator(answer(model, Request(X, length)).labels, C).toarray()
    log_odds_of_empty = all_log_odds(model, X[:1])[0]
    for is_listed, added in zip(listed, contributions, strict=True):
        same = is_listed == listed[0]
        assert same.sum() > 5
        base = added.base + comparison
        np.testing.assert_allclose(base[same], log_odds_of_empty[same], atol=ROUNDING)
    assert len(contributions[0].values) == 0


def test_kernel_contributions_are_integrated_gradients():
    """The closed form agrees with the integral of the gradient along the line, summed
    numerically.
    """
    rng = np.random.default_rng(8)
    part = random_embedding("gaussian", False, "identity", rng)
    x = random_rows(1, rng).toarray().astype(np.float64)
    W = part.projection.astype(np.float64)
    fourier = part.decoder.fourier
    q = part.decoder.weights[:, 3].astype(np.float64)
    share = (np.arange(2000) + 0.5)[:, None] / 2000
    hidden = share * (x @ W[:-1]) + W[-1]
    slopes = -np.sin(hidden @ fourier.frequencies + fourier.offsets) * q[: len(fourier.offsets)]
    gradient = (slopes @ fourier.frequencies.T).mean(axis=0) + fourier.linear * q[
        len(fourier.offsets) :
    ]
    wanted = x[0] * (W[:-1] @ gradient)
    row = sparse.csr_array(x)
    contributions = part.explain(row, np.array([3])).values[:, 0]
    np.testing.assert_allclose(contributions, wanted[row.indices], atol=1e-5)


@pytest.mark.parametrize("kernel", [None, "gaussian"])
def test_a_model_on_a_device_has_the_same_explanations(kernel):
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'rembrandt[gpu]'")
    from rembrandt.engines.torch_backend import TorchBackend

    rng = np.random.default_rng(12)
    model = model_of(embedding=random_embedding(kernel, True, "identity", rng))
    X = random_rows(6, rng)
    moved = model.on(TorchBackend((torch.device("cpu"),), torch.float32))
    np.testing.assert_allclose(
        explained(moved, X, np.arange(C))[0],
        explained(model, X, np.arange(C))[0],
        rtol=1e-4,
        atol=EXACT,
    )


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
    classifier = RembrandtClassifier(
        n_components=10,
        decoder="ridge",
        decoder_ridge=0.1,
        kernel=kernel,
        normalize=True,
        embedding=EmbeddingSettings(n_random_features=100),
        text=TEXTS[request.param],
        random_state=0,
    )
    return classifier.fit_dataset(train), test.texts[:20]


def test_texts_are_explained_by_their_own_words(fitted):
    classifier, texts = fitted
    explanations = classifier.explain(texts, k=3)
    columns, _ = top_columns(classifier, rows_of(classifier, texts), 3)
    explained_columns = [[explanation.column for explanation in row] for row in explanations]
    np.testing.assert_array_equal(explained_columns, columns)
    scores = np.take_along_axis(classifier.decision_function(texts), columns, axis=1)
    log_odds = [[explanation.log_odds for explanation in row] for row in explanations]
    np.testing.assert_allclose(log_odds, scores, atol=EXACT)
    first = explanations[0][0]
    for feature in first.features.tolist():
        spelled = {texts[0][start:stop].lower() for start, stop in first.spans(feature)}
        assert set(first.name(feature).strip().split(" / ")) == spelled


def test_segments_do_not_overlap_and_hold_every_contribution(fitted):
    classifier, texts = fitted
    for text, (_, second) in zip(texts, classifier.explain(texts, k=2), strict=True):
        pieces = second.segments()
        bounds = [bound for piece in pieces for bound in piece[:2]]
        assert bounds == sorted(bounds) and bounds[0] >= 0 and bounds[-1] <= len(text)
        assert sum(piece[2] for piece in pieces) == pytest.approx(
            second.log_odds - second.base - second.comparison, abs=1e-9
        )


def test_a_document_adds_up(fitted):
    classifier, texts = fitted
    label = classifier.classes_[3]
    document = classifier.explain(texts[:2], [label])[1][0].document(k=4)
    assert document["label"] == label
    assert len(document["words"]) == 4
    contributions = [word["contribution"] for word in document["words"]]
    total = document["base"] + document["comparison"] + document["rest"] + sum(contributions)
    assert total == pytest.approx(document["log_odds"], abs=1e-9)
    sizes = [abs(contribution) for contribution in contributions]
    assert sizes == sorted(sizes, reverse=True)


@settings(deadline=None)
@given(
    st.lists(
        st.text(alphabet="aA bİß_-é\n\u0301\u0327\u1100\u1161", max_size=12), min_size=1, max_size=4
    )
)
def test_terms_are_found_where_they_were_written(texts):
    """Every occurrence in lower case is its term, even where lower case is longer than the
    original.
    """
    features = TextFeatures(weighting="hashed", n_features=2**20)
    spans = features.fit(texts).locate(texts)
    for document, column, start, stop in zip(*spans, strict=True):
        written = texts[document][start:stop]
        assert column in features.transform([written]).indices
    wanted = features.transform(texts).nonzero()
    assert set(zip(spans.documents, spans.columns, strict=True)) == set(zip(*wanted, strict=True))


def test_features_without_texts_have_names_or_numbers():
    rng = np.random.default_rng(1)
    X, y = random_rows(50, rng), rng.integers(0, 4, 50)
    classifier = RembrandtClassifier(n_components=3, decoder="transpose", random_state=0).fit(X, y)
    columns = X[[0]].indices.tolist()
    [[explanation]] = classifier.explain(X[:1], [2])
    assert {word for word, _ in explanation.top(D)} == {str(i) for i in columns}
    classifier.feature_names_ = [f"feature {i}" for i in range(D)]
    [[explanation]] = classifier.explain(X[:1], [2])
    assert {word for word, _ in explanation.top(D)} == {f"feature {i}" for i in columns}


@pytest.mark.data
@pytest.mark.parametrize(
    ("decoder", "kernel"), [("transpose", None), ("ridge", "laplacian"), ("logistic", "gaussian")]
)
def test_real_predictions_are_explained(real_data, decoder, kernel):
    if not (real_data / "cooking").is_dir():
        pytest.skip("the cooking set is not in REMBRANDT_DATA")
    train, test = (catalogue.load("cooking", part, real_data) for part in ("train", "test"))
    classifier = RembrandtClassifier(
        n_components=30,
        decoder=decoder,
        decoder_ridge=0.1,
        kernel=kernel,
        embedding=EmbeddingSettings(n_random_features=400, max_epochs=3),
        normalize=True,
        random_state=0,
    )
    classifier.fit_dataset(train.rows(np.arange(2000)))
    texts = test.texts[:350]
    # A text without a known word has no labels.
    has_words = np.diff(rows_of(classifier, texts).features.indptr) > 0
    texts = [text for text, has_word in zip(texts, has_words, strict=True) if has_word]
    assert len(texts) > 330
    explanations = classifier.explain(texts, k=3)
    columns, _ = top_columns(classifier, rows_of(classifier, texts), 3)
    expected = np.take_along_axis(classifier.decision_function(texts), columns, axis=1)
    log_odds = [[explanation.log_odds for explanation in row] for row in explanations]
    np.testing.assert_allclose(log_odds, expected, atol=EXACT)
