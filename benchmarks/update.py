"""Updates with more rows or labels, compared with a fit to all rows.

python -m benchmarks.update [NAME ...]      each run has its own process, so that its CPU time is
its own
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.real_sets import command, cpu_seconds, each, load
from rembrandt import EmbeddingSettings

FIXED: dict[str, Any] = {
    "decoder": "ridge",
    "decoder_ridge": 0.1,
    "normalize": True,
    "embedding": EmbeddingSettings(
        n_random_features=1000, leave_out=0.5, label_power=0.0, row_power=0.0, tol=0.02
    ),
}
KERNEL, LINEAR = FIXED | {"kernel": "gaussian"}, FIXED | {"kernel": None}
# The set, whether rows or labels arrive in the update, their fraction, and the settings.
RUNS: dict[str, tuple[str, str, float, dict[str, Any]]] = {
    "pubmed-mesh, 10 % more": ("pubmed-mesh", "rows", 1 / 11, {}),
    "pubmed-mesh, 100 % more": ("pubmed-mesh", "rows", 1 / 2, {}),
    "bibtex, 10 % more": ("bibtex", "rows", 1 / 11, KERNEL),
    "bibtex, 10 % more, linear": ("bibtex", "rows", 1 / 11, LINEAR),
    "bibtex, labels, linear": ("bibtex", "labels", 1 / 10, LINEAR),
    "bibtex, labels": ("bibtex", "labels", 1 / 10, KERNEL),
    "delicious, 10 % more": ("delicious", "rows", 1 / 11, KERNEL),
    "delicious, 10 % more, linear": ("delicious", "rows", 1 / 11, LINEAR),
}


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set whose data is present, and print a table."""
    results = {}
    print(
        f"{'':<30}{'before':>20}{'updated':>20}{'fit to all':>20}{'update':>11}{'fit':>8}{'refit':>8}"
        f"{'update / fit':>14}"
    )
    print(f"{'':<30}{3 * 'P@1 / P@3 / P@5'.rjust(20)}{'CPU s':>11}")
    for name, row in each("benchmarks.update", names or RUNS):
        results[name] = row
        precisions = "".join(
            " / ".join(f"{100 * row[when][f'p@{k}']:.1f}" for k in (1, 3, 5)).rjust(20)
            for when in ("before", "updated", "full")
        )
        cpu = row["cpu"]
        costs = f"{cpu['update']:>11.1f}{cpu['fit']:>8.1f}{cpu['refit']:>8.1f}{cpu['update'] / cpu['fit']:>14.1%}"
        print(f"{name:<30}{precisions}{costs}", flush=True)
        outside = (
            f"{row['outside']:.1%} of the weight of the labels in the update is outside the "
            "embedding"
        )
        print(f"{'':<30}{row['n_new_labels']:,} new labels; {outside}", flush=True)
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit to the first rows, update with the others, and fit to all rows, in this process."""
    from rembrandt import RembrandtClassifier
    from rembrandt.evaluation import measure

    set_name, of, fraction, settings = RUNS[name]
    train, test = load(set_name)
    first, later = split(train, of, fraction, seed)
    cpu: dict[str, float] = {}
    wall: dict[str, float] = {}

    def timed(what: str, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        start_cpu, start = cpu_seconds(), time.perf_counter()
        result = work(*arguments, **options)
        cpu[what], wall[what] = cpu_seconds() - start_cpu, time.perf_counter() - start
        return result

    classifier = timed(
        "first",
        RembrandtClassifier(growable=True, random_state=seed, **settings).fit_dataset,
        first,
    )
    before = measure(classifier, test).model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the result shows whether a refit is due
        timed("update", classifier.update_dataset, later)
    updated = measure(classifier, test).model
    full = timed("fit", RembrandtClassifier(random_state=seed, **settings).fit_dataset, train)
    timed(
        "refit",
        RembrandtClassifier(random_state=seed, **settings).fit_dataset,
        train,
        settings=full.model_.settings,
    )
    last_update = classifier.model_.facts.updates[-1]
    return {
        "before": before,
        "updated": updated,
        "full": measure(full, test).model,
        "cpu": cpu,
        "wall": wall,
        "n_new_labels": last_update.n_labels,
        "outside": last_update.outside,
    }


def split(train: Any, of: str, fraction: float, seed: int) -> tuple[Any, Any]:
    """Return the examples of the first fit, over their own labels, and those of the update.

    The update has a random ``fraction`` of the rows, or all rows with a label from a random
    ``fraction`` of the labels.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    late = rng.random(train.n_examples if of == "rows" else train.n_labels) < fraction
    if of == "labels":
        late = train.Y @ late.astype(np.float32) > 0
    first, later = train.rows(~late), train.rows(late)
    used = np.bincount(first.Y.indices, minlength=first.n_labels) > 0
    known = [
        label for label, is_used in zip(first.label_ids, used.tolist(), strict=True) if is_used
    ]
    return first.align_labels(known), later


if __name__ == "__main__":
    command(__doc__, main, one)
