"""Write the report: Markdown and figures made from ``results.json`` alone, so that no number is
typed by hand.
"""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.paper import NAMES, find, scaling_report
from benchmarks.paper.experiment import Experiment, Figure, Panel, Table
from benchmarks.paper.published import FIGURES, SECONDS, figure
from benchmarks.paper.runner import RESULTS, read_results
from benchmarks.paper.scaling_jobs import read_lines
from benchmarks.results import described
from rembrandt.errors import RembrandtError

REPORT = "report.md"
Rows = list[dict[str, Any]]


def check_plotting() -> None:
    """Raise an error if the figures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise RembrandtError(
            "the figures of the report need matplotlib: pip install 'rembrandt[report]'"
        )


def write(folder: Path) -> list[Path]:
    """Write the report on the results in ``folder``; return the files, the text first."""
    document = read_results(folder / RESULTS)
    text, scaling = folder / REPORT, scaling_lines(folder)
    text.write_text(markdown(document, scaling), encoding="utf-8")
    return [text, *draw(document, folder, scaling)]


def scaling_lines(folder: Path) -> list[dict[str, Any]]:
    """Return the results of the experiment on scaling in ``folder``; none if there are none."""
    path = folder / scaling_report.FILE
    return read_lines(path) if path.exists() else []


def markdown(document: dict[str, Any], scaling: list[dict[str, Any]] | None = None) -> str:
    """Return the text of the report. ``scaling`` are the settings and results of the experiment on
    scaling.
    """
    parts = [
        "# Reproduction of the paper's experiments",
        "P. Mineiro and N. Karampatziakis, Fast Label Embeddings via Randomized Linear Algebra, "
        "ECML 2015. This page "
        "is written by `make paper` (`python -m benchmarks.paper`) from `results.json` in the same "
        "folder; the paper's "
        "numbers are those of `benchmarks/paper/published.py`. A dash in a column of the paper "
        "means that it gives no "
        "number; in one of ours, that it was not measured.",
        _machines(document["machines"]),
    ]
    several = len(document["machines"]) > 1
    for name in _present(document):
        parts += _experiment(
            find(name), document["experiments"][name], _rows(document, name), several
        )
    return "\n\n".join([*parts, *scaling_report.sections(scaling or [])]) + "\n"


def _present(document: dict[str, Any]) -> list[str]:
    """Return the experiments with results, in the order of the paper."""
    return [name for name in NAMES if name in document["experiments"]]


def _rows(document: dict[str, Any], name: str) -> Rows:
    return [row for row in document["rows"] if row["experiment"] == name]


def _machines(machines: dict[str, Any]) -> str:
    if len(machines) == 1:
        return f"Machine: {described(*machines.values())}."
    return "Machines:\n\n" + "\n".join(
        f"- {letter}: {described(about)}." for letter, about in machines.items()
    )


def _experiment(
    experiment: Experiment, state: dict[str, Any], rows: Rows, several: bool
) -> list[str]:
    settings = state["settings"]
    parts = [f"## {experiment.title}"]
    if "stand_in" in settings:
        source = experiment.on_stand_in if settings["stand_in"] else experiment.on_own_files
        parts.append(source.format(files=" and ".join(settings["files"])))
    parts.append(experiment.text.format(**settings))
    if settings["quick"]:
        parts.append(
            "**Quick run** on a part of the data: it shows that everything works, not how well."
        )
    for section in experiment.sections:
        body = (
            _table(experiment.name, section, rows, several)
            if isinstance(section, Table)
            else _image(section, rows)
        )
        if body:
            parts += [
                f"### {section.title.format(**settings)}",
                section.text.format(**settings),
                body,
            ]
    missing = {
        step: "not measured in this run" for step in state["steps"] if step not in state["finished"]
    }
    missing |= state["skipped"]
    if missing:
        parts += [
            "### Not run",
            "\n".join(f"- {step}: {reason}." for step, reason in missing.items()),
        ]
    return parts


def _table(experiment: str, table: Table, rows: Rows, several: bool) -> str:
    shown = [
        (row, column)
        for column in table.columns
        for row in _measured(experiment, rows, column.metric)
    ]
    if not shown:
        return ""
    timed = any(row["seconds"] is not None for row, _ in shown)
    times = [figure(experiment, row["system"], SECONDS) for row, _ in shown]
    known = timed and any(time is not None for time in times)
    one = len(table.columns) == 1
    header = (
        ["system", "paper", f"ours, {table.columns[0].metric}"]
        if one
        else ["system", "measure", "paper", "ours"]
    )
    header += ["paper, seconds to fit"] if known else []
    lines = [
        header + (["ours, seconds to fit"] if timed else []) + (["machine"] if several else [])
    ]
    for (row, column), time in zip(shown, times, strict=True):
        cells = [row["system"]] if one else [row["system"], row["metric"]]
        paper = figure(experiment, row["system"], row["metric"])
        cells += [_written(paper, column.format), _written(row["value"], column.format)]
        cells += [_written(time, ",.0f")] if known else []
        cells += [_written(row["seconds"], ",.1f")] if timed else []
        lines.append(cells + ([_machine(row)] if several else []))
    left_aligned = 1 if one else 2
    rule = ["---" if i < left_aligned else "---:" for i in range(len(lines[0]))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [lines[0], rule, *lines[1:]])


def _measured(experiment: str, rows: Rows, metric: str) -> Rows:
    """Return the rows of a metric, and empty rows for what the paper measured and this run did
    not.
    """
    found = [row for row in rows if row["metric"] == metric]
    systems = {row["system"] for row in found} | {row["system"].partition(":")[0] for row in found}
    absent = [
        key[1] for key in FIGURES if key[::2] == (experiment, metric) and key[1] not in systems
    ]
    empty = {"metric": metric, "value": None, "seconds": None, "machine": "–", "device": "cpu"}
    return found + [{"system": system, **empty} for system in absent]


def _machine(row: dict[str, Any]) -> str:
    """Return the letter of a row's machine, with the device unless it is the CPU."""
    return row["machine"] + ("" if row["device"] == "cpu" else f" ({row['device']})")


