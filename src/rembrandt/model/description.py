"""What a model is, as data: what it was trained on, what was chosen and why, its quality, its
parts, and how to use it.

The command line, the page and the report show this. Nothing in it describes a scorer that the model
does not have.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rembrandt import __version__
from rembrandt.metrics.percent import percent, probability
from rembrandt.model.model import Model
from rembrandt.recipe import EMBEDDING_PARAMETERS, LINEAR
from rembrandt.scorers.thresholds import summary
from rembrandt.scorers.trees import Trees

NAMES = {"trees": "trees", "centroids": "centroids", "embedding": "label embedding"}


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
        "blends": blend_table(model.settings),
        "candidates": [
            {"words": recipe_words(trial), "chosen": trial["outcome"] == "chosen"}
            | {
                name: trial.get(name)
                for name in ("rung", "rows", "held_out", "p@1", "p@3", "p@5", "outcome")
            }
            for trial in trials
        ],
        "parts": _parts(model),
        "threshold": _threshold(model),
        "reading": _reading(model, extra.get("reading") or {}),
        "settings": used_settings(model),
        "fit_seconds": extra.get("fit_seconds"),
        "versions": {"fitted_with": model.settings.get("version"), "this": __version__},
    }


def about(found: Mapping[str, Any]) -> list[str]:
    """Return what people want to know first of what `describe` found."""
    sections = (found["quality"], found["threshold"])
    return [
        f"Trained on {found['trained_on']['words']}",
        *found["chosen"]["why"],
        *(s["words"] for s in sections if s),
    ]


def used_settings(model: Model) -> dict[str, Any]:
    """Return the settings of a model without those of scorers that it does not have, and without
    what was measured.
    """
    unused = ({"trees"} - model.scorers.keys()) | {"blends"}
    if model.embedding is None:
        unused |= {*EMBEDDING_PARAMETERS, "normalize"}
    return {name: value for name, value in model.settings.items() if name not in unused}


def model_words(model: Model) -> str:
    """Describe the scorers of a model with their settings."""
    trees, facts = model.scorers.get("trees"), dict(model.settings)
    if isinstance(trees, Trees):
        facts["trees"] = facts["trees"] | {
            "n_trees": len(trees.trees) if len(trees.trees[0].levels) > 1 else 0
        }
    return recipe_words(facts)


def recipe_words(facts: Mapping[str, Any]) -> str:
    """Describe a recipe in a few words: its scorers with their settings."""
    settings, trees = facts["embedding"], facts["trees"]
    parts = [
        f"rank {facts.get('rank', facts['n_components'])}, ridge {facts['ridge']:g}, decoder "
        f"{facts['decoder']}"
    ]
    parts += [f"{facts['kernel']} kernel × {settings['kernel_scale']:g}"] if facts["kernel"] else []
    parts += [f"penalty {facts['decoder_ridge']:g}"] if facts["decoder"] not in LINEAR else []
    parts += ["rows of unit length"] if facts["normalize"] else []
    parts += [f"{settings['leave_out']:g} left out"] if settings["leave_out"] else []
    powers = [
        f"{name} {settings[name]:g}" for name in ("label_power", "row_power") if settings.get(name)
    ]
    parts += [f"labels scaled by {', '.join(powers)}"] if powers else []
    count = (
        f"n_trees {trees['n_trees']}"
        if trees["n_trees"]
        else "one classifier per label, no clusters"
    )
    words = {"embedding": f" ({', '.join(parts)})", "trees": f" ({count}, cost {trees['cost']:g})"}
    return "; ".join(f"{name}{words.get(name, '')}" for name in facts["scorers"])


def why(settings: Mapping[str, Any]) -> list[str]:
    """Say in two lines what the scorers reach on held-out examples, together and each alone."""
    together, *alone = settings.get("blends") or [None]
    if together is None:
        return [
            "There were too few examples to hold any out: the settings are the usual ones, and "
            "nothing was compared."
        ]
    lines = [
        f"{_listed(together['scorers']).capitalize()}: the first label is right for "
        f"{percent(together['p@1'])} of {together['held_out']:,} held-out examples."
    ]
    if len(alone) > 1:
        measure = "P@1" if settings.get("multiclass") else "Mean of P@1 and nDCG@5"
        others = [f"{percent(row['quality'], 2)} {NAMES[row['scorers'][0]]} alone" for row in alone]
        quality = percent(together["quality"], 2)
        lines.append(f"{measure}: {quality} together, {', '.join(others)}.")
    return lines


def blend_table(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the scorers reached on held-out examples, together and each alone; the blend is
    marked.
    """
    rows = settings.get("blends") or ()
    return [dict(row) | {"chosen": number == 0} for number, row in enumerate(rows)]


