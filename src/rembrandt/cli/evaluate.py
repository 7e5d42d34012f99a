"""``rembrandt evaluate``: measure a model on labelled examples."""

from typing import Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import data_lines, show_deciles, show_measures
from rembrandt.cli.reading import Reading
from rembrandt.cli.saved import open_model


def evaluate(
    model: options.ModelFolder,
    file: options.Labelled,
    *,
    reading: Reading,
    ranking: options.Ranking,
    by_frequency: Annotated[
        bool, options.flag("--by-frequency", "Add the recall of frequent to rare labels.")
    ] = False,
    console: Console,
) -> None:
    """Measure a model on labelled examples, and the baseline that always predicts the most popular
    labels.

    The file is read as the training data was, except where an option says otherwise.
    """
    from rembrandt.evaluation import measure

    with console.progress() as report:
        saved = open_model(model, ranking.device)
        data = saved.read(file, reading, report)
        measured = measure(
            saved.classifier,
            data,
            report,
            A=ranking.propensity_a,
            B=ranking.propensity_b,
            tail=ranking.tail,
            shortlist=ranking.shortlist,
        )
    notes = measured.data.notes
    console.say(*data_lines(data, file))
    if notes.unseen_labels:
        uses = f"they occur {notes.unseen_label_uses:,} times and count as not found"
        console.say(f"{notes.unseen_labels:,} labels did not occur in training; {uses}.")
    console.say("")
    show_measures(console, measured)
    document = {"model": str(model), "file": file, "tail": ranking.tail, **measured.document()}
    if by_frequency:
        console.say("")
        show_deciles(console, measured.deciles)
        document["deciles"] = measured.decile_documents()
    console.result(document)
