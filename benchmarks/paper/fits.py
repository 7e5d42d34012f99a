"""The estimators of the experiments and how they are measured.

No other module of this package constructs an estimator or reads the arrays of a fitted model.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.paper.experiment import Column, Row, Step, Table
from benchmarks.paper.published import ERROR, RATE
from benchmarks.ranking import best_labels
from rembrandt.data import Dataset
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.declarations import ModelSettings
from rembrandt.engines.backend import Backend, backend_for
from rembrandt.errors import DataError
from rembrandt.estimators import LabelEmbedder, RembrandtClassifier
from rembrandt.estimators.base import dataset_targets
from rembrandt.evaluation import KS
from rembrandt.fitting import fit_model
from rembrandt.linalg.blocks import as_numpy
from rembrandt.metrics import evaluate, precision_at_k
from rembrandt.model.model import Model
from rembrandt.parts.embedding.decoders.logistic import LogisticSettings, fit_logistic
from rembrandt.parts.embedding.part import LabelEmbedding
from rembrandt.parts.embedding.settings import EmbeddingSettings, Method
from rembrandt.parts.protocol import Choice
from rembrandt.planning import resolve
from rembrandt.progress import Report, silent
from rembrandt.search.holdout import splits_of
from rembrandt.search.trial import Trial
from rembrandt.settings.view_names import FEATURES

SEED = 0
REPEATS = 3  # of a timing

# The paper's abbreviations.
METHODS: dict[str, Method] = {
    "RE": "rembrandt",
    "PCA": "pca",
    "CS": "cs",
    "PLST": "plst",
    "CCA": "cca",
}

PRECISIONS = tuple(f"P@{k} (%)" for k in KS)
HEAD_SHARE = 0.05  # of the labels
HEAD = "weight on the 5 % most frequent labels (%)"

CS_AND_PCA = (
    "CS is compressed sensing. The paper describes it as its algorithm with q = 0 and p = 0, but "
    "that would still "
    "apply the operator to the random start once, and so depend on the data. The authors' code "
    "draws the vectors with "
    "`randn`, independent of the data, and so does ours; ours are orthonormalised, which changes "
    "neither the span of "
    "the projections nor what a decoder of them can express. PCA (the paper's RPCA) is that of the "
    "features with a "
    "constant column appended, without subtracting their means, by the same randomized solver."
)
PROJECTION = (
    "Algorithm 3 fits the projection W of the features without a ridge, and the authors' code with "
    "10⁻⁶ of the ridge "
    "of the embedding. Here the projection uses the ridge of the embedding, because it predicts "
    "better; "
    "`projection_ridge` sets it."
)

WEIGHT = Table(
    "Weight of the frequent labels",
    "The share of the most frequent labels in the squared Frobenius norm of the embedding. RE and "
    "PLST follow the "
    "covariance of the labels. If most labels have only a few examples, the spectrum of that "
    "covariance decays slowly "
    "and the leading directions belong to the most frequent labels, so the embedding says little "
    "about the others. "
    "Random vectors (CS) and whitened labels (CCA) give labels more equal weights.",
    (Column(HEAD, ".1f"),),
)


def resolve_device(device: str) -> str:
    """Return the device that ``device`` stands for, or raise an error if it is not available."""
    return backend_for(device).device


def classifier(device: str, **settings: Any) -> RembrandtClassifier:
    """Return a label embedding with a logistic decoder: the paper's Algorithm 3.

    ``settings`` are fields of `EmbeddingSettings`, and parameters of the classifier that are not.
    """
    embedding: dict[str, Any] = {
        "decoder": "logistic",
        "decoder_ridge": 0.0,
        "normalize": False,
        "leave_out": 0.0,
        "label_power": 0.0,
        "row_power": 0.0,
        "tol": 0.02,
    }
    for setting in fields(EmbeddingSettings):
        if setting.name in settings:
            embedding[setting.name] = settings.pop(setting.name)
    default: dict[str, Any] = {
        "parts": ("embedding",),
        "embedding": EmbeddingSettings(**embedding),
        "random_state": SEED,
        "device": device,
    }
    return RembrandtClassifier(**default | settings)


def embedder(device: str, **settings: Any) -> LabelEmbedder:
    """Return a label embedding without a decoder."""
    default: dict[str, Any] = {"random_state": SEED, "device": device}
    return LabelEmbedder(**default | settings)


@dataclass(frozen=True)
class Linear:
    """A linear classifier of dense rows."""

    weights: NDArray[Any]
    bias: NDArray[Any]

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes + self.bias.nbytes

    def scores(self, H: NDArray[Any]) -> NDArray[Any]:
        return H @ self.weights + self.bias


def logistic_regression(
    H: NDArray[Any], Y: sparse.csr_array, epochs: int, report: Report = silent
) -> Linear:
    """Fit multinomial logistic regression to dense rows, as the logistic decoder does."""
    settings = LogisticSettings(multiclass=True, max_epochs=epochs, seed=SEED)
    decoder = fit_logistic(H, Y, settings, report=report)
    return Linear(decoder.weights, decoder.bias)


@dataclass(frozen=True)
class Fitted:
    """A classifier fitted to training data and measured on test data."""

    model: Model
    seconds: float  # to fit
    measures: dict[str, float]
    rate: float  # examples for which labels are predicted in a second

    @property
    def embedding(self) -> LabelEmbedding:
        """The embedding with its decoder: the whole of the paper's model."""
        part = self.model.parts["embedding"]
        assert isinstance(part, LabelEmbedding)
        return part

    def scores(self, X: Any) -> NDArray[Any]:
        """Return the scores of all labels."""
        projected = self.embedding.prepare(X)
        return as_numpy(self.embedding.decoder.scores(projected.H))

    @property
    def nbytes(self) -> int:
        """The size of the arrays that prediction needs."""
        decoder = self.embedding.decoder
        projection = self.embedding.projection
        return int(projection.nbytes + decoder.weights.nbytes + decoder.bias.nbytes)

    @property
    def head_share(self) -> float:
        """The share of the most frequent labels in the squared norm of the embedding."""
        weights = np.square(np.asarray(self.embedding.vectors, dtype=np.float64)).sum(axis=1)
        frequent = np.argsort(-self.model.label_counts, kind="stable")[
            : max(1, round(HEAD_SHARE * len(weights)))
        ]
        return float(weights[frequent].sum() / weights.sum())


