"""Write the report: Markdown and figures made from ``results.json`` alone, so that no number is typed by hand."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.paper import NAMES, find
from benchmarks.paper.experiment import Experiment, Figure, Panel, Table
from benchmarks.paper.runner import RESULTS, read_results
from benchmarks.results import described
from rembrandt.errors import RembrandtError

REPORT = "report.md"
Rows = list[dict[str, Any]]


def check_plotting() -> None:
    """Raise an error if the figures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise RembrandtError("the figures of the report need matplotlib: pip install 'rembrandt[report]'")


def write(folder: Path) -> list[Path]:
    """Write the report on the results in ``folder``; return the files, the text first."""
    document = read_results(folder / RESULTS)
    text = folder / REPORT
    text.write_text(markdown(document), encoding="utf-8")
    return [text, *draw(document, folder)]


def markdown(document: dict[str, Any]) -> str:
    """Return the text of the report."""
    parts = [
        "# Reproduction of the paper's experiments",
        "P. Mineiro and N. Karampatziakis, Fast Label Embeddings via Randomized Linear Algebra, ECML 2015. This page "
        "is written by `make paper` (`python -m benchmarks.paper`) from `results.json` in the same folder. A dash "
        "means that the paper gives no number.",
        _machines(document["machines"]),
    ]
    several = len(document["machines"]) > 1
    for name in _present(document):
        parts += _experiment(find(name), document["experiments"][name], _rows(document, name), several)
    return "\n\n".join(parts) + "\n"


def _present(document: dict[str, Any]) -> list[str]:
    """Return the experiments with results, in the order of the paper."""
    return [name for name in NAMES if name in document["experiments"]]


def _rows(document: dict[str, Any], name: str) -> Rows:
    return [row for row in document["rows"] if row["experiment"] == name]


def _machines(machines: dict[str, Any]) -> str:
    if len(machines) == 1:
        return f"Machine: {described(*machines.values())}."
    return "Machines:\n\n" + "\n".join(f"- {letter}: {described(about)}." for letter, about in machines.items())


def _experiment(experiment: Experiment, state: dict[str, Any], rows: Rows, several: bool) -> list[str]:
    settings = state["settings"]
    parts = [f"## {experiment.title}"]
    if "stand_in" in settings:
        source = experiment.on_stand_in if settings["stand_in"] else experiment.on_own_files
        parts.append(source.format(files=" and ".join(settings["files"])))
    parts.append(experiment.text.format(**settings))
    if settings["quick"]:
        parts.append("**Quick run** on a part of the data: it shows that everything works, not how well.")
    for section in experiment.sections:
        body = _table(section, rows, several) if isinstance(section, Table) else _image(section, rows)
        if body:
            parts += [f"### {section.title.format(**settings)}", section.text.format(**settings), body]
    if state["skipped"]:
        parts += ["### Not run", "\n".join(f"- {step}: {reason}." for step, reason in state["skipped"].items())]
    return parts


def _table(table: Table, rows: Rows, several: bool) -> str:
    shown = [(row, column) for column in table.columns for row in rows if row["metric"] == column.metric]
    if not shown:
        return ""
    timed = any(row["seconds"] is not None for row, _ in shown)
    one = len(table.columns) == 1
    header = ["system", "paper", f"ours, {table.columns[0].metric}"] if one else ["system", "measure", "paper", "ours"]
    lines = [header + (["seconds to fit"] if timed else []) + (["machine"] if several else [])]
    for row, column in shown:
        cells = [row["system"]] if one else [row["system"], row["metric"]]
        cells += [_written(row["paper"], column.format), _written(row["value"], column.format)]
        cells += [_written(row["seconds"], ",.1f")] if timed else []
        lines.append(cells + ([_machine(row)] if several else []))
    left_aligned = 1 if one else 2
    rule = ["---" if i < left_aligned else "---:" for i in range(len(lines[0]))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [lines[0], rule, *lines[1:]])


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


def draw(document: dict[str, Any], folder: Path) -> list[Path]:
    """Draw every figure that has points."""
    check_plotting()
    drawn = []
    for name in _present(document):
        rows = _rows(document, name)
        for section in find(name).sections:
            if isinstance(section, Figure) and (panels := _drawable(section, rows)):
                drawn.append(folder / section.file)
                _draw(panels, rows, drawn[-1])
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
    for axes, panel in zip(canvas.subplots(lines, columns, squeeze=False).flat, panels, strict=False):
        mine = [row for row in rows if row["metric"] == panel.metric]
        for system in _unique(row["system"] for row in mine):
            points = sorted((row["at"], row["value"]) for row in mine if row["system"] == system)
            marker = "o" if len(points) < 20 else ""
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=system)
        axes.set(xlabel=panel.x, ylabel=panel.y)
        axes.set_xscale("log" if panel.log_x else "linear")
        axes.set_yscale("log" if panel.log_y else "linear")
        if panel.log_x:
            axes.xaxis.set_minor_formatter(NullFormatter())  # there is no room for numbers between powers of ten
        if not panel.log_y:
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
    canvas.savefig(path, dpi=100, metadata={"Software": None})


def _unique(names: Iterable[str]) -> list[str]:
    """Return each name once, in the order of first appearance."""
    return list(dict.fromkeys(names))
