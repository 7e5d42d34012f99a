"""ODP: short texts of one hundred thousand classes, at k = 300.

The data of the Open Directory Project is not public. If the user has it, in Vowpal Wabbit's format,
the experiment runs on it. Otherwise it runs on names of biomedical concepts, which are as short and
have more classes.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.paper import vowpal
from benchmarks.paper.experiment import Column, Experiment, Plan, Request, Table
from benchmarks.paper.fits import CS_AND_PCA, METHODS, WEIGHT, classifier_step
from benchmarks.paper.published import ERROR, RATE
from benchmarks.paper.sources import TextSource, some_classes
from rembrandt.data import Dataset
from rembrandt.data.reader import read
from rembrandt.progress import Report, silent

NAME = "odp"
SYSTEMS = ("RE", "CS", "PCA", "CCA")


def _read(files: list[Path], report: Report) -> tuple[Dataset, Dataset]:
    train, test = (read(file, "vw", report=report) for file in files)
    return train, test


SOURCE = TextSource(
    NAME,
    ("train.vw", "test.vw"),
    "the Open Directory Project as prepared by the authors of the LOMtree, and is not public",
    "mesh",
    _read,
)


LIMIT = (
    0.1  # hours to tune the LOMtree, whose trees have as many nodes as there are classes, or more
)
GRID = vowpal.Grid((0.5, 1.0, 2.0), (1, 3), bits=26, nodes_per_class=(1, 4))


@dataclass(frozen=True)
class Scale:
    """The size of the experiment."""

    k: int = 300
    classes: int | None = None  # at most; None means all
    epochs: int = 20
    tree: vowpal.Grid = GRID
    steps: int = 10  # of conjugate gradients at most


FULL = Scale()
QUICK = Scale(50, 2000, 3, vowpal.Grid((0.5,), (1, 2)))


def plan(request: Request, report: Report = silent) -> Plan:
    """Read the user's files or the stand-in, and list the steps."""
    scale = QUICK if request.quick else FULL
    data, stand_in = SOURCE.load(
        request.data, lambda train, test: some_classes(train, test, scale.classes), report
    )
    steps = [
        classifier_step(
            NAME,
            f"{short}+LR",
            data.train,
            data.test,
            request.device,
            method=METHODS[short],
            n_components=scale.k,
            kernel=None,
            max_epochs=scale.epochs,
            max_iter=scale.steps,
        )
        for short in SYSTEMS
    ]
    tree = vowpal.step(NAME, "LOMtree", data.train, data.test, scale.tree, LIMIT)
    return Plan(data.settings(request) | {"stand_in": stand_in} | asdict(scale), [*steps, tree])


EXPERIMENT = Experiment(
    NAME,
    "ODP",
    "{n_train:,} training examples with {n_labels:,} classes, {n_test:,} test examples, "
    "{n_features:,} features. "
    "Embeddings with {k} dimensions and at most {steps} conjugate gradient steps, decoded by "
    "logistic regression (LR) "
    "over all classes with early stopping on held-out training rows, at most {epochs} epochs; seed "
    "{seed}.",
    plan,
    (
        Table(
            "Test error at k = {k}",
            f"RE is Rembrandt. {CS_AND_PCA} CCA is RE with whitened labels and is not in the "
            "paper. LOMtree is Vowpal "
            "Wabbit's, tuned on held-out training rows; its time is that of the final fit.",
            (Column(ERROR, ".2f"),),
        ),
        Table(
            "Speed of prediction",
            "Predicting the best labels of all test examples.",
            (Column(RATE, ",.0f"),),
        ),
        WEIGHT,
        vowpal.tuning_table(LIMIT, LOMtree="tree"),
    ),
    on_own_files="Data: ODP, from {files}.",
    on_stand_in="**Stand-in data**: the data of the Open Directory Project is not public. This run uses `mesh`, names "
    "of biomedical concepts as tf-idf of character 3–4-grams with rows of unit length. The paper's "
    "numbers are for "
    "ODP: compare the order of the systems, not the levels. With `train.vw` and `test.vw` of ODP "
    "in the `--data` "
    "folder, the experiment runs on those.",
)
