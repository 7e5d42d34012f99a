"""A classifier fitted and measured: what the rows of the text experiments have in common."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rembrandt.data import Dataset
from rembrandt.embeddings import Method
from rembrandt.estimators import LabelEmbedder, RembrandtClassifier
from rembrandt.evaluation import KS, measure
from rembrandt.metrics import precision_at_k
from rembrandt.progress import Report
from rembrandt.reproduce.experiment import Column, Row, Table

SEED = 0
ERROR = "test error (%)"
HEAD_SHARE = 0.05  # of the labels
HEAD = "weight on the 5 % most frequent labels (%)"
PRECISIONS = tuple(f"P@{k} (%)" for k in KS)

WEIGHT = Table(
    "Where the weight of an embedding is",
    "The share of the squared length of the label vectors that belongs to the most frequent labels. RE and PLST follow "
    "the covariance of the labels. Where most labels have a few examples each, its spectrum falls slowly and its first "
    "directions are those of the most frequent labels: they know little of the others. Random vectors (CS) and "
    "whitened labels (CCA) hold labels more alike.",
    (Column(HEAD, ".1f"),),
)
EMBEDDINGS: dict[str, Method] = {"RE": "rembrandt", "PCA": "pca", "CS": "cs", "PLST": "plst", "CCA": "cca"}


def classifier(device: str, **settings: Any) -> RembrandtClassifier:
    """A logistic classifier, nothing about it left to choose."""
    settled: dict[str, Any] = {"decoder": "logistic", "normalize": False, "decoder_ridge": 0.0}
    return RembrandtClassifier(**_placed(device, settled | settings))


def embedder(device: str, **settings: Any) -> LabelEmbedder:
    """The embedding alone."""
    return LabelEmbedder(**_placed(device, settings))


def _placed(device: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {"random_state": SEED, "device": device} | settings


def rows_of(experiment: str, system: str, paper: dict[str, float]) -> Callable[..., Row]:
    """What makes the rows of a system, the paper's number beside the measures that it gives one for."""

    def row(metric: str, value: float, **rest: Any) -> Row:
        return Row(experiment, system, metric, value, paper.get(metric), **rest)

    return row


def classifier_rows(
    row: Callable[..., Row], train: Dataset, test: Dataset, device: str, report: Report, **settings: Any
) -> list[Row]:
    """Fit on ``train`` and measure on ``test``: the error where examples have one label, else precision."""
    model = classifier(device, **settings)
    begun = time.perf_counter()
    model.fit_dataset(train, report)
    seconds = time.perf_counter() - begun
    found = measure(model, test, report).model
    rows = [row(metric=HEAD, value=100 * head_share(model), device=device)] if model.method != "pca" else []
    if train.task == "multiclass":
        return [row(metric=ERROR, value=100 * found["error"], seconds=seconds, device=device), *rows]
    precision = [100 * found[f"p@{k}"] for k in KS]
    return [*precision_rows(row, precision, seconds, device), *rows]


def head_share(model: RembrandtClassifier) -> float:
    """How much of the label vectors' squared length the most frequent labels have."""
    weights = np.square(np.asarray(model.embedding_, dtype=np.float64)).sum(axis=1)
    frequent = np.argsort(-model.label_counts_, kind="stable")[: max(1, round(HEAD_SHARE * len(weights)))]
    return float(weights[frequent].sum() / weights.sum())


def precision_rows(row: Callable[..., Row], precision: list[float], seconds: float, device: str = "cpu") -> list[Row]:
    """A row for each k; the seconds of the fit stand in the first."""
    times = [seconds, *[None] * (len(KS) - 1)]
    return [
        row(metric=metric, value=value, seconds=time, device=device)
        for metric, value, time in zip(PRECISIONS, precision, times, strict=True)
    ]


def precisions(test: Dataset, labels: Any) -> list[float]:
    """P@k of ranked labels, as percentages."""
    return [100 * float(precision_at_k(test.Y, labels, k)) for k in KS]


def some_classes(train: Dataset, test: Dataset, most: int | None) -> tuple[Dataset, Dataset]:
    """All examples of a part of the classes, drawn at random; None is all of them."""
    if most is None or most >= train.n_labels:
        return train, test.align_labels(train.label_names)
    chosen = np.sort(np.random.default_rng(SEED).permutation(train.n_labels)[:most])
    names = [train.label_names[i] for i in chosen.tolist()]
    parts = []
    for data in (train, test):
        known = data.align_labels(names)
        parts.append(known.rows(np.diff(known.Y.indptr) > 0))
    return parts[0], parts[1]


def some_rows(data: Dataset, most: int | None) -> Dataset:
    """A part of the examples, drawn at random, over the labels that they have; None is all of them."""
    if most is None or data.n_examples <= most:
        return data
    part = data.rows(np.sort(np.random.default_rng(SEED).permutation(data.n_examples)[:most]))
    used = np.unique(part.Y.indices)
    return part.align_labels([part.label_names[i] for i in used.tolist()])
