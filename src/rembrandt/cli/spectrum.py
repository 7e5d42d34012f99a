"""``rembrandt spectrum``: the singular values of a model's embedding."""

import math

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.saved import open_model

_BAR = 50  # characters of the longest bar
_PER_DECADE = 6  # ranks shown for each factor of ten


def spectrum(model: options.ModelFolder, console: Console) -> None:
    """Plot the singular values of a model's embedding on logarithmic axes, and print why its rank was chosen."""
    classifier = open_model(model).classifier
    values = [float(value) for value in classifier.singular_values_]
    settings, rank = classifier.settings_, len(values)
    if classifier.model_.embedding is None:
        method, reason = "Derived", f"from the label weights of {settings['scorers'][0]}"
    else:
        method, reason = settings["method"], settings["rank_reason"] or "as requested"
    console.say(f"{method} embedding, rank {rank:,}: {reason}.", "")
    console.say(f"{'rank':>7}  {'value':>9}", *(_bar(r, values) for r in _plotted_ranks(len(values))))
    console.result({"model": str(model), "rank": rank, "rank_reason": reason, "singular_values": values})


def _plotted_ranks(most: int) -> list[int]:
    """Return ranks from 1 to ``most``, about equally spaced on a logarithmic axis."""
    steps = int(math.log10(most) * _PER_DECADE) if most else 0
    return sorted({round(10 ** (step / _PER_DECADE)) for step in range(steps + 1)} | ({most} if most else set()))


def _bar(rank: int, values: list[float]) -> str:
    """Return a rank, its value, and a bar with the length of the value's logarithm."""
    value, positive = values[rank - 1], [v for v in values if v > 0]
    low, high = (math.log(min(positive)), math.log(max(positive))) if positive else (0.0, 0.0)
    share = (math.log(value) - low) / (high - low) if value > 0 and high > low else float(value > 0)
    return f"{rank:>7,}  {value:>9.3g}  {'█' * (1 + round(share * (_BAR - 1))) if value > 0 else ''}"
