"""``rembrandt info``: what a model was trained on, what was chosen and why, how good it is, and how
to use it.
"""

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import show_blends, show_trials
from rembrandt.cli.output import decimal, folder_size
from rembrandt.cli.saved import open_model


def info(model: options.ModelFolder, console: Console) -> None:
    """Describe a model: training data, what was chosen and why, quality on held-out examples, size
    and use.
    """
    saved = open_model(model)
    found, size = saved.classifier.describe(), folder_size(model)
    versions, chosen = found["versions"], found["chosen"]
    console.say(f"{model} ({decimal(size)})", "", f"Trained on: {found['trained_on']['words']}")
    if found["fit_seconds"] is not None:
        console.say(f"The fit took {found['fit_seconds']:.0f} s.")
    console.say("", f"Chosen: {chosen['words']}.", *chosen["why"])
    if chosen["rank_reason"]:
        console.say(f"Rank: {chosen['rank_reason']}.")
    if found["quality"] is not None:
        console.say("", f"Quality: {found['quality']['words']}")
    console.say(f"Threshold: {found['threshold']['words']}")
    console.say(f"New files: {found['reading']['words']}")
    console.say(
        f"Version: fitted with {versions['fitted_with'] or 'an earlier version'}; this is "
        f"{versions['this']}.",
        "",
    )
    rows = (
        [part["name"], "-" if part["bytes"] is None else decimal(part["bytes"])]
        for part in found["parts"]
    )
    console.table(["part", "size"], rows)
    if len(found["blends"]) > 1:
        console.say("")
        show_blends(console, found["blends"])
    if len(found["candidates"]) > 1:
        console.say("")
        show_trials(console, saved.classifier.selection_)
    console.result({"model": str(model), "bytes": size, **found})
