"""The label table: labels, their columns and the names that are shown for them.

Features have the same lookup.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError
from rembrandt.forks import cached_property

# Display name of a label that is an identifier, or a tuple of name and description, which may be
# followed by other names.
Title = str | tuple[str, ...]
Texts = list[str] | None
# Between the other names of a label, where they are kept as one text.
OTHER_NAMES_SEPARATOR = "\n"

_PLAIN_INTEGER = re.compile(r"[0-9]{1,18}")


class LabelTitles(NamedTuple):
    """What is known of labels as text, one for each; None where no label has any."""

    names: Texts
    descriptions: Texts
    other_names: Texts  # of a label in lines


def as_labels(names: Iterable[Any]) -> NDArray[Any]:
    """Labels as an array.

    Strings are objects: in an array of fixed width each would be as long as the longest.
    """
    values = _as_list(names)
    if any(isinstance(name, str) for name in values):
        return np.array(values, dtype=object)
    return np.array(values)


def _as_list(names: Iterable[Any]) -> list[Any]:
    """Names as a list; those of an array become values of Python."""
    if isinstance(names, np.ndarray):
        return names.tolist()
    return list(names)


def titles_of(names: Iterable[Any], titles: Mapping[Any, Title] | Iterable[Title]) -> LabelTitles:
    """Titles, descriptions and other names, "" where a name has none and None where all have none.

    They are given as a mapping or as one for each name.
    """
    labels = list(names)
    if isinstance(titles, Mapping):
        label_names = [titles.get(name, titles.get(str(name), "")) for name in labels]
    else:
        label_names = list(titles)
        if len(label_names) != len(labels):
            raise DataError(
                f"there are {len(label_names):,} names for {len(labels):,} labels; give one for "
                "each, or a mapping"
            )
    shown = []
    described = []
    others = []
    for title in label_names:
        name, description, *other_names = _texts_of(title)
        shown.append(name)
        described.append(description)
        others.append(OTHER_NAMES_SEPARATOR.join(_one_line(other) for other in other_names))
    return LabelTitles(_none_if_empty(shown), _none_if_empty(described), _none_if_empty(others))


def _texts_of(title: Any) -> tuple[str, ...]:
    """A title as a tuple of name, description and other names; one that is no text or tuple of
    texts is refused.
    """
    if isinstance(title, str):
        return title, ""
    is_texts = isinstance(title, tuple) and all(isinstance(text, str) for text in title)
    if not is_texts or len(title) < 2:
        raise DataError(
            f"the name {title!r} of a label is not a text; give strings, or tuples of a name and a "
            "description, which other names may follow"
        )
    return tuple(title)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _none_if_empty(texts: list[str]) -> Texts:
    """The texts, or None if all of them are empty."""
    return texts if any(texts) else None


def check_titles(
    titles: Mapping[Any, Title], names: Iterable[Any], parameter: str | tuple[str, ...] = ()
) -> int:
    """Return how many of the names have a title; raise an error if none has."""
    labels = list(names)
    n_titled = sum(name in titles or str(name) in titles for name in labels)
    if titles and not n_titled:
        label = next(iter(labels), None)
        titled = next(iter(titles))
        raise DataError(
            f"none of the {len(titles):,} names is of a label: there are labels like {label!r}, "
            f"and the names are of labels like {titled!r}",
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
        self._names = _as_list(names)
        self._columns = {name: column for column, name in enumerate(self._names)}
        self.titles = titles
        self.descriptions = descriptions

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
        """The names in order, and the position of each column in that order.

        Names are sorted as numbers when each is a plain integer, and as texts otherwise.
        """
        names = self.names
        columns = range(len(names))
        if all(map(_PLAIN_INTEGER.fullmatch, names)):
            order = sorted(columns, key=lambda column: (int(names[column]), names[column]))
        else:
            order = sorted(columns, key=names.__getitem__)
        position = np.empty(len(names), np.int64)
        position[order] = np.arange(len(names))
        return [names[column] for column in order], position

    def spelled(self, column: int) -> str:
        """The name of a column as text."""
        return str(self.names[column])

    def title(self, column: int) -> str:
        """The title of a column, or else its name."""
        if self.titles and self.titles[column]:
            return self.titles[column]
        return self.spelled(column)

    def shown(self, column: int) -> str:
        """A label for people: its title, if it has one, and its name."""
        name = self.spelled(column)
        title = self.title(column)
        if title == name:
            return name
        return f"{title} ({name})"

    def named(self, column: int) -> dict[str, str]:
        """A label for JSON."""
        return {"label": self.spelled(column), "name": self.title(column)}

    def detailed(self, column: int) -> dict[str, str]:
        """A label for JSON, with its description."""
        description = self.descriptions[column] if self.descriptions else ""
        return self.named(column) | {"description": description}

    def find(self, text: str) -> int | None:
        """The column with this name, or with this name or title in another case."""
        if text in self._columns:
            return self._columns[text]
        return self._folded.get(text.casefold())

    @cached_property
    def _folded(self) -> dict[str, int]:
        """The column of each title and name in folded case; names precede titles."""
        columns = {}
        for column in reversed(range(len(self))):  # the first column with a title has it
            columns[self.title(column).casefold()] = column
        for name, column in self._columns.items():
            columns[str(name).casefold()] = column
        return columns
