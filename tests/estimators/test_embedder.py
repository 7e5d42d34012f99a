"""The embedder as a transformer: attributes, ranks, means and certificate."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import LabelEmbedder, RembrandtClassifier
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.parts.embedding.settings import METHODS

from .problems import blobs, settled, several


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("center", [False, True])
def test_attributes(method, center):
    X, Y = several()
    embedder = LabelEmbedder(3, method=method, center=center, random_state=0).fit(X, Y)
    assert embedder.embedding_.shape == (8, 3)
    assert embedder.projection_.shape == (X.shape[1] + 1, 3)
    assert embedder.singular_values_.shape == (3,)
    assert embedder.rank_reason_ == ""
    H = embedder.transform(X)
    assert H.shape == (len(X), 3)
    assert_allclose(H, embedder.fit_transform(X, Y), atol=1e-6)
    assert_allclose(embedder.transform(sparse.csr_array(X)), H, atol=1e-5)


@pytest.mark.parametrize("method", ["rembrandt", "plst", "cs", "cca"])
@pytest.mark.parametrize("center", [False, True])
def test_rows_are_projected_on_the_predicted_embedding_of_their_labels(method, center):
    """With a very small ridge the regression is exact on average: the mean of H is the mean of
    YV.
    """
    X, Y = several()
    embedder = LabelEmbedder(3, method=method, center=center, ridge=1e-6, random_state=0).fit(
        X + 2, Y
    )
    target = Y @ embedder.embedding_
    found = embedder.transform(X + 2)
    assert_allclose(found.mean(axis=0), target.mean(axis=0), atol=1e-3 * np.abs(target).max())
    correlation = [np.corrcoef(a, b)[0, 1] for a, b in zip(found.T, target.T, strict=True)]
    assert min(correlation) > 0.9


@pytest.mark.parametrize("method", ["rembrandt", "plst", "pca"])
def test_centring_is_the_embedding_of_centred_data(method):
    X, Y = several()
    X = X + 3
    engine = LabelEmbedder(4, method=method, center=True, ridge=0.1, n_iter=4, random_state=0).fit(
        X, Y
    )
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    G = Xc.T @ Xc
    problems = {
        "rembrandt": Yc.T
        @ Xc
        @ np.linalg.solve(G + 0.1 * np.trace(G) / len(G) * np.eye(len(G)), Xc.T @ Yc),
        "plst": Yc.T @ Yc,
        "pca": G,
    }
    expected = np.linalg.eigvalsh(problems[method])[::-1][:4]
    assert_allclose(engine.singular_values_, expected, rtol=1e-4)


def test_an_automatic_rank_has_a_reason():
    X, y = blobs()
    embedder = LabelEmbedder("auto", random_state=0).fit(X, y)
    k = embedder.embedding_.shape[1]
    assert 1 <= k <= 6
    assert embedder.rank_reason_.startswith(f"{k} of the ")
    assert "%" in embedder.rank_reason_


def test_more_components_than_the_rank_give_a_warning():
    X, y = blobs()
    with pytest.warns(RembrandtWarning, match="n_components=40 .* reduced to 6"):
        embedder = LabelEmbedder(40, random_state=0).fit(X, y)
    assert embedder.embedding_.shape == (6, 6)


def test_truncation_is_the_first_columns():
    X, Y = several()
    embedder = LabelEmbedder(5, random_state=0).fit(X, Y)
    smaller = embedder.truncate(2)
    assert smaller.n_components == 2
    assert_array_equal(smaller.embedding_, embedder.embedding_[:, :2])
    assert_array_equal(smaller.transform(X), embedder.transform(X)[:, :2])
    assert embedder.embedding_.shape[1] == 5, "the larger one does not change"
    for wrong in (0, 6):
        with pytest.raises(ValueError, match="from 1 to 5"):
            embedder.truncate(wrong)


@pytest.mark.parametrize("method", ["rembrandt", "plst", "pca"])
@pytest.mark.parametrize("center", [False, True])
def test_certificate(method, center):
    X, Y = several()
    embedder = LabelEmbedder(8, method=method, center=center, n_iter=4, random_state=0).fit(X, Y)
    proof = embedder.certify(X, Y)
    assert proof.residuals.shape == (8,)
    assert proof.residuals.max() < 1e-3 * embedder.singular_values_[0]
    other = embedder.certify(X[::-1], Y)  # labels of other rows are another problem
    assert method != "rembrandt" or other.residuals.max() > 100 * proof.residuals.max()


def test_the_seed_decides_the_bits():
    X, Y = several()
    first, second, other = (
        LabelEmbedder(3, n_iter=0, method="cs", random_state=s).fit(X, Y) for s in (1, 1, 2)
    )
    assert_array_equal(first.projection_, second.projection_)
    assert not np.array_equal(first.projection_, other.projection_)
    generator = LabelEmbedder(3, random_state=np.random.RandomState(0)).fit(X, Y)
    assert np.isfinite(generator.projection_).all()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("n_components", 0),
        ("n_components", 2.5),
        ("n_components", "all"),
        ("method", "svd"),
        ("solver", "lu"),
        ("ridge", -1.0),
        ("ridge", float("nan")),
        ("n_iter", -1),
        ("n_oversamples", -1),
        ("max_iter", 0),
    ],
)
def test_a_wrong_parameter_is_named(setting, value):
    X, y = blobs()
    with pytest.raises(SettingsError, match=setting) as refused:
        LabelEmbedder(**{"n_components": 2, setting: value}).fit(X, y)
    assert refused.value.parameters == (setting,)


@pytest.mark.parametrize("center", [False, True])
def test_features_without_information(center):
    """Constant features predict the base rates or, with centring, nothing; then the error says
    so.
    """
    X, y = np.ones((60, 4)), np.arange(60) % 3
    try:
        found = LabelEmbedder("auto", center=center, random_state=0).fit(X, y)
    except DataError as error:
        assert center, error
    else:
        assert np.isfinite(found.transform(X)).all()


@pytest.mark.parametrize("columns", [6, 30])
def test_empty_columns_do_not_change_the_embedding(columns):
    """Ridge is relative to the columns in use, in the embedder as in the classifier."""
    X, Y = several()
    wide = sparse.csr_array(np.hstack([X, np.zeros((len(X), columns))]))
    plain, found = (LabelEmbedder(4, n_iter=4, random_state=0).fit(each, Y) for each in (X, wide))
    assert_allclose(found.singular_values_, plain.singular_values_, rtol=1e-6)
    assert_allclose(np.abs(found.embedding_), np.abs(plain.embedding_), atol=1e-4)
    classifier = RembrandtClassifier(**settled(n_components=4, n_iter=4)).fit(wide, Y)
    assert_allclose(classifier.singular_values_, found.singular_values_, rtol=1e-6)


def test_names_of_the_components():
    X, Y = several()
    names = LabelEmbedder(3, random_state=0).fit(X, Y).get_feature_names_out()
    assert names.tolist() == ["labelembedder0", "labelembedder1", "labelembedder2"]
