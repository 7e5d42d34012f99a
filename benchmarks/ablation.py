"""What each part of the classifier is worth: low rank, a kernel, a choice on held-out rows, the sparse part, both.

python -m benchmarks.ablation [SET ...]      each run in a process of its own, so that CPU time is its own
"""

from typing import Any

from benchmarks.real_sets import command, each, measured

SETS = ("bibtex", "delicious", "cooking", "pubmed-mesh", "nvd-products")

# What did well on held-out rows of every set that was looked at, where nothing is chosen.
_PLAIN = {"sparse": False, "decoder": "ridge", "decoder_ridge": 0.1, "leave_out": 0.5, "normalize": True}
PARTS: dict[str, dict[str, Any]] = {
    "low rank": {**_PLAIN, "kernel": None},
    "+ kernel": {**_PLAIN, "kernel": "gaussian"},
    "+ selection": {"sparse": False},
    "sparse alone": {"preset": "fast"},
    "+ sparse": {"preset": "best"},
}
# A dense decoder for 39,470 labels, and a search for one, take minutes for labels that low rank has no room for.
LEFT_OUT = {("nvd-products", "+ kernel"), ("nvd-products", "+ selection")}


def runs(sets: list[str]) -> list[str]:
    """The names of all runs on ``sets``."""
    return [f"{name}, {part}" for name in sets for part in PARTS if (name, part) not in LEFT_OUT]


def main(sets: list[str] | None = None) -> dict[str, Any]:
    """Run every part on every set that is there, and print a table."""
    results = {}
    print(f"{'set, part':<28}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'PSP@5':>7}{'CPU s':>8}{'share':>7}{'cost':>6}")
    for name, row in each("benchmarks.ablation", runs(sets or list(SETS))):
        results[name] = row
        p = "".join(f"{100 * row[m]:>7.2f}" for m in ("p@1", "p@3", "p@5", "psp@5"))
        print(f"{name:<28}{p}{row['cpu']:>8.1f}{row['share']:>7g}{row['cost']:>6g}", flush=True)
    return results


def one(run: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one part on one set in this process."""
    from rembrandt import RembrandtClassifier

    set_name, part = run.split(", ")
    classifier = RembrandtClassifier(**PARTS[part], random_state=seed)
    found, _ = measured(classifier, set_name)
    tree = classifier.settings_["tree"] or {"cost": 0.0}
    return found | {"share": classifier.model_.blend, "cost": tree["cost"]}


if __name__ == "__main__":
    command(__doc__, main, one, "sets")
