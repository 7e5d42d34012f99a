"""Models that keep learning: an update with more rows beside a fit to all of them.

python -m benchmarks.update [NAME ...]      each run in a process of its own, so that CPU time is its own
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.real_sets import FOLDER, command, cpu_seconds, each

SETTLED = {"decoder": "ridge", "decoder_ridge": 0.1, "normalize": True, "n_random_features": 1000}
KERNEL, LINEAR = SETTLED | {"kernel": "gaussian"}, SETTLED | {"kernel": None}
# The set, which share of its training rows or labels comes late, and the settings where they are not the default.
RUNS: dict[str, tuple[str, str, float, dict[str, Any]]] = {
    "pubmed-mesh, a tenth more": ("pubmed-mesh", "rows", 1 / 11, {}),
    "pubmed-mesh, as many again": ("pubmed-mesh", "rows", 1 / 2, {}),
    "bibtex, a tenth more": ("bibtex", "rows", 1 / 11, KERNEL),
    "bibtex, a tenth more, linear": ("bibtex", "rows", 1 / 11, LINEAR),
    "bibtex, labels, linear": ("bibtex", "labels", 1 / 10, LINEAR),
    "bibtex, labels": ("bibtex", "labels", 1 / 10, KERNEL),
    "delicious, a tenth more": ("delicious", "rows", 1 / 11, KERNEL),
    "delicious, linear": ("delicious", "rows", 1 / 11, LINEAR),
}


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set that is there, and print a table."""
    results = {}
    print(
        f"{'':<30}{'before':>20}{'updated':>20}{'full fit':>20}{'update':>11}{'fit':>8}{'refit':>8}{'update / fit':>14}"
    )
    print(f"{'':<30}{3 * 'P@1 / P@3 / P@5'.rjust(20)}{'CPU s':>11}")
    for name, row in each("benchmarks.update", names or RUNS):
        results[name] = row
        qualities = "".join(
            " / ".join(f"{100 * row[when][f'p@{k}']:.1f}" for k in (1, 3, 5)).rjust(20)
            for when in ("before", "updated", "full")
        )
        cpu = row["cpu"]
        costs = f"{cpu['update']:>11.1f}{cpu['fit']:>8.1f}{cpu['refit']:>8.1f}{cpu['update'] / cpu['fit']:>14.1%}"
        print(f"{name:<30}{qualities}{costs}", flush=True)
        print(f"{'':<30}{row['n_new_labels']:,} labels new, {row['outside']:.1%} of the new labels' weight outside")
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit to the first rows, update with the others, and fit to all, in this process."""
    import numpy as np

    from rembrandt import RembrandtClassifier
    from rembrandt.data import catalogue
    from rembrandt.evaluation import measure

    set_name, of, share, settings = RUNS[name]
    train, test = (catalogue.load(set_name, split, folder=FOLDER) for split in ("train", "test"))
    if train.feature_names is not None:
        test = test.align_features(train.feature_names)
    rng = np.random.default_rng(seed)
    late = rng.random(train.n_examples if of == "rows" else train.n_labels) < share
    if of == "labels":
        late = train.Y @ late.astype(np.float32) > 0  # rows that have one of them
    first, later = train.rows(~late), train.rows(late)
    used = np.bincount(first.Y.indices, minlength=first.n_labels) > 0
    first = first.align_labels([label for label, known in zip(first.label_names, used.tolist(), strict=True) if known])

    cpu: dict[str, float] = {}
    wall: dict[str, float] = {}

    def timed(what: str, work: Callable[..., Any], *arguments: Any) -> Any:
        start_cpu, start = cpu_seconds(), time.perf_counter()
        result = work(*arguments)
        cpu[what], wall[what] = cpu_seconds() - start_cpu, time.perf_counter() - start
        return result

    classifier = timed("first", RembrandtClassifier(growable=True, random_state=seed, **settings).fit_dataset, first)
    before = measure(classifier, test).model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is time to fit anew is in the result
        timed("update", classifier.update_dataset, later)
    updated = measure(classifier, test).model
    full = timed("fit", RembrandtClassifier(random_state=seed, **settings).fit_dataset, train)
    quality = measure(full, test).model
    timed("refit", full.refit_dataset, train)  # with the settings found before
    log = classifier.settings_["updated"][-1]
    return {
        "before": before,
        "updated": updated,
        "full": quality,
        "cpu": cpu,
        "wall": wall,
        "n_new_labels": log["n_labels"],
        "outside": log["outside"],
    }


if __name__ == "__main__":
    command(__doc__, main, one)
