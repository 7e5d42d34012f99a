"""What a model asks of its parts.

A part is one way to score labels for rows. Its *kind* (`PartKind`) says which settings it has,
what they cost and how it is fitted; what a fit returns is a `Part`. Everything that concerns one
kind is in its folder, and nothing outside asks which kind a part is.

A part reads one *view* of the rows (`rembrandt.data.views`): the features, vectors that were given
beside them, or the texts. Two parts of the same kind can stand in one model, on different views.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.engines.backend import CPU, Backend
from rembrandt.linalg import Array
from rembrandt.linalg.ranking import top_k
from rembrandt.memory import Shape
from rembrandt.parts.allowance import Allowance, Work
from rembrandt.parts.contributions import Contributions, WordChanges
from rembrandt.progress import Report, silent
from rembrandt.settings import PartSettings, Preset
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints

Labels = NDArray[np.int64]
Facts = dict[str, Any]
Result = TypeVar("Result")

# Rows that are scored at a time, by all threads.
SCORED_BLOCK_ROWS = 1 << 13


class TextVectors(Protocol):
    """What turns texts into vectors of unit length, n × width.

    The vectors of the last texts are kept, so that a text which several parts read is encoded once.
    """

    width: int

    def vectors(self, texts: Sequence[str], report: Report = silent) -> NDArray[np.float32]: ...

    def stored_vectors(self, texts: Sequence[str], report: Report = silent) -> NDArray[np.float32]:
        """Return the same for very many texts, from the disk where they are there."""


class Part(ABC):
    """A fitted part.

    Scores of different parts need not be comparable; the blend makes them so.
    """

    @property
    @abstractmethod
    def n_labels(self) -> int: ...

    @property
    @abstractmethod
    def n_features(self) -> int: ...

    @property
    def retrieves_labels(self) -> bool:
        """Whether `top` is fast enough for every row; otherwise the part scores what others
        list.
        """
        return True

    @property
    def scores_unseen_labels(self) -> bool:
        """Whether scores say something about labels without examples; then they are estimates of
        probabilities.
        """
        return False

    @property
    def n_fitted_labels(self) -> int:
        """How many of the labels the fit knew; the others were added later."""
        return self.n_labels

    @property
    def reads_every_text(self) -> bool:
        """Whether the part reads texts in which no word is known."""
        return False

    @property
    def text_vectors(self) -> TextVectors | None:
        """What turns texts into vectors, for other parts too, where it has learned nothing of the
        labels.
        """
        return None

    def beside(self, parts: Mapping[str, "Part"]) -> "Part":
        """Return a part that uses what ``parts`` of the same model offer."""
        return self

    @property
    def block_rows(self) -> int:
        """Number of rows to score at a time, so that memory stays bounded."""
        return SCORED_BLOCK_ROWS

    @abstractmethod
    def prepare(self, X: Any) -> Any:
        """Compute what `top`, `at`, `every` and `likelihood` share for these rows, once.

        ``X`` is what the view of the part holds: a matrix, or an array of texts.
        """

    @abstractmethod
    def top(self, rows: Any, k: int) -> tuple[Labels, Array]:
        """Return the ``k`` best labels of every row and their scores, best first; ties by label
        index.

        Where there are fewer than ``k``, the label is -1 and the score -inf.
        """

    @abstractmethod
    def at(self, rows: Any, labels: Labels) -> Array:
        """Return the scores of the given labels (n × m) of every row; -inf where the label is
        -1.
        """

    @abstractmethod
    def every(self, rows: Any) -> Array:
        """Return the scores of all labels of every row, n × c.

        As those of `at`, a row's scores do not depend on the rows that are scored with it.
        """

    def top_among(self, rows: Any, is_allowed: Array, k: int) -> tuple[Labels, Array]:
        """Return what `top` does among some of the labels, where that is not costly; labels of
        which the part knows nothing may be left out.
        """
        scores = np.where(is_allowed, self.every(rows), -np.inf)
        return top_k(scores, k)

    def likelihood(self, rows: Any, labels: Labels, scores: Array) -> Array:
        """Turn the scores of the given labels (n × m) into estimates of probabilities, which the
        blend weighs.

        By default scores are such estimates.
        """
        return scores

    @abstractmethod
    def explain(self, row: Any, labels: Labels) -> Contributions:
        """Return what every stored entry of ``row`` (1 × d, or an array of one text) adds to the
        likelihoods of ``labels`` (m).
        """

    def word_changes(self, row: Any, labels: Labels) -> WordChanges | None:
        """Estimate what the words of a text (an array of one) are worth to ``labels``, where
        `explain` knows the text as a whole alone.
        """
        return None

    @abstractmethod
    def arrays(self) -> tuple[dict[str, Array], Facts]:
        """Return the part as named arrays and JSON."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: dict[str, Array], facts: Facts) -> Self:
        """Rebuild what `arrays` returned; anything that does not fit is refused."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the part; what is only kept for updates has an entry of its own."""
        arrays, _ = self.arrays()
        return {"": sum(array.nbytes for array in arrays.values())}

    def facts(self) -> Facts:
        """Return what a fit found out about the part, as JSON."""
        return {}

    def notes(self) -> list[str]:
        """Return sentences about what the part needs, or has that is not of this model."""
        return []

    def label_weights(self) -> sparse.csr_array | None:
        """Return the weights of the features for each label, c × d, where the part has them."""
        return None

    def label_directions(self) -> sparse.csr_array | None:
        """Return the mean direction of each label's examples, c × d, where the part has them."""
        return None

    def label_vectors(self) -> tuple[Array, Array] | None:
        """Return a vector for each label and the strength of each direction, where the part has
        them.
        """
        return None

    def on(self, backend: Backend) -> "Part":
        """Return the same part with its arrays on ``backend``, where it can use another than the
        CPU.
        """
        return self

    def with_shortlist(self, size: int | bool, report: Report = silent) -> "Part":
        """Return a part that scores about ``size`` labels for each row, where it has an index for
        that; 0 builds the index alone.
        """
        return self

    # Whether an update gives weights to features that the fit did not have.
    learns_columns: ClassVar[bool] = False

    def with_columns(self, columns: NDArray[np.int64], n_features: int) -> "Part | None":
        """Return a part that reads ``n_features`` features, the old ones in these columns, and
        scores all rows of them as before; None if a part of this kind cannot.
        """
        return None

    def with_label_names(
        self,
        classes: Array,
        names: Sequence[str] | None,
        descriptions: Sequence[str] | None,
        other_names: Sequence[str] | None = None,
    ) -> "Part":
        """Return a part that knows these names and descriptions of the labels; a label has its
        other names in lines.
        """
        return self

    def for_prediction(self) -> "Part":
        """Return the part without what only updates need."""
        return self

    def with_encoder(self, encoder: Any) -> "Part":
        """Return a part that uses an object with ``encode`` of which a saved model has the name
        alone.
        """
        return self


