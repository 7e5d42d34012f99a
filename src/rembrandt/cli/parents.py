"""Options for the parents of labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rembrandt.cli.options import DATA, option
from rembrandt.errors import SettingsError

if TYPE_CHECKING:
    from rembrandt.data.hierarchy import Parents


@dataclass(frozen=True)
class ParentOptions:
    """Where the parents of labels come from."""

    label_parents: Annotated[
        Path | None,
        option("Parents of labels: a table of id and parent, or SKOS.", DATA, metavar="FILE"),
    ] = None
    parent_columns: Annotated[
        str | None,
        option(
            "Columns of --label-parents with the groups of a label, the nearest first.",
            DATA,
            metavar="COLUMNS",
        ),
    ] = None
    hierarchy_separator: Annotated[
        str | None,
        option(
            "Separator of the parts of a label: its parent is the label without the last part.",
            DATA,
            metavar="S",
        ),
    ] = None

    def read(self) -> Parents | None:
        """Return the parents of labels, or the separator; None where none was named."""
        if self.label_parents is not None and self.hierarchy_separator is not None:
            raise SettingsError(
                "--label-parents and --hierarchy-separator both name parents; give one of them",
                ("label_parents", "hierarchy_separator"),
            )
        if self.parent_columns is not None and self.label_parents is None:
            raise SettingsError(
                "--parent-columns are those of a table; name it with --label-parents",
                "parent_columns",
            )
        if self.hierarchy_separator is not None:
            return self.hierarchy_separator
        if self.label_parents is None:
            return None
        from rembrandt.data.label_parents import read_label_parents

        columns = [name.strip() for name in (self.parent_columns or "").split(",")]
        return read_label_parents(self.label_parents, [name for name in columns if name])
