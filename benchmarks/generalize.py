"""Rembrandt and label-tree programs on variants of the data sets.

python -m benchmarks.generalize --install                      create missing environments, then run
what is not stored python -m benchmarks.generalize --sets "bibtex, half" --presets fast balanced
best --again python -m benchmarks.generalize --show                         show stored results
python -m benchmarks.generalize constants [--sets ...]         check the constants of the blend by
leaving one set out

Programs get the same features, run one after the other, each in its own process, and results are
stored in bench-results/generalize; a new run continues after the last result. What counts as CPU
time is described in benchmarks/peers/harness.py. Wins, ties and losses come from a paired bootstrap
over test rows.

``constants`` fits the parts of each set once and evaluates a grid of the blend's constants on
test rows. For every set it reports the figure with the constants that are best on the other sets;
variants of a set, and sets from the same files, are left out together with it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import parts
from benchmarks.peers import report as pages
from benchmarks.peers.roster import PEERS, SETS, presets
from benchmarks.peers.scoring import KS
from benchmarks.table import install_missing, measure_all, show
from benchmarks.variants import VARIANTS, parts_of
from rembrandt.data import catalogue

FOLDER = Path("bench-results") / "generalize"
RIVALS = ("omikuji", "omikuji bonsai", "libpecos XR-Linear")
PRESETS = ("fast", "balanced")
COLUMNS = (
    *(column for column in pages.COLUMNS if column[0].startswith(("P@", "PSP@"))),
    ("CPU s", "train_cpu", 1, 1),
    ("× omikuji", "times", 1, 2),
    ("model MB", "model_megabytes", 1, 1),
    ("rows/s", "examples_per_second", 1, 0),
)


def main(
    sets: Sequence[str] | None = None,
    chosen: Sequence[str] = PRESETS,
    again: bool = False,
    limit: float = 600,
    timeout: float = 3600,
    folder: Path = FOLDER,
) -> dict[str, Any]:
    """Measure every pair without a stored result, print the tables, and return their rows."""
    names = [name for name in VARIANTS if not sets or name in sets]
    ours = [peer for peer in presets() if peer.settings["preset"] in chosen]
    rivals = [peer for peer in PEERS if peer.name in RIVALS]
    failures = measure_all([*rivals, *ours], names, folder, again, limit, timeout)
    rows = [row for row in stored(folder) if row["set"] in names]
    show(rows, COLUMNS)
    if failures:
        sys.exit("\n\n".join(failures))
    return {"rows": rows}


def stored(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the stored rows, with the ratio of their CPU time to that of omikuji."""
    rows = pages.collect(folder, [])
    seconds = {
        row["set"]: row["train_cpu"]
        for row in rows
        if row["peer"] == "omikuji" and "train_cpu" in row
    }
    for row in rows:
        if row["set"] in seconds and "train_cpu" in row:
            row["times"] = row["train_cpu"] / seconds[row["set"]]
    return rows


def constants(
    sets: Sequence[str] | None = None, preset: str = "balanced", again: bool = False
) -> dict[str, Any]:
    """Fit and measure every set without a stored result, and print the left-out figures."""
    found = list(parts.results(sets or (*SETS, *VARIANTS), preset, again))
    report = left_out(found)
    print("\n".join(constants_table(report)), flush=True)
    return {"rows": report}


def left_out(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures of each set with the present constants, those best on other sets, and its
    own best.
    """
    rows = []
    for result in found:
        others = [other for other in found if source(other["set"]) != source(result["set"])]
        present = tuple(result["present"])
        # Among equals, and with no other set, the present constants come first.
        order = sorted(parts.GRID, key=lambda each: each != present)
        chosen = max(
            order,
            key=lambda each: sum(mean_precision(parts.chosen(other, each)) for other in others),
        )
        own = max(order, key=lambda each: mean_precision(parts.chosen(result, each)))
        figures = {"present": present, "left out": chosen, "own best": own}
        rows.append(
            {"set": result["set"]}
            | {
                what: {"constants": each, **parts.chosen(result, each)}
                for what, each in figures.items()
            }
        )
    return rows


def constants_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table: P@1 / P@3 / P@5, length, penalty and parts of each choice."""
    whats = ("present", "left out", "own best")
    lines = ["set".ljust(23) + "".join(what.ljust(46) for what in whats)]
    for row in rows:
        cells = []
        for what in whats:
            figures = " / ".join(
                f"{100 * row[what][f'p@{k}']:.2f}" for k in KS if f"p@{k}" in row[what]
            )
            short = "+".join(name[0] for name in row[what]["parts"])
            cells.append(
                f"{figures}  {'{:g}, {:g}'.format(*row[what]['constants'])}  {short}".ljust(46)
            )
        lines.append((row["set"].ljust(23) + "".join(cells)).rstrip())
    if rows:
        means = {
            what: 100 * float(np.mean([mean_precision(row[what]) for row in rows]))
            for what in whats
        }
        lines.append(
            "mean of all".ljust(23)
            + "".join(f"{means[what]:.3f}".ljust(46) for what in whats).rstrip()
        )
    return lines


def mean_precision(row: dict[str, Any]) -> float:
    """Return the mean of P@1, P@3 and P@5."""
    return float(np.mean([row[f"p@{k}"] for k in KS if f"p@{k}" in row]))


def source(name: str) -> str:
    """Return the files that a set or variant is made from."""
    return catalogue.DATA_SETS[parts_of(name)[0]].files


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["peers", "constants"], default="peers")
    parser.add_argument(
        "--sets", nargs="+", choices=[*VARIANTS, *SETS], metavar="SET", help="all by default"
    )
    parser.add_argument(
        "--presets", nargs="+", choices=["fast", "balanced", "best"], default=list(PRESETS)
    )
    parser.add_argument(
        "--preset", choices=["fast", "balanced", "best"], default="balanced", help="of constants"
    )
    parser.add_argument("--install", action="store_true", help="create missing environments first")
    parser.add_argument(
        "--again", action="store_true", help="measure again what has a stored result"
    )
    parser.add_argument(
        "--show", action="store_true", help="print stored results without measuring"
    )
    asked = parser.parse_args()
    if asked.install:
        install_missing([peer for peer in PEERS if peer.name in RIVALS])
    if asked.what == "constants":
        constants(asked.sets, asked.preset, asked.again)
    elif asked.show:
        show(stored(), COLUMNS)
    else:
        main(asked.sets, asked.presets, asked.again)
