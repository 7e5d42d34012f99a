"""Kinds of values that settings have: which are accepted, how they are described, and how they are
read from text.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from rembrandt.checks import is_finite_number, is_integer
from rembrandt.errors import SettingsError

_SECONDS_PER_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600}
_SWITCH_WORDS = {
    "yes": True,
    "true": True,
    "on": True,
    "1": True,
    "no": False,
    "false": False,
    "off": False,
    "0": False,
}


class Kind(ABC):
    """Values that a setting may have.

    Attributes
    ----------
    type_words : str
        The type as a docstring has it.
    metavar : str
        What stands for a value in the help of the command line.
    """

    type_words: str
    metavar: str

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """Whether a value is of this kind and in range."""

    @abstractmethod
    def alternatives(self) -> list[str]:
        """Return the accepted values in words, to be joined by commas and "or"."""

    def parse(self, text: str) -> Any:
        """Read a value from text. What cannot be read stays text, which is not accepted."""
        return text


@dataclass(frozen=True)
class WholeNumber(Kind):
    """An integer of at least ``minimum``."""

    minimum: int
    type_words = "int"
    metavar = "N"

    def accepts(self, value: Any) -> bool:
        return is_integer(value) and bool(value >= self.minimum)

    def alternatives(self) -> list[str]:
        return [f"an integer of at least {self.minimum}"]

    def parse(self, text: str) -> Any:
        try:
            return int(text)
        except ValueError:
            return text


@dataclass(frozen=True)
class Number(Kind):
    """A finite number from ``minimum`` to ``maximum``.

    With ``above`` it is larger than ``minimum``.
    """

    minimum: float
    maximum: float = math.inf
    above: bool = False
    type_words = "float"
    metavar = "R"

    def accepts(self, value: Any) -> bool:
        if not is_finite_number(value):
            return False
        if self.above and value <= self.minimum:
            return False
        return bool(self.minimum <= value <= self.maximum)

    def alternatives(self) -> list[str]:
        if self.above:
            limits = f"above {self.minimum:g}"
            if self.maximum < math.inf:
                limits += f" and at most {self.maximum:g}"
        elif self.maximum < math.inf:
            limits = f"from {self.minimum:g} to {self.maximum:g}"
        else:
            limits = f"of at least {self.minimum:g}"
        return [f"a number {limits}"]

    def parse(self, text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text


@dataclass(frozen=True)
class Seconds(Number):
    """A positive number of seconds. As text it may have a unit: ``90s``, ``5m`` or ``1.5h``."""

    minimum: float = 0.0
    above: bool = True
    metavar = "TIME"

    def alternatives(self) -> list[str]:
        return ["a number of seconds above 0"]

    def parse(self, text: str) -> Any:
        seconds = 0.0
        match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh]?)", text.strip())
        if match:
            seconds = float(match[1]) * _SECONDS_PER_UNIT[match[2]]
        if seconds <= 0:
            raise SettingsError(f"{text!r} is not a time; write 90s, 5m or 1h")
        return seconds


@dataclass(frozen=True)
class Choice(Kind):
    """One of several names."""

    names: tuple[str, ...]
    metavar = "NAME"

    @property
    def type_words(self) -> str:  # type: ignore[override]
        quoted = ", ".join(f'"{name}"' for name in self.names)
        return f"{{{quoted}}}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.names

    def alternatives(self) -> list[str]:
        return [repr(name) for name in self.names]


@dataclass(frozen=True)
class Names(Kind):
    """One or more of several names, as a name or a collection of names."""

    names: tuple[str, ...]
    metavar = "NAMES"

    @property
    def type_words(self) -> str:  # type: ignore[override]
        quoted = ", ".join(f'"{name}"' for name in self.names)
        return f"tuple of {{{quoted}}}"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self.names
        if not isinstance(value, Iterable):
            return False
        chosen = list(value)
        return len(chosen) > 0 and all(name in self.names for name in chosen)

    def alternatives(self) -> list[str]:
        quoted = ", ".join(map(repr, self.names))
        return [f"names among {quoted}"]

    def parse(self, text: str) -> Any:
        return tuple(name.strip() for name in text.split(","))


@dataclass(frozen=True)
class Switch(Kind):
    """True or false."""

    type_words = "bool"
    metavar = "yes|no"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, Integral):  # bool is a subclass of int
            return bool(value == 0 or value == 1)
        dtype = getattr(value, "dtype", None)
        return getattr(dtype, "kind", None) == "b" and value.ndim == 0  # of NumPy

    def alternatives(self) -> list[str]:
        return ["True", "False"]

    def parse(self, text: str) -> Any:
        return _SWITCH_WORDS.get(text.lower(), text)


@dataclass(frozen=True)
class Seed(WholeNumber):
    """An integer of at least 0, or a random generator of NumPy."""

    minimum: int = 0

    def accepts(self, value: Any) -> bool:
        return super().accepts(value) or hasattr(value, "randint")

    def alternatives(self) -> list[str]:
        return [*super().alternatives(), "a numpy.random.RandomState"]


@dataclass(frozen=True)
class Text(Kind):
    """Any text; what uses it checks it."""

    type_words = "str"
    metavar = "NAME"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str)

    def alternatives(self) -> list[str]:
        return ["a name"]
