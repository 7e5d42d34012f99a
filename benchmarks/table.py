"""Rembrandt and its peers in one table: the same split, the same features, one at a time, each in its own environment.

python -m benchmarks.table --install                    make the environments that are missing, then run what is missing
python -m benchmarks.table --peers omikuji --sets bibtex --again
python -m benchmarks.table --show                       what is stored; --write puts it into docs/benchmarks.md

Results are kept for each pair in bench-results/peers, and a run goes on where the last one stopped.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers import report as pages
from benchmarks.peers import runner
from benchmarks.peers.environments import install, python_of
from benchmarks.peers.prepare import place_of
from benchmarks.peers.roster import SETS, Peer, everyone
from rembrandt.errors import DataError
from rembrandt.progress import bars

FOLDER = Path("bench-results") / "peers"


def main(
    peers: list[str] | None = None,
    sets: list[str] | None = None,
    again: bool = False,
    limit: float = 600,
    timeout: float = 1800,
    folder: Path = FOLDER,
) -> dict[str, Any]:
    """Measure every pair that is not stored yet, print the tables, and return their rows."""
    chosen = [peer for peer in everyone() if not peers or peer.name in peers]
    names = list(sets or SETS)
    failures = []
    with runner.alone(folder), bars() as report:
        for name in names:
            try:
                data = place_of(name)
            except DataError as why:
                print(f"skipped: {why}", flush=True)
                continue
            for done, peer in enumerate(chosen):
                report(name, done, len(chosen))
                if not again and runner.stored(folder, peer, name, data) is not None:
                    continue
                report(f"{peer.name} on {name}", 0, None)
                try:
                    if not data.exists():
                        _prepare(name)
                    runner.measure(peer, name, data, folder, limit, timeout)
                except runner.SkippedError as why:
                    print(f"skipped: {why}", flush=True)
                except runner.FailedError as why:  # the others still run; what failed is said again at the end
                    failures.append(str(why))
    rows = [row for row in pages.collect(folder, []) if row["set"] in names]
    show(rows)
    if failures:
        sys.exit("\n\n".join(failures))
    return {"rows": rows}


def show(rows: list[dict[str, Any]]) -> None:
    for name in SETS:
        mine = [row for row in rows if row["set"] == name]
        if mine:
            print(f"\n{name}\n" + "\n".join(pages.table(mine, markdown=False)), flush=True)


def _prepare(name: str) -> None:
    """In a process of its own: what it holds in memory is not this one's for the rest of the run."""
    subprocess.run([sys.executable, "-m", "benchmarks.peers.prepare", name], check=True, stdout=subprocess.DEVNULL)


def _install(peers: list[Peer]) -> None:
    environments = {peer.environment for peer in peers if peer.environment is not None}
    missing = sorted((e for e in environments if python_of(e) is None), key=lambda e: e.name)
    with bars() as report:
        for done, environment in enumerate(missing):
            report("environments", done, len(missing))
            report(f"installing {environment.name}", 0, None)
            install(environment)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", choices=[peer.name for peer in everyone()], metavar="PEER")
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--install", action="store_true", help="make the environments that are missing")
    parser.add_argument("--again", action="store_true", help="measure anew what is stored")
    parser.add_argument("--limit", type=float, default=600, help="CPU-seconds of training that are too many")
    parser.add_argument("--show", action="store_true", help="print what is stored and measure nothing")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md from what is stored")
    asked = parser.parse_args()
    if asked.install:
        _install([peer for peer in everyone() if not asked.peers or peer.name in asked.peers])
    if not asked.show and not asked.write:
        main(asked.peers, asked.sets, asked.again, asked.limit)
    elif asked.show:
        show(pages.collect(FOLDER, []))
    if asked.write:
        pages.write_page(pages.collect(FOLDER, pages.read_summary()))
