"""How much do predictions change when nothing that matters does?

python -m benchmarks.stability [SET ...] [--rows N] [--preset NAME] [--output FILE]

A model of N rows is compared with three others: of the same rows in another order, with another
seed, and with one row more. They know the labels of their rows alone. The table says for how many test rows the first label is the same, and
how much the lists of five overlap.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real_sets import load
from rembrandt import RembrandtClassifier

SETS = ("cooking", "gutenberg", "pubmed-mesh")
LISTED = 5
TEST_ROWS = 2000


def main(arguments: list[str] | None = None) -> None:
    """Fit the models and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--preset", default="balanced")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    results = {}
    print(f"{'':<14}{'':<12}{'first label':>14}{'overlap of five':>18}")
    for name in options.sets:
        results[name] = compared(name, options.rows, options.preset)
        for change, (first, overlap) in results[name].items():
            print(f"{name:<14}{change:<12}{first:>13.1%} {overlap:>17.1%}", flush=True)
    if options.output is not None:
        options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def compared(name: str, n_rows: int, preset: str) -> dict[str, tuple[float, float]]:
    """Return for each change the share of equal first labels, and the mean overlap."""
    train, test = load(name)
    tested = test.rows(np.arange(min(TEST_ROWS, test.n_examples)))
    rng = np.random.default_rng(0)
    drawn = rng.permutation(train.n_examples)[: n_rows + 1]
    rows = drawn[:-1]
    reference = lists_of(train, rows, tested, preset, seed=0)
    changes = {
        "shuffled": (rng.permutation(rows), 0),
        "other seed": (rows, 1),
        "one row more": (drawn, 0),
    }
    results = {}
    for change, (changed, seed) in changes.items():
        results[change] = agreement(reference, lists_of(train, changed, tested, preset, seed))
    return results


def lists_of(train: Any, rows: Any, test: Any, preset: str, seed: int) -> list[list[Any]]:
    """Fit to some rows and the labels that they have, and return the best labels of test rows."""
    some = train.rows(rows)
    counts = np.asarray(some.Y.sum(axis=0)).ravel()
    used = np.flatnonzero(counts)
    some = some.align_labels([some.label_ids[column] for column in used])
    classifier = RembrandtClassifier(preset=preset, random_state=seed)
    classifier.fit_dataset(some)
    ranked, _ = classifier.predict_topk(test.inputs, k=LISTED)
    return [[label for label in labels if label is not None] for labels in ranked.tolist()]


def agreement(left: list[list[Any]], right: list[list[Any]]) -> tuple[float, float]:
    """Return the share of rows with the same first label, and the mean overlap of the lists."""
    same = []
    overlaps = []
    for labels, others in zip(left, right, strict=True):
        same.append(labels[:1] == others[:1])
        n_listed = max(len(labels), len(others))
        if n_listed == 0:  # a text without a known word, for both
            overlaps.append(1.0)
        else:
            overlaps.append(len({*labels} & {*others}) / n_listed)
    return float(np.mean(same)), float(np.mean(overlaps))


if __name__ == "__main__":
    main()
