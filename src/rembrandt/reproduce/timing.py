"""How long an embedding takes for every set, at the paper's rank."""

from functools import partial
from pathlib import Path

from rembrandt import __version__
from rembrandt.data import catalogue
from rembrandt.progress import Report, silent
from rembrandt.reproduce.cost import best_time
from rembrandt.reproduce.experiment import Column, Experiment, Plan, Request, Row, Step, Table
from rembrandt.reproduce.fits import SEED, embedder, some_rows
from rembrandt.reproduce.sources import featured, load_or_skip

NAME = "timing"
SECONDS = "embedding (s)"
RANKS = {"aloi": 50, "mesh": 300, "nvd-versions": 500}  # the paper's, or of the set that stands in for another
RANK = 100  # elsewhere: the rank of the paper's table of siblings
QUICK_ROWS = 1000
QUICK_RANK = 20
REPEATS = 2


def plan(request: Request, report: Report = silent) -> Plan:
    """One step for each set in the catalogue; its data is read when its turn comes."""
    rows = QUICK_ROWS if request.quick else None
    steps = [Step(name, partial(seconds, name, request.data, rows, request.device)) for name in catalogue.ENTRIES]
    return Plan({"quick": request.quick, "rembrandt": __version__, "seed": SEED, "rows": rows}, steps)


def seconds(name: str, folder: Path | None, rows: int | None, device: str, report: Report = silent) -> list[Row]:
    """The embedding alone, without its decoder, of features that are already in memory."""
    train = featured(name, some_rows(load_or_skip(name, "train", folder, report), rows), report)
    k = min(QUICK_RANK if rows else RANKS.get(name, RANK), train.n_labels, train.n_examples)
    report(f"embedding {name}", 0, 1)
    model = embedder(device, n_components=k)
    took = best_time(lambda: model.fit(train.X, train.Y), REPEATS)
    report(f"embedding {name}", 1, 1)
    shape = f"{name}: {train.n_examples:,} examples, {train.n_labels:,} labels, k = {k}"
    return [Row(NAME, shape, SECONDS, took, device=device)]


EXPERIMENT = Experiment(
    NAME,
    "Seconds of an embedding",
    "Rembrandt on every set, at the paper's rank where the paper has the set or one that this stands in for. Features "
    "are already in memory; the decoder is not counted; seed {seed}.",
    plan,
    (Table("Seconds", "The better of two runs.", (Column(SECONDS, ".2f"),)),),
)
