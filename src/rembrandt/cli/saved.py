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
from rembrandt.errors import DataError, counted
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.data.labels import LabelIndex
    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.features.text import TextFeatures


_N_SIMILAR = 5  # labels that an error suggests


@dataclass(frozen=True)
class SavedModel:
    """A fitted classifier, its folder, and how its training data was read."""

    path: Path
    classifier: RembrandtClassifier
    reading: Reading

    @property
    def labels(self) -> LabelIndex:
        return self.classifier.model_.labels

    def find(self, label: str, with_groups: bool = False) -> int:
        """Return the column of the label with this name or title, or the number of the group; the
        error for another lists similar ones.
        """
        index = self.labels
        if with_groups:
            index = self.classifier.model_.nodes
        column = index.find(label)
        if column is not None:
            return column
        hint = "none is similar"
        similar = self._similar(label)
        if similar:
            hint = f"similar labels: {'; '.join(similar)}"
        raise DataError(f"{self.path} has no label {label!r}; {hint}")

    def _similar(self, label: str) -> list[str]:
        """Return labels whose name or title is spelled like this one."""
        columns = range(len(self.labels))
        by_title = {self.labels.title(column).casefold(): column for column in columns}
        by_name = {self.labels.spelled(column).casefold(): column for column in columns}
        by_spelling = by_title | by_name
        matches = difflib.get_close_matches(label.casefold(), by_spelling, n=_N_SIMILAR)
        return [self.labels.shown(by_spelling[spelling]) for spelling in matches]

    def find_all(
        self, arguments: Sequence[str] | None, with_groups: bool = False
    ) -> list[Any] | None:
        """Return classes, or groups above them.

        Each string is a label, several separated by commas, or ``@FILE`` with one per line.
        """
        if not arguments:
            return None
        nodes = self.classifier.model_.nodes.names
        classes = []
        for argument in arguments:
            for label in self._listed(argument, with_groups):
                if label.strip():
                    column = self.find(label.strip(), with_groups)
                    classes.append(nodes[column])
        return classes

    def _listed(self, argument: str, with_groups: bool) -> list[str]:
        """Return the labels that one argument names."""
        if argument.startswith("@"):
            return Path(argument[1:]).read_text(encoding="utf-8").splitlines()
        index = self.classifier.model_.nodes if with_groups else self.labels
        if index.find(argument) is not None:  # a label may contain a comma
            return [argument]
        return argument.split(",")

    def read(
        self,
        source: str,
        reading: TextReading,
        report: Report,
        unlabelled: bool = False,
        id: str | None = None,
    ) -> Dataset:
        """Read examples as the training data was read, except where ``reading`` says otherwise."""
        from rembrandt.data.corrections import is_corrections
        from rembrandt.data.store import is_store

        classifier = self.classifier
        takes_texts = classifier.text_ is not None
        merged = self.reading.overridden_by(reading)
        if reading.format is None and is_corrections(Path(source)):
            # The columns of the training data are not those of corrections.
            merged = replace(merged, format="corrections", delimiter=None)
        if source == STANDARD_INPUT and unlabelled:
            # Plain lines, even if the training data was a table.
            merged = replace(merged, format=reading.format)
        n_features = None if takes_texts else classifier.n_features_in_
        data = read_examples(source, merged, report, n_features, unlabelled, id)
        if is_store(source):
            data = self._aligned_store(data, source)
        elif takes_texts != (data.texts is not None):
            wanted = "texts" if takes_texts else "features"
            other = "features" if takes_texts else "texts"
            message = f"{self.path} was fitted on {wanted}; give a file of {wanted}, not of {other}"
            raise DataError(message, source)
        self._check_vectors(data, source)
        if classifier.feature_names_ is not None and data.feature_names is not None:
            data = data.align_features(classifier.feature_names_)
        self._check_width(data, source)
        return data

    def _check_vectors(self, data: Dataset, source: str) -> None:
        """Refuse examples without the vectors that the model reads, and with others."""
        n_blocks = len(self.classifier.model_.vector_widths)
        if n_blocks and data.vectors is None:
            message = (
                f"{self.path}: the model was fitted with vectors next to its texts or features; "
                "give those of these examples, one row for each"
            )
            raise DataError(message, source, parameter="vectors")
        if data.vectors is not None and not n_blocks:
            message = f"{self.path}: the model was fitted without vectors; leave them out"
            raise DataError(message, source, parameter="vectors")

    def _check_width(self, data: Dataset, source: str) -> None:
        """Refuse another number of features than the model has."""
        n_fitted = self.classifier.n_features_in_
        if data.X is None or data.X.shape[1] == n_fitted:
            return
        n_features = counted(data.X.shape[1], "feature")
        counts = f"it has {n_features}, and {self.path} was fitted on {n_fitted:,}"
        raise DataError(f"{counts}; give data made in the same way", source)

    def _aligned_store(self, data: Dataset, source: str) -> Dataset:
        """Add numbered features that no row has; refuse a store whose text features differ from
        this model's.
        """
        import numpy as np

        rows: Any = data.X
        text = self.classifier.text_
        if text is not None and not _same_terms(rows.text, text):
            remedy = f"convert it with --like {self.path}"
            raise DataError(f"its text features are not those of {self.path}; {remedy}", source)
        n_stored = rows.shape[1]
        n_fitted = self.classifier.n_features_in_
        if data.feature_names is not None or n_stored >= n_fitted:
            return data
        columns = np.arange(n_fitted)
        columns[n_stored:] = -1  # no row has these features
        return replace(data, X=rows.select(columns))


def _same_terms(stored: TextFeatures | None, fitted: TextFeatures) -> bool:
    """Return whether a store and a model have the same text features."""
    import numpy as np

    if stored is None or stored.to_config() != fitted.to_config():
        return False
    stored_arrays = stored.to_arrays()
    fitted_arrays = fitted.to_arrays()
    return all(np.array_equal(stored_arrays[name], fitted_arrays[name]) for name in fitted_arrays)


def open_model(path: Path, device: str = "cpu") -> SavedModel:
    """Load the model in a folder, to predict on ``device``."""
    from rembrandt.estimators import load

    classifier = load(path, device=device)
    reading = Reading.from_json(classifier.extra_.get("reading", {}))
    return SavedModel(path, classifier, reading)


def fit_facts(reading: Reading, seconds: float) -> dict[str, Any]:
    """Return what the command line saves with a model: how its data was read, and the time of the
    fit.
    """
    return {"reading": reading.to_json(), "fit_seconds": seconds}
