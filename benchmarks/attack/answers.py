"""Properties that answers must have whatever the data are.

A case makes data of its own and checks one property, an entry of `PROPERTIES`: the best labels are
the first of more labels; included and excluded labels filter them; a row is answered alone as among
others and in any order; a saved model answers as before; rows on disk are fitted as rows in memory;
the order of the examples does not matter; a weight of two is an example given twice. Where nothing
but arithmetic in another order differs, answers are compared with a tolerance, and otherwise bit by
bit.
"""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.attack.harness import Case, Difference
from rembrandt import EmbeddingSettings, RembrandtClassifier, load, read
from rembrandt.data.convert import convert

# Of rounding in single precision, in probabilities.
TOLERANCE = 2e-3
KINDS: dict[str, dict[str, Any]] = {
    "trees": {"parts": ("trees", "centroids")},
    "embedding": {"parts": ("embedding",), "decoder": "ridge", "kernel": None},
    "all": {"parts": ("trees", "centroids", "embedding"), "decoder": "ridge", "kernel": None},
}
# Without what depends on the number of rows: a weighted row is then the same as a repeated one.
EXACT: dict[str, Any] = {
    "parts": ("embedding",),
    "n_components": "auto",
    "decoder": "ridge",
    "decoder_ridge": 0.01,
    "kernel": None,
    "normalize": False,
    "embedding": EmbeddingSettings(leave_out=0.0, label_power=0.0, row_power=0.0, tol=0.02),
}
Data = tuple[Any, Any]


def made(rng: np.random.Generator, n: int) -> Data:
    """Return features that have something to do with their labels, one or several a row."""
    n_labels = int(rng.integers(2, 9))
    width = int(rng.integers(n_labels, 20))
    Y = (rng.random((n, n_labels)) < rng.uniform(0.1, 0.5)).astype(np.float32)
    Y[np.arange(n_labels), np.arange(n_labels)] = 1
    if rng.integers(2):
        Y = np.eye(n_labels, dtype=np.float32)[Y.argmax(axis=1)]
    directions = rng.standard_normal((n_labels, width)) * (rng.random((n_labels, width)) < 0.5)
    X = Y @ directions + 0.3 * rng.standard_normal((n, width)) * (rng.random((n, width)) < 0.3)
    X[:, 0] = 1
    if rng.integers(2):
        return np.float32(X), Y
    return sparse.csr_array(X, dtype=np.float32), Y


def fitted(data: Data, rng: np.random.Generator) -> RembrandtClassifier:
    """Return a model of any kind."""
    kind = KINDS[str(rng.choice(sorted(KINDS)))]
    return RembrandtClassifier(random_state=0, preset="fast", **kind).fit(*data)


def prefix(rng: np.random.Generator, root: Path) -> None:
    X, Y = made(rng, 60)
    classifier = fitted((X, Y), rng)
    labels, scores = classifier.predict_topk(X, k=Y.shape[1])
    k = int(rng.integers(1, Y.shape[1] + 1))
    _same("the first labels", classifier.predict_topk(X, k=k), (labels[:, :k], scores[:, :k]))


def filtered(rng: np.random.Generator, root: Path) -> None:
    X, Y = made(rng, 60)
    classifier = fitted((X, Y), rng)
    labels, scores = classifier.predict_topk(X, k=Y.shape[1])
    allowed = rng.permutation(Y.shape[1])[: rng.integers(1, Y.shape[1] + 1)]
    is_allowed = np.isin(labels, allowed)
    expected = [array[is_allowed].reshape(len(labels), -1) for array in (labels, scores)]
    k = len(allowed)
    _same("included labels", classifier.predict_topk(X, k=k, include=allowed), expected)
    others = np.setdiff1d(np.arange(Y.shape[1]), allowed)
    _same("labels not excluded", classifier.predict_topk(X, k=k, exclude=others), expected)


