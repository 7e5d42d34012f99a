"""The GPU benchmark on the CPU: its data has the documented shape, and every part runs."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.gpu_data import generate

from benchmarks import gpu_lshtc
from rembrandt.data.generated import labelled_documents
from tests.benchmarks.paper.conftest import write_set
from tests.devices import as_on_a_gpu  # noqa: F401  and one thread for torch

ON_GENERATED_DATA = ("embed", "epoch", "job", "inference", "precision")
ON_REAL_SETS = ("aloi", "pubmed")


def write_pubmed(folder: Path) -> Path:
    """Write generated documents where the catalogue expects PubMed-MeSH."""
    (folder / "pubmed-mesh").mkdir(parents=True)
    documents = labelled_documents(400, n_topics=3, labels_per_topic=5)
    for part, data in zip(("train", "test"), documents, strict=True):
        with gzip.open(folder / "pubmed-mesh" / f"{part}.tsv.gz", "wt", newline="") as file:
            table = csv.writer(file, delimiter="\t")
            table.writerow(["title", "abstract", "mesh"])
            for row, text in enumerate(data.texts):
                labels = [data.label_ids[label] for label in data.Y[[row]].indices]
                table.writerow(["", text, "|".join(labels)])
    return folder


def run(output: Path, parts: tuple[str, ...]) -> dict:
    """Run some parts at the smallest scale and return the stored results."""
    command = ["--device", "cpu,cpu", "--scale", "0.0004", "--epochs", "2"]
    gpu_lshtc.main([*command, "--only", ",".join(parts), "--output", str(output)])
    return json.loads(output.read_text())


def test_the_data_has_the_shape_of_lshtc_and_learnable_labels():
    data = generate(0.004, torch.device("cpu"))
    n, d = data.X.shape
    assert (n, d, data.Y.shape[1]) == (7120, 6480, 1300)
    assert data.X.nnz / n == pytest.approx(
        68e6 / 1.78e6, rel=0.2
    ) and data.Y.nnz / n == pytest.approx(3, rel=0.02)
    np.testing.assert_allclose(np.sqrt(data.X.multiply(data.X).sum(axis=1)), 1, atol=1e-5)
    counts = np.sort(np.bincount(data.X.indices, minlength=d))[::-1]
    assert counts[0] > 100 * np.median(counts), "head words and a long tail"
    assert data.held_X.shape[0] == 100
    again = generate(0.004, torch.device("cpu"))
    assert (again.X != data.X).nnz == 0 and (again.Y != data.Y).nnz == 0


@pytest.mark.usefixtures("as_on_a_gpu")
def test_every_part_on_generated_data_runs(tmp_path):
    results = run(tmp_path / "results.json", ON_GENERATED_DATA)
    assert set(ON_GENERATED_DATA) <= set(results)
    assert results["job"]["p@1"] > 3 / 130, "better than chance"
    assert results["inference"]["same_labels_as_float32"] > 0.99
    assert results["embed"]["k = 500, q = 1"]["bytes"] > 0
    for epoch in results["epoch"].values():
        assert epoch["flops"] > 0
        assert epoch["products_seconds"] > 0


@pytest.mark.usefixtures("as_on_a_gpu")
def test_every_part_on_real_sets_runs_on_stand_ins(tmp_path, monkeypatch):
    monkeypatch.setenv("REMBRANDT_DATA", str(write_set(write_pubmed(tmp_path))))
    results = run(tmp_path / "results.json", ON_REAL_SETS)
    assert results["aloi"]["error"] < 0.5
    for preset in ("balanced", "best"):
        assert results["pubmed"][preset]["p@1"] > 0.5


def test_no_part_is_without_a_test():
    assert set(gpu_lshtc.PARTS) == {*ON_GENERATED_DATA, *ON_REAL_SETS}


def test_an_unknown_part_is_named(capsys):
    with pytest.raises(SystemExit):
        gpu_lshtc.main(["--only", "everything"])
    assert "there is no part everything; choose from embed, epoch" in capsys.readouterr().err


def test_a_device_without_torch_is_refused():
    with pytest.raises(SystemExit, match="does not use torch"):
        gpu_lshtc.main(["--device", "cpu"])
