"""The table of programs as text, for the terminal, for docs/benchmarks.md and for README.md."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers import contests
from benchmarks.peers.roster import SETS, everyone
from benchmarks.results import described, write_json
from benchmarks.variants import VARIANTS

DOCS = Path(__file__).parents[2] / "docs"
SUMMARY, PAGE = DOCS / "benchmarks.json", DOCS / "benchmarks.md"
README = DOCS.parent / "README.md"
BEGIN, END = (
    "<!-- peers: begin, written by python -m benchmarks.table --write -->",
    "<!-- peers: end -->",
)

# Heading, key, factor, digits; higher is better in the first eight.
COLUMNS = (
    ("P@1", "p@1", 100, 2),
    ("P@3", "p@3", 100, 2),
    ("P@5", "p@5", 100, 2),
    ("nDCG@3", "ndcg@3", 100, 2),
    ("nDCG@5", "ndcg@5", 100, 2),
    ("PSP@1", "psp@1", 100, 2),
    ("PSP@3", "psp@3", 100, 2),
    ("PSP@5", "psp@5", 100, 2),
    ("CPU s", "train_cpu", 1, 1),
    ("wall s", "train_wall", 1, 1),
    ("GB", "gigabytes", 1, 2),
    ("model MB", "model_megabytes", 1, 1),
    ("examples/s", "examples_per_second", 1, 0),
)
BETTER_HIGH = {key for _, key, *_ in COLUMNS[:8]}
# Shown where a row has them.
MORE_COLUMNS = (
    ("tail PSP@1", "tail psp@1", 100, 2),
    ("tail PSP@3", "tail psp@3", 100, 2),
    ("tail PSP@5", "tail psp@5", 100, 2),
    ("rare %", "rare_recall", 100, 2),
    ("tail rare %", "tail_rare_recall", 100, 2),
    ("ECE %", "calibration_error", 100, 2),
    ("F1", "f1", 100, 2),
    ("F1 / best", "f1_share", 1, 3),
)
_KEYS = [key for _, key, *_ in (*COLUMNS, *MORE_COLUMNS)]
KEPT = ("peer", "set", "machine", "versions", "facts", "not_run", "against", *_KEYS, "ndcg@1")
ORDER = (*SETS, *VARIANTS)
OVERVIEW = {"pubmed-mesh": "PubMed-MeSH", "nvd-products": "NVD products"}  # sets in README.md


def collect(folder: Path, known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the known rows, updated with the results in ``folder``, in the order of the table."""
    rows = {(row["peer"], row["set"]): row for row in known}
    files = {}
    for file in sorted(folder.glob("*--*.json")):
        row = json.loads(file.read_text())
        where = row["peer"], row["set"]
        rows[where] = _rounded({key: row[key] for key in KEPT if key in row})
        if "not_run" not in row and file.with_suffix(".npz").exists():
            files[where] = file.with_suffix(".npz")
    present = [
        row | {"what": peer.what}
        for peer in everyone()
        for row in rows.values()
        if row["peer"] == peer.name
    ]
    present = sorted(
        (row for row in present if row["set"] in ORDER), key=lambda row: ORDER.index(row["set"])
    )
    contests.outcomes(present, files)
    return present


def render(rows: list[dict[str, Any]]) -> str:
    """Return the generated section of docs/benchmarks.md."""
    peers = {row["peer"]: row["what"] for row in rows}
    versions = sorted(
        {f"{name} {v}" for row in rows for name, v in row.get("versions", {}).items()}
    )
    machines = sorted({described(row["machine"]) for row in rows})
    lines = [
        f"Machine: {'; '.join(machines)}. Versions: {', '.join(versions)}.",
        "",
        *(f"- **{peer}**: {what}." for peer, what in peers.items()),
    ]
    if any("against" in row for row in rows):
        lines += ["", "```", *contests.summary(rows), "```"]
    for name in ORDER:
        mine = [row for row in rows if row["set"] == name]
        if mine:
            facts = mine[0]["facts"]
            lines += [
                "",
                f"### {name}",
                "",
                f"{facts['n_train']:,} training examples, {facts['n_test']:,} test examples, "
                f"{facts['n_features']:,} features, {facts['n_labels']:,} labels.",
                "",
                *table(mine, markdown=True),
            ]
    return "\n".join(lines)


