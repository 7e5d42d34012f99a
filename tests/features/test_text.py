"""TextFeatures against scikit-learn's vectoriser, and what must not change the result."""

import gzip
import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from rembrandt.errors import DataError
from rembrandt.features import analysis, counting, terms
from rembrandt.features.text import TextFeatures

TEXTS = [
    "Vitamin C, vitamin D",
    "",
    "  the\tcat's  C_3 ",
    "été ÉTÉ 日本語 Ünï-cödé",
    "The vitamin of the cat",
    "!?",
]

# few letters, so that words repeat; cases, digits, white space of several kinds, marks, and letters
# beyond the BMP
characters = st.sampled_from(list("abAB_1 \t\n\x1c\u00a0\u2003-.,'éÉßİΣς日\u0301\U0001d400\ud800"))
texts_lists = st.lists(st.text(characters, max_size=25), min_size=1, max_size=8)


def sklearn_twin(analyzer, ngram_range, **options):
    kind = {"analyzer": "char_wb"} if analyzer == "char" else {"token_pattern": r"(?u)\b\w+\b"}
    return TfidfVectorizer(ngram_range=ngram_range, sublinear_tf=True, norm="l2", **kind, **options)


def nfc(texts):
    """Texts as scikit-learn has to get them: it takes an accent for the end of a word."""
    return [unicodedata.normalize("NFC", text) for text in texts]


def assert_same_rows(X, Y):
    assert X.shape == Y.shape
    assert X.dtype == Y.dtype == np.float32
    assert_array_equal(X.indptr, Y.indptr)
    assert_array_equal(X.indices, Y.indices)
    assert_array_equal(X.data, Y.data)


@settings(max_examples=300, deadline=None)
@given(
    texts_lists,
    texts_lists,
    st.sampled_from(
        [("word", (1, 1)), ("word", (1, 2)), ("word", (2, 3)), ("char", (1, 2)), ("char", (3, 4))]
    ),
    st.booleans(),
    st.sampled_from([1, 2, 0.0, 0.3, 0.5]),
    st.sampled_from([1.0, 1.0, 0.7, 3]),
)
def test_equals_sklearn(train, test, kind, lowercase, min_df, max_df):
    twin = sklearn_twin(*kind, lowercase=lowercase, min_df=min_df, max_df=max_df)
    ours = TextFeatures(*kind, lowercase=lowercase, min_df=min_df, max_df=max_df)
    try:
        expected = twin.fit_transform(nfc(train))
    except ValueError:  # no term is left
        with pytest.raises(DataError, match="lower min_df"):
            ours.fit(train)
        return
    X = ours.fit_transform(train)
    assert ours.get_feature_names_out().tolist() == twin.get_feature_names_out().tolist()
    assert_allclose(X.toarray(), expected.toarray(), rtol=1e-5, atol=1e-6)
    assert_allclose(
        ours.transform(test).toarray(), twin.transform(nfc(test)).toarray(), rtol=1e-5, atol=1e-6
    )
    assert_same_rows(ours.transform(train), X)


def test_stop_words_go_before_words_are_joined():
    twin = sklearn_twin("word", (1, 2), stop_words=["the", "of"])
    ours = TextFeatures(ngram_range=(1, 2), min_df=1, stop_words=["the", "of"])
    assert_allclose(
        ours.fit_transform(TEXTS).toarray(), twin.fit_transform(TEXTS).toarray(), rtol=1e-5
    )
    assert ours.get_feature_names_out().tolist() == twin.get_feature_names_out().tolist()
    assert "vitamin cat" in ours.get_feature_names_out()


def test_max_features_keeps_the_most_frequent_then_the_first():
    ours = TextFeatures(min_df=1, max_features=3).fit(["b b b", "d c a", "d"])
    assert ours.get_feature_names_out().tolist() == ["a", "b", "d"]


def test_rows_have_length_one_and_empty_documents_are_empty_rows():
    X = TextFeatures(min_df=1).fit_transform(TEXTS)
    assert_allclose(X.power(2).sum(axis=1), [1, 0, 1, 1, 1, 0], rtol=1e-5)
    assert X.has_sorted_indices
    assert TextFeatures(min_df=1).fit(TEXTS).transform([]).shape == (0, X.shape[1])


