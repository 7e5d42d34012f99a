"""How good a model is on labelled examples, beside the baseline that needs no model."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rembrandt.cli.opened import Opened
from rembrandt.cli.screen import Screen
from rembrandt.progress import Report

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.metrics import Decile

KS = (1, 3, 5)


@dataclass(frozen=True)
class Measured:
    """The measures of the papers, for the model and for the most popular labels."""

    data: Dataset  # over the model's labels
    labels: Any  # predicted, n × 5
    model: dict[str, float]
    popular: dict[str, float]
    examples_per_second: float
    deciles: list[Decile]

    def document(self) -> dict[str, Any]:
        """Everything but the predictions, for JSON."""
        return {
            **self.model,
            "examples_per_second": self.examples_per_second,
            "n_examples": self.data.n_examples,
            "n_labels": self.data.n_labels,
            "unseen_labels": self.data.notes.unseen_labels,
            "unseen_label_uses": self.data.notes.unseen_label_uses,
            "most_popular": self.popular,
        }

    def decile_documents(self) -> list[dict[str, Any]]:
        return [asdict(decile) for decile in self.deciles]


def measure(opened: Opened, data: Dataset, report: Report, A: float = 0.55, B: float = 1.5) -> Measured:
    """Predict and compare with the truth; labels that training never saw count as true and are never found."""
    from rembrandt.metrics import coverage_by_decile, evaluate, most_popular

    classifier = opened.classifier
    known = data.align_labels(opened.names)
    classifier.model_.top_k(opened.features(known.rows([0]), report), max(KS))  # what loads once is not the speed
    start = time.perf_counter()
    labels, scores = classifier.model_.top_k(opened.features(known, report), max(KS), report=report)
    seconds = time.perf_counter() - start
    counts, n_train = classifier.label_counts_, classifier.n_train_
    rest: dict[str, Any] = {"A": A, "B": B, "ks": KS, "missing_labels": known.dropped_labels}
    return Measured(
        known,
        labels,
        model=evaluate(known.Y, labels, scores, counts, n_train, **rest),
        popular=evaluate(known.Y, *most_popular(counts, known.n_examples, max(KS)), counts, n_train, **rest),
        examples_per_second=known.n_examples / seconds,
        deciles=coverage_by_decile(known.Y, labels, counts),
    )


def show(screen: Screen, measured: Measured) -> None:
    """The measures in per cent, in a table for people."""
    rows = []
    for name, title in (("p", "P@k"), ("ndcg", "nDCG@k"), ("psp", "PSP@k")):
        for who, values in (("this model", measured.model), ("most popular labels", measured.popular)):
            rows.append([title, who, *(f"{100 * values[f'{name}@{k}']:.2f}" for k in KS)])
            title = ""
    screen.table(["%", "", *(f"k = {k}" for k in KS)], rows, left=2)
    screen.say(f"Error (1 - P@1) {measured.model['error']:.2%}; {measured.examples_per_second:,.0f} examples a second.")


def show_deciles(screen: Screen, deciles: list[Decile]) -> None:
    """Where along the frequency of labels the model is good."""
    screen.table(
        ["labels by frequency", "in training", "true here", f"recall@{max(KS)}", "found at least once"],
        (
            [
                f"tenth {i}",
                f"{decile.rarest:,} to {decile.commonest:,}",
                f"{decile.n_true:,}",
                f"{decile.recall:.1%}" if decile.n_true else "-",
                f"{decile.covered:.1%}" if decile.n_true else "-",
            ]
            for i, decile in enumerate(deciles, 1)
        ),
    )
