"""What every decoder comes down to: ``scores = φ(H) Q + b``, with ``H = XW`` the projected examples."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from array_api_compat import array_namespace

from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.packing import Arrays

Link = Literal["identity", "softmax", "sigmoid"]


@dataclass(frozen=True)
class Decoder:
    """A fitted decoder; ``link`` turns scores into probabilities."""

    weights: Block  # Q: D × c
    bias: Block  # c
    link: Link
    fourier: FourierMap | None = None
    greedy: bool = False  # pick labels by matching pursuit instead of by score

    def moved(self, move: Callable[[Block], Block]) -> "Decoder":
        """The same decoder with its arrays where ``move`` puts them."""
        fourier = None if self.fourier is None else self.fourier.moved(move)
        return replace(self, weights=move(self.weights), bias=move(self.bias), fourier=fourier)

    def packed(self) -> tuple[Arrays, dict[str, Any]]:
        """As named arrays and JSON, to be written to a file."""
        arrays = {"decoder.weights": as_numpy(self.weights), "decoder.bias": as_numpy(self.bias)}
        facts: dict[str, Any] = {"link": self.link, "greedy": self.greedy, "linear": None}
        if self.fourier is not None:
            arrays["fourier.frequencies"] = as_numpy(self.fourier.frequencies)
            arrays["fourier.offsets"] = as_numpy(self.fourier.offsets)
            facts["linear"] = self.fourier.linear
        return arrays, facts

    @classmethod
    def unpacked(cls, arrays: Arrays, facts: dict[str, Any]) -> "Decoder":
        """What `packed` packed."""
        fourier = None
        if "fourier.frequencies" in arrays:
            fourier = FourierMap(arrays["fourier.frequencies"], arrays["fourier.offsets"], facts["linear"])
        return cls(arrays["decoder.weights"], arrays["decoder.bias"], facts["link"], fourier, facts["greedy"])

    def features(self, H: Block) -> Block:
        """``φ(H)``."""
        return H if self.fourier is None else self.fourier(H)

    def scores(self, H: Block, labels: Any = slice(None)) -> Block:
        """The scores of ``labels`` (a slice or indices; all of them by default) for projected rows."""
        return self.features(H) @ self.weights[:, labels] + self.bias[labels]

    def probabilities(self, scores: Block) -> Block:
        """Scores of all labels as probabilities, by the decoder's own link.

        Least-squares scores estimate the probability itself, so they are only cut to between 0 and 1: never certain.
        """
        xp = array_namespace(scores)
        if self.link == "softmax":
            return softmax(scores)
        if self.link == "sigmoid":
            return 1 / (1 + xp.exp(-xp.clip(scores, -60, 60)))
        return xp.clip(scores, 1e-6, 1 - 1e-6)


def softmax(scores: Block) -> Block:
    xp = array_namespace(scores)
    shifted = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return shifted / xp.sum(shifted, axis=1, keepdims=True)
