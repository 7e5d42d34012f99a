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

VARIABLE = "REMBRANDT_DATA"

Part = Literal["train", "test"]


@dataclass(frozen=True)
class Entry:
    """A named data set; its files are relative to the folder of all sets, "{}" stands for the
    part.
    """

    name: str
    what: str
    source: str
    files: str
    options: Mapping[str, Any]
    titles: list[str] = field(
        default_factory=list
    )  # tables of the titles of labels, in order of preference
    present: bool = False

    @property
    def train(self) -> str:
        return self.files.format("train")

    @property
    def test(self) -> str:
        return self.files.format("test")


_FACTS = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
ENTRIES = {name: Entry(name, **facts) for name, facts in _FACTS.items()}


def available(folder: str | Path | None = None) -> list[Entry]:
    """Every named set, with ``present`` set if its files are here."""
    return [
        replace(entry, present=folder_of(entry, folder) is not None) for entry in ENTRIES.values()
    ]


def load(
    name: str, part: Part = "train", folder: str | Path | None = None, report: Report = silent
) -> Dataset:
    """Read one part of a named set from ``folder``, or else from the folder that ``REMBRANDT_DATA``
    names.
    """
    entry = _entry(name)
    if part not in ("train", "test"):
        raise DataError(f"{name} has no part {part!r}; choose train or test")
    found = require_folder(entry, folder)
    titles = next((found / table for table in entry.titles if (found / table).is_file()), None)
    data = read(found / entry.files.format(part), report=report, **entry.options)
    return data if titles is None else replace(data, label_titles=read_label_names(titles))


def get(name: str, report: Report = silent) -> Path:
    """Fetch a named set if that is possible, and return the folder of its files."""
    entry = _entry(name)
    if name == "pubmed-mesh":
        return pubmed.get(report)
    return (require_folder(entry, None) / entry.train).parent


def folder_of(entry: Entry, folder: str | Path | None) -> Path | None:
    """The folder that has both parts of a set: the one named, else the cache; None if they are
    absent.
    """
    root = folder or os.environ.get(VARIABLE)
    candidates = [Path(root)] if root else []
    if entry.name == "pubmed-mesh" and folder is None:
        candidates.append(pubmed.cache_folder().parent)
    return next(
        (c for c in candidates if (c / entry.train).is_file() and (c / entry.test).is_file()), None
    )


def require_folder(entry: Entry, folder: str | Path | None) -> Path:
    """The folder that has both parts of a set; an error says where the set comes from."""
    found = folder_of(entry, folder)
    if found is None:
        root = folder or os.environ.get(VARIABLE)
        where = (
            f"put {entry.train} and {entry.test} into a folder and name that folder in {VARIABLE}"
        )
        raise DataError(
            f"{entry.name} is not here; it comes from {entry.source}. Once you have it, {where}",
            root,
        )
    return found


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        raise DataError(f"there is no data set {name!r}; choose from {', '.join(ENTRIES)}")
    return ENTRIES[name]
