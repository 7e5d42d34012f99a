"""Models of every released version of the format load, and say what they said."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_allclose

from rembrandt import load
from rembrandt.model.folder import FORMAT_VERSION

from .make_frozen import FOLDER, predictions

FROZEN = sorted(FOLDER.iterdir())


def test_the_present_version_is_kept() -> None:
    """If the format was changed since the last release, run ``python -m
    tests.model.make_frozen``, and keep the folders of releases.
    """
    assert FOLDER / f"version_{FORMAT_VERSION}" in FROZEN


@pytest.mark.parametrize("folder", FROZEN, ids=lambda folder: folder.name)
def test_a_frozen_model_says_what_it_said(folder: Path, tmp_path: Path) -> None:
    expected: Any = json.loads((folder / "predictions.json").read_text(encoding="utf-8"))
    classifier = load(folder / "model")
    actual = predictions(classifier, expected["texts"])
    assert_allclose(actual.pop("probabilities"), expected.pop("probabilities"), rtol=1e-3)
    assert_allclose(actual.pop("threshold"), expected.pop("threshold"), rtol=1e-6)
    assert actual == expected
    assert classifier.extra_ == {"reading": {"text": ["title"]}}
    # It can be saved and loaded again.
    classifier.save(tmp_path / "again")
    again = predictions(load(tmp_path / "again"), expected["texts"])
    assert again["labels"] == expected["labels"]


@pytest.mark.parametrize("folder", FROZEN, ids=lambda folder: folder.name)
def test_a_frozen_model_learns_more(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder / "model", tmp_path / "model")
    classifier = load(copy)
    n_before = classifier.n_train_
    known: Any = json.loads((folder / "predictions.json").read_text(encoding="utf-8"))
    labels = [row[:1] for row in known["labels"][:3]]
    classifier.update(known["texts"][:3], labels)
    assert classifier.n_train_ == n_before + 3