def beside_each_other(parts: Mapping[str, Part]) -> dict[str, Part]:
    """Return the parts of a model, each of which uses what the others offer."""
    return {name: part.beside(parts) for name, part in parts.items()}


@dataclass(frozen=True)
class Update:
    """More examples for a part, and what it may learn from besides them."""

    examples: Examples  # the labels of the part are their first columns, new labels follow
    history: Examples | None  # the examples of the fit, with the same columns
    settings: Any  # of the part
    label_counts: Array  # of the labels so far
    n_train: int  # examples so far
    others: Mapping[str, Part]  # the other parts of the model
    seed: int = 0
    report: Report = silent


class Updated(NamedTuple):
    """A part after an update, and sentences about what it could not learn."""

    part: Part
    missed: list[str]


class Shared:
    """Results that several fits to the same rows have in common, by a key.

    The last ``capacity`` results of each stage are kept.
    """

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self._stages: dict[str, dict[Any, Any]] = {}

    def get(self, stage: str, key: Any) -> Any:
        """Return the kept result of this stage with this key, or None."""
        results = self._stages.get(stage, {})
        return results.get(key)

    def keep(self, stage: str, key: Any, result: Any) -> None:
        """Keep a result in place of the oldest one of its stage."""
        if not self.capacity:
            return
        results = self._stages.setdefault(stage, {})
        while len(results) >= self.capacity:
            oldest = next(iter(results))
            del results[oldest]
        results[key] = result


NO_PARTS: Mapping[str, Part] = MappingProxyType({})


@dataclass(frozen=True)
class Fitting:
    """What a fit of a part is given besides examples and settings."""

    seed: int = 0
    backend: Backend = CPU
    report: Report = silent
    checkpoints: Checkpoints = NO_CHECKPOINTS
    # Parts of the same model that were fitted before.
    earlier: Mapping[str, Part] = field(default_factory=dict)
    # What is kept of the same part, which was fitted to nearly all of the examples.
    begun: Part | None = None
    # Examples that say when a fit in steps stops, where the kind uses them.
    stopping: Examples | None = None
    # Examples that the part scores next, so that a kind can prepare them with those of the fit.
    scored: Examples | None = None
    # What other fits to the same examples have computed.
    shared: Shared = field(default_factory=Shared)


