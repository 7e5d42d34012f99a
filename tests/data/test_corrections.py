"""Corrections are read as examples, and the last answer to a text counts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rembrandt import Dataset, read
from rembrandt.data.corrections import (
    Correction,
    is_corrections,
    may_append,
    read_corrections,
    with_corrections,
)
from rembrandt.data.detect import detect
from rembrandt.errors import DataError


def line(text: str, labels: list[str], rejected: tuple[str, ...] = (), **others: Any) -> str:
    return json.dumps({"text": text, "labels": labels, "rejected": list(rejected), **others})


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return path


def test_the_last_answer_to_a_text_counts(tmp_path: Path) -> None:
    path = write(
        tmp_path / "answers.jsonl",
        line("a pie", ["meat"], time="yesterday"),
        line("a steak", ["meat"], ("baking",)),
        "",
        line("a pie", [" baking", "sweet, not salty", "baking"]),
    )
    assert read_corrections(path) == [
        Correction("a pie", ("baking", "sweet, not salty")),
        Correction("a steak", ("meat",), ("baking",)),
    ]
    assert detect(path) == "corrections"
    data = read(path)
    assert data.texts == ["a pie", "a steak"]
    assert data.label_ids == ["baking", "meat", "sweet, not salty"]  # no label is split
    np.testing.assert_array_equal(data.Y.toarray(), [[1, 0, 1], [0, 1, 0]])


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", line("a pie", ["meat"]), '{"text": "a st', end="")
    assert [correction.text for correction in read_corrections(path)] == ["a pie"]
    path.write_bytes(path.read_bytes() + "é".encode()[:1])  # cut within a character
    assert [correction.text for correction in read_corrections(path)] == ["a pie"]
    path = write(tmp_path / "a.jsonl", line("a pie", ["meat"]), line("b", []), end="")
    assert [correction.text for correction in read_corrections(path)] == ["a pie", "b"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("[1]", "line 2: expected an object with text, labels, rejected"),
        ('{"text": "a"}', "line 2: expected an object with text, labels, rejected"),
        ('{"text": ', "line 2: this line is not JSON"),
        (line("a", ["x"], ("x",)), "line 2: 'x' is both accepted and rejected"),
        ('{"text": 1, "labels": [], "rejected": []}', "line 2: 'text' is not a text"),
        ('{"text": "\\ud800", "labels": [], "rejected": []}', "line 2: 'text' is not a text"),
        ('{"text": "a", "labels": "x", "rejected": []}', "'labels' is not a list"),
        ('{"text": "a", "labels": [" "], "rejected": []}', "which is no label"),
        ('{"text": "a", "labels": [], "rejected": [2]}', "'rejected' has 2"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, wrong: str, message: str) -> None:
    path = write(tmp_path / "answers.jsonl", line("a pie", ["meat"]), wrong)
    with pytest.raises(DataError) as caught:
        read(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("n_before", [0, 1])
def test_a_line_of_nested_lists_is_refused(tmp_path: Path, n_before: int, end: str) -> None:
    nested = '{"text": ' + 20_000 * "[" + 20_000 * "]" + "}"
    lines = [*[line("a pie", ["meat"])] * n_before, nested]
    path = write(tmp_path / "answers.jsonl", *lines, end=end)
    with pytest.raises(DataError, match=f"line {n_before + 1}: this line is not JSON"):
        read(path)


def test_other_files_are_no_corrections(tmp_path: Path) -> None:
    table = write(tmp_path / "table.jsonl", '{"text": "a", "labels": ["b"]}')
    assert not is_corrections(table) and detect(table) == "jsonl" and not may_append(table)
    assert may_append(tmp_path / "new.jsonl")
    assert may_append(write(tmp_path / "empty.jsonl", end=""))
    assert may_append(write(tmp_path / "torn.jsonl", '{"te', end=""))
    assert may_append(write(tmp_path / "long.jsonl", line("a" * 200_000, [])))
    assert not may_append(write(tmp_path / "other.jsonl", '{"version": 1', end=""))
    assert not may_append(tmp_path)


def test_corrections_replace_the_labels_of_the_same_texts(tmp_path: Path) -> None:
    examples = ["__label__meat a pie", "__label__meat a steak", "__label__baking bread"]
    data = read(write(tmp_path / "train.txt", *examples))
    assert data.task == "multiclass"
    path = write(
        tmp_path / "answers.jsonl",
        line("a pie", ["baking", "sweets"], ("meat",)),
        line("soup", []),
    )
    joined, sentence = with_corrections(data, path)
    assert joined.texts == ["a steak", "bread", "a pie", "soup"]
    assert joined.label_ids == ["baking", "meat", "sweets"]
    np.testing.assert_array_equal(joined.Y.toarray(), [[0, 1, 0], [1, 0, 0], [1, 0, 1], [0, 0, 0]])
    assert joined.task == "multilabel"
    assert "2 corrected texts with 2 accepted labels and 1 rejected label; 1 " in sentence
    numbers = Dataset.from_arrays(np.eye(2), [["a"], ["b"]])
    with pytest.raises(DataError, match="need examples that are texts"):
        with_corrections(numbers, path)
