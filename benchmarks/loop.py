"""A person reviews texts in the order of ``rembrandt suggest`` and in random order: which model is
better?

python -m benchmarks.loop [cooking gutenberg] [--rounds 8] [--pool 4000] [--seeds 3] [--plot FILE]

A model is fitted to 500 training texts with the preset fast. In each round the labels of 100 more
texts of a pool are revealed, as if a person had reviewed them, and the model is fitted again. The
figure is P@1 on test texts. The order of ``suggest`` was chosen on training texts of other sets
(attack, icd10cm, NVD products).
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real_sets import FOLDER
from rembrandt import Dataset, RembrandtClassifier
from rembrandt.data import catalogue
from rembrandt.estimators.requests import prediction_model, rows_of
from rembrandt.suggesting import suggest

SETS = ("cooking", "gutenberg")
ORDERS = ("suggest", "random")
START = 500  # texts whose labels are known
BATCH = 100  # texts that are reviewed before the model is fitted again
MAX_TEST = 3000  # test texts


@dataclass(frozen=True)
class Texts:
    """Texts and the labels that a person would give them."""

    texts: list[str]
    labels: list[list[str]]

    @classmethod
    def of(cls, data: Dataset, rows: Any) -> "Texts":
        """Return examples of a data set."""
        chosen = data.rows(rows)
        ids = chosen.label_ids
        labels = []
        for start, stop in zip(chosen.Y.indptr[:-1], chosen.Y.indptr[1:], strict=True):
            labels.append([ids[column] for column in chosen.Y.indices[start:stop]])
        return cls(chosen.texts or [], labels)

    def take(self, rows: Sequence[int]) -> "Texts":
        return Texts([self.texts[row] for row in rows], [self.labels[row] for row in rows])


def main(
    names: Sequence[str] = SETS, rounds: int = 8, pool: int = 4000, seeds: int = 3
) -> dict[str, Any]:
    """Simulate the loop on every set, print the curves, and return them."""
    results = {}
    for name in names:
        if not (FOLDER / name).is_dir():
            print(f"{name} skipped: there is no folder {FOLDER / name}")
            continue
        train = catalogue.load(name, "train")
        test = catalogue.load(name, "test")
        curves: dict[str, list[list[float]]] = {order: [] for order in ORDERS}
        for seed in range(seeds):
            for order in ORDERS:
                curve = simulate(train, test, order, rounds, pool, seed)
                curves[order].append(curve)
                print(name, order, seed, " ".join(f"{value:.1f}" for value in curve), flush=True)
        results[name] = curves
        print("\n".join(table(name, curves)), flush=True)
    return results


def simulate(
    train: Dataset, test: Dataset, order: str, rounds: int, pool: int, seed: int
) -> list[float]:
    """Return P@1 in per cent before the first round and after each."""
    rng = np.random.default_rng(seed)
    permutation = rng.permutation(train.n_examples)
    known = Texts.of(train, permutation[:START])
    unknown = Texts.of(train, permutation[START : START + pool])
    test_rows = np.random.default_rng(0).permutation(test.n_examples)[:MAX_TEST]
    tested = Texts.of(test, test_rows)
    curve = []
    for _ in range(rounds):
        classifier = _fitted(known)
        curve.append(_precision(classifier, tested))
        if order == "suggest":
            rows = rows_of(classifier, unknown.texts)
            labelled = rows_of(classifier, known.texts)
            suggested = suggest(prediction_model(classifier), rows, BATCH, labelled=labelled)
            chosen = suggested.rows.tolist()
        else:
            chosen = rng.permutation(len(unknown.texts))[:BATCH].tolist()
        reviewed = unknown.take(chosen)
        known = Texts(known.texts + reviewed.texts, known.labels + reviewed.labels)
        rest = sorted(set(range(len(unknown.texts))).difference(chosen))
        unknown = unknown.take(rest)
    curve.append(_precision(_fitted(known), tested))
    return curve


def _fitted(known: Texts) -> RembrandtClassifier:
    classifier = RembrandtClassifier("fast", random_state=0)
    classifier.fit(known.texts, known.labels)
    return classifier


def _precision(classifier: RembrandtClassifier, tested: Texts) -> float:
    """Return P@1 in per cent."""
    first, _ = classifier.predict_topk(tested.texts, 1)
    hits = [label in labels for [label], labels in zip(first, tested.labels, strict=True)]
    return 100 * float(np.mean(hits))


def table(name: str, curves: dict[str, list[list[float]]]) -> list[str]:
    """Return the lines of a Markdown table: means over seeds, and the smallest difference."""
    means = {order: np.mean(runs, axis=0) for order, runs in curves.items()}
    n_rounds = len(means["random"])
    sizes = [f"{START + BATCH * number:,}" for number in range(n_rounds)]
    lines = [f"| {name}: texts | {' | '.join(sizes)} |", "|---" * (n_rounds + 1) + "|"]
    for order in ORDERS:
        cells = " | ".join(f"{value:.1f}" for value in means[order])
        lines.append(f"| {order} | {cells} |")
    difference = np.array(curves["suggest"]) - np.array(curves["random"])
    lines.append(
        f"\n{name}: suggest − random is {difference[:, 1:].mean():+.2f} on average, "
        f"{difference.mean(axis=0).min():+.2f} at the worst size, "
        f"{difference.min():+.2f} at the worst size of one seed"
    )
    return lines


def plot(results: dict[str, Any], file: Path) -> None:
    """Draw the mean curves of all sets."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(4.6 * len(results), 3.4), dpi=150)
    colors = {"suggest": "#a9530f", "random": "#75695c"}
    for axis, (name, curves) in zip(np.atleast_1d(axes), results.items(), strict=True):
        for order in ORDERS:
            runs = np.array(curves[order])
            sizes = START + BATCH * np.arange(runs.shape[1])
            axis.plot(sizes, runs.mean(axis=0), color=colors[order], label=order, linewidth=2)
            axis.fill_between(
                sizes, runs.min(axis=0), runs.max(axis=0), color=colors[order], alpha=0.15
            )
        axis.set_title(name)
        axis.set_xlabel("labelled texts")
        axis.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(axes)[0].set_ylabel("P@1, %")
    np.atleast_1d(axes)[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=SETS)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--pool", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--output", type=Path, help="file for the curves")
    arguments = parser.parse_args()
    curves_of_sets = main(arguments.names, arguments.rounds, arguments.pool, arguments.seeds)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(curves_of_sets, indent=1), encoding="utf-8")
    if arguments.plot is not None:
        plot(curves_of_sets, arguments.plot)