@dataclass(frozen=True)
class Choice:
    """Alternatives of some settings of a part."""

    names: tuple[str, ...]
    alternatives: tuple[tuple[Any, ...], ...]

    def applied(self, settings: PartSettings, fixed: Collection[str] = ()) -> list[PartSettings]:
        """Return the settings with each of the alternatives, without those that change nothing.

        Settings whose names are in ``fixed`` keep their values.
        """
        candidates: list[PartSettings] = []
        for values in self.alternatives:
            changes = dict(zip(self.names, values, strict=True))
            for name in fixed:
                changes.pop(name, None)
            candidate = replace(settings, **changes)
            if candidate != settings and candidate not in candidates:
                candidates.append(candidate)
        return candidates


class PartKind(ABC):
    """A kind of part: its settings, what they cost, and how it is fitted."""

    name: ClassVar[str]
    title: ClassVar[str]  # as people call it
    settings_type: ClassVar[type[PartSettings]]
    part_type: ClassVar[type[Part]]
    presets: ClassVar[Mapping[Preset, PartSettings]]
    # Whether a model may have a part of this kind on vectors that stand beside the features.
    reads_vectors: ClassVar[bool] = False
    # Whether its parts read the texts instead of the features.
    reads_texts: ClassVar[bool] = False
    # Whether other parts may be fitted at the same time, on the same cores.
    shares_cores: ClassVar[bool] = True
    # Whether an update learns new labels from new examples alone.
    learns_without_history: ClassVar[bool] = True

    def on_device(self, settings: Any, backend: Backend) -> Any:
        """Return the settings with what depends on the device; it is asked before `resolve`."""
        return settings

    def applies(self, data: Examples) -> bool:
        """Whether a model of these examples gets such a part where nobody asks for it."""
        return True

    @abstractmethod
    def resolve(self, settings: Any, data: Examples, allowance: Allowance, is_alone: bool) -> Any:
        """Return complete settings: what the user and the preset leave open follows from the data
        and the allowance.

        ``is_alone`` says that the model has no other part.
        """

    def alternatives(self, settings: Any, data: Examples, allowance: Allowance) -> list[Any]:
        """Return the settings to fall back on where ``settings`` cost more than is allowed, the
        most costly first.
        """
        return []

    @abstractmethod
    def work(self, settings: Any, data: Examples) -> Work:
        """Count the operations of a fit."""

    @abstractmethod
    def shape(self, shape: Shape, settings: Any, data: Examples) -> Shape:
        """Add what a fit needs to the sizes from which memory is estimated."""

    @abstractmethod
    def fit(self, data: Examples, settings: Any, fitting: Fitting) -> Part:
        """Fit a part with complete settings."""

    def learns_from_earlier(self, settings: Any) -> bool:
        """Whether a fit uses parts of the same view that were fitted before."""
        return False

    def uses_stopping_rows(self, settings: Any) -> bool:
        """Whether some held-out rows say when a fit stops; the blend is learned on the others."""
        return False

    def settled(self, settings: Any, parts: list[Any]) -> Any:
        """Return the settings with what the fits without held-out rows found out, for the fit to
        all examples.
        """
        return settings

    def keeps_trial(self, settings: Any) -> bool:
        """Whether the part that was fitted without held-out rows stays in the model as it is."""
        return False

    def tried(self, settings: Any) -> Any:
        """Return the settings with which a part is fitted to nearly all examples, where `kept`
        keeps what they make.
        """
        return settings

    def kept(self, part: Any, settings: Any) -> Part | None:
        """Return what a fit to all examples keeps of a part that was fitted to nearly all of
        them.
        """
        return None

    @abstractmethod
    def update(self, part: Any, update: Update) -> Updated:
        """Return a part after more examples, and what it could not learn from them."""

    def with_labels(self, part: Any, update: Update) -> Part:
        """Return a part with more labels, of which ``update`` has the names and no examples."""
        return self.update(part, update).part

    @abstractmethod
    def choices(self, settings: Any, data: Examples) -> list[Choice]:
        """Return what a search may change, in the order in which it is tried."""

    @abstractmethod
    def words(self, settings: Any, part: Part | None = None) -> str:
        """Describe the settings in a few words; those of a fitted part as it is."""
