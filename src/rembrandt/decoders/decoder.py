"""The fitted form of every decoder: ``scores = φ(H) Q + b`` for projected rows ``H = XW``."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from array_api_compat import array_namespace

from rembrandt.errors import StorageError
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.storage.arrays import Arrays, checked, positive

Link = Literal["identity", "softmax", "sigmoid"]


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
        fourier = None if self.fourier is None else self.fourier.moved(move)
        return replace(self, weights=move(self.weights), bias=move(self.bias), fourier=fourier)

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the decoder as named arrays and JSON."""
        arrays = {"decoder.weights": as_numpy(self.weights), "decoder.bias": as_numpy(self.bias)}
        facts: dict[str, Any] = {"link": self.link, "linear": None}
        if self.fourier is not None:
            arrays["fourier.frequencies"] = as_numpy(self.fourier.frequencies)
            arrays["fourier.offsets"] = as_numpy(self.fourier.offsets)
            facts["linear"] = self.fourier.linear
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "Decoder":
        """Rebuild what `arrays` returned."""
        weights = checked("decoder.weights", arrays, (None, None))
        fourier = None
        if "fourier.frequencies" in arrays:
            frequencies = checked("fourier.frequencies", arrays, (None, None))
            offsets = checked("fourier.offsets", arrays, frequencies.shape[1:])
            fourier = FourierMap(frequencies, offsets, positive(facts["linear"], or_zero=True))
        if facts["link"] not in get_args(Link) or (
            fourier is not None and fourier.size != weights.shape[0]
        ):
            raise StorageError("the parts of the decoder do not fit together")
        return cls(
            weights, checked("decoder.bias", arrays, weights.shape[1:]), facts["link"], fourier
        )

    def features(self, H: Block) -> Block:
        """``φ(H)``."""
        return H if self.fourier is None else self.fourier(H)

    def scores(self, H: Block, labels: Any = slice(None)) -> Block:
        """Score ``labels`` (a slice or indices) for projected rows."""
        return self.features(H) @ self.weights[:, labels] + self.bias[labels]

    def probabilities(self, scores: Block) -> Block:
        """Turn the scores of all labels into probabilities.

        Least-squares scores estimate the probability itself; they are clipped to the inside of (0,
        1).
        """
        xp = array_namespace(scores)
        if self.link == "softmax":
            return softmax(scores)
        if self.link == "sigmoid":
            return 1 / (1 + xp.exp(-xp.clip(scores, -60.0, 60.0)))
        return xp.clip(scores, 1e-6, 1 - 1e-6)


def softmax(scores: Block) -> Block:
    """Softmax over the columns."""
    xp = array_namespace(scores)
    shifted = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return shifted / xp.sum(shifted, axis=1, keepdims=True)
