"""ALOI: photographs of a thousand objects, the paper's multiclass experiment, with the paper's
split.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper import cost, vowpal
from benchmarks.paper.experiment import (
    Column,
    Experiment,
    Figure,
    Panel,
    Plan,
    Request,
    Row,
    Step,
    Table,
)
from benchmarks.paper.fits import (
    CS_AND_PCA,
    ERROR,
    METHODS,
    PROJECTION,
    SEED,
    Linear,
    best_time,
    embedder,
    fit_classifier,
    logistic_regression,
)
from benchmarks.paper.greedy import greedy_labels
from benchmarks.paper.published import EMBEDDING, RATE, SIZE
from benchmarks.paper.sources import PARTS, Loaded, catalogue_files, load
from rembrandt.data import Dataset
from rembrandt.data.splits import draw_rows
from rembrandt.errors import DataError
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import Matrix, normalize_rows
from rembrandt.metrics import precision_at_k
from rembrandt.parts.embedding.settings import Method
from rembrandt.parts.protocol import Choice
from rembrandt.progress import Report, silent

NAME = "aloi"
K = 50
BLOCK = 4096  # rows scored at a time
# For the choice whether to normalize rows.
SAMPLE, HELD_OUT, SAMPLE_EPOCHS = 12_000, 1 / 6, 10
CHANCE = 0.005  # differences of the error up to this one do not count
# What is chosen for the embedding with its decoder on held-out rows.
CHOICES = (
    Choice(("normalize",), ((True,), (False,))),
    Choice(("decoder_ridge",), ((0.1,), (0.3,), (1.0,))),
)

BY_RANK, SPECTRUM = "test error by rank (%)", "share of the spectrum"
GREEDY, KERNEL = "CS+OMP", "RE + random features + LR"

Array = NDArray[Any]
Scores = Callable[[Matrix], Array]


OAA_GRID = vowpal.Grid((1.0, 2.0, 4.0, 8.0), (3, 10, 20))
TREE_GRID = vowpal.Grid((0.25, 0.5, 1.0), (10, 20, 40, 80), bits=24, nodes_per_class=(16, 64))
QUICK_GRID = vowpal.Grid((0.5,), (1, 2))


@dataclass(frozen=True)
class Scale:
    """The size of the experiment."""

    train: int | None = None  # examples at most; None means all
    test: int | None = None
    epochs: int = 40
    random_features: int | None = None  # None means the classifier's default
    ranks: tuple[int, ...] = (5, 10, 20, 30, 40, 50, 60, 70)
    spectrum: int = 200
    search: bool = True  # choose on held-out rows whether to normalize rows
    oaa: vowpal.Grid = OAA_GRID
    tree: vowpal.Grid = TREE_GRID


FULL = Scale()
QUICK = Scale(20_000, 5_000, 3, 300, (5, 20, 50), 100, False, QUICK_GRID, QUICK_GRID)


def plan(request: Request, report: Report = silent) -> Plan:
    """Read the data and list the steps, the paper's own table first."""
    scale = QUICK if request.quick else FULL
    data = read(request, scale, report)
    work = Aloi(data.train, data.test, scale, request.device)
    systems = [(f"{short}+LR", method, None) for short, method in METHODS.items()]
    steps = [Step(system[0], partial(work.classifier, *system)) for system in systems]
    steps.insert(3, Step("LR", work.raw))
    steps += [
        Step(GREEDY, work.greedy),
        Step(KERNEL, partial(work.classifier, KERNEL, "rembrandt", "gaussian")),
        Step("embedding seconds", work.embedding_seconds),
        Step("spectrum", work.spectrum),
        *cost.steps(NAME, request.quick),
    ]
    for name, grid in (("OAA", scale.oaa), ("LOMtree", scale.tree)):
        steps.append(vowpal.step(NAME, name, data.train, data.test, grid))
    for k in scale.ranks:
        for short in ("RE", "PCA"):
            steps.append(Step(f"{short}+LR at k = {k}", partial(work.at_rank, short, k)))
    return Plan(data.settings(request) | {"k": K} | asdict(scale), steps)


def read(request: Request, scale: Scale, report: Report = silent) -> Loaded:
    """Read training and test rows over the labels and features of the training rows."""
    train, test = (load(NAME, part, request.data, report) for part in PARTS)
    train = _some(train, scale.train)
    test = _some(test, scale.test).align_labels(train.label_ids)
    if train.X is None or test.X is None:
        raise DataError("the files of ALOI must contain features, not texts")
    if train.feature_names is not None:
        test = test.align_features(train.feature_names)
    return Loaded(train, test, catalogue_files(NAME, request.data))


def _some(data: Dataset, most: int | None) -> Dataset:
    if most is None or data.n_examples <= most:
        return data
    return data.rows(np.sort(np.random.default_rng(SEED).permutation(data.n_examples)[:most]))


