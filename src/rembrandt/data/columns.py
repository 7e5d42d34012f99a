"""Which columns of a table hold the texts and the labels, where their names leave no doubt."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rembrandt.errors import DataError

# Names in folded case. A title and one longer text are read together.
_TITLES = ("title", "headline", "heading")
_BODIES = (
    "text",
    "texts",
    "abstract",
    "body",
    "content",
    "description",
    "document",
    "question",
    "sentence",
    "summary",
)
_LABELS = (
    "labels",
    "label",
    "tags",
    "tag",
    "subjects",
    "subject",
    "categories",
    "category",
    "topics",
    "topic",
    "keywords",
    "classes",
    "class",
)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table that are read, and which of them were chosen by their names."""

    text: tuple[str, ...]
    labels: str | None = None
    chosen: tuple[str, ...] = ()  # of "text" and "labels"

    def sentence(self) -> str:
        """What was chosen, for people; empty if everything was named."""
        parts = []
        if "text" in self.chosen:
            parts.append(f"texts are in {' and '.join(map(repr, self.text))}")
        if "labels" in self.chosen:
            parts.append(f"labels are in {self.labels!r}")
        if not parts:
            return ""
        sentence = " and ".join(parts)
        return f"By the names of the columns, {sentence}."


def choose_columns(
    path: Path | None,
    columns: Sequence[str],
    text: Sequence[str],
    labels: str | None,
    needs_labels: bool,
) -> TableColumns:
    """Return the columns to read; those that are not named are chosen if there is no doubt.

    Parameters
    ----------
    path : Path or None
        The table, for errors.
    columns : sequence of str
        The names of all columns.
    text : sequence of str
        The columns of the text, as far as they were named.
    labels : str or None
        The column of the labels, if it was named.
    needs_labels : bool
        Whether labels are read.
    """
    chosen = []
    if not text:
        others = [name for name in columns if name != labels]
        text = _text_columns(others)
        if not text:
            raise _unknown(path, columns, "text")
        chosen.append("text")
    if labels is None and needs_labels:
        others = [name for name in columns if name not in text]
        candidates = _named(others, _LABELS)
        if len(candidates) != 1:
            raise _unknown(path, columns, "labels", candidates)
        labels = candidates[0]
        chosen.append("labels")
    return TableColumns(tuple(text), labels, tuple(chosen))


def _text_columns(columns: Sequence[str]) -> list[str]:
    """A title, a longer text, or both; none if there are several candidates for one of them."""
    titles = _named(columns, _TITLES)
    bodies = _named(columns, _BODIES)
    if len(titles) > 1 or len(bodies) > 1:
        return []
    return titles + bodies


def _named(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns with one of these names in any case."""
    return [column for column in columns if column.strip().casefold() in names]


def _unknown(
    path: Path | None, columns: Sequence[str], missing: str, candidates: Sequence[str] = ()
) -> DataError:
    """The error for columns that are not known."""
    doubt = ""
    if len(candidates) > 1:
        doubt = f" ({' or '.join(map(repr, candidates))}?)"
    return DataError(
        f"the column with the {missing} is not known{doubt}; set {missing} to one of the columns: "
        f"{', '.join(columns)}",
        path,
        parameter=missing,
    )
