"""Options that several commands share.

A group of options is a dataclass whose fields are annotated with `typer.Option`. A command takes a
group as one argument, and `grouped` turns the fields into options of the command.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from rembrandt.declarations import FLAT
from rembrandt.errors import SettingsError
from rembrandt.parts.embedding.settings import Method as MethodName
from rembrandt.settings.kinds import Choice, Switch, Text

# Panels of options in the help, in their order.
DATA = "Data"
MODEL = "Model"
TEXT = "Text"
ADVANCED = "Advanced"
PANELS = (DATA, MODEL, TEXT, ADVANCED)


def grouped(command: Callable[..., None], first: Sequence[str] = ()) -> Callable[..., None]:
    """Return a command that takes the fields of its groups as options and passes the groups on.

    The options ``first`` are the first ones of the help, in this order, whatever their panels.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters += _field_parameters(parameter.annotation)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    parameters = [
        _without_panel(parameter) if parameter.name in first else parameter
        for parameter in parameters
    ]
    positions = {name: position for position, name in enumerate(first)}
    parameters.sort(key=lambda parameter: positions.get(parameter.name, len(first)))
    parameters.sort(key=_panel)

    @functools.wraps(command)
    def call(**values: Any) -> None:
        made = {}
        for name, group in groups.items():
            field_values = {field.name: values.pop(field.name) for field in fields(group)}
            made[name] = group(**field_values)
        command(**values, **made)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    # Each paragraph becomes one line, which the help wraps at the width of the terminal.
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    call.__doc__ = "\n\n".join(" ".join(lines.split()) for lines in paragraphs)
    return call


def _field_parameters(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a group as keyword parameters."""
    hints = get_type_hints(group, include_extras=True)
    parameters = []
    for field in fields(group):
        parameter = inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        parameters.append(parameter)
    return parameters


def _without_panel(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return an option of the first panel; groups share the options of their fields."""
    kind, *metadata = get_args(parameter.annotation)
    plain = []
    for option_info in metadata:
        changed = copy.copy(option_info)
        changed.rich_help_panel = None
        plain.append(changed)
    annotated: Any = Annotated
    return parameter.replace(annotation=annotated[(kind, *plain)])


def _panel(parameter: inspect.Parameter) -> int:
    """Return the position of a parameter's panel in the help; options without a panel come
    first.
    """
    position = -1
    for metadata in get_args(parameter.annotation):
        panel = getattr(metadata, "rich_help_panel", None)
        if panel in PANELS:
            position = max(position, PANELS.index(panel))
    return position


def as_words(group: Any) -> list[str]:
    """Return the options of a group that differ from their defaults, as words of a command."""
    words: list[str] = []
    for field in fields(group):
        setting = getattr(group, field.name)
        if setting == field.default:
            continue
        words.append(f"--{field.name.replace('_', '-')}")
        if setting is not True:  # a flag has no value
            words.append(_word(setting))
    return words


def _word(setting: Any) -> str:
    """Return the value of an option as it is typed: a range, a list, a number or a word."""
    if isinstance(setting, list | tuple):
        separator = "-" if isinstance(setting[0], int) else ","
        return separator.join(map(str, setting))
    if isinstance(setting, float):
        short = f"{setting:g}"
        if float(short) == setting:
            return short
    return str(setting)


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, help=help)


def option(help: str, panel: str | None = None, **settings: Any) -> Any:
    """Return an option that has the name of its parameter."""
    return typer.Option(help=help, rich_help_panel=panel, **settings)


def output_option(metavar: str, help: str) -> Any:
    return typer.Option("--output", "-o", metavar=metavar, help=help)


def top_k_option(help: str) -> Any:
    return typer.Option("--top-k", "-k", min=1, help=help)


def parsed(
    help: str, panel: str, metavar: str, parser: Callable[[str], Any] | None = None, **settings: Any
) -> Any:
    """Return an option whose value is parsed by a function, or else as a number or a word."""
    return option(help, panel, metavar=metavar, parser=parser or value, **settings)


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


def setting_option(name: str, **settings: Any) -> Any:
    """Return the option of a declared setting, whose help and values are those of the
    declaration.
    """
    setting = FLAT[name]
    if isinstance(setting.kind, Choice | Switch):
        return option(setting.help, setting.panel, **settings)
    metavar = "|".join([setting.kind.metavar, *setting.words])
    if isinstance(setting.kind, Text):
        return option(setting.help, setting.panel, metavar=metavar, **settings)

    def parse(text: Any) -> Any:
        if not isinstance(text, str):
            return text  # the default
        try:
            return setting.parse(text)
        except SettingsError as error:
            raise typer.BadParameter(str(error)) from error

    return option(setting.help, setting.panel, metavar=metavar, parser=parse, **settings)


def candidates(text: str) -> Any:
    """Parse a number of candidate labels; ``all`` is False, and ``auto`` is True: the library
    chooses.
    """
    if text == "all":
        return False
    if text == "auto":
        return True
    return value(text)


def ngram_range(text: str) -> tuple[int, int]:
    """Parse ``2`` as (2, 2) and ``1-2`` as (1, 2)."""
    first, _, last = text.partition("-")
    last = last or first
    are_numbers = first.isdecimal() and last.isdecimal()
    if not are_numbers or not 1 <= int(first) <= int(last):
        raise typer.BadParameter(f"{text!r} is neither a number nor a range such as 1-2")
    return int(first), int(last)


ModelFolder = Annotated[Path, argument("MODEL", "Folder of a model that fit wrote.")]
Train = Annotated[str, argument("TRAIN", "File or store of examples, or the name of a data set.")]
Labelled = Annotated[str, argument("FILE", "Labelled examples, as for fit; - is standard input.")]
Unlabelled = Annotated[str, argument("FILE", "Examples, or lines of text; - is standard input.")]
NewModel = Annotated[Path, output_option("MODEL", "Folder to write the model to.")]
NewFile = Annotated[Path, output_option("FILE", "File to write.")]
Force = Annotated[bool, flag("--force", "Replace the output if it exists.")]
VerbatimCells = Annotated[
    bool,
    flag(
        "--verbatim-cells",
        "Leave texts in .csv and .tsv as they are, even if a spreadsheet would run them.",
    ),
]
LabelNames = Annotated[
    Path | None,
    option("Names of labels: a table of id, name and description, or SKOS.", DATA, metavar="FILE"),
]
Components = Annotated[Any, setting_option("n_components")]
Method = Annotated[MethodName, setting_option("method")]
Seed = Annotated[int, option(FLAT["seed"].help, MODEL, min=0, metavar="N")]
Device = Annotated[str, setting_option("device")]
Scheduler = Annotated[
    str | None, option("Dask scheduler; --device dask starts one.", ADVANCED, metavar="tcp://...")
]
PowerIterations = Annotated[Any, setting_option("n_iter")]


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
    from rembrandt.engines.backend import check_device

    if scheduler is not None:
        device = f"dask:{scheduler}"
    check_device(device, on_disk=is_store(source))
    return device
