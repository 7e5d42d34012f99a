"""Measure how often the nearest neighbour of a label in a saved model is its sibling in a
hierarchy.

Siblings share a parent. Labels without a parent in the hierarchy, and labels whose vector is zero,
are left out.

    python -m benchmarks.paper.model_siblings MODEL mesh/descriptors.tsv.gz
    python -m benchmarks.paper.model_siblings MODEL :
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.paper.hierarchy import FORMATS, read_hierarchy
from benchmarks.paper.sibling_metrics import sibling_fraction
from rembrandt.errors import DataError, RembrandtError
from rembrandt.estimators import load
from rembrandt.explore.neighbors import scaled_vectors


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, measure the model and return an exit code."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.paper.model_siblings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="Folder of a saved model.")
    parser.add_argument(
        "hierarchy",
        nargs="+",
        metavar="HIERARCHY",
        help="Files of a hierarchy; or a separator such as : if labels are paths.",
    )
    parser.add_argument(
        "--format", choices=("auto", *FORMATS), default="auto", help="Format of the files."
    )
    parser.add_argument(
        "--json", action="store_true", help="Print the result as one JSON document."
    )
    given = parser.parse_args(arguments)
    try:
        found = measure(given.model, given.hierarchy, given.format)
    except RembrandtError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found, indent=1) if given.json else _text(found))
    return 0


def measure(model: Path, sources: list[str], format: str = "auto") -> dict[str, Any]:
    """Return the measures of `sibling_fraction` for a saved model."""
    classifier = load(model)
    names = [str(name) for name in classifier.classes_]
    hierarchy = read_hierarchy(sources, format, names)
    found = sibling_fraction(scaled_vectors(classifier), hierarchy.matrix)
    if not found["n_labels"]:
        raise DataError(
            f"none of the {len(names):,} labels of {model} has a parent in this hierarchy; check "
            "that the names agree",
            ", ".join(sources),
        )
    return found | {
        "most_fraternal_label": names[found["most_fraternal_label"]],
        "unknown_labels": hierarchy.unknown,
        "n_model_labels": len(names),
    }


def _text(found: dict[str, Any]) -> str:
    lines = [
        f"labels in the measure         {found['n_labels']:,} of {found['n_model_labels']:,}",
        f"  not in the hierarchy        {found['unknown_labels']:,}",
        f"  without a parent in it      {found['without_parent'] - found['unknown_labels']:,}",
        f"  with a zero vector          {found['without_vector']:,}",
        f"labels without a sibling      {found['without_sibling']:,}",
        f"nearest neighbour is sibling  {100 * found['fraction']:.2f} %",
        f"most fraternal label          {100 * found['most_fraternal']:.2f} % "
        f"({found['most_fraternal_label']})",
        f"random label                  {100 * found['chance']:.2f} %",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
