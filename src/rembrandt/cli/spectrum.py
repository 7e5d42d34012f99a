"""``rembrandt spectrum``: how much each direction of an embedding holds."""

import math

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.screen import Screen

_BAR = 50  # characters of the longest bar
_PER_DECADE = 6  # ranks shown for each factor of ten


def spectrum(model: options.ModelFolder, json: options.Json = False) -> None:
    """Plot the singular values of a model's embedding, both axes logarithmic, and say why its rank was chosen."""
    screen = Screen(json)
    classifier = open_model(model).classifier
    values = [float(value) for value in classifier.singular_values_]
    settings = classifier.settings_
    rank, reason = int(settings["rank"]), settings.get("rank_reason") or "as asked for"
    screen.say(f"{settings['embedding']['method']} embedding, rank {rank:,}: {reason}.", "")
    shown = plotted_ranks(len(values))
    screen.say(f"{'rank':>7}  {'value':>9}", *(bar_line(r, values[r - 1], values) for r in shown))
    screen.result({"model": str(model), "rank": rank, "rank_reason": reason, "singular_values": values})


def plotted_ranks(most: int) -> list[int]:
    """Ranks from one to ``most`` at about equal distances on a logarithmic axis."""
    steps = int(math.log10(most) * _PER_DECADE) if most else 0
    return sorted({round(10 ** (step / _PER_DECADE)) for step in range(steps + 1)} | ({most} if most else set()))


def bar_line(rank: int, value: float, values: list[float]) -> str:
    """A rank, its value, and a bar whose length is the value's logarithm between the smallest and the largest."""
    positive = [v for v in values if v > 0]
    low, high = (math.log(min(positive)), math.log(max(positive))) if positive else (0.0, 0.0)
    share = (math.log(value) - low) / (high - low) if value > 0 and high > low else float(value > 0)
    return f"{rank:>7,}  {value:>9.3g}  {'█' * (1 + round(share * (_BAR - 1))) if value > 0 else ''}"
