"""Rembrandt and other programs in one table: the same split and features, one fit at a time,
separate environments.

    python -m benchmarks.table --install     create missing environments, then run what is missing
    python -m benchmarks.table --peers omikuji --sets bibtex --again
    python -m benchmarks.table --show        show stored results
    python -m benchmarks.table --write       put them into docs/benchmarks.md

The result of each pair of program and set is stored in bench-results/peers. A new run continues
after the last result. Below the tables are the wins, ties and losses of each preset and the limits
on its CPU time, as described in benchmarks/peers/contests.py.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import contests, runner
from benchmarks.peers import report as pages
from benchmarks.peers.environments import install, python_of
from benchmarks.peers.prepare import set_folder
from benchmarks.peers.roster import SETS, Peer, everyone
from rembrandt.errors import DataError
from rembrandt.progress import bars

FOLDER = Path("bench-results") / "peers"


def main(
    peers: list[str] | None = None,
    sets: list[str] | None = None,
    again: bool = False,
    limit: float = 600,
    timeout: float = 3600,
    folder: Path = FOLDER,
) -> dict[str, Any]:
    """Measure every pair without a stored result, print the tables, and return their rows."""
    chosen = [peer for peer in everyone() if not peers or peer.name in peers]
    names = list(sets or SETS)
    failures = measure_all(chosen, names, folder, again, limit, timeout)
    rows = [row for row in pages.collect(folder, []) if row["set"] in names]
    show(rows)
    if failures:
        sys.exit("\n\n".join(failures))
    return {"rows": rows}


def measure_all(
    peers: Sequence[Peer],
    names: Sequence[str],
    folder: Path,
    again: bool,
    limit: float,
    timeout: float,
) -> list[str]:
    """Measure every program on every set, one at a time; return what failed."""
    failures = []
    with runner.alone(folder), bars() as report:
        for name in names:
            try:
                data = set_folder(name)
            except DataError as why:
                print(f"skipped: {why}", flush=True)
                continue
            for done, peer in enumerate(peers):
                report(name, done, len(peers))
                if not again and runner.stored(folder, peer, name, data) is not None:
                    continue
                report(f"{peer.name} on {name}", 0, None)
                try:
                    if not data.exists():
                        _prepare(name)
                    runner.measure(peer, name, data, folder, limit, timeout)
                except runner.SkippedError as why:
                    print(f"skipped: {why}", flush=True)
                except runner.FailedError as why:  # reported at the end, after the other pairs
                    failures.append(str(why))
    return failures


def show(rows: list[dict[str, Any]], columns: Any = None) -> None:
    """Print a table for each set, and the record of each preset."""
    for name in pages.ORDER:
        mine = [row for row in rows if row["set"] == name]
        if mine:
            print(f"\n{name}\n" + "\n".join(pages.table(mine, False, columns)), flush=True)
    print("\n" + "\n".join(contests.summary(rows)), flush=True)


def _prepare(name: str) -> None:
    """Prepare the features of a set in another process, which frees its memory at its end."""
    subprocess.run(
        [sys.executable, "-m", "benchmarks.peers.prepare", name],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def install_missing(peers: Sequence[Peer]) -> None:
    """Create the environments that are missing."""
    environments = {peer.environment for peer in peers if peer.environment is not None}
    missing = sorted((e for e in environments if python_of(e) is None), key=lambda e: e.name)
    with bars() as report:
        for done, environment in enumerate(missing):
            report("environments", done, len(missing))
            report(f"installing {environment.name}", 0, None)
            install(environment)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers", nargs="+", choices=[peer.name for peer in everyone()], metavar="PEER"
    )
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--install", action="store_true", help="create missing environments first")
    parser.add_argument(
        "--again", action="store_true", help="measure again what has a stored result"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=600,
        help="skip fits that are estimated to take more CPU seconds",
    )
    parser.add_argument(
        "--timeout", type=float, default=3600, help="seconds after which a program is stopped"
    )
    parser.add_argument(
        "--show", action="store_true", help="print stored results without measuring"
    )
    parser.add_argument(
        "--write", action="store_true", help="write stored results to docs/benchmarks.md"
    )
    asked = parser.parse_args()
    if asked.install:
        install_missing(
            [peer for peer in everyone() if not asked.peers or peer.name in asked.peers]
        )
    if not asked.show and not asked.write:
        main(asked.peers, asked.sets, asked.again, asked.limit, asked.timeout)
    elif asked.show:
        show(pages.collect(FOLDER, []))
    if asked.write:
        pages.write_page(pages.collect(FOLDER, pages.read_summary()))
