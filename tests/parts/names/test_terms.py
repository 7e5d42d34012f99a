"""Texts are spelled alike, however many are read at a time."""

import numpy as np
from numpy.testing import assert_array_equal

from rembrandt.features import analysis
from rembrandt.features.counting import Vocabulary
from rembrandt.parts.names.terms import count_terms, spell, spell_stems, stems_of

from .texts import UNKNOWN, WORDS, random_texts, stems_in

TEXTS = ["", *random_texts(np.random.default_rng(0), 60, 9, [*WORDS, *UNKNOWN]), "alphax"]


def test_chunks_make_no_difference(monkeypatch):
    whole = spell(TEXTS)
    stems = spell_stems(TEXTS)
    monkeypatch.setattr(analysis, "CHUNK_CHARACTERS", 50)
    for expected, result in ((whole, spell(TEXTS)), (stems, spell_stems(TEXTS))):
        for of_whole, of_chunks in zip(expected, result, strict=True):
            assert_array_equal(of_chunks, of_whole)
    for expected, result in zip(stems_of(whole), stems, strict=True):
        assert_array_equal(result, expected)


def test_stems_are_counted_with_the_place_where_they_occur_first():
    spelled = spell_stems(TEXTS)
    terms = count_terms(spelled, Vocabulary(spelled.keys))
    keys = dict(zip([stem for text in TEXTS for stem in stems_in(text)], spelled.keys, strict=True))
    numbers = Vocabulary(spelled.keys).numbers(np.array(list(keys.values())))
    number_of = dict(zip(keys, numbers.tolist(), strict=True))
    for row, text in enumerate(TEXTS):
        entries = slice(terms.indptr[row], terms.indptr[row + 1])
        stems = stems_in(text)
        expected = {number_of[stem]: (stems.count(stem), stems.index(stem)) for stem in stems}
        places = zip(terms.counts[entries].tolist(), terms.positions[entries].tolist(), strict=True)
        assert dict(zip(terms.numbers[entries].tolist(), places, strict=True)) == expected
