"""A map from texts to the words of names, by which labels without examples are scored.

The words in the names of a text's labels say what the text is about. They are predicted from the
words of the text by the label embedding of the paper (Algorithm 2), with words of names in the
place of labels: "Kertomuksia" by Gorky has "Russian", "fiction" and "Finnish" in its headings. So a
new label whose name has these words is similar to the text, even where none of them occurs in it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.engines.cpu import CpuEngine
from rembrandt.features.counting import Vocabulary
from rembrandt.forks import cached_property
from rembrandt.linalg import Array, Floats
from rembrandt.linalg.blocks import Block
from rembrandt.linalg.eigen import gaussian, randomized_eigh
from rembrandt.linalg.hashing import Keys
from rembrandt.linalg.ridge import ConjugateGradientRidge, SpectralPreconditioner
from rembrandt.linalg.sparse import (
    as_csr,
    csr_matmul,
    normalize_rows,
    row_sums_of_squares,
    scale_rows,
)
from rembrandt.linalg.threads import own_threads
from rembrandt.parts.names.label_texts import LabelTexts
from rembrandt.parts.names.stems import StemFrequencies
from rembrandt.parts.names.terms import Spelled, count_terms, spell_stems, stems_of
from rembrandt.storage.arrays import Arrays, checked

Vectors = NDArray[np.float32]

# Directions of the map.
MAP_RANK = 128
OVERSAMPLES = 8
# Strength of the regression, relative to the mean square of a column, and its iterations.
MAP_RIDGE = 1.0
MAP_ITERATIONS = 2
PRECONDITIONER_WIDTH = 72
# Words in the names of many labels' examples count less, by this power of their number.
WORD_POWER = -0.25
# A long description has more words than a name, and counts less, by this power of its length.
LENGTH_POWER = -0.5
# Texts that a stem must occur in.
FEWEST_TEXTS = 2


@dataclass(frozen=True)
class WordMap:
    """Vectors of the stems of texts and of names, whose products say how similar they are."""

    text_keys: Keys
    text_vectors: Vectors  # times the rarity of the stem
    name_keys: Keys
    name_vectors: Vectors  # times the weight of the stem

    @classmethod
    def of(
        cls,
        spelled: Spelled,
        Y: Any,
        texts: LabelTexts,
        frequencies: StemFrequencies,
    ) -> "WordMap | None":
        """Learn the map from texts and their labels; None where there is nothing to learn."""
        is_frequent = frequencies.counts >= FEWEST_TEXTS
        text_keys = frequencies.keys[is_frequent]
        rarities = frequencies.rarities(text_keys).astype(np.float32)
        vocabulary = Vocabulary(text_keys)
        X = _stem_rows(stems_of(spelled), vocabulary, len(text_keys))
        X.data *= rarities[X.indices]
        X = normalize_rows(X)

        name_keys = np.unique(_stems_in(texts).keys)
        counts = _stems_of_labels(texts, name_keys)
        weights = _word_weights(counts, Y)
        name_rows = counts.copy()
        name_rows.data *= weights[counts.indices]
        lengths = _lengths(row_sums_of_squares(name_rows))
        scaled_names = scale_rows(name_rows, lengths**LENGTH_POWER)
        words = as_csr(as_csr(Y) @ scaled_names, np.float32)
        if not X.nnz or not words.nnz:
            return None
        engine = CpuEngine(X, words)
        # Its dense products are small: on two threads they take several times the CPU time.
        with own_threads():
            of_stems, of_words = _embed_words(engine)
        return cls(
            text_keys=text_keys,
            text_vectors=_as_stored(rarities[:, None] * of_stems),
            name_keys=name_keys,
            name_vectors=_as_stored(weights[:, None] * of_words),
        )

    def text_rows(self, spelled: Spelled) -> Vectors:
        """Return the unit vectors of texts; that of a text without a known stem is zero."""
        stems = stems_of(spelled)
        rows = _stem_rows(stems, self._text_vocabulary, len(self.text_keys))
        sums = csr_matmul(rows, self.text_vectors)
        return unit_rows(sums)

    def label_rows(self, texts: LabelTexts) -> Vectors:
        """Return the unit vectors of the names and descriptions of labels."""
        rows = _stems_of_labels(texts, self.name_keys)
        sums = csr_matmul(rows, self.name_vectors)
        return unit_rows(sums)

    @cached_property
    def _text_vocabulary(self) -> Vocabulary:
        return Vocabulary(self.text_keys)

    def arrays(self) -> Arrays:
        """Return the vectors as named arrays, in half precision."""
        return {
            "map.text_stems": self.text_keys.view(np.int64),
            "map.text_vectors": self.text_vectors.astype(np.float16),
            "map.name_stems": self.name_keys.view(np.int64),
            "map.name_vectors": self.name_vectors.astype(np.float16),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "WordMap":
        """Rebuild what `arrays` returned; anything that does not fit is refused."""
        text_keys = checked("map.text_stems", arrays, (None,), "i").astype(np.int64)
        shape = (len(text_keys), None)
        text_vectors = checked("map.text_vectors", arrays, shape, smallest=2)
        rank = text_vectors.shape[1]
        name_keys = checked("map.name_stems", arrays, (None,), "i").astype(np.int64)
        shape = (len(name_keys), rank)
        name_vectors = checked("map.name_vectors", arrays, shape, smallest=2)
        return cls(
            text_keys=text_keys.view(np.uint64),
            text_vectors=text_vectors.astype(np.float32),
            name_keys=name_keys.view(np.uint64),
            name_vectors=name_vectors.astype(np.float32),
        )


def _embed_words(engine: CpuEngine) -> tuple[Block, Block]:
    """Return vectors of the stems of texts (d × k) and of the words of names (m × k).

    The vectors of words are the eigenvectors of the part of the words that texts predict, and those
    of stems the regression of the embedded words on them.
    """
    norms = engine.column_sums("X", squared=True)
    total = float(norms.sum())
    n_used = int(np.count_nonzero(norms))
    strength = MAP_RIDGE * total / max(1, n_used)
    width = min(engine.d, PRECONDITIONER_WIDTH)
    block = gaussian(engine.d, width, 0)
    directions = SpectralPreconditioner.of(engine.gram, strength, block)
    solver = ConjugateGradientRidge(engine.gram, strength, directions, max_iter=MAP_ITERATIONS)

    def predictable(Q: Block) -> Block:
        Z = solver.solve(engine.cross(Q))
        return engine.cross_t(Z)

    rank = min(MAP_RANK, engine.c, engine.d)
    width = min(rank + OVERSAMPLES, engine.c)
    start = gaussian(engine.c, width, 0)
    of_words, _ = randomized_eigh(predictable, start, rank)
    of_stems = solver.solve(engine.cross(of_words))
    return of_stems, of_words


def _stem_rows(
    stems: Spelled,
    vocabulary: Vocabulary,
    n_stems: int,
) -> sparse.csr_array:
    """Return the logarithmic counts of stems, texts × stems."""
    terms = count_terms(stems, vocabulary)
    values = 1 + np.log(terms.counts.astype(np.float32))
    n_texts = len(terms.indptr) - 1
    shape = (n_texts, n_stems)
    columns = terms.numbers.astype(np.int64)
    return as_csr(sparse.csr_array((values, columns, terms.indptr), shape=shape))


def _stems_in(texts: LabelTexts) -> Spelled:
    """Return the stems of names and descriptions, of which a label has one text."""
    pieces = list(texts.descriptions)
    labels = texts.labels.tolist()
    for label, name in zip(labels, texts.names, strict=True):
        pieces[label] = f"{pieces[label]}\n{name}"
    return spell_stems(pieces)


def _stems_of_labels(texts: LabelTexts, keys: Keys) -> sparse.csr_array:
    """Return the logarithmic counts of stems in names and descriptions, labels × stems."""
    stems = _stems_in(texts)
    vocabulary = Vocabulary(keys)
    return _stem_rows(stems, vocabulary, len(keys))


def _word_weights(counts: sparse.csr_array, Y: Any) -> NDArray[np.float32]:
    """Return the weight of each stem of names: rare ones count more."""
    n_texts, n_labels = Y.shape
    n_examples = np.bincount(Y.indices, minlength=n_labels)
    has_stem = counts.copy()
    has_stem.data[:] = 1
    occurrences = has_stem.T @ n_examples
    rarity = np.log1p(n_texts / (1 + occurrences))
    scale = np.maximum(occurrences, 1) ** WORD_POWER
    weights: NDArray[np.float32] = (rarity * scale).astype(np.float32)
    return weights


def _as_stored(vectors: Array) -> Vectors:
    """Return vectors as they are read from a file: scaled, because their scale does not matter,
    and in half precision.
    """
    largest = np.abs(vectors).max(initial=0)
    scaled = vectors / max(float(largest), 1e-30)
    rounded = scaled.astype(np.float16)
    return np.ascontiguousarray(rounded.astype(np.float32))


def _lengths(squares: Floats) -> Floats:
    """Return the lengths of rows from their squares; 1 for rows of zeros."""
    positive = np.where(squares > 0, squares, 1)
    return np.sqrt(positive)


def unit_rows(vectors: Vectors) -> Vectors:
    """Return rows of length one; zero stays zero. A row has the same bits among other rows."""
    running_squares = np.cumsum(vectors.astype(np.float64) ** 2, axis=1)
    lengths = _lengths(running_squares[:, -1:])
    scaled = vectors / lengths
    return np.ascontiguousarray(scaled.astype(np.float32))
