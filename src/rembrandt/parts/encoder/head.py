"""The weights of the labels before an encoder is fine-tuned: one output for each label."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import as_numpy
from rembrandt.linalg.sparse import normalize_rows
from rembrandt.parts.embedding.fit import fit_embedding
from rembrandt.parts.embedding.rank import largest_rank
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.encoder.settings import Start
from rembrandt.parts.protocol import Fitting

# Length of the encoded name of a label, as its weights.
NAME_LENGTH = 4.0
# Standard deviation of weights that are drawn.
RANDOM_SCALE = 0.02
# Rank of the label embedding whose decoder is a start.
START_RANK = 300
# A word of a label that is its own name: three letters or more, not part of an identifier.
WORD = re.compile(r"(?<![0-9A-Za-z])[^\W\d_]{3,}(?![0-9])")
# Characters that join the words of a label.
JOINTS = re.compile(r"[\s_:/|.+-]+")
# Share of labels with a name from which on names are a start.
NAMED_SHARE = 0.5

Encode = Callable[[list[str]], NDArray[np.float32]]


@dataclass(frozen=True)
class Head:
    """Weights (c × k) and bias (c) of the labels."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    start: Start


def names_of_labels(data: Examples) -> list[str] | None:
    """Return a name for each label, "" where there is none; None where most labels have none.

    Labels that are words are their own names.
    """
    labels = [str(label) for label in data.classes.tolist()]
    given = data.label_names or [""] * len(labels)
    names = []
    for label, name in zip(labels, given, strict=True):
        if not name and WORD.search(label):
            name = JOINTS.sub(" ", label).strip()
        names.append(name)
    if sum(map(bool, names)) < NAMED_SHARE * len(names):
        return None
    return names


def base_log_odds(data: Examples) -> NDArray[np.float32]:
    """Return the log-odds of the frequency of each label."""
    weights = np.ones(data.n)
    if data.weights is not None:
        weights = np.asarray(data.weights, dtype=np.float64)
    margin = 0.5 / data.n
    counts = np.asarray(data.Y.T @ weights).ravel()
    rates = np.clip(counts / weights.sum(), margin, 1 - margin)
    log_odds: NDArray[np.float32] = (np.log(rates) - np.log1p(-rates)).astype(np.float32)
    return log_odds


def starting_head(
    data: Examples,
    names: list[str] | None,
    start: Start,
    width: int,
    encode: Encode,
    fitting: Fitting,
) -> Head:
    """Return the weights with which fine-tuning begins."""
    bias = base_log_odds(data)
    if start == "names" and names is not None:
        return Head(_name_weights(names, encode), bias, "names")
    if start == "embedding":
        return _decoder_head(data, bias, encode, fitting)
    rng = np.random.default_rng(fitting.seed)
    drawn = RANDOM_SCALE * rng.standard_normal((data.n_labels, width))
    return Head(drawn.astype(np.float32), bias, "random")


def _name_weights(names: list[str], encode: Encode) -> NDArray[np.float32]:
    """Return the encoded names, centred; labels without a name have no preference."""
    has_name = np.array([bool(name) for name in names])
    vectors = normalize_rows(encode([name for name in names if name]))
    centred = vectors - vectors.mean(axis=0)
    weights = np.zeros((len(names), vectors.shape[1]), dtype=np.float32)
    weights[has_name] = NAME_LENGTH * centred
    return weights


def _decoder_head(data: Examples, bias: Array, encode: Encode, fitting: Fitting) -> Head:
    """Return the closed-form decoder of a label embedding of the vectors, as log-odds."""
    assert data.texts is not None
    vectors = encode(data.texts.tolist())
    rows = as_rows(vectors)
    limit = largest_rank(data.n, vectors.shape[1] + 1, data.n_labels)
    settings = EmbeddingSettings(
        n_components=min(START_RANK, limit),
        ridge=1.0,
        decoder="discriminant",
        decoder_ridge=0.1,
        kernel=None,
        normalize=False,
        retrieves_labels=True,
    ).with_defaults()
    embedding = fit_embedding(
        Examples(rows, data.Y, data.classes, multiclass=False, weights=data.weights),
        settings,
        Fitting(seed=fitting.seed, report=fitting.report),
    )
    projection = as_numpy(embedding.projection)
    decoder_weights = as_numpy(embedding.decoder.weights)
    weights = (projection[:-1] @ decoder_weights).T
    constant = projection[-1] @ decoder_weights + as_numpy(embedding.decoder.bias)
    has_examples = np.bincount(data.Y.indices, minlength=data.n_labels) > 0
    weights = np.where(has_examples[:, None], weights, 0)
    constant = np.where(has_examples, constant, bias)
    return Head(weights.astype(np.float32), constant.astype(np.float32), "embedding")
