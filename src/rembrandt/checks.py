"""Checks of parameters; each error names the parameter.

Importing this module is fast: NumPy and scikit-learn are imported where they are needed.
"""

import math
from numbers import Integral, Real
from typing import Any

from rembrandt.errors import SettingsError


def seed_of(random_state: Any) -> int:
    """Return an integer seed.

    A non-negative integer is returned as it is, otherwise a draw from the random generator.
    """
    if is_integer(random_state) and random_state >= 0:
        return int(random_state)
    from sklearn.utils import check_random_state

    generator = check_random_state(random_state)
    return int(generator.randint(2**31 - 1))


def is_integer(value: Any) -> bool:
    """Whether a value is an integer of Python or NumPy; true and false are not integers."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_finite_number(value: Any) -> bool:
    """Whether a value is a finite number of Python or NumPy; true and false are not numbers."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that is too large for a float
        return False


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise an error unless ``value`` is an integer of at least ``least``."""
    if not is_integer(value) or value < least:
        raise SettingsError(f"{name}={value!r} must be an integer of at least {least}", name)


def check_number(
    name: str, value: Any, least: float, above: bool = False, most: float = math.inf
) -> None:
    """Raise an error unless ``value`` is a finite number from ``least`` to ``most``.

    With ``above`` it must be larger than ``least``.
    """
    if is_finite_number(value) and least <= value <= most and not (above and value == least):
        return
    limits = f"of at least {least:g}"
    if above:
        limits = f"above {least:g}"
    if most < math.inf:
        limits += f" and at most {most:g}"
    raise SettingsError(f"{name}={value!r} must be a number {limits}", name)
