"""The contents of a report as JSON values: every number is computed here, the page only shows
them.
"""

import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt import __version__
from rembrandt.data import Dataset
from rembrandt.data.labels import LabelIndex
from rembrandt.estimators import RembrandtClassifier
from rembrandt.evaluation import KS, Measured, measure
from rembrandt.explore.confusions import confusions
from rembrandt.explore.explain import explain_columns, feature_names
from rembrandt.explore.mapping import label_map
from rembrandt.explore.neighbors import nearest_labels, unit_vectors
from rembrandt.metrics import bootstrap, calibration_error, reliability, row_terms
from rembrandt.metrics.hits import hits, label_counts
from rembrandt.model.description import about, used_settings
from rembrandt.model.ranked import ranked_labels
from rembrandt.progress import Report, silent

LEVEL = 0.95  # of the confidence intervals
N_MAPPED = 20_000  # labels on the map; with NAME it keeps the page below 5 MB
N_EXPLAINED = 20  # examples
N_NEIGHBOURS = 6  # of each label on the map
N_EXTREMES = 12  # best and worst labels
N_PAIRS = 15  # confusions
NAME, QUOTE = 100, 300  # bytes of a label and of a quoted example
TEXT = 3000  # characters of an explained text


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
    measured = measure(classifier, data, report)
    model, known, labels = classifier.model_, measured.data, measured.labels
    names = [_cut(model.labels.title(column), NAME) for column in range(model.n_labels)]
    true, predicted, found = label_counts(known.Y, labels)
    with np.errstate(invalid="ignore"):  # NaN for labels that are never true, or never predicted
        quality = {"true": true, "precision": found / predicted, "recall": found / true}
    quality["f1"] = 2 * found / np.maximum(true + predicted, 1)
    return {
        "title": title,
        "version": __version__,
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "model": {
            "n_train": model.n_train,
            "n_labels": model.n_labels,
            "n_test": known.n_examples,
            "texts": model.text is not None,
            "multiclass": model.multiclass,
            "scorers": list(model.scorers),
            "top_k": max(KS),
        },
        "about": about(classifier.describe()),
        "metrics": _metrics(classifier, measured, seed, report),
        "level": LEVEL,
        "largest": measured.largest,
        "f1": {name: measured.model[name] for name in ("micro_f1", "macro_f1")},
        "deciles": measured.decile_documents(),
        "calibration": _calibration(measured),
        "spectrum": _spectrum(classifier),
        "map": _map(classifier, quality["recall"], names, seed, report) if with_map else None,
        "labels": _best_and_worst(
            quality | {"count": np.asarray(model.label_counts)}, names, model.labels
        ),
        "confusions": _confusions(known, labels[:, :1] if model.multiclass else labels, names),
        "explained": _explained(classifier, known, names, seed),
        "settings": used_settings(model),
        "selection": classifier.selection_,
        "notes": known.notes.sentences(),
        "fit_seconds": classifier.extra_.get("fit_seconds"),
        "examples_per_second": measured.examples_per_second,
    }


def _metrics(
    classifier: RembrandtClassifier, measured: Measured, seed: int, report: Report
) -> list[dict[str, Any]]:
    known, counts, n_train = measured.data, classifier.label_counts_, classifier.n_train_
    terms = row_terms(
        known.Y, measured.labels, counts, n_train, ks=KS, missing_labels=known.dropped_labels
    )
    intervals = bootstrap(terms, level=LEVEL, seed=seed, report=report)
    return [
        {"name": name, "value": value, "low": low, "high": high, "popular": measured.popular[name]}
        for name, value in measured.model.items()
        if name in intervals
        for low, high in [intervals[name]]
    ]


def _calibration(measured: Measured) -> dict[str, Any]:
    given = measured.labels >= 0
    bins = reliability(measured.probabilities[given], hits(measured.data.Y, measured.labels)[given])
    return {"bins": [asdict(each) for each in bins], "error": calibration_error(bins)}


def _spectrum(classifier: RembrandtClassifier) -> dict[str, Any] | None:
    """Return the spectrum of the label embedding; None for models without one."""
    if classifier.model_.embedding is None:
        return None
    values, facts = classifier.singular_values_.tolist(), classifier.settings_
    return {"values": values, "reason": facts.get("rank_reason", ""), "method": facts["method"]}


