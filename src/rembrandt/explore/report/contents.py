"""What a report says, as one document of plain values: every number is made here, the page only shows them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt import __version__
from rembrandt.data import Dataset
from rembrandt.estimators import RembrandtClassifier
from rembrandt.evaluation import KS, Measured, measure
from rembrandt.explore.confusions import confusions
from rembrandt.explore.explain import explain
from rembrandt.explore.mapping import label_map
from rembrandt.explore.neighbors import nearest_of_each, scaled_vectors
from rembrandt.explore.quality import LabelQuality, label_quality
from rembrandt.linalg.blocks import spans
from rembrandt.metrics import bootstrap, calibration_error, reliability, row_terms
from rembrandt.metrics.hits import hits
from rembrandt.progress import Report, silent

LEVEL = 0.95  # of the intervals
MAPPED = 20_000  # labels on the map, the most frequent: a page stays small and quick
EXPLAINED = 20  # predictions
NEIGHBOURS = 6  # of a label on the map
GRID = 10_000  # steps of a coordinate on the map
_SPECTRUM = 300  # values plotted
_EXAMPLE = 300  # characters of an example of a confusion
_TEXT = 3000  # characters of an explained text
_NAME = 160  # characters of a label
_LABELS = 12  # best and worst labels
_PAIRS = 15  # confusions


def gather(
    classifier: RembrandtClassifier,
    data: Dataset,
    title: str,
    with_map: bool = True,
    seed: int = 0,
    report: Report = silent,
) -> dict[str, Any]:
    """Measure ``classifier`` on ``data``, which it has not seen, and look at it from all sides."""
    seconds: dict[str, float] = {}
    names = shown_names(classifier)
    with _timed(seconds, "predicting the test examples"):
        measured = measure(classifier, data, report)
    known = measured.data
    quality = label_quality(known.Y, measured.labels)
    with _timed(seconds, "bootstrap intervals"):
        metrics = _metrics(classifier, measured, seed, report)
    with _timed(seconds, "reliability"):
        calibration = _calibration(classifier, measured, report)
    with _timed(seconds, "confusions"):
        pairs = _confusions(classifier, measured, names)
    with _timed(seconds, "explanations"):
        explained = _explained(classifier, measured, names, seed)
    drawn = None
    if with_map:
        with _timed(seconds, "label map"):
            drawn = _map(classifier, quality, names, seed, report)
    return {
        "title": title,
        "version": __version__,
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "model": _model(classifier, measured),
        "metrics": metrics,
        "level": LEVEL,
        "deciles": measured.decile_documents(),
        "calibration": calibration,
        "spectrum": _spectrum(classifier),
        "map": drawn,
        "labels": _extremes(classifier, quality, names),
        "confusions": pairs,
        "explained": explained,
        "settings": _flat(classifier.settings_),
        "selection": classifier.selection_,
        "notes": known.notes.sentences(),
        "timings": [[name, value] for name, value in seconds.items()],
        "fit_seconds": classifier.extra_.get("fit_seconds"),
        "examples_per_second": measured.examples_per_second,
    }


def shown_names(classifier: RembrandtClassifier) -> list[str]:
    """Labels as people read them: the title where there is one."""
    titles = classifier.label_titles_
    return [_cut(str(titles.get(str(name), name)), _NAME) for name in classifier.classes_.tolist()]


def _model(classifier: RembrandtClassifier, measured: Measured) -> dict[str, Any]:
    known, model = measured.data, classifier.model_
    return {
        "n_train": model.n_train,
        "n_labels": model.n_labels,
        "n_features": model.n_features,
        "n_test": known.n_examples,
        "labels_each": known.Y.nnz / max(1, known.n_examples),
        "texts": classifier.text_ is not None,
        "multiclass": model.multiclass,
        "unseen_labels": known.notes.unseen_labels,
        "unseen_uses": known.notes.unseen_label_uses,
        "median_count": float(np.median(model.label_counts)),
        "top_k": max(KS),
    }


def _metrics(classifier: RembrandtClassifier, measured: Measured, seed: int, report: Report) -> list[dict[str, Any]]:
    known = measured.data
    terms = row_terms(
        known.Y,
        measured.labels,
        None,
        classifier.label_counts_,
        classifier.n_train_,
        ks=KS,
        missing_labels=known.dropped_labels,
    )
    intervals = bootstrap(terms, level=LEVEL, seed=seed, report=report)
    return [
        {
            "name": name,
            "value": measured.model[name],
            "low": low,
            "high": high,
            "popular": measured.popular[name],
        }
        for name, (low, high) in intervals.items()
        if name in measured.model
    ]


def _calibration(classifier: RembrandtClassifier, measured: Measured, report: Report) -> dict[str, Any]:
    given = measured.labels >= 0
    right = hits(measured.data.Y, measured.labels)
    bins = reliability(_probabilities(classifier, measured, report)[given], right[given])
    return {"bins": [asdict(each) for each in bins], "error": calibration_error(bins), "link": _link(classifier)}


def _probabilities(classifier: RembrandtClassifier, measured: Measured, report: Report) -> NDArray[Any]:
    """Probabilities of the predicted labels; where one label excludes another, all labels have to be looked at."""
    model = classifier.model_
    if not model.multiclass and model.decoder.link != "softmax":
        return model.likelihood_of_scores(measured.scores)
    X = classifier.dataset_rows(measured.data, report)
    out = np.zeros(measured.labels.shape)
    for rows in spans(len(out), max(1, (1 << 24) // model.n_labels)):
        report("reading probabilities", rows.start, len(out))
        every = model.probabilities(X[rows])
        out[rows] = np.take_along_axis(every, np.maximum(measured.labels[rows], 0), axis=1)
    report("reading probabilities", len(out), len(out))
    return np.clip(out, 0.0, 1.0)


def _link(classifier: RembrandtClassifier) -> str:
    return str(classifier.model_.decoder.link)


def _spectrum(classifier: RembrandtClassifier) -> dict[str, Any]:
    values = np.asarray(classifier.singular_values_, dtype=np.float64)
    shown = np.unique(np.geomspace(1, max(1, len(values)), _SPECTRUM).round().astype(int)) - 1
    settings = classifier.settings_
    return {
        "ranks": (shown + 1).tolist(),
        "values": values[shown].tolist() if len(values) else [],
        "rank": int(settings["rank"]),
        "reason": settings.get("rank_reason") or "as asked for",
        "method": settings["embedding"]["method"],
    }


def _extremes(classifier: RembrandtClassifier, quality: LabelQuality, names: list[str]) -> dict[str, Any]:
    least = next((n for n in (20, 10, 5, 3) if (quality.true >= n).sum() >= 4 * _LABELS), 1)
    precision, recall = quality.precision, quality.recall

    def rows(labels: NDArray[np.int64]) -> list[dict[str, Any]]:
        return [
            {
                "name": names[i],
                "count": int(classifier.label_counts_[i]),
                "true": int(quality.true[i]),
                "predicted": int(quality.predicted[i]),
                "precision": float(precision[i]),
                "recall": float(recall[i]),
                "f1": float(quality.f1[i]),
            }
            for i in labels.tolist()
        ]

    best, worst = quality.extremes(_LABELS, least)
    return {"least": least, "best": rows(best), "worst": rows(worst)}


def _confusions(classifier: RembrandtClassifier, measured: Measured, names: list[str]) -> list[dict[str, Any]]:
    known = measured.data
    ranked = measured.labels[:, :1] if classifier.model_.multiclass else measured.labels
    return [
        {
            "true": names[c.true],
            "predicted": names[c.predicted],
            "count": c.count,
            "rate": c.rate,
            "reverse": c.reverse,
            "examples": [_cut(known.texts[row], _EXAMPLE) for row in c.examples] if known.texts is not None else [],
        }
        for c in confusions(known.Y, ranked, _PAIRS, 2)
    ]


def _explained(
    classifier: RembrandtClassifier, measured: Measured, names: list[str], seed: int
) -> list[dict[str, Any]]:
    """A few test examples at random, each with its predictions and what its words add to them."""
    data = measured.data
    long_enough = np.arange(data.n_examples)
    if data.texts is not None:  # a text of a few words says little about words
        lengths = np.fromiter(map(len, data.texts), dtype=np.int64, count=data.n_examples)
        long_enough = np.flatnonzero(lengths >= np.median(lengths))
    rows = np.random.default_rng(seed).permutation(long_enough)[:EXPLAINED]
    part = data.rows(np.sort(rows))
    texts = None if part.texts is None else [text[:_TEXT] for text in part.texts]
    examples = part.X if texts is None else texts
    found = explain(classifier, examples, k=max(KS))
    documents = []
    for row in range(part.n_examples):
        true = part.Y.indices[part.Y.indptr[row] : part.Y.indptr[row + 1]].tolist()
        documents.append(
            {
                "text": None if texts is None else texts[row],
                "true": [names[i] for i in true],
                "predictions": [
                    {
                        "name": names[label],
                        "right": label in true,
                        "score": float(found.score[row, column]),
                        "base": float(found.base[row, column]),
                        "words": [[word, round(value, 5)] for word, value in found.top(row, column, 12)],
                        "segments": [
                            [s.start, s.stop, round(s.contribution, 5)] for s in found.highlights(row, column)
                        ],
                    }
                    for column, label in enumerate(found.labels[row].tolist())
                ],
            }
        )
    return documents


def _map(
    classifier: RembrandtClassifier, quality: LabelQuality, names: list[str], seed: int, report: Report
) -> dict[str, Any]:
    """The most frequent labels in the plane, the commonest first, on a grid of whole numbers."""
    placed = label_map(classifier, MAPPED, seed, report)
    chosen, points = placed.columns, placed.places
    low, high = points.min(axis=0), points.max(axis=0)
    grid = np.round((points - (low + high) / 2) / max(float((high - low).max()), 1e-12) * GRID + GRID / 2)
    near = nearest_of_each(scaled_vectors(classifier)[chosen], NEIGHBOURS, report)[0]
    recall = quality.recall[chosen]
    return {
        "n_labels": classifier.model_.n_labels,
        "grid": GRID,
        "names": [names[i] for i in chosen.tolist()],
        "counts": placed.counts.tolist(),
        "x": grid[:, 0].astype(int).tolist(),
        "y": grid[:, 1].astype(int).tolist(),
        "recall": [None if np.isnan(value) else round(float(value), 2) for value in recall],
        "neighbours": [[j for j in row if j >= 0] for row in near.tolist()],
    }


def _flat(settings: dict[str, Any], prefix: str = "") -> list[list[Any]]:
    """Nested settings as names and values in one list."""
    rows: list[list[Any]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            rows.extend(_flat(value, f"{prefix}{name}."))
        else:
            rows.append([prefix + name, value])
    return rows


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start
