"""The list of everything that is measured on a GPU, and its runner, on the CPU."""

import csv
import gzip
import json
import tarfile
from pathlib import Path

import pytest

from tests.encoders import texts_of_rows, word_encoder
from tests.parts.contract import problem

pytest.importorskip("transformers", reason="the benchmark needs transformers")
gpu_all = pytest.importorskip("benchmarks.gpu_all")
encoder = pytest.importorskip("benchmarks.encoder")
gpu_lshtc = pytest.importorskip("benchmarks.gpu_lshtc")

ROOT = Path(gpu_all.__file__).parents[1]


def test_every_measurement_is_one_that_its_program_knows(tmp_path):
    arguments = gpu_all.parsed(["--results", str(tmp_path)])
    names = [measurement.name for measurement in gpu_all.MEASUREMENTS]
    assert len(names) == len(set(names))
    for measurement in gpu_all.MEASUREMENTS:
        _, _, program, *words = gpu_all.command(measurement, arguments)
        if program == "benchmarks.encoder":
            options = encoder.parsed(words)
            [name] = options.sets
            assert name in encoder.SETS or name in encoder.VARIANTS
            stem = encoder.file_stem(name, options.models[0])
            assert measurement.result == f"{stem}.json"
            assert options.out == tmp_path
        elif program == "benchmarks.gpu_lshtc":
            assert words[words.index("--only") + 1] in gpu_lshtc.PARTS
            assert words[words.index("--output") + 1] == str(tmp_path / measurement.result)
        else:
            assert program == "pytest"
    for file in gpu_all.GPU_TESTS:
        assert (ROOT / file).is_file()


@pytest.fixture
def diagnoses(tmp_path, monkeypatch):
    """Generated texts where the benchmark expects ICD-10 terms, and a tiny encoder."""
    folder = tmp_path / "data" / "icd10cm"
    folder.mkdir(parents=True)
    for seed, part in enumerate(("train", "test")):
        X, Y = problem(seed, 80)
        with gzip.open(folder / f"{part}.tsv.gz", "wt", newline="") as file:
            table = csv.writer(file, delimiter="\t")
            table.writerow(["text", "category"])
            for row, text in enumerate(texts_of_rows(X)):
                labels = Y[[row]].indices
                table.writerow([text, f"label {labels[0] if len(labels) else 0}"])
    monkeypatch.setenv("REMBRANDT_DATA", str(folder.parent))
    monkeypatch.setenv("REMBRANDT_ENCODER", word_encoder())


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run some measurements on the CPU; return how each ended."""

    def run_measurements(measurements, *options):
        monkeypatch.setattr(gpu_all, "MEASUREMENTS", measurements)
        words = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "out")]
        words += ["--device", "cpu,cpu", "--epochs", "1", *options]
        return gpu_all.main(gpu_all.parsed(words))

    return run_measurements


def test_a_measurement_is_made_once_and_packed(run, diagnoses, tmp_path):
    plain = gpu_all.of_encoder("icd10cm", "plain", 1)
    assert run([plain])["icd10cm-plain"].startswith("done in")
    row = json.loads((tmp_path / "results/icd10cm-plain.json").read_text())
    assert row["rows"] == 80
    with tarfile.open(tmp_path / "out/gpu_all.tar.gz") as archive:
        names = archive.getnames()
    assert names == ["icd10cm-plain.json", "icd10cm-plain.log", "icd10cm-plain.npz"]
    assert run([plain])["icd10cm-plain"] == "done before"


def test_the_runner_says_what_fails_and_what_has_no_time(run, tmp_path, capsys):
    failing = gpu_all.Measurement("failing", 1, ("pytest", "--no-such-option"), "failing.json")
    slow = gpu_all.Measurement("slow", 0, ("timeit", "-n", "1", "import time; time.sleep(60)"), "a")
    longer = gpu_all.Measurement("longer", 1e6, ("timeit", "pass"), "longer.json")
    silent = gpu_all.Measurement("silent", 0, ("timeit", "-n", "1", "pass"), "silent.json")
    endings = run([failing, longer, silent], "--seconds", "300")
    assert endings["failing"].startswith("failed with exit status 4")
    assert "unrecognized arguments: --no-such-option" in capsys.readouterr().out
    assert endings["longer"].startswith("not begun: ")
    assert "without a result" in endings["silent"]
    assert run([slow], "--seconds", "1")["slow"] == "was ended after 1 s"
