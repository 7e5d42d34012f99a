"""The long tail: how good and how costly the sparse part is, and how fast it answers.

python -m benchmarks.tail [NAME ...]      each run in a process of its own, so that memory and CPU time are its own
"""

import argparse
import json
from typing import Any

from benchmarks.real_sets import each, measured

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "bibtex": ("bibtex", {}),
    "delicious": ("delicious", {}),
    "cooking": ("cooking", {}),
    "pubmed-mesh": ("pubmed-mesh", {}),
    "pubmed-mesh, no clusters": ("pubmed-mesh", {"sparse_pairs": 3e8}),
    "nvd-products": ("nvd-products", {}),
    "nvd-versions": ("nvd-versions", {}),
    "mesh": ("mesh", {"analyzer": "char"}),
}


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set that is there, and print a table."""
    results = {}
    print(
        f"{'run':<28}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'PSP@5':>7}{'CPU s':>8}{'wall s':>8}{'GB':>6}{'rows/s':>8}  chosen"
    )
    for name, row in each("benchmarks.tail", names or RUNS):
        results[name] = row
        p = "".join(f"{100 * row[m]:>7.2f}" for m in ("p@1", "p@3", "p@5", "psp@5"))
        print(
            f"{name:<28}{p}{row['cpu']:>8.1f}{row['wall']:>8.1f}{row['gigabytes']:>6.1f}"
            f"{row['examples_per_second']:>8.0f}  share {row['blend']:g}, cost {row['cost']:g}",
            flush=True,
        )
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one set in this process."""
    from rembrandt import RembrandtClassifier, TextFeatures

    set_name, settings = RUNS[name]
    settings = dict(settings)
    text = TextFeatures(analyzer=settings.pop("analyzer", "word"))
    classifier = RembrandtClassifier(**settings, sparse=True, text=text, random_state=seed)
    found, _ = measured(classifier, set_name)
    tree = classifier.settings_["tree"] or {"cost": 0.0}
    return found | {"blend": classifier.model_.blend, "cost": tree["cost"]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which runs; all by default")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one)))
    else:
        main(arguments.names)