def batch(rng: np.random.Generator, root: Path) -> None:
    X, Y = made(rng, 60)
    classifier = fitted((X, Y), rng)
    k = Y.shape[1]
    labels, scores = classifier.predict_topk(X, k=k)
    rows = rng.permutation(60)[: rng.integers(1, 60)]
    some = classifier.predict_topk(X[rows], k=k)
    _same("some rows in another order", some, (labels[rows], scores[rows]))
    row = int(rows[0])
    alone = classifier.predict_topk(X[[row]], k=k)
    _same("one row alone", alone, (labels[[row]], scores[[row]]))


def saved(rng: np.random.Generator, root: Path) -> None:
    X, Y = made(rng, 60)
    classifier = fitted((X, Y), rng)
    classifier.save(root / "model", force=True)
    expected = classifier.predict_topk(X, k=Y.shape[1])
    _same("a saved model", load(root / "model").predict_topk(X, k=Y.shape[1]), expected)


def stored(rng: np.random.Generator, root: Path) -> None:
    X, Y = made(rng, 60)
    sparse.save_npz(root / "X.npz", sparse.csr_array(X))
    sparse.save_npz(root / "Y.npz", sparse.csr_array(Y))
    rows = int(rng.integers(7, 70))
    labels = root / "Y.npz"
    shutil.rmtree(root / "store", ignore_errors=True)
    convert([root / "X.npz"], root / "store", rows=rows, format="npz", labels=labels)
    memory = RembrandtClassifier(random_state=0, **EXACT)
    disk = RembrandtClassifier(random_state=0, **EXACT)
    memory.fit_dataset(read(root / "X.npz", labels=labels))
    disk.fit_dataset(read(root / "store"))
    rows_in_memory = sparse.csr_array(X)
    _close("rows on disk", disk.predict_proba(rows_in_memory), memory.predict_proba(rows_in_memory))


def order(rng: np.random.Generator, root: Path) -> None:
    X, Y = made(rng, 60)
    shuffled = rng.permutation(60)
    before = RembrandtClassifier(random_state=0, **EXACT).fit(X, Y).predict_proba(X)
    after = RembrandtClassifier(random_state=0, **EXACT).fit(X[shuffled], Y[shuffled])
    _close("examples in another order", after.predict_proba(X), before)


def weights(rng: np.random.Generator, root: Path) -> None:
    X, Y = made(rng, 40)
    counts = rng.integers(1, 3, size=40)
    repeated = np.repeat(np.arange(40), counts)
    weighted = RembrandtClassifier(random_state=0, **EXACT).fit(X, Y, sample_weight=counts)
    twice = RembrandtClassifier(random_state=0, **EXACT).fit(X[repeated], Y[repeated])
    _close("repeated examples", twice.predict_proba(X), weighted.predict_proba(X))


PROPERTIES: dict[str, Callable[[np.random.Generator, Path], None]] = {
    "prefix": prefix,
    "filter": filtered,
    "batch": batch,
    "save": saved,
    "store": stored,
    "order": order,
    "weights": weights,
}


def metamorphic(root: Path) -> Case:
    """A case checks one property of a model of its own."""

    def case(rng: np.random.Generator, root: Path) -> str:
        name = str(rng.choice(sorted(PROPERTIES)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            PROPERTIES[name](rng, root)
        return "equal"

    return case


def _same(what: str, answer: Any, expected: Any) -> None:
    """Compare labels and scores bit by bit."""
    for part, wanted in zip(answer, expected, strict=True):
        if not np.array_equal(part, wanted):
            differs = np.argwhere(np.asarray(part) != np.asarray(wanted))
            place = tuple(differs[0]) if len(differs) else "their shape"
            raise Difference(f"{what}: {len(differs)} values differ, the first at {place}")


def _close(what: str, probabilities: Any, expected: Any) -> None:
    largest = float(np.abs(probabilities - expected).max())
    if not largest <= TOLERANCE:
        raise Difference(f"{what}: probabilities differ by up to {largest:.4f}")
