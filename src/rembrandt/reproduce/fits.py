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
from rembrandt.reproduce.experiment import Row

SEED = 0
ERROR = "test error (%)"
PRECISIONS = tuple(f"P@{k} (%)" for k in KS)

EMBEDDINGS: dict[str, Method] = {"RE": "rembrandt", "PCA": "pca", "CS": "cs", "PLST": "plst", "CCA": "cca"}


def classifier(device: str, **settings: Any) -> RembrandtClassifier:
    """A logistic classifier, nothing about it left to choose."""
    settled: dict[str, Any] = {"decoder": "logistic", "normalize": False, "decoder_ridge": 0.0}
    return RembrandtClassifier(**_placed(device, settled | settings))


def embedder(device: str, **settings: Any) -> LabelEmbedder:
    """The embedding alone."""
    return LabelEmbedder(**_placed(device, settings))


def _placed(device: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {"random_state": SEED} | settings | ({} if device == "cpu" else {"device": device})


def classifier_rows(
    row: Callable[..., Row], train: Dataset, test: Dataset, device: str, report: Report, **settings: Any
) -> list[Row]:
    """Fit on ``train`` and measure on ``test``: the error where examples have one label, else precision."""
    model = classifier(device, **settings)
    begun = time.perf_counter()
    model.fit_dataset(train, report)
    seconds = time.perf_counter() - begun
    found = measure(model, test, report).model
    if train.task == "multiclass":
        return [row(metric=ERROR, value=100 * found["error"], seconds=seconds, device=device)]
    precision = [100 * found[f"p@{k}"] for k in KS]
    return precision_rows(row, precision, seconds, device)


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
