"""How good a classifier is on labelled examples, beside the baseline that needs no model."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from rembrandt.data import Dataset
from rembrandt.estimators import RembrandtClassifier
from rembrandt.metrics import Decile, coverage_by_decile, evaluate, most_popular
from rembrandt.progress import Report, silent

KS = (1, 3, 5)


@dataclass(frozen=True)
class Measured:
    """The measures of the papers, for the model and for the most popular labels."""

    data: Dataset  # over the model's labels
    labels: Any  # predicted, n × 5
    scores: Any  # of them
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


def measure(
    classifier: RembrandtClassifier,
    data: Dataset,
    report: Report = silent,
    A: float = 0.55,
    B: float = 1.5,
    tail: bool = False,
    shortlist: int | bool = False,
) -> Measured:
    """Predict and compare with the truth; labels that training never saw count as true and are never found.

    ``tail`` ranks labels for PSP@k, with the same propensities that it is measured by. ``shortlist`` is that of
    `RembrandtClassifier.predict_topk`.
    """
    known = data.align_labels([str(name) for name in classifier.classes_])
    look_at = classifier.looked_at(shortlist, tail, report)
    model = classifier.placed_model()
    worth = model.worth(A, B) if tail else None
    model.top_k(
        classifier.dataset_rows(known.rows([0])), max(KS), worth=worth, look_at=look_at
    )  # what loads once is not the speed
    start = time.perf_counter()
    X = classifier.dataset_rows(known, report)
    labels, scores = model.top_k(X, max(KS), report=report, worth=worth, look_at=look_at)
    seconds = time.perf_counter() - start
    counts, n_train = classifier.label_counts_, classifier.n_train_
    rest: dict[str, Any] = {"A": A, "B": B, "ks": KS, "missing_labels": known.dropped_labels}
    return Measured(
        known,
        labels,
        scores,
        model=evaluate(known.Y, labels, scores, counts, n_train, **rest),
        popular=evaluate(known.Y, *most_popular(counts, known.n_examples, max(KS)), counts, n_train, **rest),
        examples_per_second=known.n_examples / seconds,
        deciles=coverage_by_decile(known.Y, labels, counts),
    )
