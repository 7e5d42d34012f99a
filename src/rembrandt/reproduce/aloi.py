"""ALOI: a thousand objects in photographs, the paper's multiclass experiment, on the paper's own split."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt import __version__
from rembrandt.data import Dataset
from rembrandt.data.splits import draw_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.logistic import LogisticSettings, fit_logistic
from rembrandt.embeddings import Method
from rembrandt.errors import DataError
from rembrandt.estimators import RembrandtClassifier
from rembrandt.fitting import Embedded, Labelled, Recipe, Settings, fit_decoder, fit_embedding
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import Matrix, normalize_rows, project
from rembrandt.metrics import precision_at_k
from rembrandt.progress import Report, silent
from rembrandt.reproduce import cost, vowpal
from rembrandt.reproduce.experiment import Column, Experiment, Figure, Panel, Plan, Request, Row, Step, Table
from rembrandt.reproduce.fits import EMBEDDINGS, ERROR, SEED, embedder
from rembrandt.reproduce.sources import PARTS, catalogue_files, check_sums, load
from rembrandt.selection import EPOCHS, HELD_OUT, SAMPLE, Open, select

NAME = "aloi"
K = 50
BLOCK = 4096  # rows scored at a time

BY_RANK, SPECTRUM = "test error by rank (%)", "share of the spectrum"
SIZE, RATE, EMBEDDING = "model size (bytes)", "inference rate (examples/s)", "embedding (s)"

# What the paper reports.
PAPER_ERROR = {"RE+LR": 9.7, "PCA+LR": 9.7, "CS+LR": 10.8, "LR": 10.8, "OAA": 11.5, "LOMtree": 16.5}
PAPER_SIZE = {"RE+LR": 255_600, "LR": 516_000}

Scores = Callable[[Matrix], NDArray[Any]]


OAA_GRID = vowpal.Grid((1.0, 2.0, 4.0, 8.0), (3, 10, 20))
TREE_GRID = vowpal.Grid((0.5, 1.0, 2.0), (5, 10, 20), bits=24, room=(1, 16))
QUICK_GRID = vowpal.Grid((0.5,), (1, 2))


@dataclass(frozen=True)
class Scale:
    """How much of the experiment is run."""

    train: int | None = None  # examples at most; None is all
    test: int | None = None
    epochs: int = 40
    random_features: int | None = None  # None is the classifier's own choice
    ranks: tuple[int, ...] = (5, 10, 20, 30, 40, 50, 60, 70)
    spectrum: int = 200
    search: bool = True  # whether to scale rows to length one is chosen on held-out rows
    oaa: vowpal.Grid = OAA_GRID
    tree: vowpal.Grid = TREE_GRID


FULL = Scale()
QUICK = Scale(20_000, 5_000, 3, 300, (5, 20, 50), 100, False, QUICK_GRID, QUICK_GRID)


def plan(request: Request, report: Report = silent) -> Plan:
    """Read the data and list the work, the paper's own table first."""
    scale = QUICK if request.quick else FULL
    train, test = read(request.data, scale, report)
    work = Aloi(train, test, scale, request.device)
    steps = [Step(name, partial(work.classifier, name, method)) for name, method in _systems()]
    steps.insert(3, Step("LR", work.raw))
    steps.append(Step("RE + random features + LR", partial(work.classifier, "RE + random features + LR", "rembrandt")))
    steps.append(Step("embedding seconds", work.embedding_seconds))
    steps.append(Step("spectrum", work.spectrum))
    steps += cost.steps(NAME, request.quick)
    steps += [Step(name, partial(work.peer, name)) for name in vowpal.REDUCTIONS]
    for k in scale.ranks:
        for name in ("RE+LR", "PCA+LR"):
            steps.append(Step(f"{name} at k = {k}", partial(work.at_rank, name, k)))
    settings = {
        "quick": request.quick,
        "rembrandt": __version__,
        "k": K,
        "seed": SEED,
        "n_train": train.n_examples,
        "n_test": test.n_examples,
        "n_features": _features(train).shape[1],
        "n_labels": train.n_labels,
        "files": check_sums(catalogue_files(NAME, request.data)),
        **asdict(scale),
    }
    return Plan(settings, steps)


def _systems() -> list[tuple[str, Method]]:
    return [(f"{short}+LR", method) for short, method in EMBEDDINGS.items()]


def read(folder: Path | None, scale: Scale, report: Report) -> tuple[Dataset, Dataset]:
    """Training and test rows over the labels and features of training."""
    train, test = (load(NAME, part, folder, report) for part in PARTS)
    train = _part(train, scale.train)
    test = _part(test, scale.test).align_labels(train.label_names)
    return train, test.align_features(train.feature_names) if train.feature_names is not None else test


def _part(data: Dataset, most: int | None) -> Dataset:
    if most is None or data.n_examples <= most:
        return data
    return data.rows(np.sort(np.random.default_rng(SEED).permutation(data.n_examples)[:most]))