def fit_classifier(
    train: Dataset,
    test: Dataset,
    device: str,
    report: Report = silent,
    choices: Sequence[Choice] = (),
    **settings: Any,
) -> Fitted:
    """Fit a classifier to ``train`` and measure the scores of its embedding on ``test``, as the
    paper does.

    No rows are held out to learn a blend, and some to choose settings only where there are
    ``choices``.
    """
    if train.X is None or test.X is None:
        raise DataError("the experiments need features, not texts")
    backend, begin = backend_for(device), time.perf_counter()
    targets = dataset_targets(train)
    data = Examples(as_rows(train.X), targets.Y, targets.classes, targets.multiclass, train.weights)
    model_settings = resolve(classifier(device, **settings).get_params(deep=False), data)
    with backend.session():
        if choices:
            model_settings = _chosen(data, model_settings, choices, backend)
        model = fit_model(data, model_settings, backend=backend, report=report)
    fitted = Fitted(model.on(backend), time.perf_counter() - begin, {}, 0.0)
    known = test.align_labels(train.label_ids)
    best_labels(fitted.embedding, test.X[:1], max(KS))  # loads compiled code
    start = time.perf_counter()
    labels = best_labels(fitted.embedding, test.X, max(KS))
    rate = test.n_examples / (time.perf_counter() - start)
    missing = known.dropped_labels
    found = evaluate(
        known.Y, labels, model.label_counts, model.n_train, ks=KS, missing_labels=missing
    )
    return replace(fitted, measures=found, rate=rate)


def _chosen(
    data: Examples, settings: ModelSettings, choices: Sequence[Choice], backend: Backend
) -> ModelSettings:
    """Return the settings with the alternatives that are best on held-out rows, one choice after
    the other.
    """
    [split] = splits_of(data, SEED, n_splits=1)
    trial = Trial(data, split, backend)
    best = settings
    best_measures = trial.measure(trial.fit("embedding", best), FEATURES)
    for choice in choices:
        before = best.parts["embedding"].settings
        for candidate in choice.applied(before):
            if candidate == before:
                continue
            other = best.with_part("embedding", candidate)
            measures = trial.measure(trial.fit("embedding", other), FEATURES)
            if measures.better_than(best_measures):
                best = other
                best_measures = measures
    return best


def classifier_step(
    experiment: str, system: str, train: Dataset, test: Dataset, device: str, **settings: Any
) -> Step:
    """Return the step that measures a classifier: its error if examples have one label, else its
    precision.
    """

    def run(report: Report) -> list[Row]:
        fitted = fit_classifier(train, test, device, report, **settings)

        def row(metric: str, value: float, seconds: float | None = None) -> Row:
            return Row(experiment, system, metric, value, seconds, device=device)

        if train.task == "multiclass":
            rows = [row(ERROR, 100 * fitted.measures["error"], fitted.seconds)]
        else:
            rows = precision_rows(row, [fitted.measures[f"p@{k}"] for k in KS], fitted.seconds)
        rows.append(row(RATE, fitted.rate))
        has_label_basis = settings["method"] != "pca"
        return [*rows, row(HEAD, 100 * fitted.head_share)] if has_label_basis else rows

    return Step(system, run)


def precision_rows(row: Callable[..., Row], precision: list[float], seconds: float) -> list[Row]:
    """Return a row for each k. The first one has the seconds of the fit."""
    times = [seconds, *[None] * (len(KS) - 1)]
    return [
        row(*each) for each in zip(PRECISIONS, (100 * p for p in precision), times, strict=True)
    ]


def peer_step(
    experiment: str, system: str, peer: type[Any], train: Dataset, test: Dataset, **settings: Any
) -> Step:
    """Return the step that measures the precision of one of ``benchmarks.peers``."""

    def run(report: Report) -> list[Row]:
        report(f"fitting {system}", 0, 2)
        peer(seed=SEED).fit(np.eye(400), np.eye(400)).top_k(np.eye(400), 1)  # compile before timing
        begin = time.perf_counter()
        model = peer(seed=SEED, **settings).fit(train.X, train.Y)
        seconds = time.perf_counter() - begin
        report(f"fitting {system}", 1, 2)
        labels, _ = model.top_k(test.X, max(KS))
        report(f"fitting {system}", 2, 2)

        def row(metric: str, value: float, seconds: float | None = None) -> Row:
            return Row(experiment, system, metric, value, seconds)

        return precision_rows(row, [precision_at_k(test.Y, labels, k) for k in KS], seconds)

    return Step(system, run)


def best_time(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the shortest of several timings, which other load on the machine affects least."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)
