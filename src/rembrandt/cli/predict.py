"""``rembrandt predict``: the best labels of new examples."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console, as_json
from rembrandt.cli.output import atomic_file, check_file_target
from rembrandt.cli.reading import TextReading
from rembrandt.cli.saved import open_model
from rembrandt.errors import printable

_ROWS = 2048  # examples between two reports of progress


def predict(
    model: options.ModelFolder,
    file: options.Unlabelled,
    *,
    reading: TextReading,
    ranking: options.Ranking,
    top_k: options.TopK = 5,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="LABELS", help="Predict only these labels: names or titles, or @FILE with one per line."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="LABELS", help="Never predict these labels, given in the same way.")
    ] = None,
    output: Annotated[Path | None, options.output_option("FILE", "Write to a file, not to standard output.")] = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Print the best labels of each example, best first.

    There is one line per example, with tabs between labels. FILE needs no labels; for a model of texts it may be plain
    text, one example per line.
    """
    if output is not None:
        check_file_target(output, force)
    from rembrandt.linalg.blocks import spans

    with console.progress() as report:
        saved = open_model(model, ranking.device)
        classifier = saved.classifier
        chosen = saved.find_all(include), saved.find_all(exclude)
        tail = (ranking.propensity_a, ranking.propensity_b) if ranking.tail else False
        classifier.device_model(ranking.shortlist, report)  # builds the index before anything is read
        rows = classifier.dataset_rows(saved.read(file, reading, report, unlabelled=True), report)
        answers = []
        for block in spans(rows.shape[0], _ROWS):
            report("predicting", block.start, rows.shape[0])
            found = classifier.top_columns(rows[block], top_k, *chosen, tail, ranking.shortlist)
            for columns, scores in zip(*(array.tolist() for array in found), strict=True):
                pairs = zip(columns, scores, strict=True)
                answers.append([saved.entry(column) | {"score": score} for column, score in pairs if column >= 0])
        report("predicting", rows.shape[0], rows.shape[0])
    lines = [as_json({"model": str(model), "predictions": answers})] if console.json else map(_line, answers)
    if output is None:
        for line in lines:
            typer.echo(line)
        return
    with atomic_file(output) as target:
        target.writelines(f"{line}\n".encode() for line in lines)
    typer.echo(f"Wrote the labels of {len(answers):,} examples to {output}.")


def _line(answer: list[dict[str, Any]]) -> str:
    shown = (f"{one['label']} ({one['title']})" if one["title"] else one["label"] for one in answer)
    return "\t".join(f"{printable(label)} {one['score']:.4f}" for label, one in zip(shown, answer, strict=True))
