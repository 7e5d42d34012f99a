"""Names of labels that were added after the fit, as the encoder of a model reads them.

All vectors of an encoder have a part in common, and those of names, which are not sentences, have
another. So texts and names are compared by how their vectors differ from the mean text and from the
mean name.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rembrandt.parts.names.label_texts import LabelTexts
from rembrandt.parts.names.word_map import unit_rows
from rembrandt.parts.protocol import TextVectors
from rembrandt.storage.arrays import Arrays, checked

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class EncodedNames:
    """The vectors of names, and the means that texts and names differ from."""

    text_centre: Vectors
    name_centre: Vectors
    vectors: Vectors  # of each added label, in half precision; zero without a name

    @property
    def width(self) -> int:
        return len(self.text_centre)

    @classmethod
    def around(cls, text_vectors: Vectors, name_vectors: Vectors) -> Self:
        """Return the means of some vectors, and no names."""
        return cls(
            text_centre=text_vectors.mean(axis=0),
            name_centre=name_vectors.mean(axis=0),
            vectors=np.zeros((0, text_vectors.shape[1]), dtype=np.float32),
        )

    def text_rows(self, vectors: Vectors) -> Vectors:
        """Return unit vectors of texts."""
        return unit_rows(vectors - self.text_centre)

    def name_rows(self, vectors: Vectors) -> Vectors:
        """Return unit vectors of names, as they are read from a file."""
        rows = unit_rows(vectors - self.name_centre)
        return rows.astype(np.float16).astype(np.float32)

    def renamed(
        self, before: LabelTexts, after: LabelTexts, first_added: int, encoder: TextVectors
    ) -> "EncodedNames":
        """Return the vectors of the labels from ``first_added`` on after a change of names; new
        names are encoded.
        """
        passages = passages_of(after)[first_added:]
        vector_of = dict(zip(passages_of(before)[first_added:], self.vectors, strict=True))
        vector_of[""] = np.zeros(self.width, dtype=np.float32)
        new = [passage for passage in dict.fromkeys(passages) if passage not in vector_of]
        if new:
            encoded = self.name_rows(encoder.vectors(new))
            vector_of |= dict(zip(new, encoded, strict=True))
        vectors = np.zeros((len(passages), self.width), dtype=np.float32)
        for row, passage in enumerate(passages):
            vectors[row] = vector_of[passage]
        return replace(self, vectors=vectors)

    def arrays(self) -> Arrays:
        """Return the vectors as named arrays."""
        return {
            "encoded.text_centre": self.text_centre,
            "encoded.name_centre": self.name_centre,
            "encoded.names": self.vectors.astype(np.float16),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_added: int) -> "EncodedNames | None":
        """Rebuild what `arrays` returned, None where there is nothing; anything that does not fit
        is refused.
        """
        if "encoded.text_centre" not in arrays:
            return None
        text_centre = checked("encoded.text_centre", arrays, (None,))
        shape = text_centre.shape
        name_centre = checked("encoded.name_centre", arrays, shape)
        vectors = checked("encoded.names", arrays, (n_added, *shape), smallest=2)
        return cls(
            text_centre=text_centre.astype(np.float32),
            name_centre=name_centre.astype(np.float32),
            vectors=vectors.astype(np.float32),
        )


def passages_of(texts: LabelTexts) -> list[str]:
    """Return the names and the description of each label as one text, "" where there is none."""
    names: list[list[str]] = [[] for _ in texts.descriptions]
    for label, name in zip(texts.labels.tolist(), texts.names, strict=True):
        names[label].append(name)
    passages = []
    for of_label, description in zip(names, texts.descriptions, strict=True):
        pieces = [*of_label, description]
        passages.append(". ".join(piece for piece in pieces if piece))
    return passages
