"""Why this label for this row: what each feature adds to the score, exactly.

A score is a sum of parts, and each part says what it gives to an empty row and what every feature of the row adds:
``score = base + Σ contributions``.

A linear decoder is such a sum as it stands: feature f adds ``x̂_f W_f · q``. For a kernel map ``[cos(hΩ + b), s·h]``
the gradient is averaged along the straight line from the empty row ``h₀`` to ``h`` (integrated gradients, or the
Aumann-Shapley value), which for cosines has a closed form. With the phases ``p = hΩ + b`` and ``p₀ = h₀Ω + b``,

    cos p − cos p₀ = (p − p₀) m,    m = −sin((p + p₀)/2) · sinc((p − p₀)/2),

and ``p − p₀`` is linear in the features. So ``g = Ω (m ∘ q_cos) + s q_lin`` is a direction in the embedding along which
feature f adds ``x̂_f W_f · g``, and nothing is left over.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.rows import as_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.engines.place import CPU
from rembrandt.errors import DataError, SettingsError
from rembrandt.estimators import RembrandtClassifier
from rembrandt.explore.explanation import Explanation, Part, Words
from rembrandt.features.text import is_text
from rembrandt.linalg.blocks import as_numpy, spans
from rembrandt.linalg.sparse import Matrix, as_csr
from rembrandt.model.model import Model
from rembrandt.scorers.trees import Trees

Array = NDArray[Any]
NEAR = 1e-6  # a change below this is no change: the slope is the derivative
_ENTRIES = 1 << 23  # of the largest block of pairs × random features: 64 MB


def low_rank(model: Model, rows: sparse.csr_array, labels: NDArray[np.int64]) -> Part:
    """The part ``φ(x̂W)Q + b``."""
    empty = as_numpy(model.projection[-1]).astype(np.float64)
    moved = as_numpy(model.place.project(as_rows(rows), model.projection)) - empty
    base, directions = _directions(model.decoder, moved, empty, labels)
    if model.place == CPU:
        return Part(base, _products(rows.indptr, rows.indices, rows.data, model.projection, directions))
    used, indices = np.unique(rows.indices, return_inverse=True)  # of a device's weights no others have to travel
    return Part(base, _products(rows.indptr, indices, rows.data, as_numpy(model.projection[used]), directions))


def blended(model: Model, rows: sparse.csr_array, labels: NDArray[np.int64]) -> list[Part]:
    """The parts of a model that has a sparse part, each with its share: see `Model.scores`."""
    assert model.forest is not None
    sparse_part = _trees(model.forest, rows, labels)
    parts = [Part(model.blend * sparse_part.base, model.blend * sparse_part.contributions)]
    if model.blend < 1:
        part = low_rank(model, rows, labels)
        if model.decoder.link != "identity":
            part = _as_probability(model, rows, labels, part)
        parts.append(Part((1 - model.blend) * part.base, (1 - model.blend) * part.contributions))
    return parts


def _trees(trees: Trees, rows: sparse.csr_array, labels: NDArray[np.int64]) -> Part:
    prepared = trees.prepare(rows)
    base, contributions = np.empty(labels.shape), np.empty((rows.nnz, labels.shape[1]))
    for row, own in enumerate(labels.tolist()):
        at = slice(rows.indptr[row], rows.indptr[row + 1])
        for j, label in enumerate(own):
            added, base[row, j] = trees.explain(prepared, row, label)
            contributions[at, j] = added[rows.indices[at]]
    return Part(base, contributions)


def _as_probability(model: Model, rows: sparse.csr_array, labels: NDArray[np.int64], part: Part) -> Part:
    """The probability that scores stand for, by the slope between the empty row's and the row's.

    Of a softmax, what the other labels gain or lose is part of the base: it is no single feature's doing.
    """
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    gain = np.zeros(labels.shape)
    np.add.at(gain, owner, part.contributions)
    decoder = model.decoder
    scores = as_numpy(decoder.scores(model.place.project(as_rows(rows), model.projection)))
    likely = np.take_along_axis(as_numpy(decoder.probabilities(scores)).astype(np.float64), labels, axis=1)
    if decoder.link == "softmax":
        end = np.log(np.maximum(likely, 1e-300))
        first = np.exp(end - gain)
    else:
        first = 1 / (1 + np.exp(-np.clip(part.base, -60, 60)))
    flat = np.abs(gain) < NEAR
    slope = np.where(flat, 0.0, (likely - first) / np.where(flat, 1.0, gain))
    return Part(np.where(flat, likely, first), slope[owner] * part.contributions)


def explain(classifier: RembrandtClassifier, X: Any, labels: Iterable[Any] | None = None, k: int = 5) -> Explanation:
    """Why ``classifier`` gives these scores: for the given labels, or for the ``k`` best of each row.

    ``X`` are texts, where the classifier was fitted on texts, or features. The scores are those of
    ``decision_function``.

    Examples
    --------
    >>> texts = ["red apple", "green apple", "red car", "fast car"] * 10
    >>> classifier = RembrandtClassifier(random_state=0).fit(texts, ["fruit", "fruit", "vehicle", "vehicle"] * 10)
    >>> explain(classifier, ["an apple"], ["fruit"]).document(0)["words"][0]["word"]
    'apple'
    """
    rows = classifier.model_rows(X)
    if labels is None:
        found = classifier.model_.top_k(rows, min(k, classifier.model_.n_labels))[0]
        columns = found[:, (found >= 0).all(axis=0)]
    else:
        columns = np.asarray(classifier.model_columns(labels), dtype=np.int64)
    return explain_rows(classifier.model_, rows, columns, words_of(classifier, X))


def words_of(classifier: RembrandtClassifier, X: Any) -> Words:
    """What the features of ``X`` are called and, for texts, where they stand."""
    text = classifier.text_
    if classifier.joined_ is not None:
        return Words(classifier.joined_.names([None] * len(classifier.joined_.widths)))
    if text is None:
        return Words(classifier.feature_names_)
    if not is_text(X):
        return Words(text.terms_)
    return Words(text.terms_, list(X), text.locate(X))


def explain_rows(model: Model, X: Matrix, labels: NDArray[np.int64], words: Words | None = None) -> Explanation:
    """As `explain`, of a model and its rows; ``labels`` are columns, those of all rows (m) or of each row (n × m).

    The result is dense over labels, so keep their number small where there are many rows.
    """
    if model.lift is not None:
        raise SettingsError(
            "what a feature adds to a score is known for a linear regression; fit with regressor=None to explain"
        )
    rows = as_csr(model.rows(X))
    wanted = np.broadcast_to(labels, (rows.shape[0], np.shape(labels)[-1]))
    if wanted.size and not (wanted.min() >= 0 and wanted.max() < model.n_labels):
        raise DataError(f"labels lie in {wanted.min()}…{wanted.max()}; give columns from 0 to {model.n_labels - 1}")
    parts = [low_rank(model, rows, wanted)] if model.forest is None else blended(model, rows, wanted)
    return Explanation(
        labels=wanted,
        base=np.sum([part.base for part in parts], axis=0),
        indptr=rows.indptr,
        features=rows.indices,
        contributions=np.sum([part.contributions for part in parts], axis=0),
        names=model.classes,
        words=words or Words(),
    )


def _directions(decoder: Decoder, moved: Array, empty: Array, labels: NDArray[np.int64]) -> tuple[Array, Array]:
    """The scores of the empty row, n × m, and the directions in the embedding that rows add to them along, n × m × k.

    ``moved`` is ``h − h₀``, the rows without the constant.
    """
    n, m = labels.shape
    row, label = np.repeat(np.arange(n), m), labels.ravel()
    bias = as_numpy(decoder.bias[label])
    if decoder.fourier is None:
        directions = as_numpy(decoder.weights[:, label]).T.astype(np.float64)
        return (directions @ empty + bias).reshape(n, m), directions.reshape(n, m, -1)
    frequencies = as_numpy(decoder.fourier.frequencies).astype(np.float64)
    start = empty @ frequencies + as_numpy(decoder.fourier.offsets)
    half = (moved @ frequencies) / 2
    slopes = -np.sin(start + half) * np.sinc(half / np.pi)
    size = frequencies.shape[1]
    base, directions = np.empty(n * m), np.empty((n * m, len(empty)))
    for pairs in spans(n * m, max(1, _ENTRIES // max(1, size))):
        q = as_numpy(decoder.weights[:, label[pairs]]).T.astype(np.float64)
        waves, lines = q[:, :size], decoder.fourier.linear * q[:, size:]
        directions[pairs] = (slopes[row[pairs]] * waves) @ frequencies.T + lines
        base[pairs] = waves @ np.cos(start) + lines @ empty
    return (base + bias).reshape(n, m), directions.reshape(n, m, -1)


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def _products(indptr: Any, indices: Any, data: Any, W: Any, directions: Any) -> Any:
    """``x̂_f W_f · g`` for every feature f of a row and each of the row's directions g."""
    m, k = directions.shape[1:]
    out = np.empty((len(data), m))
    for row in range(len(indptr) - 1):
        for at in range(indptr[row], indptr[row + 1]):
            feature = W[indices[at]]
            for j in range(m):
                direction = directions[row, j]
                total = 0.0
                for i in range(k):
                    total += feature[i] * direction[i]
                out[at, j] = data[at] * total
    return out
