"""The spectrum of the label covariance of every data set."""

from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.paper.experiment import Experiment, Figure, Panel, Plan, Request, Row, Step
from benchmarks.paper.fits import SEED
from benchmarks.paper.sources import load_training
from rembrandt import __version__
from rembrandt.data import catalogue
from rembrandt.linalg.eigen import gaussian, randomized_eigh
from rembrandt.progress import Report, silent

NAME = "spectra"
SPECTRUM = "share of the spectrum"
RANK, QUICK_RANK, QUICK_ROWS = 500, 30, 1000
OVERSAMPLES = 20
POINTS = 40  # of a curve, at equal distances on a logarithmic axis


def plan(request: Request, report: Report = silent) -> Plan:
    """List a step for each data set in the catalogue; the step reads its data."""
    rank, rows = (QUICK_RANK, QUICK_ROWS) if request.quick else (RANK, None)
    steps = [
        Step(name, partial(spectrum, name, request.data, rank, rows))
        for name in catalogue.DATA_SETS
    ]
    settings = {
        "quick": request.quick,
        "rembrandt": __version__,
        "seed": SEED,
        "rank": rank,
        "rows": rows,
    }
    return Plan(settings, steps)


def spectrum(
    name: str, folder: Path | None, rank: int, rows: int | None, report: Report = silent
) -> list[Row]:
    """Compute the largest eigenvalues of ``YᵀY/n`` by Algorithm 1."""
    Y = load_training(name, folder, rows, report).Y.astype(np.float32)
    n, c = Y.shape
    rank = min(rank, n, c)
    report(f"spectrum of {name}", 0, 1)
    Yt = Y.T.tocsr()
    start = gaussian(c, min(rank + OVERSAMPLES, c), SEED)
    _, sigma = randomized_eigh(lambda Q: Yt @ (Y @ Q), start, rank)
    shares = np.asarray(sigma, dtype=np.float64) / n
    report(f"spectrum of {name}", 1, 1)
    shown = np.unique(np.geomspace(1, len(shares), POINTS).round().astype(int))
    return [Row(NAME, name, SPECTRUM, float(shares[i - 1]), at=int(i)) for i in shown]


EXPERIMENT = Experiment(
    NAME,
    "Spectra of the labels",
    "The first {rank} eigenvalues of the empirical second moment of the labels, YᵀY divided by the "
    "number of examples, "
    "by two-pass randomized PCA; seed {seed}.",
    plan,
    (
        Figure(
            "spectra.png",
            "Spectra",
            "Both axes are logarithmic. If examples have one label, the matrix is diagonal and the "
            "curve shows the "
            "frequencies of the classes. If they have several, labels that occur together make the "
            "spectrum decay "
            "faster.",
            (Panel(SPECTRUM, "rank", "eigenvalue / examples", log_x=True, log_y=True),),
        ),
    ),
)