class Aloi:
    """The measurements; each method is one step."""

    def __init__(self, train: Dataset, test: Dataset, scale: Scale, device: str = "cpu") -> None:
        self.train, self.test, self.scale, self.device = train, test, scale, device
        self.X, self.X_test = _features(train), _features(test)
        self.labelled = Labelled(self.X, train.Y, np.asarray(train.label_names), multiclass=True)
        self._embedded: dict[str, tuple[Recipe, Embedded]] = {}

    def classifier(self, name: str, method: Method, report: Report = silent) -> list[Row]:
        """A linear classifier through an embedding, or one on random features of it."""
        kernel: Any = "gaussian" if "random features" in name else None
        settled: dict[str, Any] = {} if self.scale.search else {"normalize": False, "decoder_ridge": 0.0}
        classifier = RembrandtClassifier(
            n_components=K,
            method=method,
            decoder="logistic",
            kernel=kernel,
            n_random_features=self.scale.random_features,
            max_epochs=self.scale.epochs,
            random_state=SEED,
            device=self.device,
            **settled,
        )
        begun = time.perf_counter()
        classifier.fit_dataset(self.train, report)
        seconds = time.perf_counter() - begun
        model = classifier.model_
        rows = [replace(self._error_row(name, model.scores, self.X_test, seconds), device=self.device)]
        if name == "RE+LR":
            size = model.projection.nbytes + model.decoder.weights.nbytes + model.decoder.bias.nbytes
            rows += self._size_and_rate(name, size, model.scores, self.X_test)
        return rows

    def raw(self, report: Report = silent) -> list[Row]:
        """Logistic regression on the features themselves, whitened as the decoder whitens whatever it is given."""
        begun = time.perf_counter()
        scaled = self.scale.search and self._better_scaled()
        decoder = self._fit_raw(normalize_rows(self.X) if scaled else self.X, self.train.Y, self.scale.epochs, report)
        seconds = time.perf_counter() - begun
        X_test = normalize_rows(self.X_test) if scaled else self.X_test
        scores = _dense_scores(decoder)
        size = decoder.weights.nbytes + decoder.bias.nbytes
        return [self._error_row("LR", scores, X_test, seconds), *self._size_and_rate("LR", size, scores, X_test)]

    def _fit_raw(self, X: Matrix, Y: Any, epochs: int, report: Report = silent) -> Decoder:
        settings = LogisticSettings(multiclass=True, max_epochs=epochs, seed=SEED)
        return fit_logistic(X.toarray(), Y, settings, report=report)

    def _better_scaled(self) -> bool:
        """Whether rows of length one do better on held-out rows: the choice that the classifiers make too."""
        _, sample = draw_rows(self.X.shape[0], 1.0, SEED, most=SAMPLE)
        fit, held = (sample[part] for part in draw_rows(len(sample), HELD_OUT, SEED + 1, most=SAMPLE))
        errors = []
        for X in (self.X, normalize_rows(self.X)):
            decoder = self._fit_raw(X[fit], self.train.Y[fit], min(EPOCHS, self.scale.epochs))
            errors.append(_error(_dense_scores(decoder), X[held], self.train.Y[held]))
        return errors[1] < errors[0]

    def embedding_seconds(self, report: Report = silent) -> list[Row]:
        """The embedding alone, without its decoder; the best of a few runs."""
        rows = []
        for done, (name, method) in enumerate(EMBEDDINGS.items()):
            report("timing embeddings", done, len(EMBEDDINGS))
            model = embedder(self.device, n_components=K, method=method)
            seconds = cost.best_time(partial(model.fit, self.X, self.train.Y))
            rows.append(Row(NAME, name, EMBEDDING, seconds, device=self.device))
        report("timing embeddings", len(EMBEDDINGS), len(EMBEDDINGS))
        return rows

    def spectrum(self, report: Report = silent) -> list[Row]:
        """The eigenvalues of the label covariance, and of the part of it that the features predict."""
        rows = []
        named: tuple[tuple[str, Method], ...] = (("labels", "plst"), ("labels predicted by the features", "rembrandt"))
        for system, method in named:
            settings = Settings(method=method, n_components=self.scale.spectrum, at_most=True, seed=SEED)
            embedded = fit_embedding(self.labelled, Recipe(settings, decoder="transpose"), report)
            shares = np.asarray(embedded.embedding.sigma, dtype=np.float64) / self.train.n_examples
            rows += [Row(NAME, system, SPECTRUM, float(share), at=i) for i, share in enumerate(shares, 1)]
        return rows

    def at_rank(self, name: str, k: int, report: Report = silent) -> list[Row]:
        """The decoder at rank ``k`` of an embedding that is made once, at the largest rank."""
        recipe, embedded = self._largest(name, report)
        rank = min(k, embedded.projection.shape[1])
        cut = Embedded(embedded.embedding.truncated(rank), embedded.projection[:, :rank])

        def rows_of(X: Matrix) -> Matrix:
            return normalize_rows(X) if recipe.normalize else X

        begun = time.perf_counter()
        decoder = fit_decoder(cut.embedding, cut.project(rows_of(self.X)), self.labelled, recipe, report)
        seconds = time.perf_counter() - begun
        error = _error(lambda X: decoder.scores(project(X, cut.projection)), rows_of(self.X_test), self.test.Y)
        return [Row(NAME, name, BY_RANK, 100 * error, seconds=seconds, at=k)]

    def _largest(self, name: str, report: Report) -> tuple[Recipe, Embedded]:
        if name not in self._embedded:
            method = EMBEDDINGS[name.removesuffix("+LR")]
            settings = Settings(method=method, n_components=max(self.scale.ranks), at_most=True, seed=SEED)
            recipe = Recipe(settings, max_epochs=self.scale.epochs)
            if self.scale.search:
                recipe = select(self.labelled, recipe, Open(decoder="logistic", kernel=None), report).recipe
            else:
                recipe = replace(recipe, decoder="logistic", decoder_ridge=0.0)
            data = replace(self.labelled, X=normalize_rows(self.X)) if recipe.normalize else self.labelled
            self._embedded[name] = recipe, fit_embedding(data, recipe, report)
        return self._embedded[name]

    def peer(self, name: str, report: Report = silent) -> list[Row]:
        """A system of Vowpal Wabbit, with the settings that were chosen for it."""
        grid = self.scale.oaa if name == "OAA" else self.scale.tree
        return vowpal.rows(NAME, name, self.train, self.test, grid, report, PAPER_ERROR.get(name))

    def _error_row(self, name: str, scores: Scores, X: Matrix, seconds: float) -> Row:
        error = 100 * _error(scores, X, self.test.Y)
        return Row(NAME, name, ERROR, error, PAPER_ERROR.get(name), seconds)

    def _size_and_rate(self, name: str, size: int, scores: Scores, X: Matrix) -> list[Row]:
        rate = X.shape[0] / cost.best_time(lambda: _best_labels(scores, X), repeats=5)
        return [Row(NAME, name, SIZE, size, PAPER_SIZE.get(name)), Row(NAME, name, RATE, rate)]


