"""Options that several verbs share, each described once."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

# The names below are the library's; they stand here too because importing them would slow every command down.
Format = StrEnum(
    "Format", ["auto", "vw", "repository", "svmlight", "fasttext", "csv", "tsv", "jsonl", "parquet", "npz", "lines"]
)
Method = StrEnum("Method", ["rembrandt", "pca", "plst", "cs", "cca"])
Decoder = StrEnum("Decoder", ["auto", "transpose", "ridge", "logistic"])
Kernel = StrEnum("Kernel", ["auto", "none", "gaussian", "laplacian", "matern3", "matern5"])
Analyzer = StrEnum("Analyzer", ["word", "char"])
YesNo = StrEnum("YesNo", ["auto", "yes", "no"])

Preset = StrEnum("Preset", ["fast", "balanced", "best"])

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model's folder, as fit wrote it.")]

FormatOption = Annotated[
    Format | None, typer.Option("--format", help="The file's format; told by its name and first lines when not given.")
]
TextOption = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="COLUMNS", help="A table's text columns; repeat it or separate them by commas."),
]
LabelsOption = Annotated[
    str | None, typer.Option("--labels", metavar="COLUMN", help="A table's label column; for npz the file of labels.")
]
SeparatorOption = Annotated[
    str | None,
    typer.Option(
        "--label-separator", metavar="S", help="What stands between labels in a cell; else a cell is one label."
    ),
]
Components = Annotated[
    str, typer.Option("--n-components", metavar="K|auto", help="Dimensions of the embedding; auto reads the spectrum.")
]
MethodOption = Annotated[Method, typer.Option("--method", help="The embedding.")]
Ridge = Annotated[float, typer.Option("--ridge", min=0.0, help="Strength of the regression on the features.")]
PowerIterations = Annotated[int, typer.Option("--n-iter", min=0, help="Power iterations of the eigensolver.")]
PresetOption = Annotated[
    Preset, typer.Option("--preset", help="How much time quality may cost: values for what no option says.")
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="Search for what is auto so long, before the fit: 90s, 5m, 1h."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same model.")]
AnalyzerOption = Annotated[
    Analyzer | None, typer.Option("--analyzer", help="Make features of words (the default) or of characters.")
]
NGrams = Annotated[
    str | None, typer.Option("--ngrams", metavar="N|N-M", help="Words or characters in a feature: 1, 1-2, 3-4.")
]
Hashed = Annotated[bool, typer.Option("--hashed", help="Hash the features of texts instead of learning them.")]
Device = Annotated[
    str, typer.Option("--device", metavar="D", help="cpu, cuda, cuda:1, several with commas, or auto: a GPU if any.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler", metavar="tcp://...", help="A Dask scheduler to fit a store on; --device dask starts one."
    ),
]
Tail = Annotated[
    bool, typer.Option("--tail", help="Rank for rare labels: by probability times inverse propensity, as PSP counts.")
]
PropensityA = Annotated[float, typer.Option(min=0.0, help="Constant A of the propensities; Amazon 0.6, Wikipedia 0.5.")]
PropensityB = Annotated[
    float, typer.Option(min=1e-6, help="Constant B of the propensities; Amazon 2.6, Wikipedia 0.4.")
]
Shortlist = Annotated[
    str,
    typer.Option(
        "--shortlist",
        metavar="N|auto",
        help="Score about N labels of each example instead of all: faster, with some missed. auto: one in forty.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def checked_device(device: str, scheduler: str | None, source: str) -> str:
    """Where to work on ``source``; refused before anything is read."""
    from rembrandt.data.store import Store, is_store
    from rembrandt.data.stored import StoredRows
    from rembrandt.engines.place import place_for

    if scheduler is not None:
        device = f"dask:{scheduler}"
    place_for(device, StoredRows(Store(source)) if is_store(source) else None)
    return device


def whole_or_auto(text: str, option: str) -> int | str:
    """A positive whole number, or ``auto``."""
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither a positive whole number nor auto", param_hint=option)
    return int(text)


def number_or_auto(text: str, option: str) -> float | str:
    """A number that is not negative, or ``auto``."""
    try:
        value = "auto" if text == "auto" else float(text)
    except ValueError:
        value = -1.0
    if isinstance(value, float) and not 0 <= value < float("inf"):
        raise typer.BadParameter(f"{text!r} is neither a number from 0 nor auto", param_hint=option)
    return value


def shortlist(text: str) -> int | bool:
    """Labels to look at for each example; False is all, True leaves the number to the library."""
    if text == "all":
        return False
    found = whole_or_auto(text, "--shortlist")
    return True if isinstance(found, str) else found


def seconds(text: str, option: str) -> float:
    """A time such as ``90s``, ``5m`` or ``1.5h``; a number alone is seconds."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh]?)", text.strip())
    value = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if value <= 0:
        raise typer.BadParameter(f"{text!r} is no time; write 90s, 5m or 1h", param_hint=option)
    return value


def threshold(text: str, option: str) -> float | str:
    """A probability, ``micro`` or ``macro``."""
    if text in ("micro", "macro"):
        return text
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"{text!r} is neither a number from 0 to 1 nor micro or macro", param_hint=option)
    return value


def ngram_range(text: str | None) -> tuple[int, int] | None:
    """``2`` is two of them, ``1-2`` one or two."""
    if text is None:
        return None
    first, _, last = text.partition("-")
    last = last or first
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise typer.BadParameter(f"{text!r} is neither a number nor two, such as 1-2", param_hint="--ngrams")
    return int(first), int(last)


def text_settings(analyzer: Analyzer | None, ngrams: str | None, hashed: bool) -> dict[str, Any]:
    """The settings of the text features that were given."""
    given = {
        "analyzer": None if analyzer is None else analyzer.value,
        "ngram_range": ngram_range(ngrams),
        "weighting": "hashed" if hashed else None,
    }
    return {name: value for name, value in given.items() if value is not None}
