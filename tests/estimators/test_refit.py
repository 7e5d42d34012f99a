"""Fitting again with the recipe of an earlier fit."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rembrandt import RembrandtClassifier, load
from rembrandt.data.generated import labelled_documents
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings

from .problems import settled

SMALL = EmbeddingSettings(n_random_features=50)


def refitted(classifier, data, **more):
    recipe = Recipe.from_json(classifier.settings_)
    return RembrandtClassifier(**classifier.get_params(deep=False)).fit_dataset(
        data, recipe=recipe, **more
    )


@pytest.mark.parametrize(
    "params",
    [
        {"embedding": SMALL, "random_state": 0},
        settled(scorers=("trees", "embedding"), trees=TreeSettings(n_trees=1, cost=1.0)),
        settled(threshold="macro"),
    ],
    ids=["chosen", "blend", "thresholds"],
)
def test_the_same_examples_give_the_same_model_without_a_search(params, tmp_path):
    data, _ = labelled_documents(150, n_topics=3, labels_per_topic=4)
    fitted = RembrandtClassifier(**params).fit_dataset(data)
    fitted.save(tmp_path / "model")
    again = refitted(load(tmp_path / "model"), data)
    assert again.selection_ == [] and Recipe.from_json(again.settings_) == Recipe.from_json(
        fitted.settings_
    )
    assert_array_equal(again.decision_function(data.texts), fitted.decision_function(data.texts))
    assert_array_equal(again.predict_proba(data.texts), fitted.predict_proba(data.texts))


def test_more_examples_bring_their_labels_and_words():
    data, _ = labelled_documents(400, n_topics=3, labels_per_topic=4)
    part = data.rows(np.arange(100))
    part = part.align_labels([part.label_names[i] for i in np.unique(part.Y.indices)])
    fitted = RembrandtClassifier(embedding=SMALL, random_state=0).fit_dataset(part)
    again = refitted(fitted, data)
    assert len(again.classes_) >= len(fitted.classes_) and len(again.text_.terms_) > len(
        fitted.text_.terms_
    )
    assert again.n_train_ == data.n_examples
    kept, chosen = Recipe.from_json(again.settings_), Recipe.from_json(fitted.settings_)
    assert replace(kept, scorers=chosen.scorers) == chosen  # which scorers help is measured again
