"""Updates learn the words that the fit did not see, in the parts that have a weight for each."""

import numpy as np
import pytest

from rembrandt import RembrandtClassifier, TextFeatures, load
from rembrandt.errors import DataError
from rembrandt.model.facts import UpdateFacts
from rembrandt.updating import with_new_terms

TEXTS = ["red apple pie", "green apple tart", "red car race", "fast car road"] * 15
LABELS = [["fruit", "red"], ["fruit"], ["vehicle", "red"], ["vehicle"]] * 15
NEW_TEXTS = ["sailing yacht harbour", "yacht anchor sailing", "red yacht once"] * 5
NEW_LABELS = [["boat"], ["boat"], ["boat", "red"]] * 5


def fitted(parts=("trees", "centroids"), **parameters):
    return RembrandtClassifier(parts=parts, random_state=0, **parameters).fit(TEXTS, LABELS)


def test_new_terms_follow_the_others():
    features = TextFeatures(min_df=1).fit(["b a", "a c"])
    extended, new = features.extended(["z a z", "y z", "x"], 2)
    assert extended.terms_ == ["a", "b", "c", "x", "y", "z"]
    assert (new.n_terms, new.n_unknown, new.n_learned) == (4, 3, 3)
    np.testing.assert_array_equal(extended.idf_[:3], features.idf_)
    np.testing.assert_allclose(extended.idf_[3:], 1 + np.log(6 / np.array([2, 2, 3])), rtol=1e-6)
    texts = ["a b b", "c"]
    before = features.transform(texts).toarray()
    np.testing.assert_array_equal(extended.transform(texts).toarray()[:, :3], before)
    assert features.terms_ == ["a", "b", "c"]


def test_earlier_texts_count():
    features = TextFeatures(min_df=2).fit(["a b", "a b", "rare"])
    new = ["rare a", "once"]
    assert features.extended(new, 3)[0] is features
    extended, counts = features.extended(new, 3, ["a b", "a b", "rare"])
    assert extended.terms_ == ["a", "b", "rare"] and counts == (3, 2, 1)
    assert extended.idf_[2] == pytest.approx(1 + np.log(6 / 3))


def test_rare_terms_and_limited_vocabularies_are_not_extended():
    texts = ["b a", "a b"]
    frequent = TextFeatures(min_df=2).fit(texts)
    extended, new = frequent.extended(["z a", "z y"], 2)
    assert extended.terms_ == ["a", "b", "z"] and new.n_unknown == 2
    limited = TextFeatures(max_features=2).fit(texts)
    assert limited.extended(["z a", "z y"], 2)[0] is limited
    hashed = TextFeatures(weighting="hashed").fit(texts)
    assert hashed.extended(["z a"], 2) == (hashed, (0, 0, 0))


def test_a_model_with_new_terms_scores_as_before():
    parts = ("trees", "centroids", "embedding")
    model = fitted(parts, preset="fast").model_
    wider, new = with_new_terms(model, NEW_TEXTS)
    assert new.n_learned == 5 and wider.n_features == model.n_features + 5
    X = model.text.transform(TEXTS[:4])
    gap = np.zeros((4, 5), dtype=np.float32)
    wide = np.hstack([X.toarray(), gap])
    labels = np.tile(np.arange(model.n_labels), (4, 1))
    for name, part in model.parts.items():
        other = wider.parts[name]
        before = part.at(part.prepare(X), labels)
        after = other.at(other.prepare(type(X)(wide)), labels)
        np.testing.assert_allclose(after, before, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("history", [None, (TEXTS, LABELS)])
def test_new_labels_are_learned_from_new_words(history, tmp_path):
    classifier = fitted()
    n_features = classifier.n_features_in_
    assert not classifier.predict_labels(["yacht sailing"])[0]
    classifier.update(NEW_TEXTS, NEW_LABELS, history=history)
    assert classifier.n_features_in_ == n_features + 5
    assert classifier.predict_labels(["yacht sailing"], k=1) == [["boat"]]
    [facts] = classifier.facts_.updates
    assert (facts.n_words, facts.n_unknown_words, facts.n_learned_words) == (6, 5, 5)
    classifier.save(tmp_path / "model")
    same = load(tmp_path / "model")
    assert same.facts_.updates == (facts,)
    assert same.predict_labels(NEW_TEXTS) == classifier.predict_labels(NEW_TEXTS)
    explained = same.explain(["yacht"], ["boat"])[0][0]
    assert explained.top(1)[0][0] == "yacht"


def test_an_update_that_fails_leaves_the_model_as_it_was():
    classifier = fitted()
    model, n_features = classifier.model_, classifier.n_features_in_
    with pytest.raises(DataError):
        classifier.update(NEW_TEXTS, NEW_LABELS, history=(TEXTS, LABELS[:-1]))
    assert classifier.model_ is model and classifier.n_features_in_ == n_features
    classifier.update(NEW_TEXTS, NEW_LABELS)
    assert classifier.predict_labels(["yacht"], k=1) == [["boat"]]


def test_what_is_said_about_words():
    facts = UpdateFacts(0, 1, 0.0, (), n_words=10, n_unknown_words=4, n_learned_words=3)
    assert facts.words == (
        "The texts have 10 different words; the model did not know 4 of them (40 %) and has "
        "learned 3."
    )
    assert UpdateFacts(0, 1, 0.0, ()).words == ""
    assert "knew all of them" in UpdateFacts(0, 1, 0.0, (), n_words=3).words
    assert "ignores these" in UpdateFacts(0, 1, 0.0, (), n_words=3, n_unknown_words=1).words
