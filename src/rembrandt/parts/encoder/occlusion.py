"""What the words of a text are worth to an encoder, estimated by leaving each of them out."""

import re
from itertools import pairwise

import numpy as np

from rembrandt.parts.contributions import WordChanges

# Pieces into which a text is cut at most; longer texts have several words in a piece.
MOST_PIECES = 48
WORD = re.compile(r"\w+")


def pieces_of(text: str) -> list[tuple[int, int]]:
    """Return start and end of the words of a text, or of runs of words where there are many."""
    words = [match.span() for match in WORD.finditer(text)]
    if len(words) <= MOST_PIECES:
        return words
    bounds = np.linspace(0, len(words), MOST_PIECES + 1).astype(int).tolist()
    return [(words[first][0], words[last - 1][1]) for first, last in pairwise(bounds)]


def texts_without(text: str, pieces: list[tuple[int, int]]) -> list[str]:
    """Return the text without each of its pieces."""
    return [text[:start] + text[stop:] for start, stop in pieces]


def changes(pieces: list[tuple[int, int]], log_odds: np.ndarray) -> WordChanges:
    """Return what each piece is worth; ``log_odds`` (rows × labels) are those of the text, and then
    those of the text without each piece.
    """
    spans = np.array(pieces, dtype=np.int64).reshape(-1, 2)
    return WordChanges(spans[:, 0], spans[:, 1], log_odds[0] - log_odds[1:])
