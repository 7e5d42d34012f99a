"""Annif's documents as a `Dataset`, stored next to the model so that more can be added later."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scipy import sparse

from rembrandt.data import Dataset
from rembrandt.errors import ModelError
from rembrandt.model.folder import load_folder, save_folder
from rembrandt.progress import Report
from rembrandt.storage.arrays import pack_csr, pack_strings, unpack_csr, unpack_strings

_STEP = 1000  # documents between two progress reports


def read_corpus(corpus: Any, subjects: Any, analyze: Callable[[str], str], report: Report) -> tuple[Dataset, int]:
    """Return the documents that have subjects, labelled by URI, and the number of those that have none."""
    texts: list[str] = []
    uris: list[list[str]] = []
    n_documents = 0
    for n_documents, document in enumerate(corpus.documents, 1):
        if document.subject_set:
            texts.append(analyze(document.text))
            uris.append([subjects[number].uri for number in document.subject_set])
        if n_documents % _STEP == 0:
            report("reading documents", n_documents, None)
    report("reading documents", n_documents, n_documents)
    return Dataset.from_arrays(texts=texts, Y=uris), n_documents - len(texts)


def concatenate(first: Dataset, second: Dataset) -> Dataset:
    """Return the documents of both, with the labels of both."""
    names = list(dict.fromkeys([*first.label_names, *second.label_names]))
    Y: Any = sparse.vstack([part.align_labels(names).Y for part in (first, second)], format="csr")
    return Dataset.build(Y, texts=[*(first.texts or ()), *(second.texts or ())], label_names=names)


def save_documents(path: Path, data: Dataset) -> None:
    """Save the documents in a folder; an existing one is replaced."""
    arrays = pack_strings("texts", data.texts or []) | pack_strings("labels", data.label_names) | pack_csr("Y", data.Y)
    save_folder(path, arrays, {"documents": data.n_examples}, force=True)


def load_documents(path: Path) -> Dataset:
    """Load what `save_documents` saved."""
    arrays, _ = load_folder(path)
    try:
        Y, texts, names = unpack_csr("Y", arrays), unpack_strings("texts", arrays), unpack_strings("labels", arrays)
    except KeyError as missing:
        raise ModelError(f"{path}: {missing} is missing, so these are not documents; train again") from missing
    return Dataset.build(Y, texts=texts, label_names=names)
