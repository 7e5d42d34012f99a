"""A saved model as commands use it: its labels by name or title, and examples in the form that it
takes.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rembrandt.cli.reading import STANDARD_INPUT, Reading, TextReading, read_examples
from rembrandt.errors import DataError
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.data.labels import LabelIndex
    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.features.text import TextFeatures


@dataclass(frozen=True)
class SavedModel:
    """A fitted classifier, its folder, and how its training data was read."""

    path: Path
    classifier: RembrandtClassifier
    reading: Reading

    @property
    def labels(self) -> LabelIndex:
        return self.classifier.model_.labels

    def find(self, label: str) -> int:
        """Return the column of the label with this name or title; the error for another lists
        similar ones.
        """
        found = self.labels.find(label)
        if found is not None:
            return found
        both = (self.labels.title, self.labels.spelled)
        spelled = {text(i).casefold(): i for text in both for i in range(len(self.labels))}
        near = difflib.get_close_matches(label.casefold(), spelled, n=5)
        similar = "; ".join(self.labels.shown(spelled[name]) for name in near)
        hint = f"similar labels: {similar}" if near else "none is similar"
        raise DataError(f"{self.path} has no label {label!r}; {hint}")

    def find_all(self, given: Sequence[str] | None) -> list[Any] | None:
        """Return classes; each string is a label, several separated by commas, or ``@FILE`` with
        one per line.
        """
        found = []
        for part in given or ():
            if part.startswith("@"):
                labels = Path(part[1:]).read_text(encoding="utf-8").splitlines()
            else:
                labels = part.split(",") if self.labels.find(part) is None else [part]
            found += [
                self.classifier.classes_[self.find(label.strip())]
                for label in labels
                if label.strip()
            ]
        return found if given else None

    def read(
        self,
        source: str,
        reading: TextReading,
        report: Report,
        unlabelled: bool = False,
        id: str | None = None,
    ) -> Dataset:
        """Read examples as the training data was read, except where ``reading`` says otherwise."""
        from rembrandt.data.store import is_store

        classifier, n_features = self.classifier, self.classifier.n_features_in_
        if reading.encoder is not None and classifier.text_ is not None:
            from rembrandt.features.encoder import load_encoder

            classifier.text_.set_encoder(load_encoder(reading.encoder))
        wanted, other = ("features", "texts") if classifier.text_ is None else ("texts", "features")
        known = self.reading.overridden_by(reading)
        if (
            source == STANDARD_INPUT and unlabelled
        ):  # plain lines, even if the training data was a table
            known = replace(known, format=reading.format)
        data = read_examples(
            source, known, report, n_features if wanted == "features" else None, unlabelled, id
        )
        if is_store(source):
            data = self._aligned_store(data, source)
        elif (data.texts is None) == (wanted == "texts"):
            raise DataError(
                f"{self.path} was fitted on {wanted}; give a file of {wanted}, not of {other}",
                source,
            )
        if classifier.feature_names_ is not None and data.feature_names is not None:
            data = data.align_features(classifier.feature_names_)
        if data.X is not None and data.X.shape[1] != n_features:
            found = (
                f"there are {data.X.shape[1]:,} features, and {self.path} was fitted on "
                f"{n_features:,}"
            )
            raise DataError(f"{found}; give data made in the same way", source)
        return data

    def _aligned_store(self, data: Dataset, source: str) -> Dataset:
        """Add numbered features that no row has; refuse a store whose text features differ from
        this model's.
        """
        import numpy as np

        rows: Any = data.X
        if self.classifier.text_ is not None and not _same_terms(rows.text, self.classifier.text_):
            remedy = f"convert it with --like {self.path}"
            raise DataError(f"its text features are not those of {self.path}; {remedy}", source)
        if data.feature_names is not None or rows.shape[1] >= self.classifier.n_features_in_:
            return data
        columns = np.arange(self.classifier.n_features_in_)
        return replace(data, X=rows.select(np.where(columns < rows.shape[1], columns, -1)))


def _same_terms(made: TextFeatures | None, own: TextFeatures) -> bool:
    import numpy as np

    if made is None or made.to_config() != own.to_config():
        return False
    theirs, ours = made.to_arrays(), own.to_arrays()
    return all(np.array_equal(theirs[name], ours[name]) for name in ours)


def open_model(path: Path, device: str = "cpu") -> SavedModel:
    """Load the model in a folder, to predict on ``device``."""
    from rembrandt.estimators import load

    classifier = load(path, device=device)
    return SavedModel(path, classifier, Reading.from_json(classifier.extra_.get("reading", {})))


def fit_facts(reading: Reading, seconds: float) -> dict[str, Any]:
    """Return what the command line saves with a model: how its data was read, and the time of the
    fit.
    """
    return {"reading": reading.to_json(), "fit_seconds": seconds}
