"""What the numbers of the names are worth, on generated texts."""

import json

import numpy as np
import pytest
from benchmarks.name_numbers import ADDED, KNOWN, Change, OtherParts, figures_of
from benchmarks.zero_shot import Rows, recall_error
from scipy import sparse

from benchmarks import name_numbers
from rembrandt.parts.names import fit, index, part, similarity, terms
from tests.test_zero_shot import WORDS, documents


def rows_of(n_rows, seed):
    texts, labels = documents(n_rows, seed)
    columns = [WORDS.index(names[0]) for names in labels]
    Y = sparse.csr_array((np.ones(n_rows), (np.arange(n_rows), columns)), shape=(n_rows, 40))
    return Rows(texts, Y, WORDS[:40])


@pytest.fixture
def generated(monkeypatch, tmp_path):
    """Two parts of generated texts in place of the files; no label is reserved."""
    parts = (rows_of(700, seed=0), rows_of(200, seed=1))
    monkeypatch.setattr(name_numbers, "parts_of", lambda name, develop: parts)
    monkeypatch.setattr(name_numbers, "FOLDER", tmp_path)
    monkeypatch.setattr(name_numbers, "N_RESERVED", 0)
    monkeypatch.setattr(name_numbers, "NUMBERS", ((index, "MAX_MATCHES"), (fit, "FEWEST_HITS")))
    return tmp_path


def test_every_number_is_changed_and_measured(generated, capsys):
    document = name_numbers.main(["attack"], 600, 4, folder=generated)
    stored = json.loads((generated / "name_numbers.json").read_text())
    assert stored["numbers"] == document["numbers"]
    changed = [(row["name"], row["factor"]) for row in document["numbers"]]
    assert changed == [(name, f) for name in ("MAX_MATCHES", "FEWEST_HITS") for f in (0.5, 2.0)]
    usual = document["usual"]["attack"]
    assert usual[KNOWN] > 30
    assert usual[ADDED] > 50
    # There are fewer labels than matches of a text that are kept, and enough hits.
    assert all(row["figures"]["attack"] == usual for row in document["numbers"])
    assert "FEWEST_HITS × 2" in capsys.readouterr().out


def test_parts_that_are_kept_give_the_same_figures(generated):
    [problem] = name_numbers.problems(["attack"], 600, 4)
    assert len(problem.hidden) == 4
    assert not {label for labels in problem.rest.lists() for label in labels} & set(problem.hidden)
    plain = figures_of(problem)
    kept = OtherParts()
    assert name_numbers.figures([problem], kept) == {"attack": plain}
    fitted = dict(kept._kept)
    assert name_numbers.figures([problem], kept) == {"attack": plain}
    assert kept._kept == fitted
    # Without its part a model cannot learn what names say.
    with Change(fit, "FEWEST_HITS", 1e9).applied():
        assert name_numbers.figures([problem], kept)["attack"][ADDED] == 0


def test_a_number_is_changed_wherever_it_is_read():
    change = Change(index, "MAX_MATCHES", 0.5)
    with change.applied():
        values = {module.MAX_MATCHES for module in (index, part, fit)}
    assert values == {50}
    assert {module.MAX_MATCHES for module in (index, part, fit)} == {100}
    assert Change(similarity, "MAX_SIMILAR", 0.001).value == 1
    assert Change(terms, "STEM_LENGTH", 2.0).value == 10


def test_the_error_of_a_recall_counts_labels():
    """Rows of one label are no draws of their own: twice as many of each leave the error."""
    counts = np.array([[4, 4], [4, 0], [2, 1], [6, 2]])
    error = recall_error(counts)
    assert recall_error(2 * counts) == pytest.approx(error)
    assert recall_error(np.vstack([counts] * 4)) == pytest.approx(error / 2)
    assert recall_error(np.zeros((3, 2))) == 0
