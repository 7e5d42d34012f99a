"""Annif's documents as a `Dataset`, kept beside the model so that more can be added to them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scipy import sparse

from rembrandt.data import Dataset
from rembrandt.errors import ModelError
from rembrandt.model.folder import load_folder, save_folder
from rembrandt.progress import Report
from rembrandt.storage.arrays import pack_csr, pack_strings, unpack_csr, unpack_strings

_STEP = 1000  # documents between two reports


def read_corpus(corpus: Any, subjects: Any, prepared: Callable[[str], str], report: Report) -> tuple[Dataset, int]:
    """The documents that have subjects, labelled by URI, and how many have none and are left out."""
    texts: list[str] = []
    uris: list[list[str]] = []
    without = 0
    for document in corpus.documents:
        if document.subject_set:
            texts.append(prepared(document.text))
            uris.append([subjects[number].uri for number in document.subject_set])
        else:
            without += 1
        if len(texts) % _STEP == 0:
            report("reading documents", len(texts), None)
    report("reading documents", len(texts), len(texts))
    return Dataset.from_arrays(texts=texts, Y=uris), without


def joined(first: Dataset, second: Dataset) -> Dataset:
    """The documents of both, over the labels of both."""
    names = list(dict.fromkeys([*first.label_names, *second.label_names]))
    Y: Any = sparse.vstack([part.align_labels(names).Y for part in (first, second)], format="csr")
    return Dataset.build(Y, texts=[*(first.texts or ()), *(second.texts or ())], label_names=names)


def save_documents(path: Path, data: Dataset) -> None:
    """Keep the documents in a folder, in place of those that are there."""
    arrays = pack_strings("texts", data.texts or []) | pack_strings("labels", data.label_names) | pack_csr("Y", data.Y)
    save_folder(path, arrays, {"documents": data.n_examples}, force=True)


def load_documents(path: Path) -> Dataset:
    """The documents that `save_documents` kept there."""
    arrays, _ = load_folder(path)
    try:
        Y, texts, names = unpack_csr("Y", arrays), unpack_strings("texts", arrays), unpack_strings("labels", arrays)
    except KeyError as missing:
        raise ModelError(f"{path}: the folder lacks {missing}, so it holds no documents; train again") from missing
    return Dataset.build(Y, texts=texts, label_names=names)
