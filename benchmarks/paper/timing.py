"""The time of an embedding for every data set, at the paper's rank."""

from functools import partial
from pathlib import Path

from benchmarks.paper.experiment import Column, Experiment, Plan, Request, Row, Step, Table
from benchmarks.paper.fits import SEED, best_time, embedder
from benchmarks.paper.published import EMBEDDING as SECONDS
from benchmarks.paper.sources import load_training, with_features
from rembrandt import __version__
from rembrandt.data import catalogue
from rembrandt.progress import Report, silent

NAME = "timing"
RANKS = {
    "aloi": 50,
    "mesh": 300,
    "nvd-versions": 500,
}  # the paper's, for its data sets and their stand-ins
RANK = 100  # for the others: the rank of the paper's table of siblings
QUICK_ROWS = 1000
QUICK_RANK = 20
REPEATS = 2


def plan(request: Request, report: Report = silent) -> Plan:
    """List a step for each data set in the catalogue; the step reads its data."""
    rows = QUICK_ROWS if request.quick else None
    steps = [
        Step(name, partial(seconds, name, request.data, rows, request.device))
        for name in catalogue.DATA_SETS
    ]
    return Plan(
        {"quick": request.quick, "rembrandt": __version__, "seed": SEED, "rows": rows}, steps
    )


def seconds(
    name: str, folder: Path | None, rows: int | None, device: str, report: Report = silent
) -> list[Row]:
    """Time the embedding without a decoder, with the features in memory."""
    train = with_features(name, load_training(name, folder, rows, report), report)
    k = min(QUICK_RANK if rows else RANKS.get(name, RANK), train.n_labels, train.n_examples)
    report(f"embedding {name}", 0, 1)
    model = embedder(device, n_components=k)
    best = best_time(lambda: model.fit(train.X, train.Y), REPEATS)
    report(f"embedding {name}", 1, 1)
    system = f"{name}: {train.n_examples:,} examples, {train.n_labels:,} labels, k = {k}"
    return [Row(NAME, system, SECONDS, best, device=device)]


EXPERIMENT = Experiment(
    NAME,
    "Time of an embedding",
    "Rembrandt on every data set, at the paper's rank for its data sets and their stand-ins. The "
    "features are already "
    "in memory; the decoder is not included; seed {seed}. The paper's times of `mesh` and "
    "`nvd-versions` are those of "
    "ODP and LSHTC, which they stand in for.",
    plan,
    (Table("Seconds", "The better of two runs.", (Column(SECONDS, ",.2f"),)),),
)
