"""Terms of languages: stems, lemmas, parts of compounds, detection, stop words."""

import pickle
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone

from rembrandt import RembrandtClassifier, TextFeatures, load
from rembrandt.errors import DataError, RembrandtError, RembrandtWarning
from rembrandt.features import languages
from rembrandt.features.languages import STEMMERS, detected, languages_of
from rembrandt.features.word_forms import WordForms

snowballstemmer = pytest.importorskip("snowballstemmer")
simplemma = pytest.importorskip("simplemma")
pytest.importorskip("py3langid")

GERMAN = "Die Hochschulen und Universitätsbibliotheken in der Bundesrepublik Deutschland"
ENGLISH = "The universities and the libraries of the country were running courses"


def test_forms_of_a_word_are_one_term():
    features = TextFeatures(min_df=1, language="de").fit(["Das Haus", "der Häuser"])
    assert "haus" in features.terms_
    assert "häuser" in features.terms_  # the word itself is a term, too
    rows = features.transform(["Häuser", "Hauses"]).toarray()
    column = features.terms_.index("haus")
    assert (rows[:, column] > 0).all()


def test_stems_are_those_of_snowball():
    words = ["universities", "running", "organisation", "houses"]
    features = TextFeatures(min_df=1, language="en").fit([" ".join(words)])
    stemmer = snowballstemmer.stemmer("english")
    assert set(features.terms_) == {*words, *stemmer.stemWords(words)}


def test_lemmas_are_those_of_simplemma():
    features = TextFeatures(min_df=1, language="en", word_forms="lemma").fit(["mice were running"])
    lemmas = {simplemma.lemmatize(word, lang="en") for word in ("mice", "were", "running")}
    assert set(features.terms_) == {"mice", "were", "running", *lemmas}


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("universitätsbibliothek", ("universität", "bibliothek")),
        ("windenergieanlage", ("wind", "energie", "anlage")),
        ("bibliothek", ()),
        ("und", ()),
        ("x" * 1000, ()),
    ],
)
def test_compounds_are_taken_apart(word, parts):
    found_parts = WordForms("de", "stem", False).parts(word)
    if word == "windenergieanlage":
        assert found_parts[-1] == "anlage"
        assert "".join(found_parts) == word
    else:
        assert found_parts == parts


def test_languages_without_compounds_in_one_word():
    assert WordForms("en", "stem", False).parts("bookshelfmaker") == ()


def test_the_language_of_each_text_is_detected():
    codes = languages_of("auto")
    numbers = detected([GERMAN, ENGLISH], codes)
    assert [codes[number] for number in numbers] == ["de", "en"]
    features = TextFeatures(min_df=1, language="auto").fit([GERMAN, ENGLISH])
    alone = TextFeatures(min_df=1, language="de").fit([GERMAN])
    assert set(alone.terms_) <= set(features.terms_)
    assert "librari" in features.terms_
    # Each text has the terms of its own language.
    together = features.transform([GERMAN, ENGLISH])
    names = np.array(features.terms_)
    assert set(names[together[[0]].indices]) == set(alone.terms_)


def test_a_text_has_the_same_terms_in_any_batch():
    texts = [GERMAN, ENGLISH, "", "Windenergieanlagen auf dem Meer", "42"]
    features = TextFeatures(min_df=1, language="auto")
    X = features.fit_transform(texts)
    assert np.array_equal(X.toarray(), features.transform(texts).toarray())
    for number, text in enumerate(texts):
        alone = features.transform([text]).toarray()
        assert np.array_equal(alone[0], X[[number]].toarray()[0])


def test_ngrams_are_of_stems_and_parts_stand_alone():
    features = TextFeatures(min_df=1, language="de", ngram_range=(1, 2), stop_words="language")
    features.fit(["Die Universitätsbibliotheken der Hochschulen"])
    assert "universitatsbibliothek hochschul" in features.terms_
    assert "bibliothek" in features.terms_
    assert "bibliothek hochschul" not in features.terms_
    assert not {"die", "der"} & set(features.terms_)
    bigrams = TextFeatures(min_df=1, language="de", ngram_range=(2, 2), stop_words="language")
    bigrams.fit(["Die Universitätsbibliotheken der Hochschulen"])
    assert bigrams.terms_ == ["universitatsbibliothek hochschul"]


