"""Annif's documents, stored next to the model so that more can be added later: a JSON array per
line.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rembrandt.data import Dataset
from rembrandt.errors import ModelError
from rembrandt.progress import Report
from rembrandt.storage.atomic import atomic_file

Document = tuple[str, list[str]]  # the text and the URIs of its subjects

_STEP = 1000  # documents between two progress reports


def read_corpus(
    corpus: Any, vocab: Any, analyze: Callable[[str], str], report: Report
) -> tuple[list[Document], int]:
    """Return the documents that have subjects, and the number of those that have none."""
    found: list[Document] = []
    n_documents = 0
    for n_documents, document in enumerate(corpus.documents, 1):
        if document.subject_set:
            found.append(
                (analyze(document.text), [vocab[number].uri for number in document.subject_set])
            )
        if n_documents % _STEP == 0:
            report("reading documents", n_documents, None)
    report("reading documents", n_documents, n_documents)
    return found, n_documents - len(found)


def as_dataset(documents: list[Document]) -> Dataset:
    """Return documents as a dataset whose labels are URIs."""
    return Dataset.from_arrays(
        texts=[text for text, _ in documents], Y=[uris for _, uris in documents]
    )


def save_documents(path: Path, documents: list[Document]) -> None:
    """Save documents; an existing file is replaced."""
    with atomic_file(path) as file:
        file.writelines(json.dumps(document).encode() + b"\n" for document in documents)


def load_documents(path: Path) -> list[Document]:
    """Load what `save_documents` saved."""
    try:
        with path.open("rb") as file:
            return [(text, uris) for text, uris in map(json.loads, file)]
    except (ValueError, TypeError) as error:
        raise ModelError(f"{path} is damaged ({error}); train again") from error
