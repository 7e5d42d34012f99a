"""Where terms occur in texts as they were given, before they were made lower case."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.features.terms import code_points_matching, join


class TermSpans(NamedTuple):
    """Occurrences of terms: the text, the column of the term, and where it starts and stops
    (exclusive).
    """

    documents: NDArray[np.int64]
    columns: NDArray[np.int32]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]


def in_originals(
    texts: list[str], lowered: bool, columns: NDArray[np.int32], found: NDArray[np.int64]
) -> TermSpans:
    """Occurrences in analysed texts, (document, start, stop) each, as spans of the texts that were
    given.

    Lower case can be longer than the original ("İ"). White space at either end of a term, which
    n-grams of characters have, is left out.
    """
    documents, starts, stops = found.T
    points, ends = join(texts)
    origins = np.concatenate([[0], ends])
    if lowered:
        starts, stops = starts.copy(), stops.copy()
        for document in (
            d for d in np.unique(documents).tolist() if len(texts[d].lower()) != len(texts[d])
        ):
            lengths = [len(character.lower()) for character in texts[document]]
            original = np.repeat(np.arange(len(lengths)), lengths)
            here = documents == document
            starts[here] = original[np.clip(starts[here], 0, len(original) - 1)]
            stops[here] = original[np.clip(stops[here], 1, len(original)) - 1] + 1
    length = np.diff(origins)[documents]
    starts, stops = np.clip(starts, 0, length), np.clip(stops, 0, length)
    white = code_points_matching(r"\s")[points]
    inside = starts < stops
    starts[inside] += white[(origins[documents] + starts)[inside]]
    stops[inside] -= white[(origins[documents] + stops)[inside] - 1]
    starts = np.minimum(
        starts, length - 1
    )  # a term of white space alone takes the character next to it
    return TermSpans(documents, columns, starts, np.maximum(stops, starts + 1))
