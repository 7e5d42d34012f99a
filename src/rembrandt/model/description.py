"""What a model is, as data: what it was trained on, what it consists of, its quality, its size, and
how to use it.

The command line, the page and the report show this.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rembrandt import __version__
from rembrandt.errors import counted
from rembrandt.metrics.percent import percent, probability
from rembrandt.model.facts import HeldOutMeasures
from rembrandt.model.model import Model
from rembrandt.parts.registry import KINDS
from rembrandt.settings.view_names import FEATURES, TEXTS
from rembrandt.thresholds import summary


def describe(
    model: Model, trials: Sequence[Mapping[str, Any]] = (), extra: Mapping[str, Any] | None = None
) -> Any:
    """Describe a model.

    Parameters
    ----------
    model : Model
        A fitted model.
    trials : sequence of mappings, default=()
        What was tried on held-out examples: ``selection_`` of the classifier.
    extra : mapping, default=None
        What was saved with the model: ``reading``, how files are read, and ``fit_seconds``.

    Returns
    -------
    dict
        JSON values. Sections have ``words``, a sentence for people, next to their numbers.
    """
    extra = extra or {}
    return {
        "trained_on": _trained_on(model),
        "chosen": _chosen(model),
        "quality": _quality(model),
        "blends": blend_table(model),
        "candidates": [_candidate(trial) for trial in trials],
        "parts": _parts(model),
        "threshold": _threshold(model),
        "reading": _reading(model, extra.get("reading") or {}),
        "settings": model.settings.to_json(),
        "fit_seconds": extra.get("fit_seconds"),
        "versions": {"fitted_with": model.facts.version, "this": __version__},
    }


def about(description: Mapping[str, Any]) -> list[str]:
    """Return what people want to know first of what `describe` returned."""
    lines = [f"Trained on {description['trained_on']['words']}", *description["chosen"]["why"]]
    for section in (description["quality"], description["threshold"]):
        if section:
            lines.append(section["words"])
    return lines


def model_words(model: Model) -> str:
    """Describe the parts of a model with their settings."""
    words = []
    for name, spec in model.settings.parts.items():
        settings = KINDS[spec.kind].words(spec.settings, model.parts[name])
        words.append(f"{name} ({settings})" if settings else name)
    return "; ".join(words)


def part_title(model: Model, name: str) -> str:
    """Return what people call a part."""
    spec = model.settings.parts[name]
    title = KINDS[spec.kind].title
    if spec.view not in (FEATURES, TEXTS):
        return f"{title} of {spec.view}"
    return title


def why(model: Model) -> list[str]:
    """Say in two lines what the parts reach on held-out examples, together and each alone."""
    notes = [note for part in model.parts.values() for note in part.notes()]
    if not model.facts.held_out:
        return [
            "There are too few examples to hold any out: the quality is unknown, and all parts "
            "count the same.",
            *notes,
        ]
    together, *alone = model.facts.held_out
    titles = _listed([part_title(model, name) for name in together.parts])
    lines = [
        f"{titles.capitalize()}: the first label is right for {percent(together.p1)} of "
        f"{together.n_examples:,} held-out examples."
    ]
    if len(alone) > 1:
        measure = "P@1" if model.multiclass else "Mean of P@1 and nDCG@5"
        of_parts = [
            f"{percent(measures.quality, 2)} {part_title(model, measures.parts[0])} alone"
            for measures in alone
        ]
        lines.append(f"{measure}: {percent(together.quality, 2)} together, {', '.join(of_parts)}.")
    return [*lines, *notes]


def blend_table(model: Model) -> list[dict[str, Any]]:
    """Return what the parts reached on held-out examples, together and each alone; the blend is
    marked.
    """
    rows = []
    for number, measures in enumerate(model.facts.held_out):
        rows.append(measures.to_json() | {"chosen": number == 0})
    return rows


def _candidate(trial: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trial as the page and the report show it."""
    shown = ("rows", "held_out", "p@1", "p@3", "p@5", "outcome")
    candidate: dict[str, Any] = {
        "words": f"{trial['part']} ({trial['words']})",
        "chosen": trial["outcome"] == "chosen",
    }
    return candidate | {name: trial.get(name) for name in shown}


