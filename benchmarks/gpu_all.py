"""What is measured on a GPU, one after the other, each in a process of its own.

    python -m benchmarks.gpu_all [--seconds 1450] [--only NAME ...] [--out FOLDER] [--list]

Results are kept in ``bench-results/gpu_all``; a measurement that has some is left out, so that the
same command continues where it stopped. Nothing is begun that is expected to take longer than what
is left of ``--seconds``; a measurement that takes longer than that is ended. After each one all
results are packed into one file, ``gpu_all.tar.gz`` in the folder ``--out``, and a line says what
it gave. REMBRANDT_DATA and REMBRANDT_ENCODER name the folders of the data and of the encoder.
``--device cpu,cpu --rows 200 --epochs 1 --scale 0.001`` tries the same without a GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.encoder import file_stem
from benchmarks.results import write_json

RESULTS = Path("bench-results") / "gpu_all"
PACKED = "gpu_all.tar.gz"
# Tests that have cases for GPUs, or are left out without one.
GPU_TESTS = (
    "tests/parts/encoder/test_training.py",
    "tests/engines/test_torch.py",
    "tests/engines/test_kernels.py",
    "tests/engines/test_triton_spmm.py",
    "tests/engines/test_backend.py",
    "tests/linalg/test_triton_columns.py",
    "tests/estimators/test_device.py",
)
LINES_SHOWN = 15


@dataclass(frozen=True)
class Measurement:
    """A program, and the seconds that it is expected to take on an H200 with sixteen cores."""

    name: str
    seconds: float
    words: tuple[str, ...]  # of the command, after python -m
    result: str  # the file that says that it has been done


def of_encoder(name: str, model: str, seconds: float) -> Measurement:
    """Return the measurement of a model on a set by `benchmarks.encoder`."""
    stem = file_stem(name, model)
    words = ("benchmarks.encoder", name, "--models", model)
    return Measurement(stem, seconds, words, f"{stem}.json")


def of_lshtc(part: str, seconds: float) -> Measurement:
    """Return the measurement of a part of `benchmarks.gpu_lshtc`."""
    name = f"lshtc-{part}"
    words = ("benchmarks.gpu_lshtc", "--only", part)
    return Measurement(name, seconds, words, f"{name}.json")


# In the order of what is missed most. The seconds of encoders are those of earlier fits, in
# proportion to rows and tokens, and twice that where nothing like it was measured.
MEASUREMENTS = (
    of_encoder("nvd-products", "encoder", 200),
    Measurement("tests", 90, ("pytest", "-q", "-rs", *GPU_TESTS), "tests.json"),
    of_encoder("icd10cm", "plain", 90),
    of_encoder("mesh, part", "encoder", 150),
    of_encoder("mesh, part", "plain", 120),
    of_lshtc("embed", 75),
    of_lshtc("epoch", 60),
    of_lshtc("job", 110),
    of_lshtc("inference", 30),
    of_lshtc("precision", 60),
    of_lshtc("aloi", 30),
    of_lshtc("pubmed", 120),
    of_encoder("nvd-versions", "encoder", 400),
    of_encoder("nvd-products", "plain", 180),
    of_encoder("nvd-versions", "plain", 250),
)


def command(measurement: Measurement, arguments: argparse.Namespace) -> list[str]:
    """Return the command of a measurement on a device."""
    words = [sys.executable, "-m", *measurement.words]
    program = measurement.words[0]
    if program == "benchmarks.encoder":
        words += ["--out", str(arguments.results), "--device", arguments.device]
        for option in ("rows", "epochs"):
            value = getattr(arguments, option)
            if value is not None:
                words += [f"--{option}", str(value)]
    elif program == "benchmarks.gpu_lshtc":
        words += ["--output", str(arguments.results / measurement.result)]
        words += ["--device", arguments.device]
        if arguments.scale is not None:
            words += ["--scale", str(arguments.scale)]
    return words


def measure(measurement: Measurement, arguments: argparse.Namespace, limit: float) -> str:
    """Run a measurement for ``limit`` seconds at most, and return how it ended."""
    begun = time.perf_counter()
    log = arguments.results / f"{measurement.name}.log"
    with log.open("w", encoding="utf-8") as file:
        try:
            done = subprocess.run(
                command(measurement, arguments),
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=limit,
                check=False,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        except subprocess.TimeoutExpired:
            return f"was ended after {limit:.0f} s"
    seconds = time.perf_counter() - begun
    if done.returncode != 0:
        return f"failed with exit status {done.returncode} after {seconds:.0f} s"
    result = arguments.results / measurement.result
    if measurement.name == "tests":
        summary = log.read_text(encoding="utf-8").strip().splitlines()[-1]
        write_json(result, {"summary": summary, "seconds": round(seconds)})
    if not result.is_file():
        return f"ended after {seconds:.0f} s without a result (skipped?)"
    return f"done in {seconds:.0f} s"


def is_done(measurement: Measurement, results: Path) -> bool:
    return (results / measurement.result).is_file()


def pack(results: Path, out: Path) -> Path:
    """Put all results into one file, which is replaced at once."""
    out.mkdir(parents=True, exist_ok=True)
    packed = out / PACKED
    temporary = out / f".{PACKED}.part"
    with tarfile.open(temporary, "w:gz") as archive:
        for path in sorted(results.iterdir()):
            archive.add(path, arcname=path.name)
    temporary.replace(packed)
    return packed


def main(arguments: argparse.Namespace) -> dict[str, str]:
    """Run what has no result yet; return how each ended."""
    begun = time.perf_counter()
    arguments.results.mkdir(parents=True, exist_ok=True)
    endings: dict[str, str] = {}
    for measurement in chosen(arguments.only):
        left = arguments.seconds - (time.perf_counter() - begun)
        if is_done(measurement, arguments.results):
            ending = "done before"
        elif measurement.seconds > left:
            ending = (
                f"not begun: {left:.0f} s are left, and it takes about {measurement.seconds:.0f}"
            )
        elif arguments.list:
            ending = f"takes about {measurement.seconds:.0f} s"
        else:
            print(f"{measurement.name} ...", flush=True)
            ending = measure(measurement, arguments, left)
            pack(arguments.results, arguments.out)
            if not ending.startswith("done"):
                show_end(arguments.results / f"{measurement.name}.log")
        endings[measurement.name] = ending
        print(f"{measurement.name}: {ending}{figures(measurement, arguments.results)}", flush=True)
    return endings


def chosen(names: Sequence[str] | None) -> list[Measurement]:
    """Return the measurements with these names, or all."""
    if names is None:
        return list(MEASUREMENTS)
    return [measurement for measurement in MEASUREMENTS if measurement.name in names]


def show_end(log: Path) -> None:
    """Print the last lines of a log."""
    lines = log.read_text(encoding="utf-8").splitlines()
    for line in lines[-LINES_SHOWN:]:
        print(f"    {line}", flush=True)


def figures(measurement: Measurement, results: Path) -> str:
    """Return the most important figures of a result, as the end of a line."""
    if not is_done(measurement, results):
        return ""
    row: dict[str, Any] = json.loads((results / measurement.result).read_text(encoding="utf-8"))
    words = []
    for name in ("p@1", "p@3", "p@5", "fit_seconds", "summary"):
        if name in row:
            words.append(f"{name} {row[name]}")
    if "encoder" in row:
        epochs = [round(100 * quality, 1) for quality in row["encoder"]["qualities"]]
        words.append(f"{row['encoder']['epochs']} epochs, by epoch {epochs}")
        words.append(f"GiB {row['device_gigabytes']} of {row['estimated_gigabytes']}")
    return f" ({', '.join(words)})" if words else ""


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    names = [measurement.name for measurement in MEASUREMENTS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1450, help="of all measurements together")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME")
    parser.add_argument("--list", action="store_true", help="run nothing, and say what would run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results are kept")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", RESULTS.parent)))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, help="training and test rows of each set")
    parser.add_argument("--epochs", type=int, help="of encoders")
    parser.add_argument("--scale", type=float, help="of the data of benchmarks.gpu_lshtc")
    return parser.parse_args(words)


if __name__ == "__main__":
    ended = main(parsed())
    if any("failed" in ending or "without a result" in ending for ending in ended.values()):
        sys.exit(1)
