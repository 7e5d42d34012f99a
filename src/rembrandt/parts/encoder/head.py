"""The weights of the labels before an encoder is fine-tuned: one output for each label."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.examples import Examples
from rembrandt.data.label_words import words_of_path
from rembrandt.linalg.sparse import normalize_rows
from rembrandt.parts.encoder.settings import Start

# Length of the encoded name of a label, as its weights, before names are centred. Texts have
# vectors of a length of 4.7 to 6.2 (MiniLM; cooking, attack, gutenberg), so the log-odds of the
# labels of a text differ by 0.6 to 2.2 (standard deviation) by their names: a name that fits makes
# up for the low base rate of a rare label, and one that does not is soon unlearned.
NAME_LENGTH = 4.0
# Standard deviation of weights that are drawn.
RANDOM_SCALE = 0.02
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
    labels = data.classes.tolist()
    stated_names = data.label_names or [""] * len(labels)
    names = []
    for label, name in zip(labels, stated_names, strict=True):
        names.append(name or words_of_path(label))
    n_named = sum(name != "" for name in names)
    if n_named < NAMED_SHARE * len(names):
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
    log_odds = np.log(rates) - np.log1p(-rates)
    return np.asarray(log_odds, dtype=np.float32)


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
    drawn = rng.standard_normal((data.n_labels, width))
    weights = (RANDOM_SCALE * drawn).astype(np.float32)
    return Head(weights, bias, "random")


def _name_weights(names: list[str], encode: Encode) -> NDArray[np.float32]:
    """Return the encoded names, centred; labels without a name have no preference."""
    named = [number for number, name in enumerate(names) if name]
    vectors = encode([names[number] for number in named])
    directions = normalize_rows(vectors)
    centred = directions - directions.mean(axis=0)
    weights = np.zeros((len(names), centred.shape[1]), dtype=np.float32)
    weights[named] = NAME_LENGTH * centred
    return weights
