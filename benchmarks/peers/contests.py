"""Rembrandt against each other program: wins, ties and losses on test rows, and limits on the CPU
time.

A tie is a difference inside the 95 % interval of a paired bootstrap over test rows.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.roster import presets
from benchmarks.peers.scoring import KS, Terms, read_terms
from rembrandt.metrics import bootstrap

Rows = list[dict[str, Any]]
OURS = tuple(peer.name for peer in presets())
PRECISION = tuple(f"p@{k}" for k in KS)
# A measure of ours with the one of theirs that it is compared with.
PAIRS = {name: name for name in PRECISION} | {
    f"{tail}psp@{k}": f"psp@{k}" for tail in ("", "tail ") for k in KS
}
# CPU seconds: the largest of a number of seconds and of multiples of what other programs take.
LIMITS: dict[str, tuple[float, dict[str, float]]] = {
    "Rembrandt fast": (3, {"omikuji": 1.5}),
    "Rembrandt balanced": (8, {"omikuji bonsai": 2, "omikuji": 3}),
    "Rembrandt best": (0, {"Rembrandt fast": 10, "Rembrandt balanced": 2}),
}
MOST_CALIBRATION_ERROR, LEAST_F1_SHARE = 0.03, 0.95


def compare(ours: Terms, others: dict[str, Terms]) -> dict[str, dict[str, str]]:
    """Return "win", "tie" or "loss" for each measure that we share with each of the others."""
    differences = {}
    for peer, theirs in others.items():
        for mine, other in PAIRS.items():
            if mine in ours and other in theirs:
                (gained, whole), (lost, same) = ours[mine], theirs[other]
                if len(whole) != len(same) or not np.allclose(whole, same):
                    raise ValueError(
                        f"{peer} was measured on other test rows; measure it again, with --again"
                    )
                differences[f"{peer}\n{mine}"] = gained - lost, whole
    found: dict[str, dict[str, str]] = {peer: {} for peer in others}
    for name, (low, high) in (bootstrap(differences) if differences else {}).items():
        peer, measure = name.split("\n")
        found[peer][measure] = "win" if low > 0 else "loss" if high < 0 else "tie"
    return found


def outcomes(rows: Rows, files: dict[tuple[str, str], Path]) -> None:
    """Add ``against`` to our rows: the outcome of each measure against each other program on the
    same set.

    ``files`` has what each test row contributes, by program and set.
    """
    for name, mine, others in _by_set(rows):
        known = {
            row["peer"]: read_terms(files[row["peer"], name])
            for row in others
            if (row["peer"], name) in files
        }
        for row in mine:
            if (row["peer"], name) in files:
                row["against"] = compare(read_terms(files[row["peer"], name]), known)


def limit(preset: str, seconds: dict[str, float]) -> float | None:
    """Return the CPU seconds that a preset may take on a set, given those of all programs; None if
    none is known.
    """
    least, factors = LIMITS[preset]
    known = [factor * seconds[peer] for peer, factor in factors.items() if peer in seconds]
    return max(least, *known) if known else None


def summary(rows: Rows) -> list[str]:
    """Return lines for each preset: the record against each program, mean differences, CPU time and
    calibration.
    """
    lines = []
    for preset in OURS:
        mine = [row for row in rows if row["peer"] == preset and "not_run" not in row]
        if mine:
            lines += [
                "",
                preset,
                *_record(mine),
                *_ahead(preset, rows),
                *_costs(preset, rows),
                *_calibration(mine),
            ]
    return lines[1:]


def _record(mine: Rows) -> Iterator[str]:
    peers = sorted({peer for row in mine for peer in row.get("against", {})})
    for peer in peers:
        for title, measures in (
            ("P@k", PRECISION),
            ("PSP@k", [f"psp@{k}" for k in KS]),
            ("PSP@k for the tail", [f"tail psp@{k}" for k in KS]),
        ):
            found = {
                (row["set"], m): row["against"][peer][m]
                for row in mine
                for m in measures
                if m in row.get("against", {}).get(peer, {})
            }
            if found:
                counts = {what: list(found.values()).count(what) for what in ("win", "tie", "loss")}
                lost: dict[str, list[str]] = {}
                for (name, measure), what in found.items():
                    if what == "loss":
                        lost.setdefault(name, []).append(measure.rpartition("@")[2])
                where = "; ".join(f"{name} @{'/'.join(ks)}" for name, ks in lost.items())
                text = f"{counts['win']} wins, {counts['tie']} ties, {counts['loss']} losses"
                yield f"  {title} against {peer}: {text}" + (f" ({where})" if where else "")


def _ahead(preset: str, rows: Rows) -> Iterator[str]:
    """Mean difference from the best of the other programs, in points."""
    differences: dict[str, list[float]] = {name: [] for name in PRECISION}
    for _, mine, others in _by_set(rows):
        for row in mine:
            for name in PRECISION:
                theirs = [other[name] for other in others if name in other]
                if row["peer"] == preset and name in row and theirs:
                    differences[name].append(100 * (row[name] - max(theirs)))
    if differences["p@1"]:
        text = " / ".join(f"{np.mean(each):+.2f}" if each else "–" for each in differences.values())
        least = " / ".join(f"{min(each):+.2f}" if each else "–" for each in differences.values())
        yield f"  P@1/3/5 minus the best other program: mean {text}, least {least}"


def _costs(preset: str, rows: Rows) -> Iterator[str]:
    kept, exceeded = 0, []
    for name, mine, others in _by_set(rows):
        seconds = {row["peer"]: row["train_cpu"] for row in [*mine, *others]}
        most = limit(preset, seconds)
        if preset in seconds and most is not None:
            kept += seconds[preset] <= most
            if seconds[preset] > most:
                exceeded.append(f"{name} {seconds[preset]:.1f} > {most:.1f}")
    if kept or exceeded:
        yield f"  CPU seconds within the limit on {kept} of {kept + len(exceeded)}" + (
            f": {'; '.join(exceeded)}" if exceeded else ""
        )


def _calibration(mine: Rows) -> Iterator[str]:
    errors = {row["set"]: row["calibration_error"] for row in mine if "calibration_error" in row}
    if errors:
        above = [
            f"{name} {100 * e:.1f} %" for name, e in errors.items() if e > MOST_CALIBRATION_ERROR
        ]
        most = 100 * MOST_CALIBRATION_ERROR
        yield (
            f"  calibration error at most {most:.0f} % on {len(errors) - len(above)} of "
            f"{len(errors)}" + (f": {'; '.join(above)}" if above else "")
        )
    shares = {row["set"]: row["f1_share"] for row in mine if "f1_share" in row}
    if shares:
        below = [f"{name} {share:.3f}" for name, share in shares.items() if share < LEAST_F1_SHARE]
        good = f"{len(shares) - len(below)} of {len(shares)}"
        yield (
            f"  micro-F1 of predict at least {LEAST_F1_SHARE:g} of that of the best threshold on "
            f"{good}" + (f": {'; '.join(below)}" if below else "")
        )


def _by_set(rows: Rows) -> Iterator[tuple[str, Rows, Rows]]:
    """Yield each set with our rows and the others that were measured."""
    for name in dict.fromkeys(row["set"] for row in rows):
        ran = [row for row in rows if row["set"] == name and "not_run" not in row]
        yield name, [r for r in ran if r["peer"] in OURS], [r for r in ran if r["peer"] not in OURS]
