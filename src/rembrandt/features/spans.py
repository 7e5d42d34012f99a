"""Where terms occur in texts as they were given, before they were composed and made lower case."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.features.composition import composed, segments
from rembrandt.features.terms import code_points_matching, join
from rembrandt.linalg import Indices


class TermSpans(NamedTuple):
    """Occurrences of terms: which text, which column, and where the term starts and stops."""

    documents: Indices
    columns: NDArray[np.int32]
    starts: Indices
    stops: Indices  # exclusive


def in_originals(
    texts: list[str],
    lowered: bool,
    columns: NDArray[np.int32],
    occurrences: Indices,
) -> TermSpans:
    """Spans of the original texts for occurrences in analysed ones.

    Parameters
    ----------
    texts : list of str
        The texts as they were given.
    lowered : bool
        Whether they were made lower case before they were analysed. Lower case can be longer than
        the original ("İ"), and the composed form shorter.
    columns : ndarray of shape (n_occurrences,)
        The column of each occurrence.
    occurrences : ndarray of shape (n_occurrences, 3)
        Document, start and stop of each occurrence in the analysed texts.

    Returns
    -------
    TermSpans
        White space at either end of a term, which n-grams of characters have, is left out.
    """
    documents, starts, stops = occurrences.T
    starts, stops = _before_analysis(texts, lowered, documents, starts, stops)
    points, ends = join(texts)
    origins = np.concatenate([[0], ends])
    lengths = np.diff(origins)[documents]
    starts = np.clip(starts, 0, lengths)
    stops = np.clip(stops, 0, lengths)
    starts, stops = _without_white_space(points, origins[documents], starts, stops)
    # A term of white space alone takes the character next to it.
    starts = np.minimum(starts, lengths - 1)
    stops = np.maximum(stops, starts + 1)
    return TermSpans(documents, columns, starts, stops)


def _before_analysis(
    texts: list[str],
    lowered: bool,
    documents: Indices,
    starts: Indices,
    stops: Indices,
) -> tuple[Indices, Indices]:
    """Starts and stops in the original texts, from those in the analysed texts."""
    starts = starts.copy()
    stops = stops.copy()
    for document in np.unique(documents).tolist():
        text = texts[document]
        is_composed = composed(text) == text
        if is_composed and (not lowered or len(text.lower()) == len(text)):
            continue
        pieces = list(text) if is_composed else segments(text)
        original_lengths = [len(piece) for piece in pieces]
        analysed_lengths = [_analysed_length(piece, lowered) for piece in pieces]
        ends = np.cumsum(original_lengths)
        # Where the piece of each character of the analysed text starts and ends in the original.
        last_of_piece = np.repeat(ends, analysed_lengths)
        first_of_piece = np.repeat(ends - original_lengths, analysed_lengths)
        here = documents == document
        first = np.clip(starts[here], 0, len(first_of_piece) - 1)
        last = np.clip(stops[here], 1, len(last_of_piece)) - 1
        starts[here] = first_of_piece[first]
        stops[here] = last_of_piece[last]
    return starts, stops


def _analysed_length(piece: str, lowered: bool) -> int:
    """Number of characters of a piece of text after it was composed and made lower case."""
    piece = composed(piece)
    if not lowered:
        return len(piece)
    return sum(len(character.lower()) for character in piece)


def _without_white_space(
    points: NDArray[np.uint32],
    origins: Indices,
    starts: Indices,
    stops: Indices,
) -> tuple[Indices, Indices]:
    """Move starts and stops, in place, past a white space at either end of a span.

    ``origins`` is where the text of each span starts in ``points``.
    """
    is_space = code_points_matching(r"\s")[points]
    not_empty = starts < stops
    starts[not_empty] += is_space[(origins + starts)[not_empty]]
    stops[not_empty] -= is_space[(origins + stops)[not_empty] - 1]
    return starts, stops
