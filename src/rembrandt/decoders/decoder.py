"""What every decoder comes down to: ``scores = φ(H) Q + b``, with ``H = XW`` the projected examples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.storage.arrays import Arrays

Link = Literal["identity", "softmax", "sigmoid"]


@dataclass(frozen=True)
class Decoder:
    """A fitted decoder; ``link`` turns scores into probabilities."""

    weights: Block  # Q: D × c
    bias: Block  # c, and those of labels added later
    link: Link
    fourier: FourierMap | None = None
    added: tuple[Block, ...] = ()  # weights of labels that came after the fit, D × m each: the columns after Q's

    def moved(self, move: Callable[[Block], Block]) -> "Decoder":
        """The same decoder with its arrays where ``move`` puts them."""
        fourier = None if self.fourier is None else self.fourier.moved(move)
        added = tuple(move(weights) for weights in self.added)
        return replace(self, weights=move(self.weights), bias=move(self.bias), fourier=fourier, added=added)

    def parts(self) -> "Iterator[tuple[int, Decoder]]":
        """The decoder of the first labels, then one for each time that labels were added, with their first column.

        A product of all columns at once would round those that were there before differently than it did without the
        new ones; products apart leave their scores as they were, to the bit.
        """
        start = 0
        for weights in (self.weights, *self.added):
            end = start + weights.shape[1]
            yield start, replace(self, weights=weights, bias=self.bias[start:end], added=())
            start = end

    def columns(self, labels: Any) -> Block:
        """The weights of ``labels``, a slice or indices."""
        if not self.added:
            return self.weights[:, labels]
        wanted = np.arange(self.bias.shape[0])[labels]
        of_part = np.searchsorted([start for start, _ in self.parts()], wanted, side="right") - 1
        order = np.argsort(of_part, kind="stable")
        found = [
            part.weights[:, wanted[of_part == number] - start] for number, (start, part) in enumerate(self.parts())
        ]
        return array_namespace(self.weights).concat(found, axis=1)[:, np.argsort(order)]

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """As named arrays and JSON, to be written to a file."""
        arrays = {"decoder.weights": as_numpy(self.weights), "decoder.bias": as_numpy(self.bias)}
        arrays |= {f"decoder.added.{i}": as_numpy(weights) for i, weights in enumerate(self.added)}
        facts: dict[str, Any] = {"link": self.link, "linear": None, "added": len(self.added)}
        if self.fourier is not None:
            arrays["fourier.frequencies"] = as_numpy(self.fourier.frequencies)
            arrays["fourier.offsets"] = as_numpy(self.fourier.offsets)
            facts["linear"] = self.fourier.linear
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "Decoder":
        """What `packed` packed."""
        fourier = None
        if "fourier.frequencies" in arrays:
            fourier = FourierMap(arrays["fourier.frequencies"], arrays["fourier.offsets"], facts["linear"])
        added = tuple(arrays[f"decoder.added.{i}"] for i in range(facts.get("added", 0)))  # none in version 0.1
        return cls(arrays["decoder.weights"], arrays["decoder.bias"], facts["link"], fourier, added)

    def features(self, H: Block) -> Block:
        """``φ(H)``."""
        return H if self.fourier is None else self.fourier(H)

    def scores(self, H: Block, labels: Any = slice(None)) -> Block:
        """The scores of ``labels`` (a slice or indices; all of them by default) for projected rows."""
        Phi = self.features(H)
        if self.added and isinstance(labels, slice) and labels == slice(None):
            return array_namespace(Phi).concat([Phi @ part.weights + part.bias for _, part in self.parts()], axis=1)
        return Phi @ self.columns(labels) + self.bias[labels]

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
