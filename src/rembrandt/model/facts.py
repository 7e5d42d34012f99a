"""What is known about a model beside its settings: how it was fitted and what it reached."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rembrandt.data.content import CONTENT_RANGE
from rembrandt.errors import StorageError, counted
from rembrandt.metrics.percent import percent
from rembrandt.storage.arrays import finite, positive


@dataclass(frozen=True)
class HeldOutMeasures:
    """What some parts of a model reached on held-out examples."""

    parts: tuple[str, ...]
    p1: float
    p3: float
    p5: float
    quality: float  # by which settings and blends are compared
    n_examples: int

    def to_json(self) -> dict[str, Any]:
        return {
            "parts": list(self.parts),
            "p@1": self.p1,
            "p@3": self.p3,
            "p@5": self.p5,
            "quality": self.quality,
            "held_out": self.n_examples,
        }

    @classmethod
    def from_json(cls, facts: Any) -> "HeldOutMeasures":
        """Rebuild what `to_json` returned."""
        return cls(
            parts=tuple(map(str, facts["parts"])),
            p1=finite(facts["p@1"]),
            p3=finite(facts["p@3"]),
            p5=finite(facts["p@5"]),
            quality=finite(facts["quality"]),
            n_examples=positive(facts["held_out"], int, or_zero=True),
        )


@dataclass(frozen=True)
class UpdateFacts:
    """One update of a model."""

    n_labels: int  # new ones
    n_examples: int
    outside: float  # share of the weight of their labels that the embedding misses
    missed: tuple[str, ...]  # sentences about what could not be learned
    n_words: int = 0  # different words of the texts
    n_unknown_words: int = 0  # that the model did not know
    n_learned_words: int = 0  # of the unknown ones

    @property
    def words(self) -> str:
        """What is known about the words of the texts, as a sentence; empty without texts."""
        if not self.n_words:
            return ""
        start = f"The texts have {counted(self.n_words, 'different word')}"
        if not self.n_unknown_words:
            return f"{start}, and the model knew all of them."
        share = percent(self.n_unknown_words / self.n_words, 0)
        known = f"{start}; the model did not know {self.n_unknown_words:,} of them ({share})"
        if not self.n_learned_words:
            return f"{known} and ignores these."
        return f"{known} and has learned {self.n_learned_words:,}."

    @classmethod
    def from_json(cls, facts: Any) -> "UpdateFacts":
        """Rebuild an entry of the JSON of `Facts`."""
        return cls(
            n_labels=positive(facts["n_labels"], int, or_zero=True),
            n_examples=positive(facts["n_examples"], int, or_zero=True),
            outside=finite(facts["outside"]),
            missed=tuple(map(str, facts["missed"])),
            n_words=positive(facts.get("n_words", 0), int, or_zero=True),
            n_unknown_words=positive(facts.get("n_unknown_words", 0), int, or_zero=True),
            n_learned_words=positive(facts.get("n_learned_words", 0), int, or_zero=True),
        )


@dataclass(frozen=True)
class Facts:
    """How a model was fitted, and what it reached on held-out examples."""

    version: str  # of the library
    memory_estimate: int = 0  # of the fit, in bytes
    # All parts together, and then each alone; empty where no examples were held out.
    held_out: tuple[HeldOutMeasures, ...] = ()
    calibration_error: float | None = None
    updates: tuple[UpdateFacts, ...] = field(default=())
    # Stands for the features of the examples that the model has learned from; None if it is not
    # known. See `rembrandt.data.examples.content_sum`.
    content: int | None = None

    def with_update(self, update: UpdateFacts, content: int | None = None) -> "Facts":
        """Return the facts after an update with examples for which ``content`` stands."""
        total = None
        if self.content is not None and content is not None:
            total = (self.content + content) % CONTENT_RANGE
        return replace(self, updates=(*self.updates, update), content=total)

    @property
    def n_updated(self) -> int:
        """Number of examples that updates added."""
        return sum(update.n_examples for update in self.updates)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "memory_estimate": self.memory_estimate,
            "held_out": [measures.to_json() for measures in self.held_out],
            "calibration_error": self.calibration_error,
            "updates": [asdict(update) for update in self.updates],
            "content": self.content,
        }

    @classmethod
    def from_json(cls, facts: Any) -> "Facts":
        """Rebuild what `to_json` returned; anything else is refused."""
        if not isinstance(facts, dict) or not isinstance(facts.get("version"), str):
            raise StorageError("the facts of the model cannot be read")
        error = facts["calibration_error"]
        content = facts.get("content")
        return cls(
            version=facts["version"],
            memory_estimate=positive(facts["memory_estimate"], int, or_zero=True),
            held_out=_each(HeldOutMeasures, facts["held_out"]),
            calibration_error=None if error is None else finite(error),
            updates=_each(UpdateFacts, facts["updates"]),
            content=None if content is None else positive(content, int, or_zero=True),
        )


def _each(kind: Any, entries: Any) -> Any:
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise StorageError("the facts of the model cannot be read")
    return tuple(kind.from_json(entry) for entry in entries)
