"""Trials of a search in words, as rows of a table, and as the options of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEADER = ("rung", "rows", "what was tried", "s", "P@1", "P@3", "P@5", "outcome")
LEFT = ("what was tried", "outcome")


def in_words(trial: Mapping[str, Any]) -> str:
    """A model in a few words."""
    parts = []
    if trial["decoder"] is not None:
        kernel = f" on a {trial['kernel']} kernel ×{trial['kernel_scale']:g}" if trial["kernel"] else ""
        penalty = f" {trial['decoder_ridge']:g}" if trial["decoder"] in ("ridge", "logistic") else ""
        left_out = f", {trial['leave_out']:g} left out" if trial["leave_out"] else ""
        scaled = ", length one" if trial["normalize"] else ""
        embedding = f"rank {trial['n_components']:,}, ridge {trial['ridge']:g}{scaled}"
        parts.append(f"{embedding}, {trial['decoder']}{penalty}{kernel}{left_out}")
    if trial["sparse"]:
        share = "sparse alone" if trial["decoder"] is None else f"sparse {trial['sparse_share']:.0%}"
        trees = f"{trial['sparse_trees']} tree{'s' if trial['sparse_trees'] > 1 else ''}"
        parts.append(f"{share}: cost {trial['sparse_cost']:g}, power {trial['sparse_power']:g}, {trees}")
    return "; ".join(parts)


def row(trial: Mapping[str, Any]) -> tuple[str, ...]:
    """A trial as a row under `HEADER`."""
    measures = (f"{100 * trial[name]:.2f}" for name in ("p@1", "p@3", "p@5"))
    rows = f"{trial['rows']:,}" if trial["cuts"] == 1 else f"{trial['cuts']} × {trial['rows']:,}"
    first = (str(trial["rung"]), rows, in_words(trial), f"{trial['seconds']:.1f}")
    return (*first, *measures, trial["outcome"])


def by_quality(trials: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rung by rung, the best of each last: the choice ends the table."""
    return sorted(trials, key=lambda trial: (trial["rung"], trial["outcome"] == "chosen", trial["quality"]))


def as_options(parameters: Mapping[str, Any]) -> list[str]:
    """The classifier's parameters as the options of ``rembrandt fit``."""
    words: list[str] = []
    for name, value in parameters.items():
        if name == "sparse":
            words += ["--sparse" if value else "--no-sparse", *(["--sparse-share", "1"] if value == "alone" else [])]
        elif name == "normalize":
            words += ["--normalize", "yes" if value else "no"]
        else:
            shown = "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
            if isinstance(value, float) and float(shown) != value:
                shown = repr(value)
            words += [f"--{name.replace('_', '-')}", shown]
    return words
