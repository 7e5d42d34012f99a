"""The files of an experiment: a user's own where they are given, else those of a set in the catalogue."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from rembrandt.data import Dataset, catalogue
from rembrandt.data.catalogue import Part
from rembrandt.errors import DataError
from rembrandt.features.text import TextFeatures
from rembrandt.progress import Report, silent
from rembrandt.reproduce.experiment import SkippedError

PARTS: tuple[Part, ...] = ("train", "test")
COMPRESSED = ("", ".gz", ".xz", ".zst")


def data_folder(named: Path | None) -> Path | None:
    """The folder named, else the one in the environment."""
    found = named or os.environ.get(catalogue.VARIABLE)
    return Path(found) if found else None


def catalogue_files(name: str, folder: Path | None) -> list[Path]:
    """Both files of a set; where one is missing, an error names it and says where it comes from."""
    entry = catalogue.ENTRIES[name]
    root = data_folder(folder)
    if root is None:
        raise DataError(
            f"this experiment needs {entry.train} and {entry.test}, which come from {entry.source}: put them into a "
            f"folder and name that folder with --data or in {catalogue.VARIABLE}"
        )
    files = [root / entry.train, root / entry.test]
    for file in files:
        if not file.is_file():
            raise DataError(
                f"there is no such file; it comes from {entry.source}. Put it there, or name another folder with "
                f"--data or in {catalogue.VARIABLE}",
                file,
            )
    return files


def own_files(folder: Path | None, name: str, wanted: tuple[str, ...], source: str) -> list[Path] | None:
    """A user's files of these names, compressed or not, in ``folder/name`` or ``folder``; None where none is there.

    Some without the others is an error that names the first one missing.
    """
    root = data_folder(folder)
    if root is None:
        return None
    for place in (root / name, root):
        found = [_compressed(place / file) for file in wanted]
        if any(found):
            for file, path in zip(wanted, found, strict=True):
                if path is None:
                    raise DataError(f"there is no such file, compressed or not; it comes from {source}", place / file)
            return [path for path in found if path is not None]
    return None


def _compressed(file: Path) -> Path | None:
    return next((path for end in COMPRESSED if (path := file.with_name(file.name + end)).is_file()), None)


def load(name: str, part: Part, folder: Path | None, report: Report = silent) -> Dataset:
    """A part of a set in the catalogue; an absent one says what it is."""
    return catalogue.load(name, part, catalogue_files(name, folder)[0].parents[1], report)


def load_or_skip(name: str, part: Part, folder: Path | None, report: Report = silent) -> Dataset:
    """As `load`, for experiments over many sets: those that are absent are left out with a sentence."""
    try:
        catalogue_files(name, folder)
    except DataError as error:
        raise SkippedError(str(error)) from error
    return load(name, part, folder, report)


def check_sums(files: list[Path]) -> dict[str, str]:
    """What tells one version of the data from another."""
    sums = {}
    for file in files:
        with file.open("rb") as stream:
            sums[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return sums


def features_of(text: TextFeatures, train: Dataset, test: Dataset, report: Report) -> tuple[Dataset, Dataset]:
    """The same examples with features in the place of their texts, learned from the training texts alone."""
    if train.texts is None or test.texts is None:
        return train, test
    X = text.fit_transform(train.texts, report=report)
    return replace(train, X=X, texts=None), replace(test, X=text.transform(test.texts, report), texts=None)


def text_features(name: str) -> TextFeatures:
    """How the texts of a set become features: names of concepts are too short for words."""
    return TextFeatures(analyzer="char", ngram_range=(3, 4)) if name == "mesh" else TextFeatures()


def featured(name: str, data: Dataset, report: Report = silent) -> Dataset:
    """The examples of a set with features, whatever they are in its file."""
    if data.texts is None:
        return data
    return replace(data, X=text_features(name).fit_transform(data.texts, report=report), texts=None)
