"""Options that several commands share.

A group of options is a dataclass whose fields are annotated with `typer.Option`. A command takes a
group as one argument, and `grouped` turns the fields into options of the command.
"""

import functools
import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer

PANELS = DATA, MODEL, TEXT, ADVANCED = "Data", "Model", "Text", "Advanced"


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its groups as options and passes the groups on."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        n: p.annotation for n, p in signature.parameters.items() if is_dataclass(p.annotation)
    }
    shown = []
    for name, parameter in signature.parameters.items():
        if name not in groups:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            keyword = inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default
            )
            shown.append(keyword.replace(annotation=hints[field.name]))
    shown.sort(key=_panel)

    @functools.wraps(command)
    def call(**given: Any) -> None:
        made = {
            name: group(**{f.name: given.pop(f.name) for f in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    call.__doc__ = "\n\n".join(" ".join(lines.split()) for lines in paragraphs)
    return call


def _panel(parameter: inspect.Parameter) -> int:
    """Return the position of a parameter's panel in the help; options without a panel come
    first.
    """
    panels = [getattr(each, "rich_help_panel", None) for each in get_args(parameter.annotation)]
    return max((PANELS.index(panel) for panel in panels if panel in PANELS), default=-1)


def as_words(group: Any) -> list[str]:
    """Return the options of a group that differ from their defaults, as words of a command."""
    words: list[str] = []
    for field in fields(group):
        given, name = getattr(group, field.name), f"--{field.name.replace('_', '-')}"
        if given != field.default:
            words += [name] if given is True else [name, _word(given)]
    return words


def _word(given: Any) -> str:
    if isinstance(given, list | tuple):
        return ("-" if isinstance(given[0], int) else ",").join(map(str, given))
    return f"{given:g}" if isinstance(given, float) and float(f"{given:g}") == given else str(given)


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, help=help)


def option(help: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option that has the name of its parameter."""
    return typer.Option(help=help, rich_help_panel=panel, **more)


def output_option(metavar: str, help: str) -> Any:
    return typer.Option("--output", "-o", metavar=metavar, help=help)


def top_k_option(help: str) -> Any:
    return typer.Option("--top-k", "-k", min=1, help=help)


def parsed(
    help: str, panel: str, metavar: str, parser: Callable[[str], Any] | None = None, **more: Any
) -> Any:
    """Return an option whose value is parsed by a function, or else as a number or a word."""
    return option(help, panel, metavar=metavar, parser=parser or value, **more)


def flag(name: str, help: str, panel: str | None = None) -> Any:
    """Return an option without a value; with its name typer adds no ``--no-...``."""
    return typer.Option(name, help=help, rich_help_panel=panel)


def value(text: Any) -> Any:
    """Parse a number; other words, such as ``auto``, stay text. The library checks the value."""
    if isinstance(text, str):
        for kind in (int, float):
            with suppress(ValueError):
                return kind(text)
    return text


def scorer_names(text: str) -> Any:
    """Parse ``auto`` or ``trees,embedding``."""
    return text if text == "auto" else tuple(part.strip() for part in text.split(","))


def candidates(text: str) -> Any:
    """Parse a number of candidate labels; ``all`` is False, and ``auto`` is True: the library
    chooses.
    """
    return {"all": False, "auto": True}.get(text, value(text))


def seconds(text: str) -> float:
    """Parse a time such as ``90s``, ``5m`` or ``1.5h``; a number alone is in seconds."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh]?)", text.strip())
    duration = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if duration <= 0:
        raise typer.BadParameter(f"{text!r} is not a time; write 90s, 5m or 1h")
    return duration


def ngram_range(text: str) -> tuple[int, int]:
    """Parse ``2`` as (2, 2) and ``1-2`` as (1, 2)."""
    first, _, last = text.partition("-")
    last = last or first
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise typer.BadParameter(f"{text!r} is neither a number nor a range such as 1-2")
    return int(first), int(last)


ModelFolder = Annotated[Path, argument("MODEL", "Folder of a model that fit wrote.")]
Train = Annotated[str, argument("TRAIN", "File or store of examples, or the name of a data set.")]
Labelled = Annotated[str, argument("FILE", "Labelled examples, as for fit; - is standard input.")]
Unlabelled = Annotated[str, argument("FILE", "Examples, or lines of text; - is standard input.")]
NewModel = Annotated[Path, output_option("MODEL", "Folder to write the model to.")]
NewFile = Annotated[Path, output_option("FILE", "File to write.")]
Force = Annotated[bool, flag("--force", "Replace the output if it exists.")]
LabelNames = Annotated[
    Path | None,
    option("Names of labels: a table of id, name and description, or SKOS.", DATA, metavar="FILE"),
]
Components = Annotated[
    Any, parsed("Dimensions of the embedding; auto reads the spectrum.", MODEL, "K|auto")
]
Method = Annotated[
    Literal["rembrandt", "pca", "plst", "cs", "cca"], option("Label embedding.", MODEL)
]
Seed = Annotated[
    int, option("Random seed; the same seed gives the same result.", MODEL, min=0, metavar="N")
]
Device = Annotated[
    str, option("cpu, cuda, cuda:1, several separated by commas, or auto.", MODEL, metavar="D")
]
Scheduler = Annotated[
    str | None, option("Dask scheduler; --device dask starts one.", ADVANCED, metavar="tcp://...")
]
PowerIterations = Annotated[
    int, option("Power iterations of the eigensolver.", ADVANCED, min=0, metavar="N")
]


@dataclass(frozen=True)
class Ranking:
    """How labels are ranked."""

    tail: Annotated[
        bool, flag("--tail", "Favor rare labels: rank by probability / propensity.", MODEL)
    ] = False
    shortlist: Annotated[
        Any, parsed("Labels to score per example.", MODEL, "N|auto|all", candidates)
    ] = "all"
    device: Device = "cpu"
    propensity_a: Annotated[
        float, option("Constant A of the propensities.", ADVANCED, min=0.0, metavar="A")
    ] = 0.55
    propensity_b: Annotated[
        float, option("Constant B of the propensities.", ADVANCED, min=1e-6, metavar="B")
    ] = 1.5


def checked_device(device: str, scheduler: str | None, source: str) -> str:
    """Return the device for ``source``; a device that cannot be used is refused before anything is
    read.
    """
    from rembrandt.data.store import is_store
    from rembrandt.engines.place import check_device

    device = device if scheduler is None else f"dask:{scheduler}"
    check_device(device, on_disk=is_store(source))
    return device
