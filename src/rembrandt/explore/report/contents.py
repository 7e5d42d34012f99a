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
from rembrandt.data.views import as_views
from rembrandt.estimators import RembrandtClassifier
from rembrandt.estimators.requests import dataset_rows, feature_names, prediction_model
from rembrandt.evaluation import KS, Measured, measure
from rembrandt.explanations.explain import explain_labels
from rembrandt.explanations.explanation import Explanation
from rembrandt.explore.confusions import confusions
from rembrandt.explore.mapping import label_map
from rembrandt.explore.neighbors import nearest_labels, unit_vectors
from rembrandt.metrics import bootstrap, calibration_error, reliability, row_terms
from rembrandt.metrics.hits import hits, label_counts
from rembrandt.model.description import about
from rembrandt.predict import Request, answer
from rembrandt.progress import Report, silent

LEVEL = 0.95  # of the confidence intervals
_SET_MEASURES = (
    "micro_f1",
    "macro_f1",
    "hierarchical_precision",
    "hierarchical_recall",
    "hierarchical_f1",
)
N_MAPPED = 20_000  # labels on the map; with MAX_NAME_BYTES it keeps the page below 5 MB
N_NEIGHBOURS = 6  # of each label on the map
N_EXTREMES = 12  # best and worst labels
N_CONFUSIONS = 15  # pairs of labels
N_QUOTED = 2  # examples of each pair
N_EXPLAINED = 20  # examples
N_WORDS = 12  # of each explained label
MAX_NAME_BYTES = 100  # of a label
MAX_QUOTE_BYTES = 300  # of a quoted example or a description
MAX_TEXT_CHARACTERS = 3000  # of an explained text


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
    model = classifier.model_
    test = measured.data
    names = [_cut(model.labels.title(column), MAX_NAME_BYTES) for column in range(model.n_labels)]
    quality = _label_quality(test, measured.labels) | {"count": np.asarray(model.label_counts)}
    metrics = _metrics(classifier, measured, seed, report)
    laid_out = None
    if with_map:
        laid_out = _map(classifier, quality["recall"], names, seed, report)
    confusable = measured.labels
    if model.multiclass:
        confusable = measured.labels[:, :1]
    return {
        "title": title,
        "version": __version__,
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "model": {
            "n_train": model.n_train,
            "n_labels": model.n_labels,
            "n_test": test.n_examples,
            "texts": model.text is not None,
            "multiclass": model.multiclass,
            "parts": list(model.parts),
            "top_k": max(KS),
        },
        "about": about(classifier.describe()),
        "metrics": metrics,
        "level": LEVEL,
        "largest": measured.largest,
        "f1": {name: measured.model[name] for name in _SET_MEASURES if name in measured.model},
        "deciles": measured.decile_documents(),
        "calibration": _calibration(measured),
        "spectrum": _spectrum(classifier),
        "map": laid_out,
        "labels": _best_and_worst(quality, names, model.labels),
        "confusions": _confusions(test, confusable, names),
        "explained": _explained(classifier, test, names, seed),
        "settings": classifier.settings_,
        "selection": classifier.selection_,
        "notes": test.notes.sentences(),
        "fit_seconds": classifier.extra_.get("fit_seconds"),
        "examples_per_second": measured.examples_per_second,
    }


