"""Data sets known by name: what they are, where they come from and how their files are read.

``catalogue.json`` lists them. Their files are in the folder that the environment variable
``REMBRANDT_DATA`` names, one folder for each set.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rembrandt.data import pubmed
from rembrandt.data.dataset import Dataset
from rembrandt.data.label_names import read_label_names
from rembrandt.data.reader import read
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

VARIABLE = "REMBRANDT_DATA"  # environment variable with the folder of all sets

Part = Literal["train", "test"]


@dataclass(frozen=True)
class Entry:
    """A named data set."""

    name: str
    what: str
    source: str
    files: str  # relative to the folder of all sets; "{}" stands for the part
    options: Mapping[str, Any]  # of `read`
    # Tables of the titles of labels, in order of preference.
    titles: list[str] = field(default_factory=list)
    test_part: str = "test"  # what the files call the test part
    present: bool = False

    @property
    def train(self) -> str:
        return self.files.format("train")

    @property
    def test(self) -> str:
        return self.files.format(self.test_part)

    def file(self, part: Part) -> str:
        """The file of a part, relative to the folder of all sets."""
        if part == "train":
            return self.train
        return self.test


_FACTS = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
DATA_SETS = {name: Entry(name, **facts) for name, facts in _FACTS.items()}


def available(folder: str | Path | None = None) -> list[Entry]:
    """Every named set, with ``present`` set if its files are here."""
    entries = []
    for entry in DATA_SETS.values():
        is_present = folder_of(entry, folder) is not None
        entries.append(replace(entry, present=is_present))
    return entries


def load(
    name: str, part: Part = "train", folder: str | Path | None = None, report: Report = silent
) -> Dataset:
    """Read one part of a named set.

    Its files are in ``folder``, or else in the folder that ``REMBRANDT_DATA`` names.
    """
    entry = _entry(name)
    if part not in ("train", "test"):
        raise DataError(f"{name} has no part {part!r}; choose train or test")
    root = require_folder(entry, folder)
    data = read(root / entry.file(part), report=report, **entry.options)
    for table in entry.titles:
        path = root / table
        if path.is_file():
            return replace(data, label_names=read_label_names(path))
    return data


def get(name: str, report: Report = silent) -> Path:
    """Fetch a named set if that is possible, and return the folder of its files."""
    entry = _entry(name)
    if name == "pubmed-mesh":
        return pubmed.get(report)
    root = require_folder(entry, None)
    return (root / entry.train).parent


def folder_of(entry: Entry, folder: str | Path | None) -> Path | None:
    """The folder that has both parts of a set: the one named, else the cache.

    It is None if they are absent.
    """
    root = folder or os.environ.get(VARIABLE)
    candidates = []
    if root:
        candidates.append(Path(root))
    if entry.name == "pubmed-mesh" and folder is None:
        candidates.append(pubmed.cache_folder().parent)
    for candidate in candidates:
        if (candidate / entry.train).is_file() and (candidate / entry.test).is_file():
            return candidate
    return None


def require_folder(entry: Entry, folder: str | Path | None) -> Path:
    """The folder that has both parts of a set; an error says where the set comes from."""
    root = folder_of(entry, folder)
    if root is None:
        raise DataError(
            f"{entry.name} is not here; it comes from {entry.source}. Once you have it, put "
            f"{entry.train} and {entry.test} into a folder and name that folder in {VARIABLE}",
            folder or os.environ.get(VARIABLE),
        )
    return root


def _entry(name: str) -> Entry:
    if name not in DATA_SETS:
        raise DataError(f"there is no data set {name!r}; choose from {', '.join(DATA_SETS)}")
    return DATA_SETS[name]
