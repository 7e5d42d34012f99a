"""More examples and labels for a fitted model: each part learns what it can, and what it misses is
reported.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy import sparse

from rembrandt.data.content import content_sum
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.errors import SettingsError, counted
from rembrandt.features.text import NewTerms
from rembrandt.linalg import Array
from rembrandt.linalg.sparse import as_csr
from rembrandt.metrics.percent import percent
from rembrandt.model.facts import UpdateFacts
from rembrandt.model.model import Model
from rembrandt.parts.protocol import Part, Update
from rembrandt.parts.registry import KINDS
from rembrandt.progress import Report, silent
from rembrandt.settings.view_names import FEATURES

NO_NEW_TERMS = NewTerms(0, 0, 0)
# Share of the weight of new labels that the embedding may miss, beyond that of the labels of the
# fit.
MAX_OUTSIDE = 0.1
# Examples added since the fit, relative to those of the fit, from which a refit is due.
MAX_ADDED = 1.0


def with_new_terms(
    model: Model, texts: Iterable[str], history: Iterable[str] = (), report: Report = silent
) -> tuple[Model, NewTerms]:
    """Return a model that reads the new terms of these texts too, and scores as before.

    Only an update gives them weights. A model is returned as it is if none of its parts learns such
    weights, if one cannot read more features, or if it was not fitted to texts.
    """
    if model.text is None:
        return model, NewTerms(0, 0, 0)
    text, new = model.text.extended(texts, model.n_train, history, report)
    if not new.n_learned:
        return model, new
    if not any(part.learns_columns for part in model.parts.values()):
        return model, new._replace(n_learned=0)
    columns = np.arange(model.n_features)
    parts: dict[str, Part] = {}
    for name, part in model.parts.items():
        widened: Part | None = part
        if model.settings.parts[name].view == FEATURES:
            widened = part.with_columns(columns, text.n_features_out_)
        if widened is None:
            return model, new._replace(n_learned=0)
        parts[name] = widened
    # The features of earlier examples are not those that they were fitted with any more.
    facts = replace(model.facts, content=None)
    return replace(model, text=text, parts=parts, facts=facts), new


def update_model(
    model: Model,
    examples: Examples,
    new_classes: Array,
    report: Report = silent,
    history: Examples | None = None,
    new_terms: NewTerms = NO_NEW_TERMS,
) -> Model:
    """Return ``model`` after more examples.

    The columns of ``examples.Y`` are the labels of the model followed by the new ones,
    ``new_classes``. ``history`` are the examples that the model was fitted to, with the same
    columns; without them these are taken to have none of the new labels. ``new_terms`` is what
    `with_new_terms` has returned with the model.
    """
    if history is None and not any(_learns_alone(name, model) for name in model.parts):
        raise SettingsError(
            "this model has trees alone, which learn from old and new examples together; give the "
            "old ones as history, or fit again with all examples",
            "history",
        )
    n_new = len(new_classes)
    classes = np.concatenate([model.classes, new_classes]) if n_new else model.classes
    no_texts = [""] * n_new
    titles = model.titles and [*model.titles, *no_texts]
    descriptions = model.descriptions and [*model.descriptions, *no_texts]
    other_names = model.other_names and [*model.other_names, *no_texts]
    examples = replace(
        examples,
        classes=classes,
        label_names=titles,
        label_descriptions=descriptions,
        label_other_names=other_names,
    )
    counts = np.bincount(examples.Y.indices, minlength=examples.Y.shape[1])
    parts: dict[str, Part] = {}
    missed: list[str] = []
    for name, part in model.parts.items():
        update = _update_of(model, name, examples, history, report)
        updated = KINDS[model.settings.parts[name].kind].update(part, update)
        parts[name] = updated.part
        missed += updated.missed
    facts = UpdateFacts(
        n_labels=n_new,
        n_examples=examples.n,
        outside=outside(model, counts),
        missed=tuple(missed),
        n_words=new_terms.n_terms,
        n_unknown_words=new_terms.n_unknown,
        n_learned_words=new_terms.n_learned,
    )
    changed = _widened(model, parts, examples, counts)
    return replace(changed, facts=model.facts.with_update(facts, content_sum(examples)))


def add_labels(model: Model, new_classes: Array) -> Model:
    """Return ``model`` with more labels, of which there is no example."""
    if not any(part.scores_unseen_labels for part in model.parts.values()):
        raise SettingsError(
            "this model does not match the names of labels, so that it cannot predict labels "
            "without examples: fit it to texts and to labels whose names occur in them, or with "
            'parts that have "names"; or update it with examples of the new labels',
            "parts",
        )
    n_new = len(new_classes)
    classes = np.concatenate([model.classes, new_classes])
    no_texts = [""] * n_new
    titles = model.titles and [*model.titles, *no_texts]
    descriptions = model.descriptions and [*model.descriptions, *no_texts]
    other_names = model.other_names and [*model.other_names, *no_texts]
    nothing = Examples(
        X=as_rows(sparse.csr_array((0, model.n_features), dtype=np.float32)),
        Y=as_csr(sparse.csr_array((0, len(classes)), dtype=np.float32)),
        classes=classes,
        multiclass=model.multiclass,
        vectors=tuple(as_rows(np.zeros((0, width), np.float32)) for width in model.vector_widths),
        texts=np.empty(0, dtype=object),
        label_names=titles,
        label_descriptions=descriptions,
        label_other_names=other_names,
    )
    parts = {}
    for name, part in model.parts.items():
        update = _update_of(model, name, nothing)
        parts[name] = KINDS[model.settings.parts[name].kind].with_labels(part, update)
    changed = _widened(model, parts, nothing, np.zeros(len(classes), model.label_counts.dtype))
    facts = UpdateFacts(n_labels=n_new, n_examples=0, outside=0.0, missed=())
    return replace(changed, facts=model.facts.with_update(facts, content=0))


def _update_of(
    model: Model,
    name: str,
    examples: Examples,
    history: Examples | None = None,
    report: Report = silent,
) -> Update:
    """Return what an update gives to one part of a model."""
    spec = model.settings.parts[name]
    return Update(
        examples=examples.view(spec.view),
        history=None if history is None else history.view(spec.view),
        settings=spec.settings,
        label_counts=model.label_counts,
        n_train=model.n_train,
        others={other: model.parts[other] for other in model.parts if other != name},
        seed=model.settings.seed,
        report=report,
    )


def _widened(model: Model, parts: dict[str, Part], examples: Examples, counts: Array) -> Model:
    """Return a model with other parts and more examples, whose labels may be more than its own."""
    n_new = examples.n_labels - model.n_labels
    threshold = model.threshold
    if not isinstance(threshold, float):
        threshold = np.append(threshold, np.full(n_new, np.median(threshold)))
    hierarchy = model.hierarchy
    if hierarchy is not None and n_new:
        hierarchy = hierarchy.extended(examples.classes.tolist())
    old_counts = np.append(model.label_counts, np.zeros(n_new, model.label_counts.dtype))
    return replace(
        model,
        classes=examples.classes,
        parts=parts,
        titles=examples.label_names,
        descriptions=examples.label_descriptions,
        other_names=examples.label_other_names,
        hierarchy=hierarchy,
        threshold=threshold,
        label_counts=old_counts + counts,
        n_train=model.n_train + examples.n,
    )


def _learns_alone(name: str, model: Model) -> bool:
    """Whether a part learns new labels from new examples alone."""
    return KINDS[model.settings.parts[name].kind].learns_without_history


def unlike_history(model: Model, history: Examples) -> str | None:
    """Return how ``history`` differs from the examples that the model has learned from.

    The model remembers their number, the number of each label, and a number that stands for their
    features unless they were on disk.
    """
    remedy = (
        "trees learn from them what new labels are not; give all examples that the model has "
        "learned from, and no others"
    )
    if history.n != model.n_train:
        return (
            f"history has {counted(history.n, 'example')}, and the model has learned from "
            f"{model.n_train:,}: {remedy}"
        )
    counts = np.bincount(history.Y.indices, minlength=model.n_labels)[: model.n_labels]
    n_different = int((counts != model.label_counts).sum())
    if n_different:
        return (
            f"the number of examples in history differs for {counted(n_different, 'label')} from "
            f"that in what the model has learned from: {remedy}"
        )
    content = content_sum(history)
    if None not in (content, model.facts.content) and content != model.facts.content:
        return f"history has other features than what the model has learned from: {remedy}"
    return None


def outside(model: Model, counts: Array) -> float:
    """Return how much less of labels with these counts the embedding holds than of those it was
    fitted to, 0 to 1.

    The embedding holds the squared length of a label's row of ``V``, and nothing of labels that
    were added later.
    """
    if not model.has_label_vectors:
        return 0.0
    n_fitted = model.n_labels - sum(update.n_labels for update in model.facts.updates)
    vectors, _ = model.label_vectors
    held = np.square(vectors[:n_fitted], dtype=np.float64).sum(axis=1)
    old_counts = model.label_counts[:n_fitted]
    before = held @ old_counts / max(1, old_counts.sum())
    after = held @ counts[:n_fitted] / max(1, counts.sum())
    if before <= 0 or not counts.sum():
        return 0.0
    return float(max(0.0, 1 - after / before))


def refit_due(model: Model) -> str | None:
    """Return why the model should be fitted again, once updates have left the fit behind."""
    updates = model.facts.updates
    n_added = model.facts.n_updated
    missed = sum(update.n_examples * update.outside for update in updates) / max(1, n_added)
    if missed > MAX_OUTSIDE:
        return (
            f"{percent(missed, 0)} of the weight of the labels in the updates lies outside the "
            "embedding, which was fitted before them; fit again with all examples to give them "
            "directions of their own"
        )
    if n_added > MAX_ADDED * (model.n_train - n_added):
        return (
            f"{n_added:,} of the {model.n_train:,} examples were added by updates after the model "
            "was fitted; fit again with all of them"
        )
    return None