def _written(value: float | None, spec: str) -> str:
    return "–" if value is None else format(value, spec)


def _image(figure: Figure, rows: Rows) -> str:
    return f"![{figure.title}]({figure.file})" if _drawable(figure, rows) else ""


def _drawable(figure: Figure, rows: Rows) -> list[Panel]:
    """Return the panels that have points."""
    return [panel for panel in figure.panels if any(row["metric"] == panel.metric for row in rows)]


def draw(
    document: dict[str, Any], folder: Path, scaling: list[dict[str, Any]] | None = None
) -> list[Path]:
    """Draw every figure that has points."""
    check_plotting()
    drawn = []
    for name in _present(document):
        rows = _rows(document, name)
        for section in find(name).sections:
            if isinstance(section, Figure) and (panels := _drawable(section, rows)):
                drawn.append(folder / section.file)
                _draw(panels, rows, drawn[-1])
    if scaling and (points := scaling_report.curve(scaling)):
        drawn.append(folder / scaling_report.IMAGE)
        _draw([scaling_report.CURVE], points, drawn[-1])
    return drawn


def _draw(panels: list[Panel], rows: Rows, path: Path) -> None:
    # Not pyplot, which needs a window system and keeps global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import NullFormatter

    columns = 1 if len(panels) == 1 else 2
    lines = -(-len(panels) // columns)
    canvas = Canvas(figsize=(5.5 * columns, 3.6 * lines), layout="constrained")
    FigureCanvasAgg(canvas)
    for axes, panel in zip(
        canvas.subplots(lines, columns, squeeze=False).flat, panels, strict=False
    ):
        mine = [row for row in rows if row["metric"] == panel.metric]
        for system in _unique(row["system"] for row in mine):
            points = sorted((row["at"], row["value"]) for row in mine if row["system"] == system)
            marker = "o" if len(points) < 20 else ""
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=system)
        axes.set(xlabel=panel.x, ylabel=panel.y)
        axes.set_xscale("log" if panel.log_x else "linear")
        axes.set_yscale("log" if panel.log_y else "linear")
        if panel.log_x:
            axes.xaxis.set_minor_formatter(
                NullFormatter()
            )  # there is no room for numbers between powers of ten
        if not panel.log_y:
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
    canvas.savefig(path, dpi=100, metadata={"Software": None})


def _unique(names: Iterable[str]) -> list[str]:
    """Return each name once, in the order of first appearance."""
    return list(dict.fromkeys(names))
