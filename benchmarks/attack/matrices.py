"""Matrices with one defect each, in a fit, a prediction, an update and an evaluation.

A case makes sound features and labels, damages one of them as `DEFECTS` says, and calls one of
`USES`. It is refused in a sentence, or handled; never does compiled code follow a wrong index, and
never is the error that of another package.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.attack.harness import Case, Difference
from rembrandt import RembrandtClassifier
from rembrandt.metrics import evaluate

FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia", "dense")
WIDTH, LABELS = 12, 6
FAR = (-1, -(2**31), 2**31 - 1, 2**30, WIDTH, WIDTH + 1, 10**6)
VALUES = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e37, 1e-320, 1e-40, 0.0)
TYPES = ("f2", "f8", "i1", "u8", "?", "c8", "O", "U3", "M8[s]")
SHAPES = ((0, WIDTH), (1, WIDTH), (30, 0), (30, 1), (29, WIDTH), (30, WIDTH + 1), (30,), (3, 4, 5))
USES = ("fit", "predict_topk", "update", "evaluate")
Defect = Callable[[Any, np.random.Generator], Any]


def sound(rng: np.random.Generator, n: int, width: int) -> sparse.csr_array:
    """Return a matrix without a defect."""
    matrix = sparse.random_array((n, width), density=0.3, rng=rng, format="csr")
    diagonal = sparse.csr_array((np.ones(n), (range(n), np.arange(n) % width)), shape=(n, width))
    return sparse.csr_array(matrix + diagonal)


def index(matrix: Any, rng: np.random.Generator) -> Any:
    """Put one index outside of the matrix."""
    matrix = matrix.copy()
    at = rng.integers(len(matrix.indices))
    matrix.indices[at] = np.int64(rng.choice(FAR)).astype(np.int32)
    return matrix


def pointer(matrix: Any, rng: np.random.Generator) -> Any:
    """Change where a row starts, or how many rows have a start."""
    matrix = matrix.copy()
    starts = matrix.indptr
    at = rng.integers(len(starts))
    match rng.integers(4):
        case 0:
            starts[at] += int(rng.choice([-3, -1, 1, 3, 1000]))
        case 1:
            starts[at] = np.int64(rng.choice(FAR)).astype(np.int32)
        case 2:
            matrix.indptr = starts[:-1]
        case _:
            matrix.indptr = rng.permutation(starts)
    return matrix


def lengths(matrix: Any, rng: np.random.Generator) -> Any:
    """Cut one of the arrays short."""
    matrix = matrix.copy()
    name = str(rng.choice(["data", "indices"]))
    array = getattr(matrix, name)
    setattr(matrix, name, array[: rng.integers(len(array))])
    return matrix


def types(matrix: Any, rng: np.random.Generator) -> Any:
    """Give the values, or the indices, another type."""
    kind = str(rng.choice(TYPES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if rng.integers(2):
            return matrix.toarray().astype(kind)
        matrix = matrix.copy()
        name = str(rng.choice(["data", "indices", "indptr"]))
        setattr(matrix, name, getattr(matrix, name).astype(kind))
        return matrix


def shape(matrix: Any, rng: np.random.Generator) -> Any:
    """Return a matrix with another number of rows, columns or dimensions."""
    size = SHAPES[int(rng.integers(len(SHAPES)))]
    array = np.abs(rng.standard_normal(size))
    if len(size) == 2 and rng.integers(2):
        return sparse.csr_array(array)
    return array


def value(matrix: Any, rng: np.random.Generator) -> Any:
    """Put values in that no arithmetic can use, or that vanish."""
    matrix = matrix.copy()
    number = float(rng.choice(VALUES))
    if rng.integers(4) == 0:
        matrix.data[:] = number
    else:
        matrix.data[rng.integers(len(matrix.data))] = number
    if rng.integers(2):
        return matrix.toarray()
    return matrix


def order(matrix: Any, rng: np.random.Generator) -> Any:
    """Leave the entries of each row unsorted, and say that they are sorted."""
    matrix = matrix.copy()
    for row in range(matrix.shape[0]):
        entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
        shuffled = rng.permutation(np.arange(entries.start, entries.stop))
        matrix.indices[entries] = matrix.indices[shuffled]
        matrix.data[entries] = matrix.data[shuffled]
    matrix.has_sorted_indices = bool(rng.integers(2))
    return matrix


def duplicates(matrix: Any, rng: np.random.Generator) -> Any:
    """Give entries twice, and say that they are distinct."""
    matrix = sparse.csr_array(matrix.copy())
    matrix.indices[rng.integers(len(matrix.indices))] = matrix.indices[0]
    matrix.has_canonical_format = bool(rng.integers(2))
    return matrix


def format_of(matrix: Any, rng: np.random.Generator) -> Any:
    """Give another format of SciPy, with a defect in its arrays."""
    name = str(rng.choice(FORMATS[:-1]))
    other = matrix.asformat(name)
    match name:
        case "csr" | "csc" | "bsr":
            other.indices[rng.integers(len(other.indices))] = np.int32(rng.choice(FAR[:4]))
        case "coo":
            coords = [np.array(axis) for axis in other.coords]
            coords[int(rng.integers(2))][rng.integers(len(other.data))] = np.int32(rng.choice(FAR))
            other.coords = tuple(coords)
        case "lil":
            other.rows[rng.integers(len(other.rows))].append(int(rng.choice(FAR)))
        case "dia":
            other.offsets = np.append(other.offsets[1:], int(rng.choice(FAR)))
    return other


DEFECTS: dict[str, Defect] = {
    "index": index,
    "pointer": pointer,
    "lengths": lengths,
    "dtype": types,
    "shape": shape,
    "value": value,
    "order": order,
    "duplicates": duplicates,
    "format": format_of,
}


def damaged_matrices(root: Path) -> Case:
    """Fit two models; a case uses one, or fits another one, with a damaged matrix."""
    rng = np.random.default_rng(0)
    X, Y = sound(rng, 60, WIDTH), (sound(rng, 60, LABELS) > 0).astype(np.float64)
    fitted = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, settings in {
            "plain": {"parts": ("trees", "centroids")},
            "embedding": {"parts": ("embedding",), "decoder": "ridge", "kernel": None},
        }.items():
            fitted[name] = RembrandtClassifier(random_state=0, **settings).fit(X, Y)

    def case(rng: np.random.Generator, root: Path) -> str:
        features = sound(rng, 30, WIDTH)
        labels = (sound(rng, 30, LABELS) > 0).astype(np.float64)
        defect = DEFECTS[str(rng.choice(sorted(DEFECTS)))]
        use = str(rng.choice(USES))
        name = str(rng.choice(sorted(fitted)))
        weights = None
        hit = int(rng.integers(5))
        if hit == 0 and use in ("fit", "update"):
            weights = np.ones(30)
            weights[rng.integers(30)] = float(rng.choice([*VALUES, -1.0]))
        elif hit <= 2 and use != "predict_topk":
            labels = defect(labels, rng)
        else:
            features = defect(features, rng)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = _used(use, fitted[name], features, labels, weights)
        if not np.isfinite(result).all():
            raise Difference(f"{use} gives {result} for a defect of the kind {defect.__name__}")
        return "handled"

    return case


def _used(use: str, classifier: Any, X: Any, Y: Any, weights: Any) -> Any:
    """Use a matrix, and return numbers that must be finite."""
    if use == "fit":
        model = RembrandtClassifier(**classifier.get_params() | {"random_state": 1})
        model.fit(X, Y, sample_weight=weights)
        return model.predict_proba(sound(np.random.default_rng(0), 3, model.n_features_in_))
    if use == "predict_topk":
        _, scores = classifier.predict_topk(X, k=3)
        classifier.predict_proba(X)
        classifier.predict(X)
        return scores
    if use == "update":
        copied = RembrandtClassifier(**classifier.get_params())
        copied.__dict__.update(classifier.__dict__)
        copied.update(X, Y, sample_weight=weights)
        return copied.predict_proba(sound(np.random.default_rng(0), 3, WIDTH))
    ranked = np.tile(np.arange(3), (30, 1))
    counts = np.asarray(classifier.label_counts_)
    measures = evaluate(Y, ranked, counts, classifier.n_train_)
    return np.array([*measures.values(), classifier.score(X, Y)])
