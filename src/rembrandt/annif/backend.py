"""The backend class that Annif calls: train, learn and suggest over a project's documents.

A project's folder gets two of ours: the model, labelled by the subjects' URIs, which is a model like any other and
opens with every verb of the command line; and the documents it was trained on, for ``learn`` and ``train --cached``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from annif.backend.backend import AnnifLearningBackend
from annif.exception import NotInitializedException, NotSupportedException, OperationFailedException
from annif.suggestion import SuggestionBatch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.annif.documents import joined, load_documents, read_corpus, save_documents
from rembrandt.annif.settings import classifier_of, device_of, strangers
from rembrandt.data import Dataset
from rembrandt.errors import RembrandtError
from rembrandt.estimators import RembrandtClassifier, load
from rembrandt.linalg.threads import at_most
from rembrandt.progress import Report, bars

_APART = 1e-6  # Annif sorts by score alone: equal ones are held apart by this share, in the order they were ranked


@dataclass(frozen=True)
class _Ready:
    """A classifier with the vocabulary's number of each of its labels."""

    classifier: RembrandtClassifier
    subjects: NDArray[np.int64]  # -1 where the vocabulary has the label no longer
    allowed: NDArray[np.int64] | None  # the labels it still has, None for all


class RembrandtBackend(AnnifLearningBackend):
    """Labels by way of their embedding; scores are probabilities."""

    name = "rembrandt"

    MODEL = "rembrandt-model"
    DOCUMENTS = "rembrandt-documents"

    _ready: _Ready | None = None

    @property
    def is_trained(self) -> bool:
        return self._model.is_dir()

    def initialize(self, parallel: bool = False) -> None:
        if self._ready is None:
            self._ready = self._prepare(self._load(self.params))

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        for name in strangers(params):
            self.warning(f"setting '{name}' is not one of this backend's; it is passed over")
        with self._refusals(), at_most(jobs), bars() as report:
            classifier = classifier_of(params)
            if corpus == "cached":
                if not self._documents.is_dir():
                    raise NotSupportedException("no documents are kept from an earlier run; train with documents")
                data = load_documents(self._documents)
            else:
                data = self._read(corpus, "train with", report)
            self._save(classifier.fit_dataset(data, report), data)

    def _learn(self, corpus: Any, params: dict[str, Any]) -> None:
        with self._refusals(), bars() as report:
            classifier = self._load(params)
            kept = load_documents(self._documents)
            if kept.n_examples != classifier.n_train_:
                raise RembrandtError(
                    f"{self._documents} holds {kept.n_examples} documents but the model was trained on "
                    f"{classifier.n_train_}; train the project again"
                )
            data = joined(kept, self._read(corpus, "learn from", report))
            self._save(classifier.refit_dataset(data, report), data)

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> Any:
        assert self._ready is not None  # Annif initializes before it asks
        ready, size = self._ready, (len(documents), len(self.project.subjects))
        with self._refusals():
            rows = ready.classifier.model_rows([self._prepared(document.text) for document in documents])
            known = np.flatnonzero(np.diff(rows.indptr))  # of a text without a known term nothing can be said
            rows = rows[known]
            model = ready.classifier.placed_model()
            k = min(int(params["limit"]), model.n_labels if ready.allowed is None else len(ready.allowed))
            best, scores = model.top_k(rows, k, ready.allowed)
            scores = model.probabilities_of(rows, best, scores) * (1 - _APART * np.arange(k))
        found = best >= 0
        where = np.repeat(known, found.sum(axis=1)), ready.subjects[best[found]]
        return SuggestionBatch(sparse.coo_array((scores[found].astype(np.float32), where), shape=size).tocsr())

    @property
    def _model(self) -> Path:
        return Path(self.datadir) / self.MODEL

    @property
    def _documents(self) -> Path:
        return Path(self.datadir) / self.DOCUMENTS

    def _prepared(self, text: str) -> str:
        """The text, or its words as the project's analyzer gives them where it has one: lemmas, stems."""
        return " ".join(self.project.analyzer.tokenize_words(text)) if self.project.analyzer_spec else text

    def _read(self, corpus: Any, purpose: str, report: Report) -> Dataset:
        if corpus.is_empty():
            raise NotSupportedException(f"there are no documents to {purpose}")
        data, without = read_corpus(corpus, self.project.subjects, self._prepared, report)
        if without:
            self.warning(f"{without} documents have no subject of the vocabulary; they are passed over")
        return data

    def _load(self, params: dict[str, Any]) -> RembrandtClassifier:
        if not self.is_trained:
            raise NotInitializedException(f"model {self._model} not found", backend_id=self.backend_id)
        with self._refusals():
            return load(self._model, device=device_of(params))

    def _save(self, classifier: RembrandtClassifier, data: Dataset) -> None:
        """The model first: where that alone succeeds, the two do not fit together and `learn` says so."""
        subjects, language = self.project.subjects, self.project.vocab_lang
        numbers = [subjects.by_uri(uri, warnings=False) for uri in data.label_names]
        classifier.label_titles_ = {
            uri: subjects[number].labels[language]
            for uri, number in zip(data.label_names, numbers, strict=True)
            if number is not None and language in subjects[number].labels
        }
        classifier.save(self._model, force=True)
        save_documents(self._documents, data)
        self._ready = self._prepare(classifier)
        self.info(f"trained on {data.n_examples} documents with {data.n_labels} subjects")

    def _prepare(self, classifier: RembrandtClassifier) -> _Ready:
        index = self.project.subjects
        numbers = [index.by_uri(uri, warnings=False) for uri in classifier.classes_.tolist()]
        subjects = np.array([-1 if number is None else number for number in numbers], dtype=np.int64)
        allowed = None if (subjects >= 0).all() else np.flatnonzero(subjects >= 0)
        return _Ready(classifier, subjects, allowed)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Whatever the library refuses, as Annif says it."""
        try:
            yield
        except (RembrandtError, ValueError) as error:
            raise OperationFailedException(str(error), backend_id=self.backend_id) from error
