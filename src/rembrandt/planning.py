"""From the parameters of a classifier and its data to the settings of a model: which parts it has,
and what is left open of their settings.

Everything follows from counts of operations at reference rates (`rembrandt.parts.allowance`).
"""

from collections.abc import Mapping
from typing import Any

from rembrandt.checks import seed_of
from rembrandt.data.examples import Examples
from rembrandt.declarations import (
    NAMES,
    PART_NAMES,
    ModelSettings,
    PartSpec,
    check_values,
    preset_settings,
    user_settings,
)
from rembrandt.engines.backend import Backend, backend_for
from rembrandt.errors import SettingsError
from rembrandt.linalg.sparse import is_sparse
from rembrandt.parts.allowance import ALLOWANCES, Allowance, Work
from rembrandt.parts.registry import KINDS
from rembrandt.settings import PartSettings
from rembrandt.settings.view_names import TEXTS, vector_views


def resolve(params: Mapping[str, Any], data: Examples) -> ModelSettings:
    """Check a classifier's parameters and fill in what the preset and the data decide.

    Parameters
    ----------
    params : mapping
        Parameters of `RembrandtClassifier` by name.
    data : Examples
        Training examples.

    Returns
    -------
    ModelSettings
    """
    check_values(params)
    user = user_settings(params)
    preset = params["preset"]
    allowance = ALLOWANCES[preset]
    names = _wanted_parts(params, user)
    is_growable = _is_growable(user)
    if is_growable and names != ["embedding"]:
        raise SettingsError(
            "growable=True needs parts=('embedding',): other parts cannot be updated without "
            "the training examples",
            "growable",
        )
    is_alone = len(names) == 1 and not data.vectors
    is_choosing = params["parts"] == "auto" and not is_growable
    resolved = {}
    for name in names:
        settings = preset_settings(name, preset, user[name])
        resolved[name] = KINDS[name].resolve(settings, data, allowance, is_alone)
    if is_choosing and not _has_trees(resolved, user, data, allowance):
        del resolved["trees"]
    allowance = allowance.beside(_measure(resolved, data, allowance))
    if "embedding" in resolved:
        must_have = not is_choosing or "trees" not in resolved
        settings = _embedding_settings(preset, user, data, allowance, is_alone, must_have)
        if settings is None:
            del resolved["embedding"]
        else:
            resolved["embedding"] = settings
    specs = {name: PartSpec(name, settings) for name, settings in resolved.items()}
    specs |= _vector_parts(preset, user["embedding"], data, allowance)
    backend = backend_for(params["device"], data.X)
    specs |= _text_parts(params, preset, user, data, allowance, backend)
    if _has_names(params["parts"], is_growable, data):
        kind = KINDS[NAMES]
        settings = preset_settings(NAMES, preset, user[NAMES])
        specs[NAMES] = PartSpec(NAMES, kind.resolve(settings, data, allowance, False), TEXTS)
    return ModelSettings(
        parts=specs,
        threshold=_threshold(params["threshold"], data),
        seed=seed_of(params["random_state"]),
        preset=preset,
    )


def max_trial_seconds(settings: ModelSettings, data: Examples) -> float:
    """Return the counted seconds that a trial of other settings of a part may take: what the preset
    allows a part beside the one that sets the measure.
    """
    allowance = ALLOWANCES[settings.preset]
    resolved = {name: spec.settings for name, spec in settings.parts.items()}
    return allowance.beside(_measure(resolved, data, allowance)).seconds


def fixed_settings(params: Mapping[str, Any], settings: ModelSettings) -> dict[str, list[str]]:
    """Return the names of the settings of each part that a user sets, which no search changes."""
    user = user_settings(params)
    fixed = {}
    for name, spec in settings.parts.items():
        values = user[spec.kind].set_values()
        fixed[name] = [setting for setting, value in values.items() if value != "auto"]
    return fixed


def _wanted_parts(params: Mapping[str, Any], user: dict[str, PartSettings]) -> list[str]:
    """Return the names of the parts that are asked for, in the order in which they are fitted."""
    wanted = params["parts"]
    if wanted != "auto":
        listed = {wanted} if isinstance(wanted, str) else set(wanted)
        names: list[str] = [name for name in PART_NAMES if name in listed]
        if not names:
            raise SettingsError(
                "the names of labels are one part of a model among others; add parts that read "
                f"the features: {', '.join(PART_NAMES)}",
                "parts",
            )
        return names
    if _is_growable(user):
        # The part that more examples can be added to, and others whose settings are set, which are
        # then refused.
        return [name for name in PART_NAMES if name == "embedding" or user[name].set_values()]
    return list(PART_NAMES)


