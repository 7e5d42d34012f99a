"""The label table: labels, their columns and the names that are shown for them. Features have the
same lookup.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError

Title = (
    str | tuple[str, str]
)  # display name of a label that is an identifier, or a pair of name and description
Texts = list[str] | None

_PLAIN_INTEGER = re.compile(r"[0-9]{1,18}")


def as_labels(names: Iterable[Any]) -> NDArray[Any]:
    """Labels as an array. Strings are objects: in an array of fixed width each would be as long as
    the longest.
    """
    values = names.tolist() if isinstance(names, np.ndarray) else list(names)
    return np.array(values, dtype=object if any(isinstance(name, str) for name in values) else None)


def titles_of(
    names: Iterable[Any], titles: Mapping[Any, Title] | Iterable[Title]
) -> tuple[Texts, Texts]:
    """Titles and descriptions, "" where a name has none and None where all have none.

    They are given as a mapping or as one for each name.
    """
    known = list(names)
    if isinstance(titles, Mapping):
        found = [titles.get(name, titles.get(str(name), "")) for name in known]
    else:
        found = list(titles)
        if len(found) != len(known):
            raise DataError(
                f"there are {len(found):,} names for {len(known):,} labels; give one for each, or "
                "a mapping"
            )
    pairs = [(title, "") if isinstance(title, str) else title for title in found]
    wrong = next(
        (pair for pair in pairs if not isinstance(pair, tuple) or [*map(type, pair)] != [str, str]),
        None,
    )
    if wrong is not None:
        raise DataError(
            f"the name {wrong!r} of a label is not a text; give strings, or pairs with a "
            "description"
        )
    shown, described = ([pair[i] for pair in pairs] for i in (0, 1))
    return (shown if any(shown) else None), (described if any(described) else None)


def check_titles(
    titles: Mapping[Any, Title], names: Iterable[Any], parameter: str | tuple[str, ...] = ()
) -> int:
    """Return how many of the names have a title; raise an error if none has."""
    known = list(names)
    n_titled = sum(name in titles or str(name) in titles for name in known)
    if titles and not n_titled:
        message = (
            f"none of the {len(titles):,} names is of a label: there are labels like "
            f"{next(iter(known), None)!r}"
        )
        raise DataError(
            f"{message}, and the names are of labels like {next(iter(titles))!r}",
            parameter=parameter,
        )
    return n_titled


class LabelIndex:
    """Names, the column of each, and titles for names that are identifiers, with descriptions.

    Names are distinct strings or numbers, and titles what people read instead. There is a title and
    a description for each name, "" where there is none, or None for all. Build an index once and
    keep it: it holds a dictionary of all names.

    >>> index = LabelIndex(["D1", "D2"], ["", "Abdomen"])
    >>> index.columns(["D2", "D9"]), index.find("abdomen"), index.title(0)
    (array([ 1, -1]), 1, 'D1')
    """

    def __init__(
        self, names: Iterable[Any] = (), titles: Texts = None, descriptions: Texts = None
    ) -> None:
        self._names: list[Any] = names.tolist() if isinstance(names, np.ndarray) else list(names)
        self._columns = {name: column for column, name in enumerate(self._names)}
        self.titles, self.descriptions = titles, descriptions

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def names(self) -> list[Any]:
        """The name of each column."""
        if len(self._names) < len(self._columns):
            self._names = list(self._columns)
        return self._names

    def columns(self, names: Iterable[Any]) -> NDArray[np.int64]:
        """The column of each name, -1 for unknown names."""
        columns = self._columns
        return np.fromiter((columns.get(name, -1) for name in names), np.int64)

    def add(self, names: Iterable[Any]) -> NDArray[np.int64]:
        """The column of each name; unknown names get the next columns."""
        columns = self._columns
        return np.fromiter((columns.setdefault(name, len(columns)) for name in names), np.int64)

    def in_order(self) -> tuple[list[str], NDArray[np.int64]]:
        """The names sorted, as numbers when each is a plain integer, and the position of each
        column in that order.
        """
        names = self.names
        numbers = all(map(_PLAIN_INTEGER.fullmatch, names))
        order = sorted(range(len(names)), key=lambda i: (int(names[i]) if numbers else 0, names[i]))
        position = np.empty(len(names), np.int64)
        position[order] = np.arange(len(names))
        return [names[column] for column in order], position

    def spelled(self, column: int) -> str:
        """The name of a column as text."""
        return str(self.names[column])

    def title(self, column: int) -> str:
        """The title of a column, or else its name."""
        return (self.titles and self.titles[column]) or str(self.names[column])

    def shown(self, column: int) -> str:
        """A label for people: its title, if it has one, and its name."""
        name, title = self.spelled(column), self.title(column)
        return name if title == name else f"{title} ({name})"

    def named(self, column: int) -> dict[str, str]:
        """A label for JSON."""
        return {"label": self.spelled(column), "name": self.title(column)}

    def detailed(self, column: int) -> dict[str, str]:
        """A label for JSON, with its description."""
        return self.named(column) | {
            "description": self.descriptions[column] if self.descriptions else ""
        }

    def find(self, text: str) -> int | None:
        """The column with this name, or with this name or title in another case."""
        return self._columns.get(text, self._folded.get(text.casefold()))

    @cached_property
    def _folded(self) -> dict[str, int]:
        titles = {self.title(column).casefold(): column for column in reversed(range(len(self)))}
        return titles | {str(name).casefold(): column for name, column in self._columns.items()}
