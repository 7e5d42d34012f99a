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
    facts = saved.classifier.describe()
    size = folder_size(model)
    console.say(f"{model} ({decimal(size)})", "", f"Trained on: {facts['trained_on']['words']}")
    if facts["fit_seconds"] is not None:
        console.say(f"The fit took {facts['fit_seconds']:.0f} s.")
    chosen = facts["chosen"]
    console.say("", f"Chosen: {chosen['words']}.", *chosen["why"])
    if facts["quality"] is not None:
        console.say("", f"Quality: {facts['quality']['words']}")
    console.say(f"Threshold: {facts['threshold']['words']}")
    console.say(f"New files: {facts['reading']['words']}")
    fitted_with = facts["versions"]["fitted_with"] or "an earlier version"
    this_version = facts["versions"]["this"]
    console.say(f"Version: fitted with {fitted_with}; this is {this_version}.", "")
    rows = []
    for component in facts["parts"]:
        rows.append([component["name"], decimal(component["bytes"])])
    console.table(["part", "size"], rows)
    if len(facts["blends"]) > 2:  # the blend and several parts
        console.say("")
        show_blends(console, facts["blends"])
    if len(facts["candidates"]) > 1:
        console.say("")
        show_trials(console, saved.classifier.selection_)
    console.result({"model": str(model), "bytes": size, **facts})
