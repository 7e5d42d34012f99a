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
from rembrandt.errors import RembrandtError
from rembrandt.estimators import RembrandtClassifier, load
from rembrandt.linalg.threads import at_most
from rembrandt.predict import Request, answer
from rembrandt.progress import Report, bars
from rembrandt.recipe import Recipe

# Annif sorts by score alone: ranks reduce scores by this fraction, so that equal ones keep their
# order
_STEP = 1e-6


class RembrandtBackend(AnnifLearningBackend):
    """Suggest subjects with a `RembrandtClassifier`; scores are probabilities."""

    name = "rembrandt"

    _classifier: RembrandtClassifier | None = None
    _subjects: NDArray[
        np.int64
    ]  # the vocabulary's number of each label; -1 if the vocabulary no longer has it

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
                found = f"{self._documents} has {len(documents)} documents"
                trained = f"the model was trained on {classifier.n_train_}"
                raise RembrandtError(f"{found} but {trained}; train the project again")
            documents += self._read(corpus, "learn from", report)
            recipe = Recipe.from_json(classifier.settings_)
            self._save(
                classifier.fit_dataset(as_dataset(documents), report, recipe=recipe), documents
            )

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> Any:
        classifier, subjects = self._classifier, self._subjects
        assert classifier is not None  # Annif calls initialize first
        with self._annif_errors():
            rows = classifier.rows([self._analyze(document.text) for document in documents])
            allowed = np.flatnonzero(subjects >= 0)
            k = min(int(params["limit"]), len(allowed))
            restricted = None if len(allowed) == len(subjects) else allowed
            ranked = answer(classifier.device_model(), Request(rows, k, allowed=restricted))
            best = ranked.labels
            scores = ranked.probabilities * (1 - _STEP * np.arange(best.shape[1]))
        found = best >= 0
        where = np.repeat(np.arange(len(best)), found.sum(axis=1)), subjects[best[found]]
        shape = len(documents), len(self.project.subjects)
        return SuggestionBatch(
            sparse.coo_array((scores[found].astype(np.float32), where), shape=shape).tocsr()
        )

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
        return (
            " ".join(self.project.analyzer.tokenize_words(text))
            if self.project.analyzer_spec
            else text
        )

    def _read(self, corpus: Any, purpose: str, report: Report) -> list[Document]:
        if corpus.is_empty():
            raise NotSupportedException(f"there are no documents to {purpose}")
        documents, n_ignored = read_corpus(corpus, self.project.subjects, self._analyze, report)
        if n_ignored:
            self.warning(f"{n_ignored} documents have no subject of the vocabulary and are ignored")
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
        subjects, language = self.project.subjects, self.project.vocab_lang
        names = {
            uri: subjects[number].labels[language]
            for uri, number in zip(
                classifier.classes_.tolist(), self._subjects.tolist(), strict=True
            )
            if number >= 0 and language in subjects[number].labels
        }
        if names:
            classifier.set_label_names(names)
        classifier.save(self._model, force=True)
        save_documents(self._documents, documents)
        self.info(f"trained on {len(documents)} documents with {len(classifier.classes_)} subjects")

    def _use(self, classifier: RembrandtClassifier) -> None:
        self._classifier = classifier
        found = (
            self.project.subjects.by_uri(uri, warnings=False)
            for uri in classifier.classes_.tolist()
        )
        self._subjects = np.array(
            [-1 if number is None else number for number in found], dtype=np.int64
        )

    @contextmanager
    def _annif_errors(self) -> Iterator[None]:
        """Raise Rembrandt's errors as Annif's."""
        try:
            yield
        except (RembrandtError, ValueError) as error:
            raise OperationFailedException(str(error), backend_id=self.backend_id) from error
