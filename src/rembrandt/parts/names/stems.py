"""How often stems occur in the training texts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.features.counting import Vocabulary
from rembrandt.linalg import Array
from rembrandt.parts.names.terms import Spelled, count_terms, stems_of
from rembrandt.storage.arrays import Arrays, checked, positive

# Distinct stems of the training texts whose frequency is kept, the most frequent ones.
MAX_STEMS = 1 << 17


@dataclass(frozen=True)
class StemFrequencies:
    """In how many of some training texts a stem occurs."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.int32]
    n_texts: int

    @classmethod
    def of(cls, spelled: Spelled) -> "StemFrequencies":
        """Count the stems of texts; of very many, the most frequent are kept."""
        stems = stems_of(spelled)
        vocabulary = Vocabulary()
        vocabulary.learn(stems.keys)
        terms = count_terms(stems, vocabulary)
        counts = np.bincount(terms.numbers, minlength=len(vocabulary))
        keys = np.zeros(len(vocabulary), dtype=np.uint64)
        keys[vocabulary.numbers(stems.keys)] = stems.keys
        most_frequent = np.argsort(-counts, kind="stable")[:MAX_STEMS]
        kept = np.sort(most_frequent)
        return cls(
            keys=keys[kept],
            counts=counts[kept].astype(np.int32),
            n_texts=len(stems.ends),
        )

    def rarities(self, keys: NDArray[np.uint64]) -> Array:
        """Return how rare stems are: the logarithm of texts for each that has it."""
        vocabulary = Vocabulary(self.keys)
        numbers = vocabulary.numbers(keys)
        padded = np.append(self.counts, 0)  # -1 stands for an unknown stem
        counts = padded[numbers]
        return np.log1p(self.n_texts / (1 + counts))

    def arrays(self) -> Arrays:
        """Return the counts as named arrays."""
        return {
            "stems": self.keys.view(np.int64),
            "stem_counts": self.counts,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_texts: Any) -> "StemFrequencies":
        """Rebuild what `arrays` returned; anything that does not fit is refused."""
        keys = checked("stems", arrays, (None,), "i").astype(np.int64)
        counts = checked("stem_counts", arrays, (len(keys),), "i", 0)
        return cls(
            keys=keys.view(np.uint64),
            counts=counts,
            n_texts=positive(n_texts, int, or_zero=True),
        )