class Aloi:
    """The measurements. Each public method is one step."""

    def __init__(self, train: Dataset, test: Dataset, scale: Scale, device: str = "cpu") -> None:
        self.train, self.test, self.scale, self.device = train, test, scale, device
        self.X: Any = train.X
        self.X_test: Any = test.X
        self._projected: dict[str, tuple[Array, Array]] = {}

    def classifier(
        self, name: str, method: Method, kernel: str | None, report: Report = silent
    ) -> list[Row]:
        """A logistic decoder of the embedding, or of random features of the embedding."""
        search: dict[str, Any] = {}
        if self.scale.search:
            search = {"normalize": True, "decoder_ridge": 0.1, "choices": CHOICES}
        fitted = fit_classifier(
            self.train,
            self.test,
            self.device,
            report,
            n_components=K,
            method=method,
            kernel=kernel,
            n_random_features=self.scale.random_features,
            max_epochs=self.scale.epochs,
            **search,
        )
        rows = [
            replace(_error_row(name, fitted.measures["error"], fitted.seconds), device=self.device)
        ]
        if name == "RE+LR":
            rows += _size_and_rate(name, fitted.nbytes, fitted.scores, self.X_test)
        return rows

    def raw(self, report: Report = silent) -> list[Row]:
        """Logistic regression on the features."""
        begin = time.perf_counter()
        normalize = self._normalize(
            lambda X, Y, epochs: _dense_scores(self._logistic(X, Y, epochs))
        )
        X, X_test = (normalize_rows(X) if normalize else X for X in (self.X, self.X_test))
        model = self._logistic(X, self.train.Y, self.scale.epochs, report)
        seconds = time.perf_counter() - begin
        scores = _dense_scores(model)
        rows = _size_and_rate("LR", model.nbytes, scores, X_test)
        return [_error_row("LR", _error(scores, X_test, self.test.Y), seconds), *rows]

    def greedy(self, report: Report = silent) -> list[Row]:
        """Compressed sensing, decoded by orthogonal matching pursuit."""
        report("matching pursuit", 0, 2)
        begin = time.perf_counter()
        model = embedder(self.device, n_components=K, method="cs").fit(self.X, self.train.Y)
        seconds = time.perf_counter() - begin
        report("matching pursuit", 1, 2)
        labels, _ = greedy_labels(model, self.X_test, 1)
        report("matching pursuit", 2, 2)
        error = 1 - float(precision_at_k(self.test.Y, labels, 1))
        return [replace(_error_row(GREEDY, error, seconds), device=self.device)]

    def embedding_seconds(self, report: Report = silent) -> list[Row]:
        """The time of the embeddings without a decoder."""
        rows = []
        for done, (short, method) in enumerate(METHODS.items()):
            report("timing embeddings", done, len(METHODS))
            model = embedder(self.device, n_components=K, method=method)
            seconds = best_time(partial(model.fit, self.X, self.train.Y))
            rows.append(Row(NAME, short, EMBEDDING, seconds, device=self.device))
        report("timing embeddings", len(METHODS), len(METHODS))
        return rows

    def spectrum(self, report: Report = silent) -> list[Row]:
        """The eigenvalues of the label covariance, and of its part that the features predict."""
        n, d = self.X.shape
        systems: tuple[tuple[str, Method, int], ...] = (
            ("labels", "plst", n),
            ("labels predicted by the features", "rembrandt", d + 1),
        )
        rows = []
        for done, (system, method, limit) in enumerate(systems):
            report("spectra", done, len(systems))
            rank = min(self.scale.spectrum, limit, self.train.n_labels)
            model = embedder("cpu", n_components=rank, method=method).fit(self.X, self.train.Y)
            shares = np.asarray(model.singular_values_, dtype=np.float64) / n
            rows += [
                Row(NAME, system, SPECTRUM, float(share), at=i) for i, share in enumerate(shares, 1)
            ]
        report("spectra", len(systems), len(systems))
        return rows

    def at_rank(self, short: str, k: int, report: Report = silent) -> list[Row]:
        """A logistic decoder of the first ``k`` columns of an embedding that is computed once, at
        the largest rank.
        """
        if short not in self._projected:
            self._projected[short] = self._project(METHODS[short])
        H, H_test = (projected[:, :k] for projected in self._projected[short])
        begin = time.perf_counter()
        model = logistic_regression(
            np.ascontiguousarray(H), self.train.Y, self.scale.epochs, report
        )
        seconds = time.perf_counter() - begin
        error = _error(model.scores, H_test, self.test.Y)
        return [Row(NAME, f"{short}+LR", BY_RANK, 100 * error, seconds=seconds, at=k)]

    def _project(self, method: Method) -> tuple[Array, Array]:
        """Return the training and test rows in the embedding of the largest rank."""
        rank = min(max(self.scale.ranks), self.train.n_labels, self.X.shape[1] + (method != "pca"))

        def embed(X: Matrix, Y: Any) -> Any:
            return embedder("cpu", n_components=rank, method=method).fit(X, Y)

        def fit(X: Matrix, Y: Any, epochs: int) -> Scores:
            model = embed(X, Y)
            decoder = logistic_regression(model.transform(X), Y, epochs)
            return lambda rows: decoder.scores(model.transform(rows))

        normalize = self._normalize(fit)
        X, X_test = (normalize_rows(X) if normalize else X for X in (self.X, self.X_test))
        model = embed(X, self.train.Y)
        return model.transform(X), model.transform(X_test)

    def _normalize(self, fit: Callable[[Matrix, Any, int], Scores]) -> bool:
        """Return whether to scale rows to unit length: yes, unless that is worse on held-out
        training rows.
        """
        if not self.scale.search:
            return False
        _, sample = draw_rows(self.X.shape[0], 1.0, SEED, max_held=SAMPLE)
        train, held = (
            sample[part] for part in draw_rows(len(sample), HELD_OUT, SEED + 1, max_held=SAMPLE)
        )
        epochs = min(SAMPLE_EPOCHS, self.scale.epochs)
        plain, normalized = (
            _error(fit(X[train], self.train.Y[train], epochs), X[held], self.train.Y[held])
            for X in (self.X, normalize_rows(self.X))
        )
        return normalized <= plain + CHANCE

    def _logistic(self, X: Matrix, Y: Any, epochs: int, report: Report = silent) -> Linear:
        return logistic_regression(X.toarray(), Y, epochs, report)


