"""ODP: one of a hundred thousand classes for a short text, at k = 300.

The Open Directory Project's file is not public. Where a user has it, in Vowpal Wabbit's format, the experiment runs on
it; otherwise on names of biomedical concepts, which are as short and have more classes.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from rembrandt import __version__
from rembrandt.data import Dataset
from rembrandt.data.reader import read
from rembrandt.progress import Report, silent
from rembrandt.reproduce import vowpal
from rembrandt.reproduce.experiment import Column, Experiment, Plan, Request, Row, Step, Table
from rembrandt.reproduce.fits import EMBEDDINGS, ERROR, SEED, WEIGHT, classifier_rows, rows_of, some_classes
from rembrandt.reproduce.sources import PARTS, catalogue_files, check_sums, features_of, load, own_files, text_features

NAME, STAND_IN = "odp", "mesh"
FILES = ("train.vw", "test.vw")
SOURCE = "the Open Directory Project as the authors of the LOMtree prepared it, and is not public"
SYSTEMS = ("RE", "CS", "PCA", "CCA")
PAPER = {"RE": {ERROR: 83.15}}  # of ODP itself

OWN = "ODP itself, from {files}."
OTHER = (
    "**A stand-in**: the file of the Open Directory Project is not public, so this is `mesh`, names of biomedical "
    "concepts as counts of character 3–4-grams. The paper's numbers are of other data and stand beside none of these. "
    "With `train.vw` and `test.vw` in the folder that `--data` names, the experiment runs on those."
)


GRID = vowpal.Grid((0.5, 1.0, 2.0), (1, 3), bits=26, room=(1, 4))


@dataclass(frozen=True)
class Scale:
    """How much of the experiment is run."""

    k: int = 300
    classes: int | None = None  # at most; None is all
    epochs: int = 20
    tree: vowpal.Grid = GRID


FULL = Scale()
QUICK = Scale(50, 2000, 3, vowpal.Grid((0.5,), (1, 2)))


def plan(request: Request, report: Report = silent) -> Plan:
    """Read whichever data is there and list the work."""
    scale = QUICK if request.quick else FULL
    own = own_files(request.data, NAME, FILES, SOURCE)
    files = own or catalogue_files(STAND_IN, request.data)
    parts = [read(file, "vw", report=report) for file in files] if own else _names(request, report)
    train, test = some_classes(parts[0], parts[1], scale.classes)
    if train.feature_names is not None:
        test = test.align_features(train.feature_names)
    train, test = features_of(text_features(STAND_IN), train, test, report)

    steps = []
    for short in SYSTEMS:
        row = rows_of(NAME, f"{short}+LR", PAPER.get(short, {}) if own else {})
        how: dict[str, Any] = {"n_components": scale.k, "kernel": None, "max_epochs": scale.epochs}
        fit = partial(classifier_rows, row, train, test, request.device, method=EMBEDDINGS[short], **how)
        steps.append(Step(f"{short}+LR", fit))
    steps.append(Step("LOMtree", partial(_tree, train, test, scale.tree)))
    chosen = {
        "quick": request.quick,
        "rembrandt": __version__,
        "seed": SEED,
        "used": OWN.format(files=" and ".join(file.name for file in files)) if own else OTHER,
        "n_train": train.n_examples,
        "n_test": test.n_examples,
        "n_features": 0 if train.X is None else train.X.shape[1],
        "n_labels": train.n_labels,
        "files": check_sums(files),
        **asdict(scale),
    }
    return Plan(chosen, steps)


def _names(request: Request, report: Report) -> list[Dataset]:
    return [load(STAND_IN, part, request.data, report) for part in PARTS]


def _tree(train: Dataset, test: Dataset, grid: vowpal.Grid, report: Report) -> list[Row]:
    return vowpal.rows(NAME, "LOMtree", train, test, grid, report)


EXPERIMENT = Experiment(
    NAME,
    "ODP",
    "{used}\n\n{n_train:,} examples of {n_labels:,} classes to learn from and {n_test:,} to test on, {n_features:,} "
    "features. Embeddings of {k} dimensions, decoded by logistic regression (LR) over all classes with early stopping "
    "on held-out training rows, at most {epochs} epochs; seed {seed}.",
    plan,
    (
        Table(
            "Test error at k = {k}",
            "RE is Rembrandt, CS compressed sensing, PCA that of the features; CCA, RE on whitened labels, is not in "
            "the paper. LOMtree is Vowpal Wabbit's, tuned on a held-out part of the training rows; its seconds are "
            "those of the last fit.",
            (Column(ERROR, ".1f"),),
        ),
        WEIGHT,
        vowpal.chosen(LOMtree="tree"),
    ),
)