def test_terms_are_located_in_the_text():
    text = "Alte  Universitätsbibliotheken"
    features = TextFeatures(min_df=1, language="de").fit([text])
    spans = features.locate([text])
    words = {
        features.terms_[column]: text[start:stop]
        for column, start, stop in zip(spans.columns, spans.starts, spans.stops, strict=True)
    }
    assert words["bibliothek"] == "Universitätsbibliotheken"
    assert words["alt"] == "Alte"


@pytest.mark.parametrize("weighting", ["tfidf", "hashed"])
def test_saved_and_loaded(weighting):
    features = TextFeatures(
        min_df=1, language=["en", "de"], weighting=weighting, n_features=256, stop_words="language"
    ).fit([GERMAN, ENGLISH])
    again = TextFeatures.from_arrays(features.to_arrays(), features.to_config())
    expected = features.transform([ENGLISH, GERMAN]).toarray()
    assert np.array_equal(again.transform([ENGLISH, GERMAN]).toarray(), expected)
    copy = pickle.loads(pickle.dumps(features))
    assert np.array_equal(copy.transform([ENGLISH, GERMAN]).toarray(), expected)
    assert clone(features).language == ["en", "de"]


def test_a_model_keeps_its_language(tmp_path):
    texts = ["alte Häuser", "neues Haus", "schnelle Autos", "rotes Auto"] * 10
    labels = ["Bau", "Bau", "Verkehr", "Verkehr"] * 10
    classifier = RembrandtClassifier(
        preset="fast", random_state=0, text=TextFeatures(language="de")
    ).fit(texts, labels)
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict(["Hauses"]).tolist() == ["Bau"]
    assert np.array_equal(
        again.predict_proba(["des Hauses"]), classifier.predict_proba(["des Hauses"])
    )


def test_other_packages_than_those_of_the_fit_are_named():
    features = TextFeatures(min_df=1, language="de").fit([GERMAN])
    arrays = features.to_arrays()
    packages = ["py3langid 0.1", "simplemma 0.1", "snowballstemmer 0.1"]
    from rembrandt.storage.arrays import pack_strings

    with pytest.warns(RembrandtWarning, match=r"snowballstemmer 0\.1"):
        TextFeatures.from_arrays(arrays | pack_strings("packages", packages), features.to_config())
    with pytest.raises(DataError, match="saved languages"):
        TextFeatures.from_arrays(arrays | pack_strings("languages", ["fr"]), features.to_config())


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(
        RembrandtError, match=r"snowballstemmer: pip install 'rembrandt\[languages\]'"
    ):
        TextFeatures(min_df=1, language="de").fit([GERMAN])
    TextFeatures(min_df=1).fit([GERMAN])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"language": "xx"}, "use 'auto', or codes"),
        ({"language": []}, "use 'auto', or codes"),
        ({"language": "de", "analyzer": "char"}, "needs analyzer='word'"),
        ({"language": "de", "lowercase": False}, "lowercase=True"),
        ({"language": "de", "word_forms": "root"}, "'stem' or 'lemma'"),
        ({"stop_words": "language"}, "where a language is set"),
    ],
)
def test_impossible_parameters(parameters, message):
    with pytest.raises(DataError, match=message):
        TextFeatures(min_df=1, **parameters).fit([GERMAN])


def test_every_language_has_a_stemmer_and_can_be_detected():
    algorithms = snowballstemmer.algorithms()
    assert set(STEMMERS.values()) <= set(algorithms)
    assert languages._identifier(languages_of("auto")) is not None
    assert len(languages_of("de, en")) == 2


def test_without_a_language_nothing_of_it_is_saved():
    features = TextFeatures(min_df=1).fit([GERMAN])
    assert features.to_arrays().keys() == {"terms", "terms.ends", "idf"} or (
        "languages" not in features.to_arrays()
    )
    assert "language" not in features.to_config()


def test_threads_do_not_share_a_stemmer():
    features = TextFeatures(min_df=1, language="en").fit([ENGLISH])
    expected = features.transform([ENGLISH]).toarray()
    words = WordForms("en", "stem", False)
    outcomes = []

    def transform(number):
        for turn in range(200):
            words.forms(f"running{number}x{turn}ing")
        outcomes.append(np.array_equal(features.transform([ENGLISH]).toarray(), expected))

    threads = [threading.Thread(target=transform, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [True] * 4