def _error_row(name: str, error: float, seconds: float) -> Row:
    return Row(NAME, name, ERROR, 100 * error, seconds)


def _size_and_rate(name: str, size: int, scores: Scores, X: Matrix) -> list[Row]:
    rate = X.shape[0] / best_time(lambda: _best_labels(scores, X), repeats=5)
    return [Row(NAME, name, SIZE, size), Row(NAME, name, RATE, rate)]


def _dense_scores(model: Linear) -> Scores:
    return lambda X: model.scores(X.toarray())


def _best_labels(scores: Scores, X: Matrix) -> NDArray[np.int64]:
    return np.concatenate([np.argmax(scores(X[rows]), axis=1) for rows in spans(X.shape[0], BLOCK)])


def _error(scores: Scores, X: Matrix, Y: Any) -> float:
    return 1 - float(precision_at_k(Y, _best_labels(scores, X)[:, None], 1))


EXPERIMENT = Experiment(
    NAME,
    "ALOI",
    "{n_train:,} training and {n_test:,} test photographs of {n_labels:,} objects, {n_features} "
    "features. Embeddings "
    "with {k} dimensions, decoded by logistic regression (LR) with early stopping on held-out "
    "training rows, at most "
    "{epochs} epochs; seed {seed}.",
    plan,
    (
        Table(
            "Test error at k = {k}",
            f"RE is Rembrandt. {CS_AND_PCA} PLST is the principal label space transformation. CCA "
            "is RE with whitened "
            "labels. LR alone has no embedding. OAA and LOMtree are Vowpal Wabbit's. CS+OMP "
            "decodes by orthogonal "
            "matching pursuit (Hsu et al., 2009) instead of LR. Pursuit needs accurate predictions "
            "of the projections, "
            f"which a linear regression on these features does not give. {PROJECTION}",
            (Column(ERROR, ".1f"),),
        ),
        vowpal.tuning_table(OAA="oaa", LOMtree="tree"),
        Figure(
            "aloi-error-by-rank.png",
            "Error against rank",
            "The embedding is computed once, at the largest rank, and its first columns are used "
            "for smaller ranks. "
            "Only the decoder is fitted for each rank.",
            (Panel(BY_RANK, "rank k", "test error (%)"),),
        ),
        Table(
            "Size and speed",
            "Size: the weights that prediction needs, in single precision. Rate: predicting the "
            "best label of every "
            "test example, in blocks, on all cores.",
            (Column(SIZE, ",.0f"), Column(RATE, ",.0f")),
        ),
        Table(
            "Time of an embedding",
            "At k = {k}, without the decoder, with the data in memory; the best of three runs.",
            (Column(EMBEDDING, ".2f"),),
        ),
        Figure(
            "aloi-spectrum.png",
            "Spectra",
            "Eigenvalues of the empirical label covariance by two-pass randomized PCA, and of the "
            "part of it that a "
            "ridge regression on the features predicts. With one label per example the covariance "
            "is diagonal, and its "
            "spectrum is nearly flat because all objects are equally frequent. Only the second "
            "spectrum decays, so "
            "only the part that the features predict has a good low-rank approximation.",
            (Panel(SPECTRUM, "rank", "eigenvalue / examples", log_x=True, log_y=True),),
        ),
        Figure(
            "aloi-cost.png",
            "Cost of a pass",
            "Generated data. One pass is one application of the operator with a fixed number of "
            "conjugate gradient "
            "steps. Its cost is proportional to the number of columns times the non-zeros of "
            "features and labels, plus "
            "a few vectors over the features. Examples have more features than labels here, so the "
            "number of labels "
            "per example matters little, and the number of different labels even less. "
            "Orthogonalizing the block, "
            "whose cost is proportional to the number of labels and to the square of the number of "
            "columns, is shown "
            "separately.",
            (
                Panel("cost against n", "examples", "seconds"),
                Panel("cost against labels_each", "labels per example", "seconds"),
                Panel("cost against k", "columns k", "seconds"),
                Panel("cost against c", "labels c", "seconds", log_x=True),
            ),
        ),
    ),
)
