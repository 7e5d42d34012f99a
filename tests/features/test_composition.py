"""A letter with a combining accent is the letter with the accent."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rembrandt import TextFeatures
from rembrandt.features.composition import composed, segments

# Letters with accents below and above, both as one character and as several; accents in any order;
# Hangul by letters and syllables; characters that compose with one of no accent (Bengali), that are
# never composed (Devanagari QA), or that are replaced (the sign of the ångström), and half of a
# surrogate pair.
TRICKY = "aeou 1.ÅéǖḉI" + "\u0301\u0307\u0308\u0323\u0327\u0344" + "\u1100\u1161\u11a8\uac00\uac01"
TRICKY += "\u09c7\u09be\u0958\u212b\u0f73\u0f71\u0f72\u1b05\u1b35\ud800İ"
texts = st.text(st.sampled_from(list(TRICKY)), max_size=20) | st.text(max_size=20)


@settings(max_examples=500, deadline=None)  # the first call reads all of Unicode
@given(texts)
def test_the_composed_form_is_that_of_unicode(text):
    expected = unicodedata.normalize("NFC", text)
    assert composed(text) == expected
    pieces = segments(text)
    assert "".join(pieces) == text
    assert "".join(map(composed, pieces)) == expected


def test_segments_are_short():
    text = unicodedata.normalize("NFD", "Café crème, Ångström, 각각 각각")
    assert max(map(len, segments(text))) == 3 and "" not in segments(text)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(texts, min_size=1, max_size=5),
    st.sampled_from(["word", "char"]),
    st.sampled_from(["tfidf", "hashed"]),
    st.booleans(),
)
def test_features_do_not_depend_on_the_form(documents, analyzer, weighting, lowercase):
    documents = [*documents, "a é word"]
    features = TextFeatures(analyzer, weighting=weighting, min_df=1, lowercase=lowercase)
    X = features.fit_transform(documents)
    for form in ("NFC", "NFD"):
        same = [unicodedata.normalize(form, text) for text in documents]
        other = TextFeatures(analyzer, weighting=weighting, min_df=1, lowercase=lowercase)
        assert np.array_equal(other.fit_transform(same).toarray(), X.toarray())
        assert np.array_equal(features.transform(same).toarray(), X.toarray())
        assert other.terms_ == features.terms_


def test_stop_words_are_composed():
    nfd = unicodedata.normalize("NFD", "été")
    features = TextFeatures(min_df=1, stop_words=[nfd]).fit(["été chaud", f"{nfd} froid"])
    assert features.terms_ == ["chaud", "froid"]


@pytest.mark.parametrize("analyzer", ["word", "char"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_terms_are_located_in_the_text_as_it_was_given(analyzer, lowercase):
    text = unicodedata.normalize("NFD", "Le café d'Ångström, 각 été")
    features = TextFeatures(analyzer, min_df=1, lowercase=lowercase).fit([text])
    spans = features.locate([text])
    for column, start, stop in zip(spans.columns, spans.starts, spans.stops, strict=True):
        written = unicodedata.normalize("NFC", text[start:stop])
        if lowercase:
            written = written.lower()
        term = features.terms_[column].strip()
        assert written == term or (analyzer == "char" and term in written)
    if analyzer == "word":
        assert len(spans.columns) == 6
