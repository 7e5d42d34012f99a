"""A saved model as commands use it: its labels by name or title, and examples in the form that it takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rembrandt.cli.reading import STANDARD_INPUT, Reading, TextReading, read_examples
from rembrandt.errors import DataError
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.estimators import RembrandtClassifier

READING, FIT_SECONDS = "reading", "fit_seconds"  # what the command line adds to a saved model


@dataclass(frozen=True)
class SavedModel:
    """A fitted classifier, its folder, and how its training data was read."""

    path: Path
    classifier: RembrandtClassifier
    reading: Reading

    @cached_property
    def names(self) -> list[str]:
        return [str(name) for name in self.classifier.classes_]

    @cached_property
    def _columns(self) -> dict[str, int]:
        """Columns by name, and by title in lower case."""
        titles = self.classifier.label_titles_
        by_title = {titles[name].casefold(): i for i, name in enumerate(self.names) if name in titles}
        return by_title | {name: i for i, name in enumerate(self.names)}

    def title(self, column: int) -> str | None:
        title = self.classifier.label_titles_.get(self.names[column])
        return None if title is None else str(title)

    def shown(self, column: int) -> str:
        """Return a label for people: its title, if it has one, and its name."""
        title = self.title(column)
        return self.names[column] if title is None else f"{title} ({self.names[column]})"

    def entry(self, column: int) -> dict[str, Any]:
        """Return a label for JSON."""
        return {"label": self.names[column], "title": self.title(column)}

    def _known(self, label: str) -> int | None:
        return self._columns.get(label, self._columns.get(label.casefold()))

    def find(self, label: str) -> int:
        """Return the column of the label with this name or title; the error for another lists similar ones."""
        found = self._known(label)
        if found is not None:
            return found
        spelled = {name.casefold(): i for name, i in self._columns.items()}
        near = difflib.get_close_matches(label.casefold(), spelled, n=5, cutoff=0.6)
        hint = f"similar labels: {'; '.join(self.shown(spelled[name]) for name in near)}" if near else "none is similar"
        raise DataError(f"{self.path} has no label {label!r}; {hint}")

    def find_all(self, given: Sequence[str] | None) -> list[Any] | None:
        """Return classes; each string is a label, several separated by commas, or ``@FILE`` with one per line."""
        if not given:
            return None
        return [self.classifier.classes_[self.find(label)] for part in given for label in self._split(part)]

    def _split(self, part: str) -> Iterator[str]:
        if part.startswith("@"):
            labels = Path(part[1:]).read_text(encoding="utf-8").splitlines()
        else:
            labels = [part] if self._known(part) is not None else part.split(",")
        return (label.strip() for label in labels if label.strip())

    def read(self, source: str, reading: TextReading, report: Report, unlabelled: bool = False) -> Dataset:
        """Read examples as the training data was read, except where ``reading`` says otherwise."""
        from rembrandt.data.store import is_store

        texts, n_features = self.classifier.text_ is not None, self.classifier.n_features_in_
        known = self.reading.overridden_by(reading)
        if source == STANDARD_INPUT and unlabelled:  # lines, whatever the training data was
            known = replace(known, format=reading.format)
        width = None if texts else n_features
        data = read_examples(source, known, report, n_features=width, unlabelled=unlabelled)
        stored = is_store(source)
        if texts and stored:
            self._check_terms(source)
        elif texts and data.texts is None:
            raise DataError(f"{self.path} was fitted on texts; give a file of texts, not of features", source)
        if not texts and data.X is None:
            raise DataError(f"{self.path} was fitted on features; give a file of features, not of texts", source)
        if self.classifier.feature_names_ is not None and data.feature_names is not None:
            data = data.align_features(self.classifier.feature_names_)
        if stored and data.feature_names is None:
            data = _widened(data, n_features)
        if data.X is not None and data.X.shape[1] != n_features:
            found = f"there are {data.X.shape[1]:,} features, and {self.path} was fitted on {n_features:,}"
            raise DataError(f"{found}; give data made in the same way", source)
        return data

    def _check_terms(self, source: str) -> None:
        """Refuse a store whose text features differ from this model's."""
        import numpy as np

        from rembrandt.data.store import Store

        made, own = Store(source).text, self.classifier.text_
        assert own is not None
        if made is not None and made.to_config() == own.to_config():
            theirs, ours = made.to_arrays(), own.to_arrays()
            if theirs.keys() == ours.keys() and all(np.array_equal(theirs[name], ours[name]) for name in ours):
                return
        raise DataError(f"its text features are not those of {self.path}; convert it with --like {self.path}", source)


def _widened(data: Dataset, n_features: int) -> Dataset:
    """Add the numbered features that no row of a store has."""
    import numpy as np

    stored: Any = data.X
    if stored.shape[1] >= n_features:
        return data
    columns = np.arange(n_features)
    return replace(data, X=stored.select(np.where(columns < stored.shape[1], columns, -1)))


def open_model(path: Path, device: str = "cpu") -> SavedModel:
    """Load the model in a folder, to predict on ``device``."""
    from rembrandt.estimators import load

    classifier = load(path, device=device)
    return SavedModel(path, classifier, Reading.from_json(classifier.extra_.get(READING, {})))
