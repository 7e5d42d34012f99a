"""The learning step of the embedding: ridge regression, ridge on features of a kernel, or a small
network.

python -m benchmarks.paper.regressors [NAME ...]      each run has its own process, so that its CPU
time is its own

Line 5 of the paper's Algorithm 2 is "fit YQ from X", by any regressor. The operator is then
``Q ↦ Yᵀ f_Q(X)``, with ``f_Q`` the regressor fitted to ``YQ``. For a linear smoother,
``f_Q(X) = S YQ`` with a symmetric S (ridge and kernel ridge), it is the symmetric ``YᵀSY`` and the
algorithm is exact. Other regressors are neither linear in Q nor symmetric. The search then follows
the directions ``Yᵀ f_Q(X)``, and the last step takes the symmetric part of ``QᵀYᵀ f_Q(X)``, as if
the regressor fitted to a combination of targets were the combination of the regressors fitted to
each.

All runs have the same ridge decoder without a kernel, so that they differ only in the learning
step. "linear" is the embedding of the library.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from benchmarks.real_sets import command, cpu_seconds, each, load, measured, percentages
from rembrandt import EmbeddingSettings, RembrandtClassifier
from rembrandt.engines.backend import CPU
from rembrandt.errors import DataError
from rembrandt.evaluation import KS
from rembrandt.linalg.blocks import orthonormalize, spans
from rembrandt.linalg.eigen import gaussian
from rembrandt.metrics import evaluate, top_k
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.parts.embedding.decoders.ridge import fit_ridge

Array = NDArray[Any]

SETS: dict[str, dict[str, Any]] = {
    "delicious": {"n_components": 200, "decoder_ridge": 0.1},
    "bibtex": {"n_components": 159, "decoder_ridge": 0.1},
    "aloi": {"n_components": 200, "decoder_ridge": 0.01},
}
REGRESSORS = ("linear", "kernel", "mlp")
RUNS = tuple(f"{name}, {regressor}" for name in SETS for regressor in REGRESSORS)
# The embedding of the library, with the settings that the others have.
LINEAR: dict[str, Any] = {
    "parts": ("embedding",),
    "decoder": "ridge",
    "kernel": None,
    "normalize": True,
    "embedding": EmbeddingSettings(leave_out=0.5, label_power=0.0, row_power=0.0, tol=0.02),
}
N_OVERSAMPLES = 20
N_ITER = 1
# Rows whose labels are all scored at a time.
BLOCK_ROWS = 2048


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set whose data is present, and print a table."""
    results = {}
    print(f"{'run':<22}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'CPU s':>8}{'wall s':>8}{'rows/s':>9}")
    for name, row in each("benchmarks.paper.regressors", names or RUNS):
        results[name] = row
        print(
            f"{name:<22}{percentages(row, 'p@1', 'p@3', 'p@5')}{row['cpu']:>8.1f}{row['wall']:>8.1f}"
            f"{row['examples_per_second']:>9.0f}",
            flush=True,
        )
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one set in this process."""
    set_name, kind = name.split(", ")
    if kind == "linear":
        classifier = RembrandtClassifier(**LINEAR, **SETS[set_name], random_state=seed)
        return measured(classifier, set_name)[0]
    train, test = load(set_name)
    start_cpu = cpu_seconds()
    start = time.perf_counter()
    model = fit_regressor_embedding(
        train.X, train.Y, regressor_of(kind, seed), **SETS[set_name], seed=seed
    )
    cost = {"cpu": cpu_seconds() - start_cpu, "wall": time.perf_counter() - start}
    known = test.align_labels(train.label_ids)
    start = time.perf_counter()
    labels = model.top_labels(known.X, max(KS))
    rate = known.n_examples / (time.perf_counter() - start)
    label_counts = np.bincount(train.Y.indices, minlength=train.n_labels)
    measures = evaluate(
        known.Y,
        labels,
        label_counts,
        train.n_examples,
        ks=KS,
        missing_labels=known.dropped_labels,
    )
    return measures | cost | {"examples_per_second": rate}


def regressor_of(kind: str, seed: int) -> Any:
    """Return the scikit-learn regressor of a run, for rows of unit length."""
    if kind == "kernel":
        features = Nystroem(gamma=1.0, n_components=1000, random_state=seed)
        return make_pipeline(features, Ridge())
    return MLPRegressor(hidden_layer_sizes=(512,), early_stopping=True, random_state=seed)


@dataclass(frozen=True)
class RegressorEmbedding:
    """Labels that were embedded with a regressor, and a ridge decoder of its predictions."""

    regressor: Any  # from rows of unit length to their embedding
    vectors: Array  # V, c × k
    eigenvalues: Array
    decoder: Decoder

    def top_labels(self, X: sparse.csr_array, k: int) -> Array:
        """Return the ``k`` labels of each row with the largest scores, best first."""
        blocks = []
        for rows in spans(X.shape[0], BLOCK_ROWS):
            H = predictions(self.regressor, normalize(X[rows]), self.vectors.shape[1])
            blocks.append(top_k(self.decoder.scores(H), k)[0])
        return np.vstack(blocks)


def fit_regressor_embedding(
    X: sparse.csr_array,
    Y: sparse.csr_array,
    regressor: Any,
    n_components: int,
    decoder_ridge: float,
    seed: int = 0,
) -> RegressorEmbedding:
    """Embed the labels, and fit the decoder to the regressor's predictions of the embedding.

    The regressor is fitted ``N_ITER + 2`` times.
    """
    X = normalize(X)
    Y = sparse.csr_array(Y, dtype=X.dtype)
    vectors, eigenvalues = label_vectors(X, Y, regressor, n_components, seed)
    fitted = clone(regressor).fit(X, Y @ vectors)
    H = predictions(fitted, X, vectors.shape[1])
    decoder = fit_ridge(CPU.statistics(H, Y, None, None), decoder_ridge)
    return RegressorEmbedding(fitted, vectors, eigenvalues, decoder)


def label_vectors(
    X: sparse.csr_array, Y: sparse.csr_array, regressor: Any, rank: int, seed: int
) -> tuple[Array, Array]:
    """Return the leading vectors of ``Q ↦ Yᵀ f_Q(X)`` and their values.

    The symmetric part of ``QᵀYᵀ f_Q(X)`` is diagonalised on the basis before the last application
    of the operator: Nyström's formula divides by the small eigenvalues of that matrix, and would
    amplify what is not symmetric. Directions without a positive eigenvalue are left out.
    """
    n_labels = Y.shape[1]

    def operator(Q: Array) -> Array:
        targets = Y @ Q
        fitted = clone(regressor).fit(X, targets)
        return np.asarray(Y.T @ predictions(fitted, X, targets.shape[1]))

    width = min(rank + N_OVERSAMPLES, n_labels)
    Q = orthonormalize(gaussian(n_labels, width, seed).astype(X.dtype))
    for _ in range(N_ITER):
        Q = orthonormalize(operator(Q))
        if Q.shape[1] == 0:
            raise DataError(
                f"{type(regressor).__name__} predicts nothing of the labels: use another "
                "regressor, or other features"
            )
    projected = (Q.T @ operator(Q)).astype(np.float64)
    ascending, eigenvectors = np.linalg.eigh((projected + projected.T) / 2)
    eigenvalues = ascending[::-1][:rank]
    E = eigenvectors[:, ::-1][:, :rank]
    is_present = eigenvalues > 0
    vectors = Q @ E[:, is_present].astype(Q.dtype)
    return vectors, eigenvalues[is_present]


def predictions(fitted: Any, X: sparse.csr_array, width: int) -> Array:
    """Return the predictions of a fitted regressor, n × width."""
    values = np.asarray(fitted.predict(X)).reshape(X.shape[0], -1)
    if values.shape[1] != width or not np.isfinite(values).all():
        raise DataError(
            f"{type(fitted).__name__} predicted an array of shape {values.shape}; "
            f"{(X.shape[0], width)} finite numbers were expected. It must support several outputs"
        )
    return values.astype(X.dtype, copy=False)


if __name__ == "__main__":
    command(__doc__, main, one)
