"""Matched names as a kind of part."""

from dataclasses import replace
from typing import ClassVar

from rembrandt.data.examples import Examples
from rembrandt.errors import DataError
from rembrandt.memory import Shape
from rembrandt.parts.allowance import Allowance, Work
from rembrandt.parts.names.fit import (
    LEARNED_TEXTS,
    MAP_TEXTS,
    fit_names,
    is_informative,
    texts_of_labels,
)
from rembrandt.parts.names.part import Names, encoder_among
from rembrandt.parts.names.settings import PRESETS, NameSettings
from rembrandt.parts.names.stems import MAX_STEMS
from rembrandt.parts.names.word_map import MAP_ITERATIONS, MAP_RANK
from rembrandt.parts.protocol import Choice, Fitting, Part, PartKind, Update, Updated

# Visits of an inverted list for each word of a text: a word is in so many names or descriptions,
# relative to the square root of the number of labels.
VISITS_PER_WORD = 10.0
# Maps of a fit, the passes over the texts for one, and the blocks of vectors that are in memory.
N_MAPS = 2
MAP_PASSES = 2 * 3 * MAP_ITERATIONS
MAP_BLOCKS = 5
# In the estimate of memory.
BYTES_OF_AN_ENTRY = 16


class NamesKind(PartKind):
    """Matched names; see `rembrandt.parts.names.part`."""

    name = "names"
    title = "names of labels"
    settings_type = NameSettings
    part_type = Names
    presets: ClassVar = PRESETS
    reads_texts = True

    def applies(self, data: Examples) -> bool:
        """Whether the names of labels say anything about the texts."""
        return is_informative(data)

    def resolve(
        self, settings: NameSettings, data: Examples, allowance: Allowance, is_alone: bool
    ) -> NameSettings:
        return settings

    def work(self, settings: NameSettings, data: Examples) -> Work:
        """See `PartKind`. Texts are read, some of them are matched, and maps are learned."""
        words_per_text = data.X.nnz / data.n
        mapped_words = min(data.n, MAP_TEXTS) * words_per_text
        lists = min(data.n, LEARNED_TEXTS) * words_per_text
        visits = lists * VISITS_PER_WORD * data.n_labels**0.5
        return Work(
            dense=N_MAPS * MAP_PASSES * MAP_RANK * mapped_words,
            sparse=data.X.nnz + visits,
        )

    def shape(self, shape: Shape, settings: NameSettings, data: Examples) -> Shape:
        # Each word of a name or a description is in a few lists.
        texts = [*(data.label_names or []), *(data.label_descriptions or [])]
        n_words = sum(map(len, texts)) // 4
        # A map is learned in blocks of vectors of the stems of texts, four bytes a number.
        n_stems = min(MAX_STEMS, data.X.shape[1])
        map_bytes = MAP_BLOCKS * 4 * MAP_RANK * n_stems
        n_entries = 4 * n_words + map_bytes // BYTES_OF_AN_ENTRY
        return replace(shape, nonzeros=shape.nonzeros + n_entries)

    def learns_from_earlier(self, settings: NameSettings) -> bool:
        """See `PartKind`. Names are compared under the encoder of another part."""
        return True

    def fit(self, data: Examples, settings: NameSettings, fitting: Fitting) -> Names:
        if data.texts is None:
            raise DataError(
                "names of labels are matched against texts; give texts, or leave names out of "
                "parts",
                parameter="parts",
            )

        encoder = encoder_among(fitting.earlier)
        part = fitting.checkpoints.load("names", Names.from_arrays)
        if part is None:
            is_trial = fitting.scored is not None
            part = fit_names(data, fitting.begun, encoder, fitting.report, is_trial)
            fitting.checkpoints.save("names", part.arrays)
        return part.beside(fitting.earlier)

    def kept(self, part: Names, settings: NameSettings) -> Names:
        """See `PartKind`. Weights of a match that were learned from nearly all examples are not
        learned again.
        """
        return part

    def update(self, part: Names, update: Update) -> Updated:
        """See `PartKind`. New labels get their names; the weights stay."""
        return Updated(part.with_texts(texts_of_labels(update.examples)), [])

    def choices(self, settings: NameSettings, data: Examples) -> list[Choice]:
        return []

    def words(self, settings: NameSettings, part: Part | None = None) -> str:
        return ""
