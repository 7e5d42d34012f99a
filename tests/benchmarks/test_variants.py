"""Variants of data sets keep the properties that they are named for."""

import gzip

import numpy as np
import pytest
from benchmarks.peers import prepare
from benchmarks.variants import VARIANTS, half, parts_of, rare, split_by_year, with_labels, years
from scipy import sparse

from benchmarks import variants
from rembrandt.data import Dataset
from rembrandt.data.generated import labelled_documents


@pytest.fixture(scope="module")
def documents():
    return labelled_documents(600, n_topics=10, labels_per_topic=20)


@pytest.fixture
def nvd(tmp_path):
    """Return a folder with a tiny set in the files of the vulnerabilities."""
    folder = tmp_path / "nvd-cpe"
    folder.mkdir()
    for part, first in (("train", 0), ("test", 8)):
        rows = [
            f"CVE-{i}\t{2010 + i}-03-04\tflaw {i} in thing word{i % 3}\tp{i % 3} q{i}\tp{i % 3}:1\n"
            for i in range(first, first + 8)
        ]
        with gzip.open(folder / f"{part}.tsv.gz", "wt") as file:
            file.writelines(["cve\tpublished\tdescription\tproducts\tversions\n", *rows])
    return tmp_path


def test_every_variant_has_a_set_and_a_kind():
    assert len(set(VARIANTS)) == len(VARIANTS)
    assert {parts_of(name) for name in VARIANTS} == {
        (s, kind) for s, kinds in variants.KINDS.items() for kind in kinds
    }
    assert parts_of("bibtex") == ("bibtex", "")


@pytest.mark.parametrize("name", ["bibtex, time", "unknown", "unknown, half", "bibtex, "])
def test_unknown_problems_are_refused(name):
    with pytest.raises(ValueError, match="there is no problem"):
        parts_of(name)


def test_half_of_the_rows_with_the_labels_they_have(documents):
    train, _ = documents
    part = half(train)
    assert part.n_examples == train.n_examples // 2
    assert np.bincount(part.Y.indices, minlength=part.n_labels).min() > 0
    named = dict(zip(train.texts, train.Y.tolil().rows, strict=True))
    for text, columns in zip(part.texts, part.Y.tolil().rows, strict=True):
        assert [part.label_ids[c] for c in columns] == [train.label_ids[c] for c in named[text]]


def test_rare_labels_alone_and_the_rows_that_have_one(documents):
    whole, whole_test = documents
    train, test = rare(whole, whole_test)
    counts = np.bincount(train.Y.indices, minlength=train.n_labels)
    assert counts.min() > 0 and counts.max() < variants.RARE
    assert train.label_ids == test.label_ids
    assert np.diff(train.Y.indptr).min() > 0 and np.diff(test.Y.indptr).min() > 0
    before = dict(
        zip(whole.label_ids, np.bincount(whole.Y.indices, minlength=whole.n_labels), strict=True)
    )
    assert [before[name] for name in train.label_ids] == counts.tolist()
    assert sum(1 <= count < variants.RARE for count in before.values()) == train.n_labels
    assert not test.align_labels(train.label_ids).dropped_labels.any()


def test_some_labels_and_the_rows_that_have_one(documents):
    whole, whole_test = documents
    names = whole.label_ids[::3]
    train, test = with_labels(whole, whole_test, names)
    assert train.label_ids == test.label_ids == names
    assert 0 < test.n_examples < whole_test.n_examples and np.diff(test.Y.indptr).min() > 0
    assert train.Y.nnz == whole.Y[:, ::3].nnz


def test_a_split_by_year_divides_the_rows_of_both_parts():
    def part(names, n):
        Y = sparse.csr_array(np.eye(n, len(names), dtype=np.float32))
        return Dataset.build(
            Y, texts=[f"{names[0]} {i}" for i in range(n)], label_ids=names, task="multilabel"
        )

    train, test = split_by_year(
        part(["a", "b", "c"], 3),
        part(["c", "d"], 2),
        np.array([2015, 2016, 2003]),
        np.array([2014, 2018]),
    )
    assert train.texts == ["a 0", "a 2", "c 0"] and test.texts == ["a 1", "c 1"]
    assert [train.label_ids[i] for i in train.Y.indices] == ["a", "c", "c"]
    assert [test.label_ids[i] for i in test.Y.indices] == ["b", "d"]
    assert test.align_labels(train.label_ids).dropped_labels.tolist() == [1, 1]


def test_variants_of_files_are_prepared(nvd, monkeypatch):
    monkeypatch.setenv("REMBRANDT_BENCH_CACHE", str(nvd / "cache"))
    train, test = variants.load("nvd-products, time", nvd)
    assert train.n_examples == 6 and test.n_examples == 10 and {"p0", "q5"} <= set(train.label_ids)
    names = ("nvd-products", "nvd-products, half", "nvd-products, time")
    folders = [prepare.prepared(name, nvd) for name in names]
    assert len(set(folders)) == 3 and all(", " not in folder.name for folder in folders)
    sizes = [sparse.load_npz(folder / "Y_train.npz").shape[0] for folder in folders]
    assert sizes == [8, 4, 6]
    assert (
        np.load(folders[2] / "missing_test.npy") == 1
    ).all()  # every later row has a new product


def test_rows_without_a_date_are_refused():
    Y = sparse.csr_array(np.array([[1.0], [0.0]], np.float32))
    with pytest.raises(ValueError, match="no date"):
        years(Dataset.build(Y, texts=["a", "b"], label_ids=["2003-01-01"]))
