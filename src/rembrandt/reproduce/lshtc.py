"""LSHTC: the labels of a Wikipedia article among 325 thousand, through random Cauchy features of the embedding.

The challenge's ``train.csv`` can be had from Kaggle, by those who have an account there. Where a user has it the
experiment runs on it; otherwise on descriptions of vulnerabilities and the product versions that they affect.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt import __version__
from rembrandt.data import Dataset
from rembrandt.data.reader import read
from rembrandt.progress import Report, silent
from rembrandt.reproduce import peers
from rembrandt.reproduce.experiment import Column, Experiment, Plan, Request, Row, Step, Table
from rembrandt.reproduce.fits import EMBEDDINGS, PRECISIONS, SEED, WEIGHT, classifier_rows, rows_of, some_rows
from rembrandt.reproduce.sources import PARTS, catalogue_files, check_sums, features_of, load, own_files, text_features

NAME, STAND_IN = "lshtc", "nvd-versions"
FILES = ("train.csv",)
SOURCE = "the challenge LSHTC4 on Kaggle (kaggle.com/c/lshtc)"
HELD_OUT = 0.25
SYSTEMS = ("RE", "PLST", "CS")
PAPER = {"RE": {PRECISIONS[0]: 53.39}}  # of LSHTC itself

OWN = (
    "LSHTC itself, from {files}: three quarters of it, at random, to learn from and one to test on, word counts "
    "divided by the length of the document. Ridge and power iterations are those of the authors' published script."
)
OTHER = (
    "**A stand-in**: the challenge's file is not ours to give, so this is `nvd-versions`, descriptions of "
    "vulnerabilities and the product versions they affect, on that set's own split; words are weighed by tf-idf and "
    "rows have length one. The paper's numbers are of other data and stand beside none of these. With `train.csv` of "
    "the challenge in the folder that `--data` names, the experiment runs on that."
)


@dataclass(frozen=True)
class Scale:
    """How much of the experiment is run."""

    k: int = 500
    random_features: int = 4000
    rows: int | None = None  # examples to learn from, at most; None is all
    epochs: int = 15
    trees: int = 50


FULL = Scale()
QUICK = Scale(30, 200, 1000, 3, 3)


def plan(request: Request, report: Report = silent) -> Plan:
    """Read whichever data is there and list the work."""
    scale = QUICK if request.quick else FULL
    own = own_files(request.data, NAME, FILES, SOURCE)
    files = own or catalogue_files(STAND_IN, request.data)
    how: dict[str, Any] = {"ridge": 128.0, "n_iter": 2} if own else {}
    train, test = _challenge(read(files[0], "repository", report=report)) if own else _versions(request, report)
    train = some_rows(train, scale.rows)
    test = some_rows(test, None if scale.rows is None else scale.rows // 3).align_labels(train.label_names)
    train, test = features_of(text_features(STAND_IN), train, test, report)

    steps = []
    settings = {"n_components": scale.k, "n_random_features": scale.random_features, "max_epochs": scale.epochs, **how}
    for short in SYSTEMS:
        row = rows_of(NAME, _name(short), PAPER.get(short, {}) if own else {})
        fit = partial(classifier_rows, row, train, test, request.device)
        steps.append(Step(_name(short), partial(fit, method=EMBEDDINGS[short], kernel="laplacian", **settings)))
    for system in peers.PEERS:
        options = {"n_trees": scale.trees} if system == "FastXML" else {}
        steps.append(Step(system, partial(peers.rows, partial(Row, NAME, system), system, train, test, options)))
    chosen = {
        "quick": request.quick,
        "rembrandt": __version__,
        "seed": SEED,
        "used": OWN.format(files=files[0].name) if own else OTHER,
        "n_train": train.n_examples,
        "n_test": test.n_examples,
        "n_features": 0 if train.X is None else train.X.shape[1],
        "n_labels": train.n_labels,
        "files": check_sums(files),
        **asdict(scale),
        **how,
    }
    return Plan(chosen, steps)


def _name(short: str) -> str:
    return f"{short} + random features + LR"


def _challenge(data: Dataset) -> tuple[Dataset, Dataset]:
    """The paper's split, over the labels that training has; counts become shares of the document."""
    data = some_labels(by_length(data))
    train, test = data.split(HELD_OUT, SEED)
    return some_labels(train), test


def some_labels(data: Dataset) -> Dataset:
    """Without the labels that no example has: the challenge's numbers have gaps."""
    used = np.unique(data.Y.indices)
    return data if len(used) == data.n_labels else data.align_labels([data.label_names[i] for i in used.tolist()])


def by_length(data: Dataset) -> Dataset:
    """Rows divided by their sums: the share of the document that each word has."""
    if data.X is None:
        return data
    sums = np.asarray(data.X.sum(axis=1)).ravel()
    scale = np.divide(1.0, sums, out=np.zeros(len(sums)), where=sums > 0)
    values = data.X.data * np.repeat(scale, np.diff(data.X.indptr)).astype(np.float32)
    return replace(data, X=sparse.csr_array((values, data.X.indices, data.X.indptr), shape=data.X.shape))


def _versions(request: Request, report: Report) -> tuple[Dataset, Dataset]:
    train, test = (load(STAND_IN, part, request.data, report) for part in PARTS)
    return train, test


EXPERIMENT = Experiment(
    NAME,
    "LSHTC",
    "{used}\n\n{n_train:,} examples with {n_labels:,} labels to learn from and {n_test:,} to test on, {n_features:,} "
    "features. Embeddings of {k} dimensions, {random_features:,} random Cauchy features of each, and an independent "
    "logistic regression (LR) for every label with early stopping on held-out training rows, at most {epochs} epochs; "
    "seed {seed}. Labels that training never saw count as missed.",
    plan,
    (
        Table(
            "Precision",
            "RE is Rembrandt, PLST the principal label space, CS compressed sensing. FastXML ({trees} trees) and LPSR "
            "over naive Bayes are this repository's own implementations.",
            tuple(Column(metric, ".1f") for metric in PRECISIONS),
        ),
        WEIGHT,
    ),
)
