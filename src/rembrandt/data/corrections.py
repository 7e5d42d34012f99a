"""Corrections: what people answered when they reviewed the suggestions of a model.

A file of corrections is JSON lines. Every line is one answer: the text, its labels, and the labels
that were rejected. An answer is complete: the text has these labels and no others. Lines are only
added, so the last answer to a text is the one that counts.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.arrays import move_columns
from rembrandt.data.batches import Batch, Ids
from rembrandt.data.compressed import head, line_chunks, plain_suffix
from rembrandt.data.dataset import Dataset, Task
from rembrandt.data.labels import LabelIndex
from rembrandt.errors import DataError, counted
from rembrandt.progress import Report, silent

FIELDS = ("text", "labels", "rejected")  # of every line; others are allowed
FILE_SUFFIX = ".jsonl"
_START = b'{"text": '  # of every line


@dataclass(frozen=True)
class Correction:
    """The answer of a person: the labels of a text, and those that were suggested and are wrong."""

    text: str
    labels: tuple[str, ...]
    rejected: tuple[str, ...] = ()


def is_corrections(path: Path) -> bool:
    """Return whether a file is one of corrections, by its name and its first line."""
    if not path.is_file() or plain_suffix(path) != FILE_SUFFIX:
        return False
    lines = [line for line in head(path).split(b"\n") if line.strip()]
    return bool(lines) and _has_fields(lines[0])


def may_append(path: Path) -> bool:
    """Return whether corrections may be added to a file: it is new, empty or has corrections."""
    if not path.exists():
        return True
    if not path.is_file():
        return False
    beginning = head(path)
    if not beginning.strip():
        return True
    if b"\n" not in beginning:  # perhaps the beginning of a line that was never completed
        return beginning.startswith(_START[: len(beginning)])
    return is_corrections(path)


def _has_fields(line: bytes) -> bool:
    """Return whether a line, which may be cut short, is an object with the fields."""
    if not line.startswith(_START):
        return False
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):  # longer than what is read to detect a format, or nested
        return True
    return all(name in row for name in FIELDS)


def read_corrections(path: Path, report: Report = silent) -> list[Correction]:
    """Return the last answer to each text, in the order of the first ones.

    An incomplete last line is ignored: a service that was killed while it wrote has confirmed it to
    nobody.
    """
    answers: dict[str, Correction] = {}
    for number, line in _lines(path, report):
        correction = _correction(path, number, line)
        answers[correction.text] = correction
    return list(answers.values())


def _lines(path: Path, report: Report) -> Iterator[tuple[int, str]]:
    """The complete lines with their numbers, without empty ones."""
    for chunk in line_chunks(path, report):
        end = chunk.data.rfind(b"\n") + 1
        incomplete = chunk.data[end:]  # perhaps cut within a character
        complete = chunk._replace(data=chunk.data[:end])
        lines = complete.text().split("\n")
        if _is_json(incomplete):  # the file was edited, and its last line has no end
            lines[-1] = incomplete.decode()
        for number, line in enumerate(lines, chunk.line):
            if line.strip():
                yield number, line


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    except RecursionError:  # it is refused when it is parsed
        return True
    return True


def _correction(path: Path, number: int, line: str) -> Correction:
    """Parse one line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        message = f"this line is not JSON ({error}); expected one correction per line"
        raise DataError(message, path, number) from error
    has_fields = isinstance(row, dict) and all(name in row for name in FIELDS)
    if not has_fields:
        fields = ", ".join(FIELDS)
        raise DataError(f"expected an object with {fields}", path, number)
    text = row["text"]
    if not isinstance(text, str) or not _is_unicode(text):
        raise DataError("'text' is not a text", path, number)
    labels = _labels(path, number, "labels", row["labels"])
    rejected = _labels(path, number, "rejected", row["rejected"])
    contradiction = set(labels).intersection(rejected)
    if contradiction:
        label = min(contradiction)
        raise DataError(f"{label!r} is both accepted and rejected; remove one", path, number)
    return Correction(text, labels, rejected)


def _labels(path: Path, number: int, name: str, values: Any) -> tuple[str, ...]:
    """Return the labels of a line without repetitions."""
    if not isinstance(values, list):
        raise DataError(f"{name!r} is not a list of labels", path, number)
    labels = []
    for value in values:
        is_label = isinstance(value, str) and value.strip() and _is_unicode(value)
        if not is_label:
            raise DataError(f"{name!r} has {value!r}, which is no label", path, number)
        labels.append(value.strip())
    return tuple(dict.fromkeys(labels))


def _is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def correction_batches(path: Path, report: Report) -> Iterator[Batch]:
    """Read the corrected texts as examples with their labels."""
    corrections = read_corrections(path, report)
    if not corrections:
        return
    labels = [list(correction.labels) for correction in corrections]
    texts = [correction.text for correction in corrections]
    ids = Ids.of_lists(labels)
    task: Task | None = None
    if max(map(len, labels)) > 1:
        task = "multilabel"
    yield Batch(ids, texts, task=task)


def with_corrections(data: Dataset, path: Path, report: Report = silent) -> tuple[Dataset, str]:
    """Add corrected texts to examples of texts; return them, and a sentence that says what is new.

    A correction replaces the labels of examples with the same text.
    """
    if data.texts is None or data.vectors is not None:
        raise DataError(
            "corrections need examples that are texts, without vectors", parameter="corrections"
        )
    corrections = read_corrections(path, report)
    corrected = {correction.text for correction in corrections}
    is_kept = np.array([text not in corrected for text in data.texts], dtype=bool)
    kept = data.rows(np.flatnonzero(is_kept))

    index = LabelIndex(data.label_ids)
    label_lists = [list(correction.labels) for correction in corrections]
    added = Ids.of_lists(label_lists).over(index)
    names, position = index.in_order()
    old = move_columns(kept.Y, position[: data.n_labels], len(names))
    starts = np.concatenate([[0], np.cumsum(added.counts)])
    ones = np.ones(len(added.ids), np.float32)
    shape = (len(corrections), len(names))
    new = sparse.csr_array((ones, position[added.ids], starts), shape=shape)

    weights = kept.weights
    if weights is not None:
        weights = np.append(weights, np.ones(len(corrections), np.float32))
    texts = list(kept.texts or ())
    texts += [correction.text for correction in corrections]
    joined = Dataset.build(
        sparse.csr_array(sparse.vstack([old, new], format="csr")),
        texts=texts,
        label_ids=names,
        task=_task(data, label_lists),
        weights=weights,
        notes=data.notes,
    )
    summary = _summary(path, corrections, joined.n_labels - data.n_labels)
    return replace(joined, label_names=data.label_names), summary


def _task(data: Dataset, label_lists: list[list[str]]) -> Any:
    """Examples with at most one label each stay such examples if no correction has more."""
    if any(len(labels) > 1 for labels in label_lists):
        return "multilabel"
    return data.task


def _summary(path: Path, corrections: list[Correction], n_new: int) -> str:
    n_accepted = sum(len(correction.labels) for correction in corrections)
    n_rejected = sum(len(correction.rejected) for correction in corrections)
    texts = counted(len(corrections), "corrected text")
    accepted = counted(n_accepted, "accepted label")
    rejected = counted(n_rejected, "rejected label")
    return f"{path} has {texts} with {accepted} and {rejected}; {n_new:,} are new to the data."