def _label_quality(data: Dataset, labels: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the number of test examples, precision, recall and F1 of every label."""
    true, predicted, correct = label_counts(data.Y, labels)
    with np.errstate(invalid="ignore"):  # NaN for labels that are never true, or never predicted
        precision = correct / predicted
        recall = correct / true
    f1 = 2 * correct / np.maximum(true + predicted, 1)
    return {"true": true, "precision": precision, "recall": recall, "f1": f1}


def _metrics(
    classifier: RembrandtClassifier, measured: Measured, seed: int, report: Report
) -> list[dict[str, Any]]:
    """Return the measures that have a confidence interval, also for the most popular labels."""
    terms = row_terms(
        measured.data.Y,
        measured.labels,
        classifier.label_counts_,
        classifier.n_train_,
        ks=KS,
        missing_labels=measured.data.dropped_labels,
    )
    intervals = bootstrap(terms, level=LEVEL, seed=seed, report=report)
    documents = []
    for name, value in measured.model.items():
        if name not in intervals:
            continue
        low, high = intervals[name]
        popular = measured.popular[name]
        documents.append(
            {"name": name, "value": value, "low": low, "high": high, "popular": popular}
        )
    return documents


def _calibration(measured: Measured) -> dict[str, Any]:
    """Return how often predictions of similar probability are correct."""
    is_label = measured.labels >= 0
    is_hit = hits(measured.data.Y, measured.labels)
    bins = reliability(measured.probabilities[is_label], is_hit[is_label])
    return {"bins": [asdict(interval) for interval in bins], "error": calibration_error(bins)}


def _spectrum(classifier: RembrandtClassifier) -> dict[str, Any] | None:
    """Return the spectrum of the label embedding; None for models without one."""
    model = classifier.model_
    for name, part in model.parts.items():
        if part.label_vectors() is not None:
            return {
                "values": classifier.singular_values_.tolist(),
                "reason": part.facts()["rank_reason"],
                "method": model.settings.parts[name].settings.method,
            }
    return None


def _best_and_worst(
    columns: dict[str, NDArray[Any]], names: list[str], labels: LabelIndex
) -> dict[str, Any]:
    """Return the labels with the highest and the lowest F1 among those with enough test examples.

    No label is in both lists. Of labels with the same F1, the more frequent come first.
    """
    true = columns["true"]
    min_count = _min_count(true)
    frequent = np.flatnonzero(true >= min_count)
    n_listed = min(N_EXTREMES, len(frequent) // 2)
    rarity = -true[frequent]
    f1 = columns["f1"][frequent]

    def document(label: int) -> dict[str, Any]:
        description = labels.detailed(label)["description"]
        measures = {name: values[label].item() for name, values in columns.items()}
        return {
            "name": names[label],
            "description": _cut(description, MAX_QUOTE_BYTES),
            **measures,
        }

    best_first = np.lexsort((rarity, -f1))
    best = frequent[best_first[:n_listed]]
    others = best_first[n_listed:]
    worst = frequent[others[np.lexsort((rarity[others], f1[others]))][:n_listed]]
    return {
        "min_count": min_count,
        "best": [document(label) for label in best],
        "worst": [document(label) for label in worst],
    }


def _min_count(true: NDArray[Any]) -> int:
    """Return the test examples that a label needs to be listed: as many as leave a choice."""
    for min_count in (20, 10, 5, 3):
        n_labels = (true >= min_count).sum()
        if n_labels >= 4 * N_EXTREMES:
            return min_count
    return 1


def _confusions(data: Dataset, labels: NDArray[np.int64], names: list[str]) -> list[dict[str, Any]]:
    """Return the pairs of labels that are confused, by name, with quoted examples."""
    documents = []
    for confusion in confusions(data.Y, labels, N_CONFUSIONS, N_QUOTED):
        quotes: list[str] = []
        if data.texts is not None:
            quotes = [_cut(data.texts[row], MAX_QUOTE_BYTES) for row in confusion.examples]
        document = asdict(confusion)
        document["true"] = names[confusion.true]
        document["predicted"] = names[confusion.predicted]
        document["examples"] = quotes
        documents.append(document)
    return documents


def _explained(
    classifier: RembrandtClassifier, data: Dataset, names: list[str], seed: int
) -> list[dict[str, Any]]:
    """Explain the predictions of some random test examples."""
    examples = _chosen_examples(data, seed)
    rows = as_views(dataset_rows(classifier, examples))
    ranked = answer(prediction_model(classifier), Request(rows, max(KS)))
    words = feature_names(classifier)
    documents = []
    for row, best in enumerate(ranked.labels):
        text = None
        if examples.texts:
            text = examples.texts[row]
        labels = best[best >= 0]
        explanations = explain_labels(classifier.model_, rows[[row]], labels, words, text)
        entries = slice(examples.Y.indptr[row], examples.Y.indptr[row + 1])
        true = examples.Y.indices[entries].tolist()
        predictions = []
        # There are fewer explanations than probabilities where a row has fewer labels.
        for explanation, probability in zip(
            explanations, ranked.probabilities[row].tolist(), strict=False
        ):
            label = {
                "name": names[explanation.column],
                "right": explanation.column in true,
                "probability": probability,
            }
            predictions.append(label | _explanation(explanation))
        true_names = [names[column] for column in true]
        documents.append({"text": text, "true": true_names, "predictions": predictions})
    return documents


def _chosen_examples(data: Dataset, seed: int) -> Dataset:
    """Return some random examples, their texts shortened."""
    if data.texts:
        lengths = np.array([len(text) for text in data.texts])
        # The longer half: short texts have few words to show.
        candidates = np.flatnonzero(lengths >= np.median(lengths))
    else:
        candidates = np.arange(data.n_examples)
    chosen = np.random.default_rng(seed).permutation(candidates)[:N_EXPLAINED]
    examples = data.rows(np.sort(chosen))
    if not examples.texts:
        return examples
    return replace(examples, texts=[text[:MAX_TEXT_CHARACTERS] for text in examples.texts])


def _explanation(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation in short form."""
    words = [[word, round(value, 5)] for word, value in explanation.top(N_WORDS)]
    segments = [[start, stop, round(value, 5)] for start, stop, value in explanation.segments()]
    estimates = []
    for estimate in explanation.document(N_WORDS)["estimates"]:
        estimated = [[word["word"], round(word["contribution"], 5)] for word in estimate["words"]]
        estimates.append({"part": estimate["part"], "words": estimated})
    return {
        "log_odds": explanation.log_odds,
        "base": explanation.base,
        "comparison": explanation.comparison,
        "words": words,
        "segments": segments,
        "estimates": estimates,
    }


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
    labels = label_map(classifier, N_MAPPED, seed, report)
    x, y = np.round(labels.positions.T.astype(np.float64), 2).tolist()
    unit = unit_vectors(classifier)[labels.columns]
    nearest, _ = nearest_labels(unit, N_NEIGHBOURS, report=report)
    return {
        "n_labels": len(names),
        "names": [names[column] for column in labels.columns.tolist()],
        "counts": labels.counts.tolist(),
        "x": x,
        "y": y,
        "recall": np.round(recall[labels.columns], 2).tolist(),
        "neighbours": [row[row >= 0].tolist() for row in nearest],
    }


def _cut(text: str, size: int) -> str:
    """Return the first ``size`` bytes of a text."""
    short = text.encode(errors="replace")[:size].decode(errors="ignore")
    if len(short) == len(text):
        return short
    return f"{short}…"
