"""The contribution of each part: alone, in pairs and all together, blended, on test rows.

python -m benchmarks.ablation [SET ...] [--variants] [--preset best] [--again] [--markdown]

The parts of a preset are fitted once for each set; CPU seconds are those of each part on all
training rows, and of the search on held-out rows. A dash stands for parts that the preset does not
fit to the set, and for an embedding that only ranks labels which other parts list.
"""

import argparse
from itertools import combinations
from typing import Any

from benchmarks import parts
from benchmarks.peers.roster import SETS
from benchmarks.peers.scoring import KS
from benchmarks.variants import VARIANTS

ORDER = ("trees", "centroids", "embedding")
SUBSETS = [names for size in (1, 2, 3) for names in combinations(ORDER, size)]


def main(
    sets: list[str] | None = None,
    preset: str = "balanced",
    again: bool = False,
    markdown: bool = False,
) -> dict[str, Any]:
    """Measure every set without a stored result, and print the table."""
    found = {}
    print("\n".join(heading(markdown)), flush=True)
    for result in parts.results(sets or SETS, preset, again):
        found[result["set"]] = result
        print(line(result, markdown), flush=True)
    return found


def heading(markdown: bool) -> list[str]:
    """Return the first lines of the table."""
    titles = [
        "set",
        *(" + ".join(names) for names in SUBSETS),
        "CPU s: search, " + ", ".join(ORDER),
    ]
    return [_joined(titles, markdown)] + (["|" + "---|" * len(titles)] if markdown else [])


def line(result: dict[str, Any], markdown: bool) -> str:
    """Return P@1 / P@3 / P@5 of every subset on one set, with the present constants."""
    length, penalty = result["present"]
    rows = {
        tuple(row["parts"]): row
        for row in result["rows"]
        if (row["length"], row["penalty"]) == (length, penalty)
    }
    cells = [result["set"]]
    for names in SUBSETS:
        row = rows.get(names)
        text = (
            "–"
            if row is None
            else " / ".join(f"{100 * row[f'p@{k}']:.2f}" for k in KS if f"p@{k}" in row)
        )
        cells.append(text)
    seconds = [result["search_cpu"], *(result["cpu"].get(name) for name in ORDER)]
    cells.append(", ".join("–" if each is None else f"{each:.1f}" for each in seconds))
    return _joined(cells, markdown)


def _joined(cells: list[str], markdown: bool) -> str:
    if markdown:
        return "| " + " | ".join(cells) + " |"
    return cells[0].ljust(23) + "".join(cell.ljust(32) for cell in cells[1:]).rstrip()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sets",
        nargs="*",
        metavar="SET",
        help=f"{', '.join(SETS)}, or a variant; all sets by default",
    )
    parser.add_argument(
        "--variants", action="store_true", help="the variants of benchmarks.generalize, too"
    )
    parser.add_argument("--preset", choices=["fast", "balanced", "best"], default="balanced")
    parser.add_argument(
        "--again", action="store_true", help="measure again what has a stored result"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table for a page")
    asked = parser.parse_args()
    everything = [*(asked.sets or SETS), *(VARIANTS if asked.variants else ())]
    main(everything, asked.preset, asked.again, asked.markdown)
