"""Find and read the data of the experiments: a user's own files, or data sets of the catalogue."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.experiment import Request, SkippedError
from benchmarks.paper.fits import SEED
from rembrandt import __version__
from rembrandt.data import Dataset, catalogue
from rembrandt.data.catalogue import Part
from rembrandt.errors import DataError
from rembrandt.features.text import TextFeatures
from rembrandt.progress import Report, silent

PARTS: tuple[Part, ...] = ("train", "test")
COMPRESSED = ("", ".gz", ".xz", ".zst")


@dataclass(frozen=True)
class Loaded:
    """Training and test examples with features, over the labels and features of the training
    examples.
    """

    train: Dataset
    test: Dataset
    files: list[Path]

    def settings(self, request: Request) -> dict[str, Any]:
        """Return the settings that all experiments on training and test data have."""
        return {
            "quick": request.quick,
            "rembrandt": __version__,
            "seed": SEED,
            "n_train": self.train.n_examples,
            "n_test": self.test.n_examples,
            "n_features": 0 if self.train.X is None else self.train.X.shape[1],
            "n_labels": self.train.n_labels,
            "files": check_sums(self.files),
        }


@dataclass(frozen=True)
class TextSource:
    """Data that is not public: the user's files, with a public data set as a stand-in."""

    name: str
    files: tuple[str, ...]
    origin: str  # where the files come from
    stand_in: str  # a data set in the catalogue
    read: Callable[[list[Path], Report], tuple[Dataset, Dataset]]

    def load(
        self,
        folder: Path | None,
        reduce: Callable[[Dataset, Dataset], tuple[Dataset, Dataset]],
        report: Report,
    ) -> tuple[Loaded, bool]:
        """Read the part of the data that ``reduce`` selects; also return whether it is the
        stand-in.
        """
        own = own_files(folder, self.name, self.files, self.origin)
        files = own or catalogue_files(self.stand_in, folder)
        parts = (
            self.read(own, report)
            if own
            else tuple(load(self.stand_in, part, folder, report) for part in PARTS)
        )
        train, test = reduce(*parts)
        test = test.align_labels(train.label_ids)
        if train.feature_names is not None:
            test = test.align_features(train.feature_names)
        if train.texts is not None and test.texts is not None:
            text = text_features(self.stand_in)
            train = replace(train, X=text.fit_transform(train.texts, report=report), texts=None)
            test = replace(test, X=text.transform(test.texts, report), texts=None)
        return Loaded(train, test, files), own is None


def data_folder(named: Path | None) -> Path | None:
    """Return the folder that was given, else the one in the environment variable."""
    found = named or os.environ.get(catalogue.VARIABLE)
    return Path(found) if found else None


def catalogue_files(name: str, folder: Path | None) -> list[Path]:
    """Return the files of a data set, or raise an error that names the missing one and its
    origin.
    """
    entry = catalogue.DATA_SETS[name]
    root = data_folder(folder)
    if root is None:
        raise DataError(
            f"this experiment needs {entry.train} and {entry.test}, which come from "
            f"{entry.source}: put them into a "
            f"folder and name that folder with --data or in {catalogue.VARIABLE}"
        )
    files = [root / entry.train, root / entry.test]
    for file in files:
        if not file.is_file():
            raise DataError(
                f"the file does not exist; it comes from {entry.source}. Put it there, or name "
                "another folder with "
                f"--data or in {catalogue.VARIABLE}",
                file,
            )
    return files


def own_files(
    folder: Path | None, name: str, wanted: tuple[str, ...], origin: str
) -> list[Path] | None:
    """Return the user's files in ``folder/name`` or ``folder``, compressed or not; None if there
    are none.

    If only some of the files exist, an error names the first missing one.
    """
    root = data_folder(folder)
    if root is None:
        return None
    for where in (root / name, root):
        found = [_compressed(where / file) for file in wanted]
        if any(found):
            for file, path in zip(wanted, found, strict=True):
                if path is None:
                    raise DataError(
                        f"the file does not exist, compressed or not; it comes from {origin}",
                        where / file,
                    )
            return [path for path in found if path is not None]
    return None


def _compressed(file: Path) -> Path | None:
    return next(
        (path for end in COMPRESSED if (path := file.with_name(file.name + end)).is_file()), None
    )


def load(name: str, part: Part, folder: Path | None, report: Report = silent) -> Dataset:
    """Read a part of a data set; the error for a missing file names its origin."""
    return catalogue.load(name, part, catalogue_files(name, folder)[0].parents[1], report)


def load_training(
    name: str, folder: Path | None, rows: int | None, report: Report = silent
) -> Dataset:
    """Read at most ``rows`` training examples of a data set, or raise `SkippedError` if its files
    are missing.
    """
    try:
        catalogue_files(name, folder)
    except DataError as error:
        raise SkippedError(str(error)) from error
    return some_rows(load(name, "train", folder, report), rows)


def with_features(name: str, data: Dataset, report: Report = silent) -> Dataset:
    """Return the training examples of a data set with features in place of texts."""
    if data.texts is None:
        return data
    return replace(data, X=text_features(name).fit_transform(data.texts, report=report), texts=None)


def text_features(name: str) -> TextFeatures:
    """Return the text features of a data set: character n-grams for `mesh`, whose texts are a word
    or two.
    """
    return TextFeatures(analyzer="char", ngram_range=(3, 4)) if name == "mesh" else TextFeatures()


def check_sums(files: list[Path]) -> dict[str, str]:
    """Return the SHA-256 sums of files by name."""
    sums = {}
    for file in files:
        with file.open("rb") as stream:
            sums[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return sums


def some_classes(train: Dataset, test: Dataset, most: int | None) -> tuple[Dataset, Dataset]:
    """Return all examples of at most ``most`` classes drawn at random."""
    if most is None or most >= train.n_labels:
        return train, test
    chosen = np.sort(np.random.default_rng(SEED).permutation(train.n_labels)[:most])
    names = [train.label_ids[i] for i in chosen.tolist()]
    parts = [data.align_labels(names) for data in (train, test)]
    train, test = (data.rows(np.diff(data.Y.indptr) > 0) for data in parts)
    return train, test


def some_rows(data: Dataset, most: int | None) -> Dataset:
    """Return at most ``most`` examples drawn at random, over the labels that they have."""
    if most is None or data.n_examples <= most:
        return data
    return used_labels(
        data.rows(np.sort(np.random.default_rng(SEED).permutation(data.n_examples)[:most]))
    )


def used_labels(data: Dataset) -> Dataset:
    """Return the data without labels that have no example."""
    used = np.unique(data.Y.indices)
    return (
        data
        if len(used) == data.n_labels
        else data.align_labels([data.label_ids[i] for i in used.tolist()])
    )