def overview(rows: list[dict[str, Any]]) -> str:
    """Return the generated section of README.md: our presets, and the programs that were run on
    every set of it.
    """
    by_peer: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["set"] in OVERVIEW and "not_run" not in row:
            by_peer.setdefault(row["peer"], {"what": row["what"]})[row["set"]] = row
    shown = {
        peer: own
        for peer, own in by_peer.items()
        if peer.startswith("Rembrandt") or own.keys() >= OVERVIEW.keys()
    }
    best = {
        name: max(own[name]["p@1"] for own in shown.values() if name in own) for name in OVERVIEW
    }
    lines = [
        "| |" + "".join(f" {title} | CPU s |" for title in OVERVIEW.values()) + " what it is |"
    ]
    lines.append("|---|" + "---|---:|" * len(OVERVIEW) + "---|")
    for peer, own in shown.items():
        cells = []
        for name in OVERVIEW:
            row = own.get(name)
            figures = " / ".join(f"{100 * row[f'p@{k}']:.1f}" for k in (1, 3, 5)) if row else ""
            cells += [f"**{figures}**" if row and row["p@1"] == best[name] else figures]
            cells += [f"{row['train_cpu']:,.0f}" if row else ""]
        lines.append(f"| {peer} | {' | '.join(cells)} | {own['what']} |")
    return "\n".join(lines)


def table(rows: list[dict[str, Any]], markdown: bool, columns: Any = None) -> list[str]:
    """Return the table of one set, with the best of each measure in bold; rows that were not run
    are listed below.
    """
    ran = [row for row in rows if "not_run" not in row]
    columns = columns or (
        *COLUMNS,
        *(more for more in MORE_COLUMNS if any(more[1] in row for row in ran)),
    )
    best = {
        key: max(
            (_figure(row, key, factor, digits) for row in ran if key in row), default="", key=_value
        )
        for _, key, factor, digits in columns
        if key in BETTER_HIGH
    }
    cells = [["program", *(heading for heading, *_ in columns)]]
    for row in ran:
        figures = [(key, _figure(row, key, factor, digits)) for _, key, factor, digits in columns]
        marked = (
            f"**{text}**" if markdown and text == best.get(key) else text for key, text in figures
        )
        cells.append([row["peer"], *marked])
    if markdown:
        lines = ["| " + " | ".join(line) + " |" for line in cells]
        lines.insert(1, "|---|" + "---:|" * len(columns))
    else:
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [_aligned(line, widths) for line in cells]
    left_out = [f"{row['peer']} was not run: {row['not_run']}." for row in rows if "not_run" in row]
    return lines + (
        [""] + ([f"- {line}" for line in left_out] if markdown else left_out) if left_out else []
    )


def read_summary(file: Path = SUMMARY) -> list[dict[str, Any]]:
    """Return the rows that the page was written from."""
    rows: list[dict[str, Any]] = json.loads(file.read_text())["rows"] if file.exists() else []
    return rows


def write_page(rows: list[dict[str, Any]]) -> None:
    """Store the rows and update the sections of the two pages that are generated from them."""
    write_json(SUMMARY, {"rows": rows})
    for page, make in ((PAGE, render), (README, overview)):
        page.write_text(with_section(page.read_text(), rows, make))


def with_section(
    page: str, rows: list[dict[str, Any]], make: Callable[[list[dict[str, Any]]], str] = render
) -> str:
    """Return the page with the section between its two marks replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(
            f"a page has no marks for the generated section; add these two lines:\n{BEGIN}\n{END}"
        )
    return f"{before}{BEGIN}\n\n{make(rows)}\n\n{END}{after}"


def _figure(row: dict[str, Any], key: str, factor: int, digits: int) -> str:
    return f"{factor * row[key]:,.{digits}f}" if key in row else "–"


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _aligned(line: list[str], widths: list[int]) -> str:
    return line[0].ljust(widths[0]) + "".join(
        cell.rjust(w + 2) for cell, w in zip(line[1:], widths[1:], strict=True)
    )


def _rounded(value: Any) -> Any:
    """Round to five digits; more would differ between runs."""
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value
