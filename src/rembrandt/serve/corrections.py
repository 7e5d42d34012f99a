"""Corrections that people send are on disk before they are confirmed."""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rembrandt.data.corrections import FILE_SUFFIX, may_append
from rembrandt.data.labels import LabelIndex
from rembrandt.errors import SettingsError, StorageError
from rembrandt.serve.errors import RequestError
from rembrandt.serve.limits import Limits
from rembrandt.serve.registry import ServedModel
from rembrandt.serve.schemas import SentCorrection
from rembrandt.storage.appending import AppendOnlyFile


@dataclass(frozen=True)
class Accepted:
    """Lines of a request for corrections, and the labels that are new to the model."""

    lines: list[bytes]
    new_labels: list[str]


def accepted(
    served: ServedModel, corrections: Sequence[SentCorrection], limits: Limits
) -> Accepted:
    """Check corrections and return their lines; labels may be given by name.

    A label that the model does not know is kept: people add labels.
    """
    if not served.takes_texts:
        raise RequestError(
            422, f"model {served.name!r} was fitted to features; only texts can be corrected"
        )
    if len(corrections) > limits.texts:
        raise RequestError(
            413, f"{len(corrections):,} corrections in one request; the limit is {limits.texts:,}"
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    index = served.labels.index
    lines = []
    new_labels: dict[str, None] = {}  # a set that keeps the order
    for number, correction in enumerate(corrections):
        _check_text(number, correction.text, limits)
        labels = _identifiers(index, correction.labels)
        rejected = _identifiers(index, correction.rejected)
        _check_labels(number, labels, rejected, limits)
        if served.classifier.model_.multiclass and len(labels) > 1:
            raise RequestError(
                422,
                f"corrections[{number}]: model {served.name!r} has one label for each text; "
                f"send one, not {len(labels):,}",
            )
        new_labels |= dict.fromkeys(label for label in labels if index.find(label) is None)
        row = {"text": correction.text, "labels": labels, "rejected": rejected}
        row |= {"model": served.name, "version": served.version, "time": now}
        lines.append(json.dumps(row, ensure_ascii=False).encode())
    return Accepted(lines, list(new_labels))


def _identifiers(index: LabelIndex, labels: Sequence[str]) -> list[str]:
    """Return labels as identifiers, each once; those that the model does not know as they are."""
    identifiers: dict[str, None] = {}
    for label in labels:
        text = " ".join(label.split())
        column = index.find(text)
        if column is not None:
            text = index.spelled(column)
        identifiers[text] = None
    return list(identifiers)


def _check_text(number: int, text: str, limits: Limits) -> None:
    if not text.strip():
        raise RequestError(422, f"corrections[{number}]: the text is empty")
    if len(text) > limits.characters:
        raise RequestError(
            413,
            f"corrections[{number}]: {len(text):,} characters in one text; the limit is "
            f"{limits.characters:,}",
        )


def _check_labels(
    number: int, labels: Sequence[str], rejected: Sequence[str], limits: Limits
) -> None:
    """Refuse labels that are empty, too long, too many, or both accepted and rejected."""
    n_labels = len(labels) + len(rejected)
    if n_labels > limits.labels:
        raise RequestError(
            413, f"corrections[{number}]: {n_labels:,} labels; the limit is {limits.labels:,}"
        )
    for label in (*labels, *rejected):
        if not label:
            raise RequestError(422, f"corrections[{number}]: a label is empty")
        if len(label) > limits.label_characters:
            raise RequestError(
                413,
                f"corrections[{number}]: a label has {len(label):,} characters; the limit is "
                f"{limits.label_characters:,}",
            )
    contradictions = set(labels).intersection(rejected)
    if contradictions:
        label = min(contradictions)
        raise RequestError(
            422, f"corrections[{number}]: {label!r} is accepted and rejected; send it once"
        )


class CorrectionFile:
    """The file of corrections of a service; one thread writes.

    Parameters
    ----------
    path : Path
        A file that ends in ``.jsonl``; new, empty, or of corrections.
    limits : Limits
        With the largest size of the file.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        if path.suffix != FILE_SUFFIX:
            raise SettingsError(
                f"the file of corrections {path} does not end in {FILE_SUFFIX}; rename it",
                "corrections",
            )
        if not path.absolute().parent.is_dir():
            raise SettingsError(
                f"{path} cannot be written: there is no folder {path.parent}; make it first",
                "corrections",
            )
        if not may_append(path):
            raise SettingsError(
                f"{path} is not a file of corrections; choose another name", "corrections"
            )
        self._timeout = limits.timeout
        self._file = AppendOnlyFile(path, limits.corrections)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="corrections")

    async def add(self, lines: list[bytes]) -> None:
        """Write lines; return when they are on disk."""
        loop = asyncio.get_running_loop()
        writing: asyncio.Future[Any] = loop.run_in_executor(self._thread, self._file.append, lines)
        try:
            # A write that has begun is completed; the client may send it again.
            await asyncio.wait_for(asyncio.shield(writing), self._timeout)
        except TimeoutError:
            message = (
                f"the corrections were not on disk within {self._timeout:g} s; send them again"
            )
            raise RequestError(503, message, {"Retry-After": "1"}) from None
        except StorageError as error:
            raise RequestError(507, str(error)) from error

    async def close(self) -> None:
        """Complete what is being written, and close the file."""
        await asyncio.to_thread(self._thread.shutdown)
        self._file.close()
