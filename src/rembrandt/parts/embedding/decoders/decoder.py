"""The fitted form of every decoder: ``scores = φ(H) Q + b`` for projected rows ``H = XW``."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import matmul
from typing import Any, Literal, get_args

from array_api_compat import array_namespace

from rembrandt.errors import StorageError
from rembrandt.features.fourier import FourierMap, Product
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.storage.arrays import Arrays, checked, positive

Link = Literal["identity", "softmax", "sigmoid"]

# Scores are clipped here before they are exponentiated: float32 overflows beyond 88.
LARGEST_LOGIT = 60.0
# Distance of the probabilities that least squares estimates from 0 and 1.
PROBABILITY_MARGIN = 1e-6


@dataclass(frozen=True)
class Decoder:
    """A fitted decoder; ``link`` turns scores into probabilities."""

    weights: Block  # Q, D × c
    bias: Block  # b, c
    link: Link
    fourier: FourierMap | None = None

    def moved(self, move: Callable[[Block], Block]) -> "Decoder":
        """Return the decoder with its arrays converted by ``move``, for example to another
        device.
        """
        fourier = self.fourier
        if fourier is not None:
            fourier = fourier.moved(move)
        weights = move(self.weights)
        bias = move(self.bias)
        return replace(self, weights=weights, bias=bias, fourier=fourier)

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the decoder as named arrays and JSON."""
        arrays = {
            "decoder.weights": as_numpy(self.weights),
            "decoder.bias": as_numpy(self.bias),
        }
        linear = None
        if self.fourier is not None:
            arrays["fourier.frequencies"] = as_numpy(self.fourier.frequencies)
            arrays["fourier.offsets"] = as_numpy(self.fourier.offsets)
            linear = self.fourier.linear
        facts = {"link": self.link, "linear": linear}
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "Decoder":
        """Rebuild what `arrays` returned."""
        weights = checked("decoder.weights", arrays, (None, None))
        fourier = None
        fits_weights = True
        if "fourier.frequencies" in arrays:
            frequencies = checked("fourier.frequencies", arrays, (None, None))
            offsets = checked("fourier.offsets", arrays, frequencies.shape[1:])
            linear = positive(facts["linear"], or_zero=True)
            fourier = FourierMap(frequencies, offsets, linear)
            fits_weights = fourier.size == weights.shape[0]
        link = facts["link"]
        is_known_link = link in get_args(Link)
        if not is_known_link or not fits_weights:
            raise StorageError("the parts of the decoder do not fit together")
        bias = checked("decoder.bias", arrays, weights.shape[1:])
        return cls(weights, bias, link, fourier)

    def features(self, H: Block, product: Product = matmul) -> Block:
        """Return the mapped features ``φ(H)``; ``product`` multiplies rows by the frequencies."""
        if self.fourier is None:
            return H
        return self.fourier(H, product)

    def scores(self, H: Block, labels: Any = slice(None)) -> Block:
        """Score ``labels`` (a slice or indices) for projected rows."""
        features = self.features(H)
        return features @ self.weights[:, labels] + self.bias[labels]

    def probabilities(self, scores: Block) -> Block:
        """Turn the scores of all labels into probabilities.

        Least-squares scores estimate the probability itself; they are clipped to the inside of (0,
        1).
        """
        xp = array_namespace(scores)
        if self.link == "softmax":
            return softmax(scores)
        if self.link == "sigmoid":
            clipped = xp.clip(scores, -LARGEST_LOGIT, LARGEST_LOGIT)
            return 1 / (1 + xp.exp(-clipped))
        return xp.clip(scores, PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)


def softmax(scores: Block) -> Block:
    """Softmax over the columns."""
    xp = array_namespace(scores)
    # Without the largest score of a row, no exponential overflows.
    largest = xp.max(scores, axis=1, keepdims=True)
    exponentials = xp.exp(scores - largest)
    return exponentials / xp.sum(exponentials, axis=1, keepdims=True)