def _has_names(wanted: Any, is_growable: bool, data: Examples) -> bool:
    """Whether the names of the labels are matched against the texts."""
    if wanted != "auto":
        return NAMES in wanted
    return not is_growable and KINDS[NAMES].applies(data)


def _is_growable(user: dict[str, PartSettings]) -> bool:
    return bool(user["embedding"].set_values().get("growable", False))


def _has_trees(
    resolved: Mapping[str, PartSettings],
    user: dict[str, PartSettings],
    data: Examples,
    allowance: Allowance,
) -> bool:
    """Whether a model has trees.

    Trees are made for sparse features, which they visit entry by entry. Next to dense features they
    are fitted where that costs no more than the allowance has beside an embedding without a kernel.
    """
    if is_sparse(data.X[:0]) or user["trees"].set_values():
        return True
    linear = _linear_work(resolved["embedding"], data, allowance)
    trees = KINDS["trees"].work(resolved["trees"], data)
    return allowance.beside(linear).permits(trees)


def _measure(resolved: Mapping[str, PartSettings], data: Examples, allowance: Allowance) -> Work:
    """Return the work that the cost of the embedding is measured by: that of the trees, or, in a
    model without trees, that of an embedding without a kernel.
    """
    if "trees" in resolved:
        return KINDS["trees"].work(resolved["trees"], data)
    if "embedding" in resolved:
        return _linear_work(resolved["embedding"], data, allowance)
    return Work()


def _linear_work(settings: PartSettings, data: Examples, allowance: Allowance) -> Work:
    """Return the work of the cheapest form of an embedding."""
    kind = KINDS["embedding"]
    forms = [settings, *kind.alternatives(settings, data, allowance)]
    return kind.work(forms[-1], data)


def _embedding_settings(
    preset: Any,
    user: dict[str, PartSettings],
    data: Examples,
    allowance: Allowance,
    is_alone: bool,
    must_have: bool,
) -> Any:
    """Return the settings of the embedding: its most accurate form that the allowance permits.

    Where a model must have one, or a user sets some of its settings, it is permitted anyway. None
    where no form is.
    """
    kind = KINDS["embedding"]
    settings = preset_settings("embedding", preset, user["embedding"])
    settings = kind.resolve(settings, data, allowance, is_alone)
    if must_have or user["embedding"].set_values():
        return settings
    for form in [settings, *kind.alternatives(settings, data, allowance)]:
        if allowance.permits(kind.work(form, data)):
            return form
    return None


def _vector_parts(
    preset: Any, user: PartSettings, data: Examples, allowance: Allowance
) -> dict[str, PartSpec]:
    """Return an embedding for each block of vectors beside the features."""
    kind = KINDS["embedding"]
    specs = {}
    for view in vector_views(len(data.vectors)):
        settings = preset_settings("embedding", preset, user)
        resolved = kind.resolve(settings, data.view(view), allowance, is_alone=False)
        specs[view] = PartSpec("embedding", resolved, view)
    return specs


def _text_parts(
    params: Mapping[str, Any],
    preset: Any,
    user: dict[str, PartSettings],
    data: Examples,
    allowance: Allowance,
    backend: Backend,
) -> dict[str, PartSpec]:
    """Return the parts that read the texts and that a parameter of the classifier asks for."""
    specs = {}
    for name, kind in KINDS.items():
        if not kind.reads_texts or params.get(name) is None:
            continue
        settings = preset_settings(name, preset, user[name])
        settings = kind.on_device(settings, backend)
        resolved = kind.resolve(settings, data, allowance, is_alone=False)
        specs[name] = PartSpec(name, resolved, TEXTS)
    return specs


def _threshold(threshold: Any, data: Examples) -> Any:
    """Return the rule of the threshold, or a number."""
    if not isinstance(threshold, str):
        return float(threshold)
    if data.multiclass:
        # The best label is predicted, and there is no threshold to choose.
        return 0.5
    return threshold
