"""Rows with named views: features, vectors and texts."""

import numpy as np
from numpy.testing import assert_array_equal

from rembrandt import RembrandtClassifier
from rembrandt.data.targets import named_targets
from rembrandt.data.views import Views, as_texts, as_views
from rembrandt.progress import silent
from rembrandt.settings.view_names import FEATURES, TEXTS, VECTORS

WORDS = ["red apple", "green apple", "fast car", "apple car"]


def views():
    features = np.arange(12.0).reshape(4, 3)
    vectors = np.arange(8.0).reshape(4, 2)
    return Views(features, (vectors,), as_texts(WORDS))


def test_rows_are_taken_from_all_views():
    taken = views()[np.array([2, 0])]
    assert taken.n == 2
    assert_array_equal(taken.view(FEATURES), [[6, 7, 8], [0, 1, 2]])
    assert_array_equal(taken.view(VECTORS), [[4, 5], [0, 1]])
    assert taken.view(TEXTS).tolist() == ["fast car", "red apple"]
    assert views()[1:3].view(TEXTS).tolist() == ["green apple", "fast car"]


def test_a_matrix_has_no_texts():
    assert as_views(np.eye(3)).view(TEXTS) is None


def test_texts_of_a_data_frame_are_in_the_order_of_its_rows():
    import pandas as pd

    column = pd.Series(WORDS, index=[9, 3, 7, 1])
    assert as_texts(column).tolist() == WORDS


def test_examples_keep_the_texts_of_their_rows():
    classifier = RembrandtClassifier()
    labels = [["fruit"], ["fruit"], ["vehicle"], ["fruit", "vehicle"]]
    data, _ = classifier._read(WORDS, lambda: named_targets(labels, None), None, silent)
    assert data.texts.tolist() == WORDS
    part = data.take(np.array([3, 1]))
    assert part.texts.tolist() == ["apple car", "green apple"]
    assert part.rows.view(TEXTS).tolist() == ["apple car", "green apple"]
    assert part.view(TEXTS).n == 2
