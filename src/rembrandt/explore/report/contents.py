"""The contents of a report as JSON values: every number is computed here, the page only shows them."""

import time
from collections.abc import Callable
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
from rembrandt.explore.neighbors import nearest_labels, unit_vectors
from rembrandt.explore.quality import LabelQuality, label_quality
from rembrandt.metrics import bootstrap, calibration_error, reliability, row_terms
from rembrandt.metrics.hits import hits
from rembrandt.progress import Report, silent

LEVEL = 0.95  # of the confidence intervals
N_MAPPED = 20_000  # labels on the map, so that the page stays small and fast
N_EXPLAINED = 20  # examples
N_NEIGHBOURS = 6  # of each label on the map
N_EXTREMES = 12  # best and worst labels
N_PAIRS = 15  # confusions
N_VALUES = 300  # of the spectrum
GRID = 10_000  # steps of a coordinate on the map
QUOTE, TEXT, NAME = 300, 3000, 160  # characters of a quoted example, an explained text, a label


def gather(
    classifier: RembrandtClassifier,
    data: Dataset,
    title: str,
    with_map: bool = True,
    seed: int = 0,
    report: Report = silent,
) -> dict[str, Any]:
    """Measure a classifier and collect everything that a report shows.

    Parameters
    ----------
    classifier : RembrandtClassifier
        A fitted classifier.
    data : Dataset
        Labelled examples that were not used for training.
    title : str
        Title of the report.
    with_map : bool, default=True
        Compute the map of labels; needs openTSNE.
    seed : int, default=0
        The same seed gives the same intervals, examples and map.
    report : callable, optional
        Called as ``report(stage, done, total)``.

    Returns
    -------
    dict
        The contents, for `render` or as JSON.
    """
    seconds: list[list[Any]] = []

    def timed(step: str, compute: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = compute(*arguments)
        seconds.append([step, time.perf_counter() - start])
        return result

    measured: Measured = timed("predicting the test examples", measure, classifier, data, report)
    known = measured.data
    names = shown_names(classifier)
    quality = label_quality(known.Y, measured.labels)
    return {
        "title": title,
        "version": __version__,
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "model": _model(classifier, known),
        "metrics": timed("bootstrap intervals", _metrics, classifier, measured, seed, report),
        "level": LEVEL,
        "deciles": measured.decile_documents(),
        "calibration": timed("calibration", _calibration, classifier, measured, report),
        "spectrum": _spectrum(classifier),
        "map": timed("label map", _map, classifier, quality, names, seed, report) if with_map else None,
        "labels": _extremes(classifier, quality, names),
        "confusions": timed("confusions", _confusions, classifier, measured, names),
        "explained": timed("explanations", _explained, classifier, known, names, seed),
        "settings": _flat(classifier.settings_),
        "selection": classifier.selection_,
        "notes": known.notes.sentences(),
        "timings": seconds,
        "fit_seconds": classifier.extra_.get("fit_seconds"),
        "examples_per_second": measured.examples_per_second,
    }


def shown_names(classifier: RembrandtClassifier) -> list[str]:
    """Return the title of each label, or its name if it has none."""
    titles = classifier.label_titles_
    return [_cut(str(titles.get(str(name), name)), NAME) for name in classifier.classes_.tolist()]


def _model(classifier: RembrandtClassifier, known: Dataset) -> dict[str, Any]:
    return {
        "n_train": classifier.n_train_,
        "n_labels": len(classifier.classes_),
        "n_test": known.n_examples,
        "texts": classifier.text_ is not None,
        "multiclass": classifier.model_.multiclass,
        "top_k": max(KS),
    }


def _metrics(classifier: RembrandtClassifier, measured: Measured, seed: int, report: Report) -> list[dict[str, Any]]:
    known, counts, n_train = measured.data, classifier.label_counts_, classifier.n_train_
    terms = row_terms(known.Y, measured.labels, None, counts, n_train, ks=KS, missing_labels=known.dropped_labels)
    intervals = bootstrap(terms, level=LEVEL, seed=seed, report=report)
    return [
        {"name": name, "value": value, "low": low, "high": high, "popular": measured.popular[name]}
        for name, value in measured.model.items()
        if name in intervals
        for low, high in [intervals[name]]
    ]


def _calibration(classifier: RembrandtClassifier, measured: Measured, report: Report) -> dict[str, Any]:
    rows = classifier.dataset_rows(measured.data, report)
    predicted = classifier.device_model().probabilities_at(rows, measured.labels)
    given = measured.labels >= 0
    bins = reliability(np.clip(predicted[given], 0, 1), hits(measured.data.Y, measured.labels)[given])
    return {"bins": [asdict(each) for each in bins], "error": calibration_error(bins)}


def _spectrum(classifier: RembrandtClassifier) -> dict[str, Any]:
    values = np.asarray(classifier.singular_values_, dtype=np.float64)
    shown = np.unique(np.geomspace(1, max(1, len(values)), N_VALUES).round().astype(int)) - 1
    settings = classifier.settings_
    return {
        "ranks": (shown + 1).tolist(),
        "values": values[shown].tolist() if len(values) else [],
        "rank": len(values),
        "reason": settings.get("rank_reason") or "set by the user",
        "method": settings["method"],
    }


def _extremes(classifier: RembrandtClassifier, quality: LabelQuality, names: list[str]) -> dict[str, Any]:
    min_count = next((n for n in (20, 10, 5, 3) if (quality.true >= n).sum() >= 4 * N_EXTREMES), 1)
    columns = {
        "count": np.asarray(classifier.label_counts_),
        "true": quality.true,
        "predicted": quality.predicted,
        "precision": quality.precision,
        "recall": quality.recall,
        "f1": quality.f1,
    }

    def rows(labels: NDArray[np.int64]) -> list[dict[str, Any]]:
        return [
            {"name": names[i]} | {name: values[i].item() for name, values in columns.items()} for i in labels.tolist()
        ]

    best, worst = quality.extremes(N_EXTREMES, min_count)
    return {"min_count": min_count, "best": rows(best), "worst": rows(worst)}


def _confusions(classifier: RembrandtClassifier, measured: Measured, names: list[str]) -> list[dict[str, Any]]:
    texts = measured.data.texts
    ranked = measured.labels[:, :1] if classifier.model_.multiclass else measured.labels
    return [
        {
            "true": names[c.true],
            "predicted": names[c.predicted],
            "count": c.count,
            "rate": c.rate,
            "reverse": c.reverse,
            "examples": [] if texts is None else [_cut(texts[row], QUOTE) for row in c.examples],
        }
        for c in confusions(measured.data.Y, ranked, N_PAIRS, 2)
    ]


def _explained(classifier: RembrandtClassifier, data: Dataset, names: list[str], seed: int) -> list[dict[str, Any]]:
    """Explain the predictions of some random test examples."""
    candidates = np.arange(data.n_examples)
    if data.texts is not None:  # the longer half, because short texts have few words to show
        lengths = np.fromiter(map(len, data.texts), dtype=np.int64, count=data.n_examples)
        candidates = np.flatnonzero(lengths >= np.median(lengths))
    part = data.rows(np.sort(np.random.default_rng(seed).permutation(candidates)[:N_EXPLAINED]))
    texts = None if part.texts is None else [text[:TEXT] for text in part.texts]
    documents = []
    for row, found in enumerate(explain(classifier, part.X if texts is None else texts, k=max(KS))):
        true = part.Y.indices[part.Y.indptr[row] : part.Y.indptr[row + 1]].tolist()
        predictions = [
            {
                "name": names[each.column],
                "right": each.column in true,
                "score": each.score,
                "base": each.base,
                "words": [[word, round(value, 5)] for word, value in each.top(12)],
                "segments": [[start, stop, round(value, 5)] for start, stop, value in each.segments()],
            }
            for each in found
        ]
        text = None if texts is None else texts[row]
        documents.append({"text": text, "true": [names[i] for i in true], "predictions": predictions})
    return documents


def _map(
    classifier: RembrandtClassifier, quality: LabelQuality, names: list[str], seed: int, report: Report
) -> dict[str, Any]:
    """Return the most frequent labels with integer coordinates, which are shorter than floats."""
    found = label_map(classifier, N_MAPPED, seed, report)
    low, high = found.positions.min(axis=0), found.positions.max(axis=0)
    scale = GRID / max(float((high - low).max()), 1e-12)
    x, y = np.round((found.positions - (low + high) / 2) * scale + GRID / 2).astype(int).T.tolist()
    near = nearest_labels(unit_vectors(classifier)[found.columns], N_NEIGHBOURS, report=report)[0]
    return {
        "n_labels": len(classifier.classes_),
        "grid": GRID,
        "names": [names[i] for i in found.columns.tolist()],
        "counts": found.counts.tolist(),
        "x": x,
        "y": y,
        "recall": np.round(quality.recall[found.columns], 2).tolist(),
        "neighbours": [[j for j in row if j >= 0] for row in near.tolist()],
    }


def _flat(settings: dict[str, Any], prefix: str = "") -> list[list[Any]]:
    """Return nested settings as a list of names and values."""
    rows: list[list[Any]] = []
    for name, value in settings.items():
        rows += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [[prefix + name, value]]
    return rows


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
