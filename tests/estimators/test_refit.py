"""Fitting again with the settings that a first fit chose."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt import RembrandtClassifier, load
from rembrandt.data.generated import labelled_documents

from .problems import SETTLED, blobs, several


def test_the_same_examples_give_the_same_model_without_a_search(tmp_path):
    data, _ = labelled_documents(150, n_topics=3, labels_per_topic=4)
    fitted = RembrandtClassifier(random_state=0, n_random_features=50).fit_dataset(data)
    assert fitted.selection_  # something was searched for
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    stages = []
    again.refit_dataset(data, lambda stage, done, total: stages.append(stage))
    assert "choosing settings" not in stages
    assert again.settings_ == fitted.settings_ and again.selection_ == fitted.selection_
    assert_array_equal(again.decision_function(data.texts), fitted.decision_function(data.texts))


def test_a_sparse_part_is_kept(tmp_path):
    data, _ = labelled_documents(150, n_topics=3, labels_per_topic=4)
    RembrandtClassifier(**SETTLED, sparse=True, sparse_trees=1).fit_dataset(data).save(tmp_path / "model")
    fitted, again = load(tmp_path / "model"), load(tmp_path / "model").refit_dataset(data)
    assert again.model_.forest is not None and again.settings_ == fitted.settings_
    assert_allclose(again.decision_function(data.texts), fitted.decision_function(data.texts), atol=1e-6)


def test_added_examples_bring_their_labels_and_words():
    data, _ = labelled_documents(400, n_topics=3, labels_per_topic=4)
    part = data.rows(np.arange(100))
    part = part.align_labels([part.label_names[i] for i in np.unique(part.Y.indices)])
    fitted = RembrandtClassifier(random_state=0, n_random_features=50).fit_dataset(part)
    names, terms, ridge = len(fitted.classes_), len(fitted.text_.terms_), fitted.settings_["decoder_ridge"]
    fitted.refit_dataset(data)
    assert len(fitted.classes_) >= names and len(fitted.text_.terms_) > terms and fitted.n_train_ == data.n_examples
    assert fitted.settings_["decoder_ridge"] == ridge


def test_probabilities_of_the_best_are_those_of_all():
    for X, y in (blobs(), several()):
        fitted = RembrandtClassifier(**SETTLED).fit(X, y)
        rows = fitted.model_rows(X)
        best, scores = fitted.model_.top_k(rows, 3)
        expected = np.take_along_axis(fitted.predict_proba(X), best, axis=1)
        assert_allclose(fitted.model_.probabilities_of(rows, best, scores), expected, rtol=1e-4, atol=1e-6)
