"""``rembrandt evaluate``: measure a model on labelled examples."""

from typing import Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import data_lines, show_deciles, show_measures
from rembrandt.cli.reading import Reading
from rembrandt.cli.saved import open_model
from rembrandt.errors import counted


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
        console.say(_unseen(notes.unseen_labels, notes.unseen_label_uses))
    console.say("")
    show_measures(console, measured)
    document = {"model": str(model), "file": file, "tail": ranking.tail, **measured.document()}
    if by_frequency:
        console.say("")
        show_deciles(console, measured.deciles)
        document["deciles"] = measured.decile_documents()
    console.result(document)


def _unseen(n_labels: int, n_uses: int) -> str:
    """Return a sentence about true labels that the model cannot predict."""
    times = "once"
    if n_uses != 1:
        times = counted(n_uses, "time")
    consequence = f"they occur {times} and count as not found"
    if n_labels == 1:
        consequence = f"it occurs {times} and counts as not found"
    return f"{counted(n_labels, 'label')} did not occur in training; {consequence}."
