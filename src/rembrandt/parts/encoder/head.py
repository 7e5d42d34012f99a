"""The weights of the labels before an encoder is fine-tuned: one output for each label."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.examples import Examples
from rembrandt.linalg.sparse import normalize_rows
from rembrandt.parts.encoder.settings import Start

# Length of the encoded name of a label, as its weights.
NAME_LENGTH = 4.0
# Standard deviation of weights that are drawn.
RANDOM_SCALE = 0.02
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
    seed: int,
) -> Head:
    """Return the weights with which fine-tuning begins."""
    bias = base_log_odds(data)
    if start == "names" and names is not None:
        return Head(_name_weights(names, encode), bias, "names")
    rng = np.random.default_rng(seed)
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
