"""The spectrum of the label covariance for every set: how much of the labels a few directions hold."""

from functools import partial
from pathlib import Path

import numpy as np

from rembrandt import __version__
from rembrandt.data import catalogue
from rembrandt.engines.cpu import CpuEngine
from rembrandt.linalg.eigen import gaussian, randomized_eigh
from rembrandt.progress import Report, silent
from rembrandt.reproduce.experiment import Experiment, Figure, Panel, Plan, Request, Row, Step
from rembrandt.reproduce.fits import SEED, some_rows
from rembrandt.reproduce.sources import load_or_skip

NAME = "spectra"
SPECTRUM = "share of the spectrum"
RANK, QUICK_RANK, QUICK_ROWS = 500, 30, 1000
SPARE = 20  # columns of the search beyond those kept
POINTS = 40  # of a curve: its ranks are at equal distances on a logarithmic axis


def plan(request: Request, report: Report = silent) -> Plan:
    """One step for each set in the catalogue; its data is read when its turn comes."""
    rank, rows = (QUICK_RANK, QUICK_ROWS) if request.quick else (RANK, None)
    steps = [Step(name, partial(spectrum, name, request.data, rank, rows)) for name in catalogue.ENTRIES]
    settings = {"quick": request.quick, "rembrandt": __version__, "seed": SEED, "rank": rank, "rows": rows}
    return Plan(settings, steps)


def spectrum(name: str, folder: Path | None, rank: int, rows: int | None, report: Report = silent) -> list[Row]:
    """The largest eigenvalues of ``YᵀY/n`` by two passes of randomized PCA."""
    Y = some_rows(load_or_skip(name, "train", folder, report), rows).Y
    n, c = Y.shape
    rank = min(rank, n, c)
    report(f"spectrum of {name}", 0, 1)
    engine = CpuEngine(Y)  # the labels in the place of the features: this is Algorithm 1
    _, sigma = randomized_eigh(engine.gram, engine.asarray(gaussian(c, min(rank + SPARE, c), SEED)), rank)
    shares = np.asarray(sigma, dtype=np.float64) / n
    report(f"spectrum of {name}", 1, 1)
    shown = np.unique(np.geomspace(1, len(shares), POINTS).round().astype(int))
    return [Row(NAME, name, SPECTRUM, float(shares[i - 1]), at=int(i)) for i in shown]


EXPERIMENT = Experiment(
    NAME,
    "Spectra of the labels",
    "The first {rank} eigenvalues of the empirical second moments of the labels, YᵀY over the number of examples, by "
    "two-pass randomized PCA; seed {seed}.",
    plan,
    (
        Figure(
            "spectra.png",
            "Spectra",
            "Both axes logarithmic. Where an example has one label the matrix is diagonal and the curve shows how "
            "often classes occur; where it has several, labels that occur together make it fall faster.",
            (Panel(SPECTRUM, "rank", "eigenvalue / examples", log_x=True, log_y=True),),
        ),
    ),
)
