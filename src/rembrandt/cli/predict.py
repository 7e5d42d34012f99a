"""``rembrandt predict``: the best labels of new examples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import Opened, open_model
from rembrandt.cli.output import check_file_target
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen, as_json
from rembrandt.progress import Report
from rembrandt.storage.atomic import atomic_file

_ROWS = 2048  # examples answered between two signs of progress


def predict(
    model: options.ModelFolder,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Examples as in fit, or lines of text; - is standard input.")
    ],
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="Labels for each example.")] = 5,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABELS", help="Answer with these labels only: names or titles, or @FILE with one a line."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="LABELS", help="Never answer with these labels, given in the same way.")
    ] = None,
    tail: options.Tail = False,
    shortlist: options.Shortlist = "all",
    propensity_a: options.PropensityA = 0.55,
    propensity_b: options.PropensityB = 1.5,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead.")] = None,
    format: options.FormatOption = None,
    text: options.TextOption = None,
    device: options.Device = "cpu",
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Print the best labels of each example, best first.

    One line for each example, with tabs between the labels. FILE needs no labels; for a model of texts it may also be
    plain text, one example a line.
    """
    screen = Screen(json, quiet)
    if output is not None:
        check_file_target(output, force)
    looked_at = options.shortlist(shortlist)
    with screen.progress() as report:
        opened = open_model(model, device)
        chosen: dict[str, Any] = {"include": opened.find_all(include), "exclude": opened.find_all(exclude)}
        chosen["tail"] = (propensity_a, propensity_b) if tail else False
        chosen["shortlist"] = looked_at
        opened.classifier.looked_at(looked_at, tail, report)
        data = opened.read(file, Reading.given(format, text), report, unlabelled=True)
        answers = list(_answers(opened, opened.features(data, report), top_k, chosen, report))
    lines = [as_json({"model": str(model), "predictions": answers})] if json else map(_line, answers)
    if output is None:
        for line in lines:
            typer.echo(line)
    else:
        with atomic_file(output) as target:
            target.writelines(f"{line}\n".encode() for line in lines)
        Screen().say(f"Wrote the labels of {len(answers):,} examples to {output}.")


def _answers(opened: Opened, X: Any, k: int, chosen: dict[str, Any], report: Report) -> Iterator[list[dict[str, Any]]]:
    """For each example its labels, best first."""
    n = X.shape[0]
    for start in range(0, n, _ROWS):
        report("predicting", start, n)
        labels, scores = opened.classifier.model_topk(X[start : start + _ROWS], k, **chosen)
        for row, values in zip(labels.tolist(), scores.tolist(), strict=True):
            yield [_answer(opened, i, score) for i, score in zip(row, values, strict=True) if i >= 0]
    report("predicting", n, n)


def _answer(opened: Opened, index: int, score: float) -> dict[str, Any]:
    title = opened.title(index)
    return {"label": opened.names[index]} | ({} if title is None else {"title": title}) | {"score": score}


def _line(answer: list[dict[str, Any]]) -> str:
    return "\t".join(
        f"{one['label']} ({one['title']}) {one['score']:.4f}"
        if "title" in one
        else f"{one['label']} {one['score']:.4f}"
        for one in answer
    )