def _trained_on(model: Model) -> dict[str, Any]:
    counts = np.asarray(model.label_counts)
    takes = "features" if model.text is None else "texts"
    if model.vector_widths:
        widths = _listed([f"{width:,}" for width in model.vector_widths])
        takes = f"{takes} and vectors of {widths} dimensions"
    n_updated = model.facts.n_updated
    labels_per_example = float(counts.sum()) / max(1, model.n_train)
    rare = float((counts <= 1).mean())
    words = f"{counted(model.n_train, 'example')} ({takes}, {counted(model.n_features, 'column')})"
    if n_updated:
        words += f", {n_updated:,} of them added by updates"
    per_example = "one" if model.multiclass else f"{labels_per_example:.1f}"
    words += f"; {counted(model.n_labels, 'label')}, {per_example} per example; "
    words += f"{percent(rare, 0)} of the labels have fewer than two examples"
    n_named = sum(map(bool, model.titles or ()))
    n_described = sum(map(bool, model.descriptions or ()))
    if n_named or n_described:
        words += f"; {n_named:,} with a name, {n_described:,} with a description"
    return {
        "n_examples": model.n_train,
        "n_updated": n_updated,
        "n_labels": model.n_labels,
        "n_features": model.n_features,
        "labels_per_example": labels_per_example,
        "rare_labels": rare,
        "takes": takes,
        "multiclass": model.multiclass,
        "words": f"{words}.",
    }


def _chosen(model: Model) -> dict[str, Any]:
    return {
        "parts": list(model.parts),
        "words": model_words(model),
        "why": why(model),
        "facts": {name: part.facts() for name, part in model.parts.items()},
    }


def _quality(model: Model) -> dict[str, Any] | None:
    """Measures of the blend on held-out examples; None where there were none."""
    if not model.facts.held_out:
        return None
    together: HeldOutMeasures = model.facts.held_out[0]
    measures = {"p@1": together.p1, "p@3": together.p3, "p@5": together.p5}
    shown = [f"{name.upper()} {percent(value)}" for name, value in measures.items()]
    words = f"{', '.join(shown)} on held-out examples"
    error = model.facts.calibration_error
    if error is not None:
        words += f"; expected calibration error {percent(error)}"
    return measures | {
        "held_out": together.n_examples,
        "calibration_error": error,
        "words": f"{words}.",
    }


def _parts(model: Model) -> list[dict[str, Any]]:
    """The size of each part."""
    sizes: list[dict[str, Any]] = []
    for name, part in model.parts.items():
        for what, n_bytes in part.sizes().items():
            sizes.append({"name": what or part_title(model, name), "bytes": n_bytes})
    if model.text is not None:
        text_bytes = sum(array.nbytes for array in model.text.to_arrays().values())
        sizes.append({"name": "terms of texts", "bytes": text_bytes})
    texts: Iterable[Any] = [
        *model.classes.tolist(),
        *(model.titles or ()),
        *(model.descriptions or ()),
    ]
    label_bytes = sum(len(str(text).encode()) for text in texts)
    label_bytes += np.asarray(model.label_counts).nbytes
    return [*sizes, {"name": "labels", "bytes": label_bytes}]


def _threshold(model: Model) -> dict[str, Any]:
    rule = model.settings.threshold
    value = summary(model.threshold)
    reason = ", as set"
    if isinstance(rule, str):
        reason = f", learned on held-out examples for the best {rule} F1"
        if not model.facts.held_out:
            reason = ": there were too few examples to learn it"
    if model.multiclass:
        words = "The most probable label is predicted."
        value = None
    elif isinstance(value, dict):
        low = probability(value["smallest"], 2)
        high = probability(value["largest"], 2)
        words = f"Each label has a threshold of its own, {low} to {high}{reason}."
    else:
        shown = probability(value, 2)
        words = f"Labels with a probability of at least {shown} are predicted{reason}."
        if isinstance(rule, str) and model.facts.held_out:
            words = (
                f"Labels with a probability of at least {shown} are predicted. This threshold was "
                f"learned on held-out examples for the best {rule} F1."
            )
    return {"rule": rule, "value": value, "words": words}


def _reading(model: Model, reading: Mapping[str, Any]) -> dict[str, Any]:
    """How new examples are given: what was said when the training file was read, and what the model
    takes.
    """
    options = {name: value for name, value in reading.items() if value not in (None, [], False)}
    columns = ", ".join(options.get("text", ()))
    words = f"{model.n_features:,} features for each example"
    if model.text is not None:
        words = "texts"
    if columns:
        words += f"; in a table they are in {columns}"
    if "labels" in options:
        words += f", and labels are in {options['labels']}"
    if "label_separator" in options:
        words += f", separated by {options['label_separator']!r}"
    if "format" in options:
        words += f" (format {options['format']})"
    if model.vector_widths:
        widths = _listed([f"{width:,}" for width in model.vector_widths])
        words += f"; with vectors of {widths} dimensions for each example"
    return options | {"words": f"The input is {words}."}


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    if not first:
        return last
    return f"{', '.join(first)} and {last}"
