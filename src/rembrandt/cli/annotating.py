"""Texts with suggested labels for tools in which people label: Label Studio and Argilla."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tool = Literal["label-studio", "argilla"]
SUFFIX = ".json"
# What the parts of a project are called in the tools; the documentation shows such a project.
_TEXT = "text"
_LABELS = "labels"


def annotated(
    tool: Tool,
    documents: list[dict[str, Any]],
    is_assigned: NDArray[np.bool_],
    name: str,
    is_single: bool,
) -> list[dict[str, Any]]:
    """Return suggested examples as tasks or records, with the labels that the model assigns.

    ``documents`` are those of ``rembrandt suggest``, ``is_assigned`` says which of their labels are
    assigned, ``name`` is that of the model, and with ``is_single`` a text has one label.
    """
    rows = []
    for document, row in zip(documents, is_assigned.tolist(), strict=True):
        # Places without a label come last in a row, and are not in the document.
        labels = [label for label, kept in zip(document["suggested"], row, strict=False) if kept]
        if tool == "label-studio":
            rows.append(_task(document, labels, name))
        else:
            rows.append(_record(document, labels, name, is_single))
    return rows


def _task(document: dict[str, Any], labels: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a task of Label Studio."""
    task: dict[str, Any] = {"data": {_TEXT: document["text"], "id": document["id"]}}
    task["data"]["rank"] = document["rank"]
    if not labels:
        return task
    choices = {
        "from_name": _LABELS,
        "to_name": _TEXT,
        "type": "choices",
        "value": {"choices": [label["label"] for label in labels]},
    }
    probabilities = [label["probability"] for label in labels]
    prediction = {"model_version": name, "score": min(probabilities), "result": [choices]}
    task["predictions"] = [prediction]
    return task


def _record(
    document: dict[str, Any], labels: list[dict[str, Any]], name: str, is_single: bool
) -> dict[str, Any]:
    """Return a record of Argilla."""
    values: Any = [label["label"] for label in labels]
    scores: Any = [label["probability"] for label in labels]
    suggestions = {}
    if labels and is_single:
        suggestions[_LABELS] = {"value": values[0], "score": scores[0], "agent": name}
    elif labels:
        suggestions[_LABELS] = {"value": values, "score": scores, "agent": name}
    return {
        "id": str(document["id"]),
        "fields": {_TEXT: document["text"]},
        "suggestions": suggestions,
        "metadata": {},
        "responses": {},
        "vectors": {},
    }