@pytest.mark.parametrize(
    "options", [{}, {"analyzer": "char"}, {"weighting": "hashed", "n_features": 50}]
)
def test_chunks_do_not_change_anything(monkeypatch, options):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["ab", "b", "Cab", "dß"], rng.integers(0, 9))) for _ in range(60)]
    whole = TextFeatures(**options)
    expected = whole.fit_transform(texts)
    for chunk in (1, 7, 100):
        monkeypatch.setattr(analysis, "CHUNK_CHARACTERS", chunk)
        features = TextFeatures(**options)
        assert_same_rows(features.fit_transform(texts), expected)
        assert_array_equal(features.get_feature_names_out(), whole.get_feature_names_out())
        assert_same_rows(whole.transform(texts), expected)


@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_hashed_needs_no_training_and_weighs_by_count(analyzer):
    features = TextFeatures(analyzer, weighting="hashed", n_features=2**18).fit([])
    X = features.transform(["red", "red red", "red hen", ""])
    assert X.shape == (4, 2**18)
    assert_allclose(X[[0]].toarray(), X[[1]].toarray(), rtol=1e-6)
    assert_allclose(X.power(2).sum(axis=1), [1, 1, 1, 0], rtol=1e-6)
    if analyzer == "word":
        twice = features.transform(["red red hen"])
        assert sorted(twice.data / twice.data.min()) == pytest.approx([1, 1 + np.log(2)])
    assert len(features.get_feature_names_out()) == 2**18


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"analyzer": "char"},
        {"analyzer": "char", "ngram_range": (1, 2)},
        {"ngram_range": (1, 3), "stop_words": ["the"]},
        {"weighting": "hashed", "n_features": 99, "lowercase": False},
    ],
)
def test_saved_and_restored(options):
    features = TextFeatures(min_df=1, **options).fit(TEXTS)
    config = json.loads(json.dumps(features.to_config()))
    again = TextFeatures.from_arrays(features.to_arrays(), config)
    assert again.get_params() == features.get_params()
    assert_array_equal(again.get_feature_names_out(), features.get_feature_names_out())
    assert_same_rows(again.transform(TEXTS), features.transform(TEXTS))


def test_damaged_arrays_are_refused():
    features = TextFeatures(min_df=1).fit(TEXTS)
    arrays = features.to_arrays()
    with pytest.raises(DataError, match="save the features again"):
        TextFeatures.from_arrays(arrays | {"idf": arrays["idf"][:-1]}, features.to_config())


def test_plain_string_and_rows_that_are_not_text_are_refused():
    with pytest.raises(DataError, match="put it in a list"):
        TextFeatures().fit("one text")
    for wrong in (None, 3, b"bytes", float("nan")):
        with pytest.raises(DataError, match=r"row 1 is \w+, not text"):
            TextFeatures(min_df=1).fit(["good", wrong])
    with pytest.raises(NotFittedError):
        TextFeatures().transform(["a"])


def test_iterables_and_subclasses_of_str_are_texts():
    expected = TextFeatures(min_df=1).fit_transform(TEXTS)
    for texts in (iter(TEXTS), tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object)):
        assert_same_rows(TextFeatures(min_df=1).fit_transform(texts), expected)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"analyzer": "words"}, "'word' or 'char'"),
        ({"weighting": "bm25"}, "'tfidf' or 'hashed'"),
        ({"ngram_range": (2, 1)}, "smallest ≤ largest"),
        ({"ngram_range": (0, 1)}, "smallest ≤ largest"),
        ({"min_df": 0}, "min_df is 0"),
        ({"n_features": 0}, "n_features is 0"),
        ({"analyzer": "char", "stop_words": ["a"]}, "stop_words"),
        ({"stop_words": "german"}, "a list of words"),
        ({"min_df": 1.5}, "min_df is 1.5"),
        ({"max_df": -0.1}, "max_df is -0.1"),
    ],
)
def test_impossible_parameters_are_refused(options, complaint):
    with pytest.raises(DataError, match=complaint):
        TextFeatures(**options).fit(TEXTS)


def test_is_a_scikit_learn_transformer():
    pipeline = make_pipeline(TextFeatures(min_df=1))
    assert pipeline.fit_transform(TEXTS).shape[0] == len(TEXTS)
    copy = clone(TextFeatures("char", stop_words=None, min_df=7))
    assert copy.get_params()["min_df"] == 7