def _best_and_worst(
    columns: dict[str, NDArray[Any]], names: list[str], labels: LabelIndex
) -> dict[str, Any]:
    """Return the labels with the highest and the lowest F1 among those with enough test examples.

    No label is in both lists. Of labels with the same F1, the more frequent come first.
    """
    true, f1 = columns["true"], columns["f1"]
    min_count = next((n for n in (20, 10, 5, 3) if (true >= n).sum() >= 4 * N_EXTREMES), 1)
    frequent = np.flatnonzero(true >= min_count)
    n = min(N_EXTREMES, len(frequent) // 2)

    def rows(sign: int) -> list[dict[str, Any]]:
        order = frequent[np.lexsort((-true[frequent], sign * f1[frequent]))][:n]
        texts = [
            {"name": names[i], "description": _cut(labels.detailed(i)["description"], QUOTE)}
            for i in order
        ]
        return [
            text | {name: v[i].item() for name, v in columns.items()}
            for text, i in zip(texts, order, strict=True)
        ]

    return {"min_count": min_count, "best": rows(-1), "worst": rows(1)}


def _confusions(data: Dataset, labels: NDArray[np.int64], names: list[str]) -> list[dict[str, Any]]:
    found = [asdict(each) for each in confusions(data.Y, labels, N_PAIRS, 2)]
    for each in found:
        each["true"], each["predicted"] = names[each["true"]], names[each["predicted"]]
        each["examples"] = (
            [] if data.texts is None else [_cut(data.texts[row], QUOTE) for row in each["examples"]]
        )
    return found


def _explained(
    classifier: RembrandtClassifier, data: Dataset, names: list[str], seed: int
) -> list[dict[str, Any]]:
    """Explain the predictions of some random test examples."""
    lengths = np.array([len(text) for text in data.texts or [""] * data.n_examples])
    candidates = np.flatnonzero(
        lengths >= np.median(lengths)
    )  # the longer half: short texts have few words to show
    part = data.rows(np.sort(np.random.default_rng(seed).permutation(candidates)[:N_EXPLAINED]))
    part = replace(part, texts=part.texts and [text[:TEXT] for text in part.texts])
    rows = classifier.dataset_rows(part)
    columns, probabilities = ranked_labels(classifier.device_model(), rows, max(KS))
    words, documents = feature_names(classifier), []
    for row, best in enumerate(columns):
        text = part.texts[row] if part.texts else None
        found = explain_columns(classifier, rows[[row]], best[best >= 0], words, text)
        true = part.Y.indices[part.Y.indptr[row] : part.Y.indptr[row + 1]].tolist()
        predictions = [
            {
                "name": names[each.column],
                "right": each.column in true,
                "probability": probability,
                "score": each.score,
                "base": each.base,
                "comparison": each.comparison,
                "words": [[word, round(value, 5)] for word, value in each.top(12)],
                "segments": [
                    [start, stop, round(value, 5)] for start, stop, value in each.segments()
                ],
            }
            for each, probability in zip(found, probabilities[row].tolist(), strict=False)
        ]
        documents.append(
            {"text": text, "true": [names[i] for i in true], "predictions": predictions}
        )
    return documents


def _map(
    classifier: RembrandtClassifier,
    recall: NDArray[Any],
    names: list[str],
    seed: int,
    report: Report,
) -> dict[str, Any]:
    """Return the positions of the most frequent labels, what is known about them, and their nearest
    labels.
    """
    found = label_map(classifier, N_MAPPED, seed, report)
    x, y = np.round(found.positions.T.astype(np.float64), 2).tolist()
    near = nearest_labels(unit_vectors(classifier)[found.columns], N_NEIGHBOURS, report=report)[0]
    return {
        "n_labels": len(names),
        "names": [names[i] for i in found.columns.tolist()],
        "counts": found.counts.tolist(),
        "x": x,
        "y": y,
        "recall": np.round(recall[found.columns], 2).tolist(),
        "neighbours": [[j for j in row if j >= 0] for row in near.tolist()],
    }


def _cut(text: str, size: int) -> str:
    """Return the first ``size`` bytes of a text."""
    short = text.encode(errors="replace")[:size].decode(errors="ignore")
    return short if len(short) == len(text) else f"{short}…"
