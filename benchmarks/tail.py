"""The trees of sparse classifiers on sets with many rare labels: accuracy, cost, speed, and what
the beam misses.

python -m benchmarks.tail [NAME ...]      each run has its own process, so that its memory and CPU
time are its own
"""

from typing import Any

from benchmarks.real_sets import blend_facts, command, each, load, measured, percentages
from rembrandt import TreeSettings

SAMPLE = 1000  # test rows for which every cluster is visited
BLOCK = 100  # rows whose labels are all scored at a time

BOTH: dict[str, Any] = {"parts": ("trees", "embedding")}
TREES: dict[str, Any] = {"parts": ("trees",)}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "bibtex": ("bibtex", BOTH),
    "delicious": ("delicious", BOTH),
    "cooking": ("cooking", BOTH),
    "pubmed-mesh": ("pubmed-mesh", TREES),
    "pubmed-mesh, no clusters": (
        "pubmed-mesh",
        TREES | {"trees": TreeSettings(max_example_node_pairs=3e8)},
    ),
    "nvd-products": ("nvd-products", TREES),
    "nvd-versions": ("nvd-versions", TREES),
    "mesh": ("mesh", TREES | {"analyzer": "char"}),
}


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set whose data is present, and print a table."""
    results = {}
    print(
        f"{'run':<28}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'PSP@5':>7}{'CPU s':>8}{'wall s':>8}{'GB':>6}{'rows/s':>8}"
        f"{'beam %':>8}  chosen"
    )
    for name, row in each("benchmarks.tail", names or RUNS):
        results[name] = row
        print(
            f"{name:<28}{percentages(row, 'p@1', 'p@3', 'p@5', 'psp@5')}{row['cpu']:>8.1f}{row['wall']:>8.1f}"
            f"{row['gigabytes']:>6.1f}{row['examples_per_second']:>8.0f}{100 * row['beam']:>8.2f}"
            f"  {' + '.join(row['parts'])}, cost {row['cost']:g}",
            flush=True,
        )
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one set in this process."""
    from rembrandt import RembrandtClassifier, TextFeatures

    set_name, settings = RUNS[name]
    settings = dict(settings)
    text = TextFeatures(analyzer=settings.pop("analyzer", "word"))
    classifier = RembrandtClassifier(**settings, text=text, random_state=seed)
    found, _ = measured(classifier, set_name)
    return found | blend_facts(classifier) | {"beam": kept_by_beam(classifier, set_name)}


def kept_by_beam(classifier: Any, set_name: str) -> float:
    """Return P@5 of the trees with their beam, relative to P@5 with all clusters visited."""
    import numpy as np

    from rembrandt.estimators.requests import rows_of
    from rembrandt.metrics import precision_at_k

    trees = classifier.model_.parts.get("trees")
    if trees is None:
        return float("nan")
    test = load(set_name)[1].align_labels([str(label) for label in classifier.classes_])
    sample = np.random.default_rng(0).permutation(test.n_examples)[:SAMPLE]
    test = test.rows(np.sort(sample))
    X = rows_of(classifier, test.inputs).features
    beam, full = [], []
    for start in range(0, X.shape[0], BLOCK):
        rows = trees.prepare(X[start : start + BLOCK])
        beam.append(trees.top(rows, 5)[0])
        scores = trees.at(rows, np.tile(np.arange(trees.n_labels), (rows.X.shape[0], 1)))
        full.append(
            np.argpartition(-scores, 4, axis=1)[:, :5]
        )  # P@5 does not depend on their order
    return float(
        precision_at_k(test.Y, np.vstack(beam), 5) / precision_at_k(test.Y, np.vstack(full), 5)
    )


if __name__ == "__main__":
    command(__doc__, main, one)
