"""What an experiment is: steps that measure rows, and the tables and figures that its rows are shown in."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rembrandt.progress import Report


@dataclass(frozen=True)
class Row:
    """One number of ours, and the paper's where it gives one."""

    experiment: str
    system: str
    metric: str
    value: float
    paper: float | None = None
    seconds: float | None = None  # what it took to fit
    at: float | None = None  # where on the axis: the rank, the number of labels, ...
    device: str = "cpu"  # what the machine computed it on


@dataclass(frozen=True)
class Request:
    """What is asked for: where the data lies, how much of it, and what to compute on."""

    data: Path | None = None
    quick: bool = False
    device: str = "cpu"


@dataclass(frozen=True)
class Step:
    """The smallest piece of work that is kept when a run ends early."""

    name: str
    run: Callable[[Report], list[Row]]


class SkippedError(Exception):
    """Raised by a step that cannot run here; the sentence says why and what to do."""


@dataclass(frozen=True)
class Plan:
    """The work of an experiment, and every choice that its numbers depend on."""

    settings: dict[str, Any]
    steps: list[Step]


@dataclass(frozen=True)
class Column:
    """A metric and how its numbers are written."""

    metric: str
    format: str


@dataclass(frozen=True)
class Table:
    """Rows of some metrics, the paper's number beside ours."""

    title: str
    text: str  # with fields of the settings in braces
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Panel:
    """One metric against ``at``, a line for each system."""

    metric: str
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels side by side in one image."""

    file: str
    title: str
    text: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Experiment:
    """``plan(request)`` reads what is needed and lists the work; ``sections`` is how the rows are shown."""

    name: str
    title: str
    text: str
    plan: Callable[[Request, Report], Plan]
    sections: tuple[Table | Figure, ...]
