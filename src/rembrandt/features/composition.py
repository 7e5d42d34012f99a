"""Texts in composed form (NFC of Unicode).

An accented letter is one character, or a letter and a combining accent. Both look the same. Without
this the accent would end a word, and texts from macOS or from PDF files would have other terms.
"""

import sys
import unicodedata
from functools import cache
from itertools import pairwise


def composed(text: str) -> str:
    """Return a text with letters and their accents as one character each, where there is one."""
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)


def segments(text: str) -> list[str]:
    """Cut a text where its composed form can be cut, too.

    `composed` of the segments, joined, is that of the text. Nearly all segments are a character
    with the accents that follow it.
    """
    starts = [0]
    for position, character in enumerate(text):
        if position > 0 and _begins(character):
            starts.append(position)
    bounds = pairwise([*starts, len(text)])
    return [text[start:end] for start, end in bounds]


def _begins(character: str) -> bool:
    """Whether a character never becomes one with what is before it, nor is moved before it."""
    if character.isascii():
        return True
    decomposed = unicodedata.normalize("NFD", character)
    first = decomposed[0]
    if unicodedata.combining(first) != 0:
        return False
    return first not in _following_characters()


@cache
def _following_characters() -> frozenset[str]:
    """The characters that compose with one before them."""
    following = set()
    for point in range(sys.maxunicode + 1):
        decomposition = unicodedata.decomposition(chr(point))
        codes = decomposition.split()
        is_canonical = not decomposition.startswith("<")
        if len(codes) == 2 and is_canonical:
            following.add(int(codes[1], 16))
    # Vowels and final consonants of Hangul compose by a rule.
    following.update(range(0x1161, 0x1176))
    following.update(range(0x11A8, 0x11C3))
    return frozenset(map(chr, following))
