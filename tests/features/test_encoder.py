"""Vectors of an encoder next to the terms of texts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt import RembrandtClassifier, TextFeatures, load
from rembrandt.errors import DataError, RembrandtError
from rembrandt.features.encoder import NamedEncoder, load_encoder


class Letters:
    """Counts of the letters: a small encoder that knows words which the training texts do not
    have.
    """

    name = "letters"

    def __init__(self, width=26):
        self.width = width

    def encode(self, texts):
        return [
            [float(text.lower().count(chr(97 + i))) for i in range(self.width)] for text in texts
        ]


TEXTS = ["red apple", "green apple", "red car", "fast car"] * 10
TAGS = [["fruit"], ["fruit"], ["vehicle"], ["vehicle"]] * 10


@pytest.mark.parametrize("weighting", ["tfidf", "hashed"])
def test_vectors_are_columns_of_equal_strength(weighting):
    plain = TextFeatures(weighting=weighting, n_features=64)
    both = TextFeatures(weighting=weighting, n_features=64, encoder=Letters())
    X, Z = plain.fit_transform(TEXTS), both.fit_transform(TEXTS)
    assert (
        both.n_encoded_ == 26 and both.n_features_out_ == plain.n_features_out_ + 26 == Z.shape[1]
    )
    assert Z.dtype == np.float32
    assert_allclose(Z[:, : X.shape[1]].toarray(), X.toarray() * 0.5**0.5, rtol=1e-6)
    assert_allclose((Z.multiply(Z)).sum(axis=1), 1, rtol=1e-5)
    assert_array_equal(both.transform(TEXTS).toarray(), Z.toarray())
    names = both.get_feature_names_out()
    assert len(names) == Z.shape[1] and names[-1] == "encoder 25"
    assert both.transform([]).shape == (0, Z.shape[1])
    again = TextFeatures(weighting=weighting, n_features=64, encoder=Letters()).fit_parts(
        [TEXTS[:7], TEXTS[7:]]
    )
    assert_array_equal(again.transform(TEXTS).toarray(), Z.toarray())


def test_a_saved_model_names_its_encoder_and_needs_it(tmp_path):
    classifier = RembrandtClassifier(text=TextFeatures(encoder=Letters()), random_state=0).fit(
        TEXTS, TAGS
    )
    expected = classifier.predict_proba(TEXTS)
    assert classifier.predict_topk(["cars"], k=1)[0][0, 0] == "vehicle", (
        "a word that the training texts do not have"
    )
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.text_.encoder.name == "letters" and again.text_.encoder.width == 26
    with pytest.raises(
        DataError, match=r"the encoder 'letters', which gives vectors of 26 dimensions"
    ):
        again.predict(TEXTS)
    with pytest.raises(DataError, match="have 5 dimensions, and those of the fit had 26"):
        again.text_.set_encoder(Letters(5))
    again.text_.set_encoder(Letters())
    assert_array_equal(again.predict_proba(TEXTS), expected)
    again.save(tmp_path / "more")
    assert load(tmp_path / "more").text_.encoder.name == "letters"
    assert "encoder 'letters'" in again.describe()["reading"]["words"]


def test_explanations_are_exact_and_name_the_encoder():
    classifier = RembrandtClassifier(text=TextFeatures(encoder=Letters()), random_state=0).fit(
        TEXTS, TAGS
    )
    found = classifier.explain(["red apple"], k=1)[0][0]
    assert found.log_odds == pytest.approx(
        classifier.decision_function(["red apple"]).max(), abs=1e-4
    )
    assert [name for name, _ in found.top(30)].count("the encoder") == 1, (
        "its dimensions mean nothing one by one"
    )


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda texts: np.zeros(3), "expected one vector for each"),
        (lambda texts: np.zeros((len(texts) + 1, 2)), "expected one vector for each"),
        (lambda texts: np.full((len(texts), 2), np.nan), "not finite"),
        (lambda texts: [["a"]] * len(texts), "expected one vector for each"),
    ],
)
def test_what_is_not_a_vector_for_each_text_is_refused(result, message):
    class Wrong:
        encode = staticmethod(result)

    with pytest.raises(DataError, match=message):
        TextFeatures(encoder=Wrong()).fit(TEXTS)


def test_what_is_no_encoder_is_refused():
    with pytest.raises(DataError, match="give an object with encode"):
        TextFeatures(encoder="a name").fit(TEXTS)
    with pytest.raises(DataError, match="without an encoder"):
        TextFeatures().fit(TEXTS).set_encoder(Letters())


def test_libraries_are_loaded_by_name(monkeypatch):
    import sys
    from importlib.machinery import ModuleSpec
    from types import ModuleType, SimpleNamespace

    for library in ("model2vec", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, library, None)  # not installed
    with pytest.raises(RembrandtError, match=r"pip install 'rembrandt\[encoder\]'"):
        load_encoder("model2vec:small")
    fake = ModuleType("model2vec")
    fake.__spec__ = ModuleSpec("model2vec", None)
    fake.StaticModel = SimpleNamespace(from_pretrained=lambda name: NamedEncoder(name, Letters()))
    monkeypatch.setitem(sys.modules, "model2vec", fake)
    assert load_encoder("small").name == load_encoder("model2vec:small").name == "model2vec:small"
    fake = ModuleType("sentence_transformers")
    fake.__spec__ = ModuleSpec("sentence_transformers", None)
    fake.SentenceTransformer = lambda name: Letters()
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake)
    found = load_encoder("sentence-transformers:a:b")
    assert found.name == "sentence-transformers:a:b" and len(found.encode(["x"])[0]) == 26
