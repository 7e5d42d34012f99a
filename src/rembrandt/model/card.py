"""The model card: a page for people in the folder of a model.

`save` writes it from what the model knows about itself. What people add below the marker stays when
the model is saved again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt import __version__
from rembrandt.errors import StorageError, counted, printable
from rembrandt.metrics.intervals import wilson
from rembrandt.metrics.percent import percent
from rembrandt.model.description import describe
from rembrandt.model.folder import CARD_FOR_PEOPLE
from rembrandt.model.model import Model
from rembrandt.storage.files import read_bounded

MARKER = "<!-- Everything above this line is replaced when the model is saved. -->"

_MAX_CARD_BYTES = 1 << 20  # of a card with the notes of people
_FEW_EXAMPLES = 5  # of a label that is learned poorly
_SHOWN_LABELS = 5
_SHOWN_CHARACTERS = 60  # of a label


def model_card(
    model: Model,
    trials: Sequence[Mapping[str, Any]] = (),
    extra: Mapping[str, Any] | None = None,
    notes: str = "",
) -> str:
    """Return the card of a model as Markdown.

    Parameters
    ----------
    model : Model
        The model.
    trials, extra
        As for `describe`.
    notes : str, default=""
        What follows the marker.

    Returns
    -------
    str
    """
    description = describe(model, trials, extra)
    takes = description["trained_on"]["takes"]
    sections = [
        _front_matter(model),
        f"# {counted(model.n_labels, 'label')} for {takes}",
        _summary(model),
        "## Training data",
        description["trained_on"]["words"],
        "## Quality",
        *_quality(model, description),
        "## Limits",
        _bullets(_limits(model)),
        "## Use",
        description["reading"]["words"],
        _usage(model),
        "## How it was made",
        f"Parts: {description['chosen']['words']}.",
        f"Fitted with Rembrandt {model.facts.version}, saved with {__version__}.",
        MARKER,
    ]
    text = "\n\n".join(section for section in sections if section)
    return f"{text}\n{notes or _INVITATION}"


_INVITATION = """
## Notes

Say here where the training data is from, who may use it and this model, and what it is meant for.
"""


def notes_in(folder: Path) -> str:
    """Return what people have written below the marker of the card in a folder; empty if there is
    no such card.
    """
    try:
        text = read_bounded(folder / CARD_FOR_PEOPLE, _MAX_CARD_BYTES).decode("utf-8")
    except (OSError, StorageError, UnicodeDecodeError):
        return ""  # a card that cannot be read has no notes to keep
    _, marker, notes = text.partition(MARKER)
    if not marker:
        return ""
    return notes.removeprefix("\n")


def _front_matter(model: Model) -> str:
    """What sites that list models read."""
    lines = ["---", "library_name: rembrandt", "tags:", "- extreme-classification"]
    lines.append("- multiclass" if model.multiclass else "- multilabel")
    if model.text is not None:
        lines += ["- text", "pipeline_tag: text-classification"]
    return "\n".join([*lines, "---"])


def _summary(model: Model) -> str:
    """What the model answers, with its most frequent labels."""
    what = "texts" if model.text is not None else "rows of features"
    how_many = "the label" if model.multiclass else "the labels"
    frequent = np.argsort(-np.asarray(model.label_counts), kind="stable")[:_SHOWN_LABELS]
    shown = [_code(model.labels.shown(column)) for column in frequent.tolist()]
    return (
        f"This model predicts {how_many} of {what}, with probabilities. The most frequent of its "
        f"{counted(model.n_labels, 'label')}: {', '.join(shown)}."
    )


def _code(text: str) -> str:
    """Text of users, which is no Markdown."""
    plain = printable(text).replace("`", "'")
    if len(plain) > _SHOWN_CHARACTERS:
        plain = plain[:_SHOWN_CHARACTERS] + "…"
    return f"`{plain}`"


def _quality(model: Model, description: Mapping[str, Any]) -> list[str]:
    """What was measured on held-out training examples."""
    if not model.facts.held_out:
        return ["It was not measured: there were too few examples to hold any out."]
    together = model.facts.held_out[0]
    low, high = wilson(together.p1, together.n_examples)
    rows = [
        "| measure | held-out examples | 95 % interval |",
        "|---|---|---|",
        f"| P@1, the first label is right | {percent(together.p1)} | "
        f"{percent(low)} to {percent(high)} |",
        f"| P@3 | {percent(together.p3)} | |",
        f"| P@5 | {percent(together.p5)} | |",
    ]
    error = model.facts.calibration_error
    if error is not None:
        rows.append(f"| expected calibration error | {percent(error)} | |")
    explanation = (
        f"Measured on {together.n_examples:,} training examples that were held out before the "
        "model was fitted to all of them. A separate test set, measured with `rembrandt evaluate`, "
        "gives a better estimate."
    )
    return ["\n".join(rows), explanation, description["threshold"]["words"]]


def _limits(model: Model) -> list[str]:
    """What the model cannot do."""
    counts = np.asarray(model.label_counts)
    n_rare = int((counts < _FEW_EXAMPLES).sum())
    limits = [
        f"It only predicts its {counted(model.n_labels, 'label')}, and no others.",
    ]
    if n_rare:
        limits.append(
            f"{counted(n_rare, 'label')} ({percent(n_rare / model.n_labels, 0)}) had fewer than "
            f"{_FEW_EXAMPLES} training examples and will often be missed."
        )
    if model.text is not None:
        limits.append(
            "Texts in other languages, of other kinds or lengths than the training texts give "
            "unreliable probabilities. A text without a known word gets no labels."
        )
    if model.facts.n_updated:
        verb = "was" if model.facts.n_updated == 1 else "were"
        limits.append(
            f"{counted(model.facts.n_updated, 'example')} {verb} added by updates after these "
            "figures were measured."
        )
    for part in model.parts.values():
        limits += part.notes()
    return limits


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _usage(model: Model) -> str:
    """How to predict, on the command line and in Python."""
    rows = "X_new"
    command = "rembrandt predict MODEL FILE"
    if model.text is not None:
        rows = '["a text"]'
    if model.vector_widths:
        rows = f"({rows}, vectors)"
        command += " --vectors VECTORS.npy"
    return "\n".join(
        [
            "```console",
            f"$ {command}",
            "```",
            "",
            "```python",
            "from rembrandt import load",
            "",
            f'labels, probabilities = load("MODEL").predict_topk({rows}, k=5)',
            "```",
        ]
    )
