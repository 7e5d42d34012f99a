"""The parts of the backend that do not need Annif: settings, stored documents, and the error
without Annif.
"""

import importlib.util
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rembrandt.annif.documents import as_dataset, load_documents, save_documents
from rembrandt.annif.settings import classifier_from, unknown_settings
from rembrandt.cli.app import app
from rembrandt.errors import ModelError, SettingsError

OURS = {
    "n_components": "50",
    "decoder_ridge": "0.1",
    "kernel": "none",
    "seed": "3",
    "terms": "char",
    "ngrams": "3-5",
    "hashed": "yes",
    "min_df": "1",
}


def test_settings_are_read_from_strings_and_from_toml() -> None:
    classifier = classifier_from(OURS | {"vocab": "v", "analyzer": "simple"})
    assert (classifier.n_components, classifier.decoder_ridge, classifier.kernel) == (50, 0.1, None)
    assert classifier.random_state == 3
    text = classifier.text
    assert (text.analyzer, text.ngram_range, text.weighting, text.min_df) == (
        "char",
        (3, 5),
        "hashed",
        1,
    )
    typed = classifier_from(
        OURS | {"n_components": 50, "decoder_ridge": 0.1, "seed": 3, "hashed": True, "min_df": 1}
    )
    assert typed.get_params() | {"text": None} == classifier.get_params() | {"text": None}
    assert typed.text.get_params() == text.get_params()
    plain = classifier_from({"ngrams": "2", "hashed": False, "n_components": "auto"})
    assert (
        plain.random_state == 0
        and plain.text.ngram_range == (2, 2)
        and plain.text.weighting == "tfidf"
    )


@pytest.mark.parametrize(
    ("name", "value"), [("n_components", "many"), ("hashed", "perhaps"), ("ngrams", "1-x")]
)
def test_an_invalid_setting_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}={value}"):
        classifier_from({name: value})


def test_misspelled_settings_are_found() -> None:
    assert unknown_settings({"name": "x", "limit": 5, "n_component": 3} | OURS) == ["n_component"]


def test_stored_documents_are_loaded(tmp_path: Path) -> None:
    documents = [("a b", ["u:1", "u:2"]), ("", ["u:2"]), ("ü\n\tz \ud800", ["u:3"])]
    path = tmp_path / "kept.jsonl"
    for _ in range(2):  # a second time replaces the first
        save_documents(path, documents)
    assert load_documents(path) == documents
    data = as_dataset(documents)
    assert data.label_ids == ["u:1", "u:2", "u:3"] and data.task == "multilabel"
    assert data.Y.toarray().tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    for damaged in (b'["a b", ["u:1"', b'{"a": 1}', b"3"):
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match="train again"):
            load_documents(path)


@pytest.mark.skipif(importlib.util.find_spec("annif") is not None, reason="annif is installed here")
def test_without_annif_the_error_says_what_to_install() -> None:
    said = CliRunner().invoke(app, ["annif", "train", "project", "--help"])
    assert (
        said.exit_code == 1
        and "pip install 'rembrandt[annif]'" in said.stderr
        and said.stderr.count("\n") == 1
    )
