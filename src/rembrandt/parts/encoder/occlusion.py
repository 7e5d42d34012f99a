"""What the words of a text are worth to an encoder, estimated by leaving each of them out."""

import re
from itertools import pairwise

import numpy as np

from rembrandt.parts.contributions import WordChanges

# Pieces into which a text is cut at most; longer texts have several words in a piece.
MAX_PIECES = 48
WORD = re.compile(r"\w+")


def pieces_of(text: str) -> list[tuple[int, int]]:
    """Return start and end of the words of a text, or of runs of words where there are many."""
    words = [match.span() for match in WORD.finditer(text)]
    if len(words) <= MAX_PIECES:
        return words
    bounds = np.linspace(0, len(words), MAX_PIECES + 1)
    pieces = []
    for first, end in pairwise(bounds.astype(int).tolist()):
        start, _ = words[first]
        _, stop = words[end - 1]
        pieces.append((start, stop))
    return pieces


def texts_without(text: str, pieces: list[tuple[int, int]]) -> list[str]:
    """Return the text without each of its pieces."""
    texts = []
    for start, stop in pieces:
        before = text[:start]
        after = text[stop:]
        texts.append(before + after)
    return texts


def changes(pieces: list[tuple[int, int]], log_odds: np.ndarray) -> WordChanges:
    """Return what each piece is worth; ``log_odds`` (rows × labels) are those of the text, and then
    those of the text without each piece.
    """
    spans = np.array(pieces, dtype=np.int64)
    of_text = log_odds[0]
    without_pieces = log_odds[1:]
    return WordChanges(
        starts=spans[:, 0],
        stops=spans[:, 1],
        changes=of_text - without_pieces,
    )
