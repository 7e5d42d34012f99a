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

_DOCUMENTS_PER_REPORT = 1000  # of progress


def read_corpus(
    corpus: Any, vocab: Any, analyze: Callable[[str], str], report: Report
) -> tuple[list[Document], int]:
    """Return the documents that have subjects, and the number of those that have none."""
    documents: list[Document] = []
    n_read = 0
    for annif_document in corpus.documents:
        n_read += 1
        if annif_document.subject_set:
            text = analyze(annif_document.text)
            uris = [vocab[number].uri for number in annif_document.subject_set]
            documents.append((text, uris))
        if n_read % _DOCUMENTS_PER_REPORT == 0:
            report("reading documents", n_read, None)
    report("reading documents", n_read, n_read)
    n_without_subjects = n_read - len(documents)
    return documents, n_without_subjects


def as_dataset(documents: list[Document]) -> Dataset:
    """Return documents as a dataset whose labels are URIs."""
    texts = [text for text, _ in documents]
    labels = [uris for _, uris in documents]
    return Dataset.from_arrays(texts=texts, Y=labels)


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
