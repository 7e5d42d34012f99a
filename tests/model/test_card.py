"""The card in the folder of a model says what the model knows of itself, and keeps people's notes."""

import re

import pytest

from rembrandt import RembrandtClassifier, load
from rembrandt.errors import OutputExistsError
from rembrandt.metrics.intervals import wilson
from rembrandt.model.card import MARKER, notes_in

TEXTS = [f"{kind} number{i % 9} recipe" for i in range(150) for kind in ("bread", "cake")]
LABELS = [[kind, "food"] for _ in range(150) for kind in ("`bread`", "cake")]


@pytest.fixture(scope="module")
def fitted():
    return RembrandtClassifier(parts=("centroids",), random_state=0).fit(TEXTS, LABELS)


def test_the_card_has_data_figures_with_intervals_and_limits(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    card = (tmp_path / "model/README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: rembrandt\n")
    assert "# 3 labels for texts" in card and "300 examples (texts, " in card
    together = fitted.facts_.held_out[0]
    low, high = wilson(together.p1, together.n_examples)
    interval = re.search(r"P@1.*\| ([\d.]+) % \| ([\d.]+) % to >?([\d.]+) %", card)
    assert [float(value) for value in interval.groups()] == pytest.approx(
        [100 * together.p1, 100 * low, 100 * high], abs=0.11
    )
    assert f"Measured on {together.n_examples:,} training examples" in card
    assert "only predicts its 3 labels" in card and "`'bread'`" in card
    same = load(tmp_path / "model")
    assert same.predict_labels(["cake"]) == fitted.predict_labels(["cake"])


def test_notes_of_people_are_kept(fitted, tmp_path):
    folder = tmp_path / "model"
    fitted.save(folder)
    card = folder / "README.md"
    assert "## Notes" in notes_in(folder)
    card.write_text(card.read_text().partition(MARKER)[0] + MARKER + "\nOurs: CC-BY.\n")
    again = load(folder)
    again.update(["a pie"], [["pie"]])
    again.save(folder, force=True)
    assert card.read_text().endswith(f"{MARKER}\nOurs: CC-BY.\n")
    assert "# 4 labels" in card.read_text() and "1 example was added" in card.read_text()


def test_a_card_that_cannot_be_read_is_written_anew(fitted, tmp_path):
    folder = tmp_path / "model"
    fitted.save(folder)
    (folder / "README.md").write_bytes(b"\xff\xfe\x00")
    assert load(folder).classes_.tolist() == fitted.classes_.tolist()
    fitted.save(folder, force=True)
    assert "# 3 labels" in (folder / "README.md").read_text()


def test_other_files_are_still_strangers(fitted, tmp_path):
    folder = tmp_path / "model"
    fitted.save(folder)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(OutputExistsError, match=r"notes\.txt"):
        fitted.save(folder, force=True)