def test_progress_is_reported():
    seen = []
    TextFeatures(min_df=1).fit(TEXTS, report=lambda *what: seen.append(what))
    assert seen == [("reading texts", 6, 6)]


def test_white_space_and_word_tables_agree_with_str():
    everything = [chr(point) for point in range(0x110000)]
    assert_array_equal(
        terms.code_points_matching(r"\s"), [character.isspace() for character in everything]
    )
    word = [character.isalnum() or character == "_" for character in everything]
    assert_array_equal(terms.code_points_matching(r"\w"), word)


def test_hashes_of_short_strings_do_not_collide():
    letters = [chr(point) for point in [*range(32, 127), *range(0x400, 0x460), 0x1D400, 0x10FFFF]]
    strings = [a + b + c for a in letters[:100] for b in letters for c in letters[:60]] + [
        a + b for a in letters for b in letters
    ]
    assert len(np.unique(terms.hash_each(strings))) == len(strings)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 5))
def test_vocabulary_numbers_by_first_appearance(values, pieces):
    vocabulary, hashes = counting.Vocabulary(), np.array(values, dtype=np.uint64)
    numbers = [vocabulary.learn(part) for part in np.array_split(hashes, pieces)]
    order = list(dict.fromkeys(values))
    assert_array_equal(np.concatenate(numbers), [order.index(value) for value in values])
    assert len(vocabulary) == len(order)
    assert vocabulary.numbers(np.array([99], dtype=np.uint64)) == [-1]


def test_vocabulary_grows():
    hashes = np.random.default_rng(0).integers(0, 2**63, 100_000).astype(np.uint64)
    vocabulary = counting.Vocabulary()
    assert_array_equal(vocabulary.learn(np.repeat(hashes, 2)), np.repeat(np.arange(100_000), 2))
    assert_array_equal(vocabulary.numbers(hashes), np.arange(100_000))


@pytest.mark.data
def test_equals_sklearn_on_real_names(real_data):
    with gzip.open(real_data / "mesh" / "test.tsv.gz", "rt", encoding="utf-8") as file:
        names = [line.split("\t")[0] for line in file][1:]
    ours, twin = (
        TextFeatures("char", min_df=2),
        sklearn_twin("char", (3, 4), min_df=2, dtype=np.float32),
    )
    difference = abs(ours.fit_transform(names) - twin.fit_transform(names))
    assert difference.max() < 1e-6
    assert ours.get_feature_names_out().tolist() == twin.get_feature_names_out().tolist()


@given(
    st.lists(texts_lists, min_size=1, max_size=4),
    st.sampled_from(
        [{"min_df": 1}, {"min_df": 2, "max_features": 3}, {"analyzer": "char", "min_df": 2}]
    ),
)
def test_texts_in_parts_teach_the_same_as_all_at_once(parts, how):
    try:
        whole = (
            TextFeatures(**how).fit([document for part in parts for document in part]).to_arrays()
        )
    except DataError:  # no term occurs often enough
        with pytest.raises(DataError):
            TextFeatures(**how).fit_parts(parts)
        return
    for name, found in TextFeatures(**how).fit_parts(parts).to_arrays().items():
        assert_array_equal(found, whole[name])


def test_english_stop_words_are_those_of_scikit_learn():
    twin = sklearn_twin("word", (1, 2), min_df=1, stop_words="english")
    texts = ["the cat and the hat", "a hat on a cat", "cats"]
    ours = TextFeatures(ngram_range=(1, 2), min_df=1, stop_words="english").fit(texts)
    assert ours.get_feature_names_out().tolist() == twin.fit(texts).get_feature_names_out().tolist()
    again = TextFeatures.from_arrays(ours.to_arrays(), json.loads(json.dumps(ours.to_config())))
    assert_same_rows(again.transform(texts), ours.transform(texts))


def test_settings_of_earlier_versions_are_read():
    ours = TextFeatures(min_df=1).fit(TEXTS)
    config = ours.to_config()
    del config["max_df"]
    config["min_count"] = config.pop("min_df")
    assert TextFeatures.from_arrays(ours.to_arrays(), config).get_params() == ours.get_params()
