"""Matched names as a kind of part."""

from dataclasses import replace
from typing import ClassVar

from rembrandt.data.examples import Examples
from rembrandt.errors import DataError
from rembrandt.memory import Shape
from rembrandt.parts.allowance import Allowance, Work
from rembrandt.parts.names.fit import (
    COUNTED_TEXTS,
    LEARNED_TEXTS,
    is_informative,
    learn_weights,
    some_rows,
    texts_of_labels,
)
from rembrandt.parts.names.index import NameIndex, StemFrequencies
from rembrandt.parts.names.part import Names
from rembrandt.parts.names.settings import PRESETS, NameSettings
from rembrandt.parts.protocol import Choice, Fitting, Part, PartKind, Update, Updated

# Visits of an inverted list for each word of a text: a word is in so many names or descriptions,
# relative to the square root of the number of labels.
VISITS_PER_WORD = 10.0


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
        """See `PartKind`. Texts are read once, and some of them are matched."""
        words_per_text = data.X.nnz / data.n
        lists = min(data.n, LEARNED_TEXTS) * words_per_text
        visits = lists * VISITS_PER_WORD * data.n_labels**0.5
        return Work(sparse=data.X.nnz + visits)

    def shape(self, shape: Shape, settings: NameSettings, data: Examples) -> Shape:
        # Each word of a name or a description is in a few lists.
        texts = [*(data.label_names or []), *(data.label_descriptions or [])]
        n_words = sum(map(len, texts)) // 4
        return replace(shape, nonzeros=shape.nonzeros + 4 * n_words)

    def fit(self, data: Examples, settings: NameSettings, fitting: Fitting) -> Names:
        if data.texts is None:
            raise DataError(
                "names of labels are matched against texts; give texts, or leave names out of "
                "parts",
                parameter="parts",
            )

        def compute() -> Names:
            fitting.report("names", 0, 2)
            assert data.texts is not None
            texts = texts_of_labels(data)
            frequencies = StemFrequencies.of(data.texts[some_rows(data, COUNTED_TEXTS)])
            fitting.report("names", 1, 2)
            weights, floor = learn_weights(data, NameIndex.of(texts, frequencies))
            fitting.report("names", 2, 2)
            return Names(texts, frequencies, weights, floor)

        return fitting.checkpoints.stage("names", compute, Names.arrays, Names.from_arrays)

    def update(self, part: Names, update: Update) -> Updated:
        """See `PartKind`. New labels get their names; the weights stay."""
        return Updated(replace(part, texts=texts_of_labels(update.examples)), [])

    def choices(self, settings: NameSettings, data: Examples) -> list[Choice]:
        return []

    def words(self, settings: NameSettings, part: Part | None = None) -> str:
        return ""
