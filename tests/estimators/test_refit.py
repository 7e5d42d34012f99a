"""Fitting again with the settings of an earlier fit."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rembrandt import RembrandtClassifier, load
from rembrandt.data.generated import labelled_documents
from rembrandt.declarations import ModelSettings
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.trees.settings import TreeSettings

from .problems import settled

SMALL = EmbeddingSettings(n_random_features=50)


def refitted(classifier, data, **more):
    settings = ModelSettings.from_json(classifier.settings_)
    again = RembrandtClassifier(**classifier.get_params(deep=False))
    return again.fit_dataset(data, settings=settings, **more)


@pytest.mark.parametrize(
    "params",
    [
        {"embedding": SMALL, "random_state": 0},
        settled(parts=("trees", "embedding"), trees=TreeSettings(n_trees=1, cost=1.0)),
        settled(threshold="macro"),
    ],
    ids=["chosen", "blend", "thresholds"],
)
def test_the_same_examples_give_the_same_model(params, tmp_path):
    data, _ = labelled_documents(150, n_topics=3, labels_per_topic=4)
    fitted = RembrandtClassifier(**params).fit_dataset(data)
    fitted.save(tmp_path / "model")
    again = refitted(load(tmp_path / "model"), data)
    assert again.settings_ == fitted.settings_
    assert_array_equal(again.decision_function(data.texts), fitted.decision_function(data.texts))
    assert_array_equal(again.predict_proba(data.texts), fitted.predict_proba(data.texts))


def test_more_examples_bring_their_labels_and_words():
    data, _ = labelled_documents(400, n_topics=3, labels_per_topic=4)
    fewer = data.rows(np.arange(100))
    fewer = fewer.align_labels([fewer.label_ids[i] for i in np.unique(fewer.Y.indices)])
    fitted = RembrandtClassifier(embedding=SMALL, random_state=0).fit_dataset(fewer)
    again = refitted(fitted, data)
    assert len(again.classes_) >= len(fitted.classes_)
    assert len(again.text_.terms_) > len(fitted.text_.terms_)
    assert again.n_train_ == data.n_examples
    assert again.settings_ == fitted.settings_
