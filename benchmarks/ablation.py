"""The contribution of each part of the classifier: linear embedding, kernel, selection, and the presets.

python -m benchmarks.ablation [SET ...]      each run has its own process, so that its CPU time is measured alone
"""

from typing import Any

from benchmarks.real_sets import blend_facts, command, each, measured, percentages
from rembrandt.recipe import EmbeddingSettings

SETS = ("bibtex", "delicious", "cooking", "pubmed-mesh", "nvd-products")

# Fixed settings that did well on held-out rows of every set.
_FIXED: dict[str, Any] = {
    "scorers": ("embedding",),
    "decoder": "ridge",
    "decoder_ridge": 0.1,
    "normalize": True,
    "embedding": EmbeddingSettings(leave_out=0.5),
}
PARTS: dict[str, dict[str, Any]] = {
    "embedding": {**_FIXED, "kernel": None},
    "+ kernel": {**_FIXED, "kernel": "gaussian"},
    "+ selection": {"scorers": ("embedding",)},
    "fast": {"preset": "fast"},
    "balanced": {"preset": "balanced"},
    "best": {"preset": "best"},
}
# A dense kernel decoder for 39,470 labels takes minutes, and the embedding cannot represent most of these labels.
LEFT_OUT = {("nvd-products", "+ kernel"), ("nvd-products", "+ selection")}


def runs(sets: list[str]) -> list[str]:
    """Return the names of all runs on ``sets``."""
    return [f"{name}, {part}" for name in sets for part in PARTS if (name, part) not in LEFT_OUT]


def main(sets: list[str] | None = None) -> dict[str, Any]:
    """Fit every combination of set and part, and print a table."""
    results = {}
    print(f"{'set, part':<32}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'PSP@5':>7}{'CPU s':>8}{'cost':>6}  scorers")
    for name, row in each("benchmarks.ablation", runs(sets or list(SETS))):
        results[name] = row
        print(
            f"{name:<32}{percentages(row, 'p@1', 'p@3', 'p@5', 'psp@5')}{row['cpu']:>8.1f}"
            f"{row['cost']:>6g}  {row['scorers']}",
            flush=True,
        )
    return results


def one(run: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one part on one set in this process."""
    from rembrandt import RembrandtClassifier

    set_name, part = run.split(", ")
    classifier = RembrandtClassifier(**PARTS[part], random_state=seed)
    return measured(classifier, set_name)[0] | blend_facts(classifier)


if __name__ == "__main__":
    command(__doc__, main, one, "sets")
