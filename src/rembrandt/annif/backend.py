"""The backend class that Annif calls to train, learn and suggest.

A project's folder gets the model, with the URIs of subjects as labels, which every command of
Rembrandt can read, and the training documents, for ``learn`` and ``train --cached``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from annif.backend.backend import AnnifLearningBackend
from annif.exception import NotInitializedException, NotSupportedException, OperationFailedException
from annif.suggestion import SuggestionBatch
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.annif.documents import (
    Document,
    as_dataset,
    load_documents,
    read_corpus,
    save_documents,
)
from rembrandt.annif.settings import classifier_from, unknown_settings
from rembrandt.errors import RembrandtError, counted
from rembrandt.estimators import RembrandtClassifier, load
from rembrandt.estimators.requests import prediction_model, rows_of
from rembrandt.linalg.threads import at_most
from rembrandt.predict import Request, answer
from rembrandt.progress import Report, bars

# Annif sorts by score alone: ranks reduce scores by this fraction, so that equal ones keep their
# order
_STEP = 1e-6


class RembrandtBackend(AnnifLearningBackend):
    """Suggest subjects with a `RembrandtClassifier`; scores are probabilities."""

    name = "rembrandt"

    _classifier: RembrandtClassifier | None = None
    # The vocabulary's number of each label; -1 if the vocabulary no longer has it.
    _subjects: NDArray[np.int64]

    @property
    def is_trained(self) -> bool:
        return self._model.is_dir()

    def initialize(self, parallel: bool = False) -> None:
        if self._classifier is None:
            self._use(self._load(self.params))

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        for name in unknown_settings(params):
            self.warning(f"unknown setting '{name}' is ignored")
        with self._annif_errors(), at_most(jobs), bars() as report:
            classifier = classifier_from(params)
            if corpus != "cached":
                documents = self._read(corpus, "train with", report)
            elif self._documents.is_file():
                documents = load_documents(self._documents)
            else:
                raise NotSupportedException(
                    "no documents are stored from an earlier run; train with documents"
                )
            self._save(classifier.fit_dataset(as_dataset(documents), report), documents)

    def _learn(self, corpus: Any, params: dict[str, Any]) -> None:
        with self._annif_errors(), bars() as report:
            classifier = self._load(params)
            documents = load_documents(self._documents)
            if len(documents) != classifier.n_train_:
                stored = f"{self._documents} has {counted(len(documents), 'document')}"
                trained = f"the model was trained on {classifier.n_train_:,}"
                raise RembrandtError(f"{stored} but {trained}; train the project again")
            documents += self._read(corpus, "learn from", report)
            settings = classifier.model_.settings
            classifier.fit_dataset(as_dataset(documents), report, settings=settings)
            self._save(classifier, documents)

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> Any:
        classifier = self._classifier
        subjects = self._subjects
        assert classifier is not None  # Annif calls initialize first
        with self._annif_errors():
            rows = rows_of(classifier, [self._analyze(document.text) for document in documents])
            allowed = np.flatnonzero(subjects >= 0)
            k = min(int(params["limit"]), len(allowed))
            request = Request(rows, k)
            if len(allowed) < len(subjects):
                request = Request(rows, k, allowed=allowed)
            ranked = answer(prediction_model(classifier), request)
        ranks = np.arange(ranked.labels.shape[1])
        scores = (ranked.probabilities * (1 - _STEP * ranks)).astype(np.float32)
        is_label = ranked.labels >= 0
        n_labels = is_label.sum(axis=1)
        document_numbers = np.repeat(np.arange(len(documents)), n_labels)
        subject_numbers = subjects[ranked.labels[is_label]]
        shape = (len(documents), len(self.project.subjects))
        suggestions = sparse.coo_array(
            (scores[is_label], (document_numbers, subject_numbers)), shape=shape
        )
        return SuggestionBatch(suggestions.tocsr())

    @property
    def _model(self) -> Path:
        return Path(self.datadir) / "rembrandt-model"

    @property
    def _documents(self) -> Path:
        return Path(self.datadir) / "rembrandt-documents.jsonl"

    def _analyze(self, text: str) -> str:
        """Return the words of the project's analyzer (stems, lemmas), or the text if the project
        has none.
        """
        if not self.project.analyzer_spec:
            return text
        return " ".join(self.project.analyzer.tokenize_words(text))

    def _read(self, corpus: Any, purpose: str, report: Report) -> list[Document]:
        if corpus.is_empty():
            raise NotSupportedException(f"there are no documents to {purpose}")
        documents, n_ignored = read_corpus(corpus, self.project.subjects, self._analyze, report)
        if n_ignored:
            ignored = counted(n_ignored, "document")
            self.warning(f"ignored {ignored} without a subject of the vocabulary")
        return documents

    def _load(self, params: dict[str, Any]) -> RembrandtClassifier:
        if not self.is_trained:
            raise NotInitializedException(
                f"model {self._model} not found", backend_id=self.backend_id
            )
        with self._annif_errors():
            return load(self._model, device=str(params.get("device", "cpu")))

    def _save(self, classifier: RembrandtClassifier, documents: list[Document]) -> None:
        """Save the model and then the documents; if only the model is saved, `learn` sees that they
        do not match.
        """
        self._use(classifier)
        subjects = self.project.subjects
        language = self.project.vocab_lang
        names = {}
        uris = classifier.classes_.tolist()
        for uri, number in zip(uris, self._subjects.tolist(), strict=True):
            if number >= 0 and language in subjects[number].labels:
                names[uri] = subjects[number].labels[language]
        if names:
            classifier.set_label_names(names)
        classifier.save(self._model, force=True)
        save_documents(self._documents, documents)
        n_documents = counted(len(documents), "document")
        n_subjects = counted(len(classifier.classes_), "subject")
        self.info(f"trained on {n_documents} with {n_subjects}")

    def _use(self, classifier: RembrandtClassifier) -> None:
        self._classifier = classifier
        numbers = []
        for uri in classifier.classes_.tolist():
            number = self.project.subjects.by_uri(uri, warnings=False)
            if number is None:
                number = -1
            numbers.append(number)
        self._subjects = np.array(numbers, dtype=np.int64)

    @contextmanager
    def _annif_errors(self) -> Iterator[None]:
        """Raise Rembrandt's errors as Annif's."""
        try:
            yield
        except (RembrandtError, ValueError) as error:
            raise OperationFailedException(str(error), backend_id=self.backend_id) from error
