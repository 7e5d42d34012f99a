"""The report: Markdown and figures made of ``results.json`` and nothing else, so that no number is typed by hand."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rembrandt.errors import RembrandtError
from rembrandt.reproduce import NAMES, find
from rembrandt.reproduce.experiment import Figure, Panel, Table
from rembrandt.reproduce.runner import RESULTS, described, read_results

REPORT = "report.md"
Rows = list[dict[str, Any]]


def check_plotting() -> None:
    """Say before the work begins that its figures could not be drawn."""
    if find_spec("matplotlib") is None:
        raise RembrandtError("the report has figures, which need matplotlib: pip install 'rembrandt[report]'")


def write(folder: Path) -> list[Path]:
    """The report on ``folder``'s results: its text, then its figures."""
    document = read_results(folder / RESULTS)
    text = folder / REPORT
    text.write_text(markdown(document), encoding="utf-8")
    return [text, *draw(document, folder)]


def markdown(document: dict[str, Any]) -> str:
    """The text of the report."""
    parts = [
        "# The paper's experiments, run again",
        "P. Mineiro and N. Karampatziakis, Fast Label Embeddings via Randomized Linear Algebra, ECML 2015. This page "
        "is made by `rembrandt reproduce` from `results.json` beside it. A dash: no number of the paper is at "
        "hand.",
        _machines(document["machines"]),
    ]
    several = len(document["machines"]) > 1
    for name in _shown(document):
        parts += _experiment(name, document["experiments"][name], _rows(document, name), several)
    return "\n\n".join(parts) + "\n"


def _shown(document: dict[str, Any]) -> list[str]:
    """The experiments that there are results of, in the order of the paper."""
    return [name for name in NAMES if name in document["experiments"]]


def _rows(document: dict[str, Any], name: str) -> Rows:
    return [row for row in document["rows"] if row["experiment"] == name]


def _machines(machines: dict[str, Any]) -> str:
    if len(machines) == 1:
        return f"Machine: {described(*machines.values())}."
    return "Machines:\n\n" + "\n".join(f"- {letter}: {described(about)}." for letter, about in machines.items())


def _experiment(name: str, state: dict[str, Any], rows: Rows, several: bool) -> list[str]:
    about = find(name)
    settings = state["settings"]
    parts = [f"## {about.title}", about.text.format(**settings)]
    if settings["quick"]:
        parts.append("**A quick run** on a part of the data: it shows that everything works, not how well.")
    for section in about.sections:
        body = _table(section, rows, several) if isinstance(section, Table) else _image(section, rows)
        if body:
            parts += [f"### {section.title.format(**settings)}", section.text.format(**settings), body]
    if state["skipped"]:
        parts += ["### Not run", "\n".join(f"- {step}: {why}." for step, why in state["skipped"].items())]
    return parts


def _table(table: Table, rows: Rows, several: bool) -> str:
    shown = [(row, column) for column in table.columns for row in rows if row["metric"] == column.metric]
    if not shown:
        return ""
    timed = any(row["seconds"] is not None for row, _ in shown)
    header = ["system", *(["measure"] if len(table.columns) > 1 else []), "paper", "ours"]
    lines = [header + (["seconds to fit"] if timed else []) + (["machine"] if several else [])]
    for row, column in shown:
        cells = [row["system"], *([row["metric"]] if len(table.columns) > 1 else [])]
        cells += [_written(row["paper"], column.format), _written(row["value"], column.format)]
        cells += [_written(row["seconds"], ",.1f")] if timed else []
        lines.append(cells + ([_where(row)] if several else []))
    if len(table.columns) == 1:
        lines[0][2] = f"ours, {table.columns[0].metric}"
    left = 1 if len(table.columns) == 1 else 2
    rule = ["---" if i < left else "---:" for i in range(len(lines[0]))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [lines[0], rule, *lines[1:]])


def _where(row: dict[str, Any]) -> str:
    """The machine's letter, and what of it did the work where that is not its processor."""
    return row["machine"] + ("" if row["device"] == "cpu" else f" ({row['device']})")


def _written(value: float | None, spec: str) -> str:
    return "–" if value is None else format(value, spec)


def _image(figure: Figure, rows: Rows) -> str:
    return f"![{figure.title}]({figure.file})" if _drawable(figure, rows) else ""


def _drawable(figure: Figure, rows: Rows) -> list[Panel]:
    """The panels that there are points for."""
    return [panel for panel in figure.panels if any(row["metric"] == panel.metric for row in rows)]


def draw(document: dict[str, Any], folder: Path) -> list[Path]:
    """Every figure that the rows are enough for."""
    check_plotting()
    drawn = []
    for name in _shown(document):
        rows = _rows(document, name)
        for section in find(name).sections:
            if isinstance(section, Figure) and (panels := _drawable(section, rows)):
                drawn.append(folder / section.file)
                _draw(panels, rows, drawn[-1])
    return drawn


def _draw(panels: list[Panel], rows: Rows, path: Path) -> None:
    # The classes themselves, not pyplot: no window system is looked for and no state is kept.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import NullFormatter

    columns = 1 if len(panels) == 1 else 2
    lines = -(-len(panels) // columns)
    canvas = Canvas(figsize=(5.5 * columns, 3.6 * lines), layout="constrained")
    FigureCanvasAgg(canvas)
    for axes, panel in zip(canvas.subplots(lines, columns, squeeze=False).flat, panels, strict=False):
        mine = [row for row in rows if row["metric"] == panel.metric]
        for system in _ordered(row["system"] for row in mine):
            points = sorted((row["at"], row["value"]) for row in mine if row["system"] == system)
            marker = "o" if len(points) < 20 else ""
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=system)
        axes.set(xlabel=panel.x, ylabel=panel.y)
        axes.set_xscale("log" if panel.log_x else "linear")
        axes.set_yscale("log" if panel.log_y else "linear")
        if panel.log_x:
            axes.xaxis.set_minor_formatter(NullFormatter())  # between powers of ten there is no room for numbers
        if not panel.log_y:
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
    canvas.savefig(path, dpi=100, metadata={"Software": None})


def _ordered(names: Iterable[str]) -> list[str]:
    """Each name once, in the order of its first appearance."""
    return list(dict.fromkeys(names))
