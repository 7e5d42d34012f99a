"""A saved model as the verbs use it: its labels by name or title, and examples in the form that it takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rembrandt.cli.reading import STANDARD_INPUT, Reading, read_examples
from rembrandt.errors import DataError
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.storage.arrays import Arrays

READING = "reading"  # what the model keeps of how its training data was read
FIT_SECONDS = "fit_seconds"  # and of how long it took to fit


@dataclass(frozen=True)
class Opened:
    """A fitted classifier and the way its training data was read."""

    path: Path
    classifier: RembrandtClassifier
    reading: Reading

    @cached_property
    def names(self) -> list[str]:
        return [str(name) for name in self.classifier.classes_]

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _by_title(self) -> dict[str, int]:
        titles = self.classifier.label_titles_
        return {titles[name].casefold(): i for i, name in enumerate(self.names) if name in titles}

    def shown(self, index: int) -> str:
        """A label as people read it: the title too where it has one."""
        name = self.names[index]
        title = self.title(index)
        return name if title is None else f"{title} ({name})"

    def title(self, index: int) -> str | None:
        title = self.classifier.label_titles_.get(self.names[index])
        return None if title is None else str(title)

    def find(self, label: str) -> int:
        """The label of this name or title; an unknown one is refused with those that are spelled like it."""
        found = self._by_name.get(label, self._by_title.get(label.casefold()))
        if found is not None:
            return found
        spelled = {name.casefold(): i for name, i in self._by_name.items()} | self._by_title
        near = difflib.get_close_matches(label.casefold(), spelled, n=5, cutoff=0.6)
        hint = f"near it are: {'; '.join(self.shown(spelled[name]) for name in near)}" if near else "nothing is like it"
        raise DataError(f"{self.path} knows no label {label!r}; {hint}")

    def find_all(self, given: Sequence[str] | None) -> list[Any] | None:
        """Classes out of lists, each of them a label, several with commas between, or ``@FILE`` with one a line."""
        if not given:
            return None
        return [self.classifier.classes_[i] for part in given for i in self._find_several(part)]

    def _find_several(self, part: str) -> Iterable[int]:
        if part.startswith("@"):
            lines = Path(part[1:]).read_text(encoding="utf-8").splitlines()
            return [self.find(line.strip()) for line in lines if line.strip()]
        if part in self._by_name or part.casefold() in self._by_title or "," not in part:
            return [self.find(part)]
        return [self.find(label.strip()) for label in part.split(",") if label.strip()]

    def read(self, source: str, reading: Reading, report: Report, unlabelled: bool = False) -> Dataset:
        """Examples from a file, read as the training data was except where ``reading`` says otherwise."""
        from rembrandt.data.store import is_store

        texts = self.classifier.text_ is not None
        known = reading.or_else(self.reading)
        if source == STANDARD_INPUT and unlabelled:  # whatever the training data was, what is typed is lines
            known = replace(known, format=reading.format)
        n_features = None if texts else self.classifier.n_features_in_
        data = read_examples(source, known, report, texts=texts, n_features=n_features, unlabelled=unlabelled)
        if texts and is_store(source):
            self._check_words(source)
        elif texts and data.texts is None:
            raise DataError(f"{self.path} was fitted on texts; give a file of texts, not of features", source)
        if not texts and data.X is None:
            raise DataError(f"{self.path} was fitted on features; give a file of features, not of texts", source)
        if self.classifier.feature_names_ is not None and data.feature_names is not None:
            data = data.align_features(self.classifier.feature_names_)
        n_features = self.classifier.n_features_in_
        if is_store(source):
            data = _widened(data, n_features)
        if data.X is not None and data.X.shape[1] != n_features:
            found = f"{data.X.shape[1]:,} features, and {self.path} was fitted on {n_features:,}"
            raise DataError(f"there are {found}; give data made in the same way", source)
        return data

    def _check_words(self, source: str) -> None:
        """Refuse a store whose texts became other features than this model's."""
        from rembrandt.data.store import Store

        made = Store(source).text
        own: Any = self.classifier.text_
        if made is None or made.to_config() != own.to_config() or not _equal(made.to_arrays(), own.to_arrays()):
            raise DataError(
                f"its texts became other features than those of {self.path}; convert them with --like {self.path}",
                source,
            )

    def features(self, data: Dataset, report: Report) -> Any:
        """The examples as the model's rows."""
        return self.classifier.dataset_rows(data, report)


def _widened(data: Dataset, n_features: int) -> Dataset:
    """A store of numbered features with those that it has not met, and its rows have not."""
    import numpy as np

    stored: Any = data.X
    if data.feature_names is not None or stored.shape[1] >= n_features:
        return data
    columns = np.arange(n_features)
    return replace(data, X=stored.select(np.where(columns < stored.shape[1], columns, -1)))


def _equal(one: Arrays, other: Arrays) -> bool:
    import numpy as np

    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def open_model(path: Path, device: str = "cpu") -> Opened:
    """The model in a folder, to predict on ``device``."""
    from rembrandt.estimators import load

    classifier = load(path, device=device)
    return Opened(path, classifier, Reading.remembered(classifier.extra_.get(READING, {})))
