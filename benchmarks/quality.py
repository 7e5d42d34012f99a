"""Accuracy and cost of the classifier on real data, with the settings that a user gets.

python -m benchmarks.quality [NAME ...]      each set has its own process, so that its memory and
CPU time are its own
"""

from typing import Any

from benchmarks.real_sets import command, cpu_seconds, each, measured, percentages

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "aloi, k = 50, linear": ("aloi", {"n_components": 50, "kernel": None, "decoder": "logistic"}),
    "aloi, k = 50, random features": (
        "aloi",
        {"n_components": 50, "kernel": "gaussian", "decoder": "logistic"},
    ),
    "bibtex": ("bibtex", {}),
    "delicious": ("delicious", {}),
    "cooking": ("cooking", {}),
    "pubmed-mesh": ("pubmed-mesh", {}),
    "pubmed-mesh, fast": ("pubmed-mesh", {"preset": "fast"}),
}


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set whose data is present, and print a table."""
    results = {}
    print(
        f"{'set':<32}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'CPU s':>8}{'wall s':>8}{'GB':>6}{'embed CPU s':>13}"
    )
    for name, row in each("benchmarks.quality", names or RUNS):
        results[name] = row
        print(
            f"{name:<32}{percentages(row, 'p@1', 'p@3', 'p@5')}{row['cpu']:>8.1f}{row['wall']:>8.1f}"
            f"{row['gigabytes']:>6.1f}{row['embed_cpu']:>13.2f}",
            flush=True,
        )
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one set in this process."""
    from rembrandt import LabelEmbedder, RembrandtClassifier

    set_name, settings = RUNS[name]
    found, train = measured(RembrandtClassifier(**settings, random_state=seed), set_name)
    embed_cpu = float("nan")
    if train.X is not None:
        start = cpu_seconds()
        LabelEmbedder(n_components=min(50, train.n_labels), random_state=seed).fit(train.X, train.Y)
        embed_cpu = cpu_seconds() - start
    return found | {"embed_cpu": embed_cpu}


if __name__ == "__main__":
    command(__doc__, main, one)