def _dense_scores(decoder: Decoder) -> Scores:
    return lambda X: decoder.scores(X.toarray())


def _best_labels(scores: Scores, X: Matrix) -> NDArray[np.int64]:
    return np.concatenate([np.argmax(scores(X[rows]), axis=1) for rows in spans(X.shape[0], BLOCK)])


def _error(scores: Scores, X: Matrix, Y: Any) -> float:
    return 1 - float(precision_at_k(Y, _best_labels(scores, X)[:, None], 1))


def _features(data: Dataset) -> Any:
    if data.X is None:
        raise DataError("ALOI has features, and these rows are texts: the files are not those of the experiment")
    return data.X


EXPERIMENT = Experiment(
    NAME,
    "ALOI",
    "{n_train:,} photographs of {n_labels:,} objects to learn from and {n_test:,} to test on, {n_features} features. "
    "Embeddings of {k} dimensions, decoded by logistic regression (LR) with early stopping on held-out training rows, "
    "at most {epochs} epochs; seed {seed}.",
    plan,
    (
        Table(
            "Test error at k = {k}",
            "RE is Rembrandt, PCA that of the features, CS compressed sensing, PLST the principal label space; LR "
            "alone has no embedding. OAA and LOMtree are Vowpal Wabbit's.",
            (Column(ERROR, ".1f"),),
        ),
        vowpal.chosen(OAA="oaa", LOMtree="tree"),
        Figure(
            "aloi-error-by-rank.png",
            "Error against rank",
            "Ranks are nested: the embedding is made once, at the largest, and only the decoder is fitted for each.",
            (Panel(BY_RANK, "rank k", "test error (%)"),),
        ),
        Table(
            "Size and speed",
            "Size: the weights that prediction needs, in single precision. Rate: the best label of every test example, "
            "in blocks, on all cores.",
            (Column(SIZE, ",.0f"), Column(RATE, ",.0f")),
        ),
        Table(
            "Seconds of an embedding",
            "At k = {k}, without the decoder, data already in memory; the best of a few runs on the machine above.",
            (Column(EMBEDDING, ".2f"),),
        ),
        Figure(
            "aloi-spectrum.png",
            "Spectra",
            "Eigenvalues of the empirical label covariance by two-pass randomized PCA, and of the part of it that a "
            "ridge regression on the features predicts. With one label an example the first is diagonal, and nearly "
            "flat because the objects are equally frequent: what is worth embedding shows in the second alone.",
            (Panel(SPECTRUM, "rank", "eigenvalue / examples", log_x=True, log_y=True),),
        ),
        Figure(
            "aloi-cost.png",
            "What a pass costs",
            "Generated data. One pass is one application of the operator, with a fixed number of conjugate gradient "
            "steps: a term for each column and each non-zero of features and labels, and a few vectors over the "
            "features. An example has more features than labels here, so the labels of each show little, and their "
            "number alone less. Orthogonalising the block, in proportion to the labels and to the square of the "
            "columns, is apart.",
            (
                Panel("cost against n", "examples", "seconds"),
                Panel("cost against labels_each", "labels per example", "seconds"),
                Panel("cost against k", "columns k", "seconds"),
                Panel("cost against c", "labels c", "seconds", log_x=True),
            ),
        ),
    ),
)
