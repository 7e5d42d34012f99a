"""Presets on a device and on the CPU: precision on test rows, agreement and seconds.

python -m benchmarks.gpu_presets [SET ...] [--presets fast balanced] [--device cuda]

Features are those of the comparison with other programs. A first fit to a few rows compiles kernels
and is not counted.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.harness import Part
from benchmarks.peers.prepare import prepared
from benchmarks.peers.roster import SETS
from benchmarks.peers.scoring import KS, Truth, means
from rembrandt import RembrandtClassifier
from rembrandt.estimators.requests import top_columns

WARM_ROWS = 1500


def main(
    sets: Sequence[str] | None = None,
    presets: Sequence[str] = ("fast", "balanced"),
    device: str = "cuda",
) -> list[dict[str, Any]]:
    """Fit every preset to every set on both, and print a row for each pair."""
    found = []
    for name in sets or SETS:
        folder = prepared(name)
        for preset in presets:
            row = {"set": name, "preset": preset} | compare(folder, preset, device)
            found.append(row)
            parts = (f"{where} {_figures(row[where])}" for where in (device, "cpu"))
            print(
                f"{name}, {preset}: {'; '.join(parts)}; same first label {row['same']:.2%}",
                flush=True,
            )
    return found


def compare(folder: Path, preset: str, device: str) -> dict[str, Any]:
    """Fit a preset on the device and on the CPU; ``same`` is the share of test rows with the same
    first label.
    """
    train, test, truth = Part.load(folder, "train"), Part.load(folder, "test"), Truth.load(folder)
    row, first = {}, []
    for where in (device, "cpu"):
        classifier = RembrandtClassifier(preset=preset, random_state=0, device=where)
        classifier.fit(train.X[:WARM_ROWS], train.Y[:WARM_ROWS])
        top_columns(classifier, test.X[:WARM_ROWS], max(KS))
        begun = time.perf_counter()
        classifier.fit(train.X, train.Y)
        fitted = time.perf_counter()
        labels = top_columns(classifier, test.X, max(KS))[0]
        ended = time.perf_counter()
        row[where] = means(truth.terms(labels)) | {"fit": fitted - begun, "predict": ended - fitted}
        first.append(labels[:, 0])
    return row | {"same": float((first[0] == first[1]).mean())}


def _figures(row: dict[str, float]) -> str:
    precision = " / ".join(f"{100 * row[f'p@{k}']:.2f}" for k in KS)
    return f"{precision}, fit {row['fit']:.1f} s, predict {row['predict']:.2f} s"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", metavar="SET", help="all by default")
    parser.add_argument(
        "--presets", nargs="+", choices=["fast", "balanced", "best"], default=["fast", "balanced"]
    )
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    main(asked.sets, asked.presets, asked.device)
