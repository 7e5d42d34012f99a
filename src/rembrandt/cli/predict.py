"""``rembrandt predict``: the best labels of new examples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console, as_json
from rembrandt.cli.output import atomic_file, check_file_target
from rembrandt.cli.reading import TextReading
from rembrandt.cli.saved import SavedModel, open_model
from rembrandt.progress import Report

_ROWS = 2048  # examples between two reports of progress


def predict(
    model: options.ModelFolder,
    file: options.Unlabelled,
    *,
    reading: TextReading,
    ranking: options.Ranking,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="Labels per example.")] = 5,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="LABELS", help="Predict only these labels: names or titles, or @FILE with one per line."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="LABELS", help="Never predict these labels, given in the same way.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file, not to standard output.")
    ] = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Print the best labels of each example, best first.

    There is one line per example, with tabs between labels. FILE needs no labels; for a model of texts it may be plain
    text, one example per line.
    """
    if output is not None:
        check_file_target(output, force)
    with console.progress() as report:
        saved = open_model(model, ranking.device)
        chosen: dict[str, Any] = {
            "include": saved.find_all(include),
            "exclude": saved.find_all(exclude),
            "tail": (ranking.propensity_a, ranking.propensity_b) if ranking.tail else False,
            "shortlist": ranking.shortlist,
        }
        saved.classifier.device_model(ranking.shortlist, report)  # builds the index before anything is read
        data = saved.read(file, reading, report, unlabelled=True)
        rows = saved.classifier.dataset_rows(data, report)
        answers = list(_answers(saved, rows, top_k, chosen, report))
    lines = [as_json({"model": str(model), "predictions": answers})] if console.json else map(_line, answers)
    if output is None:
        for line in lines:
            typer.echo(line)
        return
    with atomic_file(output) as target:
        target.writelines(f"{line}\n".encode() for line in lines)
    typer.echo(f"Wrote the labels of {len(answers):,} examples to {output}.")


def _answers(
    saved: SavedModel, X: Any, k: int, chosen: dict[str, Any], report: Report
) -> Iterator[list[dict[str, Any]]]:
    """Yield the labels of each example, best first."""
    n = X.shape[0]
    for start in range(0, n, _ROWS):
        report("predicting", start, n)
        labels, scores = saved.classifier.top_columns(X[start : start + _ROWS], k, **chosen)
        for row, values in zip(labels.tolist(), scores.tolist(), strict=True):
            yield [saved.entry(i) | {"score": score} for i, score in zip(row, values, strict=True) if i >= 0]
    report("predicting", n, n)


def _line(answer: list[dict[str, Any]]) -> str:
    shown = (f"{one['label']} ({one['title']})" if one["title"] else one["label"] for one in answer)
    return "\t".join(f"{label} {one['score']:.4f}" for label, one in zip(shown, answer, strict=True))