def _trained_on(model: Model) -> dict[str, Any]:
    counts, takes = (
        np.asarray(model.label_counts),
        "texts" if model.text is not None else "features",
    )
    if model.joined is not None:
        takes = f"blocks of {' and '.join(f'{width:,}' for width in model.joined.widths)} features"
    added = sum(entry["n_examples"] for entry in model.settings.get("updates", ()))
    each, rare = float(counts.sum()) / max(1, model.n_train), float((counts <= 1).mean())
    words = f"{model.n_train:,} examples ({takes}, {model.n_features:,} columns)"
    words += f", {added:,} of them added by updates" if added else ""
    words += (
        f"; {model.n_labels:,} labels, {'one' if model.multiclass else f'{each:.1f}'} per example, "
    )
    words += f"{percent(rare, 0)} of them with one example or none"
    named, described = (sum(map(bool, texts or ())) for texts in (model.titles, model.descriptions))
    words += (
        f"; {named:,} have a name and {described:,} a description" if named or described else ""
    )
    return {
        "n_examples": model.n_train,
        "n_updated": added,
        "n_labels": model.n_labels,
        "n_features": model.n_features,
        "labels_per_example": each,
        "rare_labels": rare,
        "takes": takes,
        "multiclass": model.multiclass,
        "words": f"{words}.",
    }


def _chosen(model: Model) -> dict[str, Any]:
    reason = model.settings.get("rank_reason") if model.embedding is not None else None
    return {
        "scorers": list(model.scorers),
        "words": model_words(model),
        "why": why(model.settings | {"multiclass": model.multiclass}),
        "rank_reason": reason or None,
    }


def _quality(model: Model) -> dict[str, Any] | None:
    """Measures of the chosen blend on held-out examples; None where there were none."""
    found = next((each for each in blend_table(model.settings) if each["chosen"]), None)
    if found is None:
        return None
    error = model.settings.get("calibration_error")
    measures = {name: found[name] for name in ("p@1", "p@3", "p@5")}
    words = (
        ", ".join(f"{name.upper()} {percent(value)}" for name, value in measures.items())
        + " on held-out examples"
    )
    if error is not None:
        words += f"; probabilities are off by {percent(error)} on average"
    return measures | {
        "held_out": found.get("held_out"),
        "calibration_error": error,
        "words": f"{words}.",
    }


def _parts(model: Model) -> list[dict[str, Any]]:
    """The size of each part; a fitted regressor has no known size."""
    parts: list[dict[str, Any]] = []
    for name, scorer in model.scorers.items():
        known = getattr(scorer, "regressor", None) is None
        parts.append({"name": NAMES[name], "bytes": scorer.nbytes if known else None})
    embedding = model.embedding
    if embedding is not None and embedding.moments is not None and embedding.regressor is None:
        kept = embedding.moments.scatter.nbytes + embedding.moments.mean.nbytes
        parts[-1]["bytes"] -= kept  # the embedding is the last scorer
        parts.append({"name": "covariance for updates", "bytes": kept})
    if model.text is not None:
        parts.append(
            {
                "name": "terms of texts",
                "bytes": sum(a.nbytes for a in model.text.to_arrays().values()),
            }
        )
    texts = [*model.classes.tolist(), *(model.titles or ()), *(model.descriptions or ())]
    spelled = sum(len(str(text).encode()) for text in texts)
    return [*parts, {"name": "labels", "bytes": spelled + np.asarray(model.label_counts).nbytes}]


def _threshold(model: Model) -> dict[str, Any]:
    rule, value = model.settings.get("threshold"), summary(model.threshold)
    learned = (
        f", learned on held-out examples for the best {rule} F1"
        if isinstance(rule, str)
        else ", as set"
    )
    if isinstance(rule, str) and not model.settings.get("blends"):
        learned = ": there were too few examples to learn it"
    if model.multiclass:
        words = "The most probable label is predicted."
    elif isinstance(value, dict):
        low, high = probability(value["smallest"], 2), probability(value["largest"], 2)
        words = f"Each label has a threshold of its own, {low} to {high}{learned}."
    else:
        words = f"A label is predicted from a probability of {probability(value, 2)} on{learned}."
    return {"rule": rule, "value": None if model.multiclass else value, "words": words}


def _reading(model: Model, reading: Mapping[str, Any]) -> dict[str, Any]:
    """How new examples are given: what was said when the training file was read, and what the model
    takes.
    """
    given = {name: value for name, value in reading.items() if value not in (None, [], False)}
    text = ", ".join(given.get("text", ()))
    encoder = None if model.text is None else model.text.to_config()["encoder"]
    words = (
        "Give texts"
        if model.text is not None
        else f"Give {model.n_features:,} features for each example"
    )
    words += f"; in a table they are in {text}" if text else ""
    words += f"; labels in {given['labels']}" if "labels" in given else ""
    words += f", separated by {given['label_separator']!r}" if "label_separator" in given else ""
    words += f" (format {given['format']})" if "format" in given else ""
    if encoder is not None:
        words += (
            f"; load the encoder {encoder['name']!r} of {encoder['width']:,} dimensions (--encoder)"
        )
    if model.joined is not None:
        words += (
            f"; blocks of {' and '.join(f'{width:,}' for width in model.joined.widths)} columns, "
            "in this order"
        )
    return given | {"encoder": encoder, "words": f"{words}."}


def _listed(names: Sequence[str]) -> str:
    *first, last = (NAMES[name] for name in names)
    return f"{', '.join(first)} and {last}" if first else f"{last} alone"
