"""What is known of labels as text: names, and descriptions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.label_words import words_of_label
from rembrandt.linalg import Array
from rembrandt.storage.arrays import Arrays, checked, pack_strings, unpack_strings


@dataclass(frozen=True)
class LabelTexts:
    """The names of labels, of which a label may have several, and a description of each."""

    names: list[str]
    labels: NDArray[np.int64]  # of each name; ascending
    descriptions: list[str]  # of each label, "" where there is none

    @property
    def n_labels(self) -> int:
        return len(self.descriptions)

    def arrays(self) -> Arrays:
        """Return the texts as named arrays."""
        return (
            pack_strings("names", self.names)
            | {"labels": self.labels}
            | pack_strings("descriptions", self.descriptions)
        )

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "LabelTexts":
        """Rebuild what `arrays` returned; anything that does not fit is refused."""
        names = unpack_strings("names", arrays)
        descriptions = unpack_strings("descriptions", arrays)
        labels = checked("labels", arrays, (len(names),), "i", 0, len(descriptions))
        return cls(names, np.sort(labels).astype(np.int64), descriptions)


def label_texts(
    classes: Array,
    names: Sequence[str] | None,
    descriptions: Sequence[str] | None,
    other_names: Sequence[str] | None = None,
) -> LabelTexts:
    """Return what is known of labels: names that were given, and labels that are words themselves.

    Parameters
    ----------
    classes : ndarray
        The labels.
    names, descriptions : sequence of str, optional
        Of each label, "" where there is none.
    other_names : sequence of str, optional
        Synonyms of each label, in lines.

    Returns
    -------
    LabelTexts
    """
    identifiers = classes.tolist()
    all_names: list[str] = []
    numbers: list[int] = []
    for number, identifier in enumerate(identifiers):
        spelled = ""
        if names is not None:
            spelled = names[number]
        others = []
        if other_names is not None:
            others = other_names[number].splitlines()
        for name in _names_of(identifier, spelled, others):
            all_names.append(name)
            numbers.append(number)
    described = [""] * len(identifiers)
    if descriptions is not None:
        described = list(descriptions)
    return LabelTexts(all_names, np.array(numbers, dtype=np.int64), described)


def _names_of(identifier: Any, name: str, others: list[str]) -> list[str]:
    """Return the names of one label: those that were given, and itself where it is words."""
    names = []
    if name:
        names.append(name)
    words = words_of_label(identifier)
    names += [other for other in others if other]
    if words and words.casefold() not in [name.casefold() for name in names]:
        names.append(words)
    return names
