"""The parts of an experiment: steps that measure rows, and the tables and figures that show
them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rembrandt.progress import Report


@dataclass(frozen=True)
class Row:
    """One measured number. The report looks up the paper's number in ``published``."""

    experiment: str
    system: str
    metric: str
    value: float
    seconds: float | None = None  # to fit
    at: float | None = None  # the x coordinate in a figure: the rank, the number of labels, ...
    device: str = "cpu"


@dataclass(frozen=True)
class Request:
    """What the user asked for: the data folder, a quick run or a full one, and the device."""

    data: Path | None = None
    quick: bool = False
    device: str = "cpu"


@dataclass(frozen=True)
class Step:
    """The smallest unit of work. The rows of a finished step are kept when a run is interrupted."""

    name: str
    run: Callable[[Report], list[Row]]


class SkippedError(Exception):
    """Raised by a step that cannot run on this machine; the message says why and what to do."""


@dataclass(frozen=True)
class Plan:
    """The steps of an experiment and all settings that its numbers depend on."""

    settings: dict[str, Any]
    steps: list[Step]


@dataclass(frozen=True)
class Column:
    """A metric and the format of its numbers."""

    metric: str
    format: str


@dataclass(frozen=True)
class Table:
    """A table of one or more metrics. ``text`` may contain names of settings in braces."""

    title: str
    text: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Panel:
    """One metric against ``at``, with a line for each system."""

    metric: str
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Figure:
    """An image with one or more panels."""

    file: str
    title: str
    text: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Experiment:
    """``plan(request, report)`` reads the data and lists the steps; ``sections`` are the tables and
    figures.

    Experiments on data that is not public also run on a public stand-in. ``on_own_files`` and
    ``on_stand_in`` say in the report which of the two was used.
    """

    name: str
    title: str
    text: str
    plan: Callable[[Request, Report], Plan]
    sections: tuple[Table | Figure, ...]
    on_own_files: str = ""
    on_stand_in: str = ""
