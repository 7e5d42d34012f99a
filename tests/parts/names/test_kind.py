"""The counted work of names grows with the words that are read, up to so many texts."""

import numpy as np
import pytest
from scipy import sparse

from rembrandt.parts.names import kind
from rembrandt.parts.names.settings import NameSettings
from rembrandt.parts.registry import KINDS
from tests.estimators.problems import examples


def counted(n_rows, words_per_row, n_labels=4):
    X = sparse.csr_array(np.ones((n_rows, words_per_row), dtype=np.float32))
    Y = np.eye(n_labels, dtype=np.float32)[np.arange(n_rows) % n_labels]
    return KINDS["names"].work(NameSettings(), examples(X, Y))


def test_work_grows_with_words_labels_and_texts(monkeypatch):
    monkeypatch.setattr(kind, "MAP_TEXTS", 100)
    monkeypatch.setattr(kind, "LEARNED_TEXTS", 40)
    small = counted(80, 10)
    assert counted(80, 20).dense == pytest.approx(2 * small.dense)
    assert counted(80, 20).sparse == pytest.approx(2 * small.sparse)
    assert counted(100, 10).dense == counted(300, 10).dense == pytest.approx(1.25 * small.dense)
    # All words are counted, and those of some texts are matched.
    assert counted(120, 10).sparse - small.sparse == pytest.approx(400)
    visits = small.sparse - 800
    assert counted(80, 10, 16).sparse - 800 == pytest.approx(2 * visits)
    assert counted(20, 10).sparse - 200 == pytest.approx(visits / 2)
