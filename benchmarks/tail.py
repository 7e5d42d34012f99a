"""The long tail: how good and how costly the sparse part is, how fast it answers, and what its beam leaves out.

python -m benchmarks.tail [NAME ...]      each run in a process of its own, so that memory and CPU time are its own
"""

from typing import Any

from benchmarks.real_sets import FOLDER, command, each, measured

FULL_ROWS = 1000  # test rows that every cluster is looked into for

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
        f"{'run':<28}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'PSP@5':>7}{'CPU s':>8}{'wall s':>8}{'GB':>6}{'rows/s':>8}"
        f"{'beam %':>8}  chosen"
    )
    for name, row in each("benchmarks.tail", names or RUNS):
        results[name] = row
        p = "".join(f"{100 * row[m]:>7.2f}" for m in ("p@1", "p@3", "p@5", "psp@5"))
        print(
            f"{name:<28}{p}{row['cpu']:>8.1f}{row['wall']:>8.1f}{row['gigabytes']:>6.1f}"
            f"{row['examples_per_second']:>8.0f}{100 * row['beam']:>8.2f}"
            f"  share {row['blend']:g}, cost {row['cost']:g}",
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
    return found | {"blend": classifier.model_.blend, "cost": tree["cost"], "beam": kept_by_beam(classifier, set_name)}


def kept_by_beam(classifier: Any, set_name: str) -> float:
    """P@5 of the sparse part's usual answers, as a share of that with every cluster looked into."""
    import numpy as np

    from rembrandt.data import catalogue
    from rembrandt.metrics import precision_at_k

    forest = classifier.model_.forest
    if forest is None:
        return float("nan")
    test = catalogue.load(set_name, "test", folder=FOLDER).align_labels(classifier.classes_.tolist())
    if classifier.feature_names_ is not None:
        test = test.align_features(classifier.feature_names_)
    rows = np.random.default_rng(0).permutation(test.n_examples)[:FULL_ROWS]
    test = test.rows(np.sort(rows))
    X = classifier.model_.rows(classifier.model_rows(test.X if test.texts is None else test.texts))
    usual, full = (precision_at_k(test.Y, forest.top_k(X, 5, allowed)[0], 5) for allowed in (None, _all(forest)))
    return float(usual / full)


def _all(forest: Any) -> Any:
    """Every label, by its number: a list of what is allowed has all clusters looked into."""
    import numpy as np

    return np.arange(forest.n_labels)


if __name__ == "__main__":
    command(__doc__, main, one)
