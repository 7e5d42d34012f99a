"""The declaration of a setting, and the value of a setting that is not set."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from rembrandt.errors import SettingsError
from rembrandt.settings.kinds import Kind

Panel = Literal["Model", "Advanced"]


class Unset(Enum):
    """Type of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


# The value of a setting that a user leaves to the preset.
UNSET: Any = Unset.UNSET


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Declaration of a setting.

    Checks, options of the command line, settings of Annif projects and the reference in the
    documentation derive from it.

    Parameters
    ----------
    name : str
        Name of the parameter or of the field.
    kind : Kind
        Kind and range of its values.
    default : object
        Value of a setting that neither the user nor the preset sets.
    help : str
        What it is, in one sentence.
    note : str, default=""
        Further sentences, for the documentation.
    words : tuple of str, default=()
        Words that are accepted besides values of the kind, such as "auto".
    allows_none : bool, default=False
        Whether None is accepted.
    panel : {"Model", "Advanced"} or None, default=None
        Panel of the option in the help of ``rembrandt fit``. None: there is no option.
    group : str, default=""
        Name of the part whose settings have it as a field; "" for a parameter of the classifier
        that concerns no part.
    flat_name : str, default=name
        Name where all settings stand next to each other: on the command line and in Annif.
    is_parameter : bool, default=False
        Whether a setting of a part is a parameter of the classifier too.
    """

    name: str = ""
    kind: Kind
    default: Any
    help: str
    note: str = ""
    words: tuple[str, ...] = ()
    allows_none: bool = False
    panel: Panel | None = None
    group: str = ""
    flat_name: str = ""
    is_parameter: bool = False

    def __post_init__(self) -> None:
        if not self.flat_name:
            object.__setattr__(self, "flat_name", self.name)

    @property
    def option(self) -> str | None:
        """The option of the command line, None if there is none."""
        if self.panel is None:
            return None
        return f"--{self.flat_name.replace('_', '-')}"

    @property
    def description(self) -> str:
        """What the setting is, with all details."""
        return f"{self.help} {self.note}".strip()

    @property
    def expected(self) -> str:
        """The accepted values in words."""
        alternatives = self.kind.alternatives()
        alternatives += [repr(word) for word in self.words]
        if self.allows_none:
            alternatives.append("None")
        *first, last = alternatives
        if not first:
            return last
        return f"{', '.join(first)} or {last}"

    @property
    def type_words(self) -> str:
        """The type as a docstring has it."""
        types = [self.kind.type_words]
        types += [f'"{word}"' for word in self.words]
        if self.allows_none:
            types.append("None")
        return " or ".join(types)

    def accepts(self, value: Any) -> bool:
        """Whether the setting may have this value."""
        if isinstance(value, str) and value in self.words:
            return True
        if value is None:
            return self.allows_none
        return self.kind.accepts(value)

    def check(self, value: Any) -> None:
        """Raise an error that names the setting, the value and the range, unless it is accepted."""
        if not self.accepts(value):
            raise SettingsError(f"{self.name}={value!r} must be {self.expected}", self.name)

    def parse(self, text: str) -> Any:
        """Read a value from text; `check` refuses what cannot be read."""
        word = text.strip().lower()
        if word in self.words:
            return word
        if self.allows_none and word == "none":
            return None
        return self.kind.parse(text.strip())


def as_code(value: Any) -> str:
    """Return a value as Python code, with short numbers and double quotes."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{value:g}".replace("e+0", "e")
    return repr(value)
