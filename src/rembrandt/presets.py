"""Three named settings over everything: what a fit takes for the parameters that its user left open.

A parameter is open where it is "auto". A preset says how much time quality may cost; what it leaves open too is chosen
on a held-out part of the training data. Whatever the user gives stands.
"""

from collections.abc import Mapping
from typing import Any, Literal

from rembrandt.blending import usual_cost
from rembrandt.checks import check_among

Preset = Literal["fast", "balanced", "best"]

# A value that depends on how many examples a label has, on average, is a function of that.
USUAL: dict[str, Any] = {"ridge": 1.0, "kernel_scale": 1.0}  # whatever the preset
PRESETS: dict[str, dict[str, Any]] = {
    # One tree of sparse classifiers answers alone; nothing is tried on held-out rows.
    "fast": {
        "sparse": "alone",
        "sparse_trees": 1,
        "sparse_pairs": 3e7,
        "sparse_cost": usual_cost,
        "sparse_power": 3.0,
    },
    # Low rank, with its decoder, kernel and penalty chosen.
    "balanced": {"sparse": False, "sparse_trees": 2, "sparse_pairs": 3e7},
    # Both parts, with the share of the sparse one in the score chosen too. Its cost is not: a search over costs would
    # take longer than the fit, and on held-out rows of all sets finds what the rule says.
    "best": {"sparse": True, "sparse_trees": 3, "sparse_pairs": 3e8, "sparse_cost": usual_cost},
}
# Whoever gives one of these wants low rank to answer, or the sparse part to be there.
LOW_RANK = ("decoder", "kernel", "decoder_ridge", "leave_out")
SPARSE = ("sparse_trees", "sparse_pairs", "sparse_cost", "sparse_power", "sparse_share")


def values_of(preset: str, per_label: float) -> dict[str, Any]:
    """What a preset has for data whose labels have so many examples, on average."""
    check_among("preset", preset, tuple(PRESETS))
    table = USUAL | PRESETS[preset]
    return {name: value(per_label) if callable(value) else value for name, value in table.items()}


def filled(preset: str, given: Mapping[str, Any], per_label: float) -> dict[str, Any]:
    """The parameters ``given``, with those of the preset where they are open."""
    values = values_of(preset, per_label)
    low_rank, sparse = (any(not is_auto(given[name]) for name in names) for names in (LOW_RANK, SPARSE))
    if given["growable"] or (low_rank and not sparse and values["sparse"] == "alone"):
        values["sparse"] = False  # trees take no new labels, and leave nothing for low rank to decode
    elif sparse and (low_rank or not values["sparse"]):
        values["sparse"] = True
    return dict(given) | {name: value for name, value in values.items() if is_auto(given[name])}


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
