"""Checks of parameters; each error names the parameter."""

import sys
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from rembrandt.errors import SettingsError


def seed_of(random_state: Any) -> int:
    """Return an integer seed.

    A non-negative integer is returned as it is, otherwise a draw from the random generator.
    """
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    generator = check_random_state(random_state)
    return int(generator.randint(2**31 - 1))


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise an error unless ``value`` is an integer of at least ``least``."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not is_integer or value < least:
        raise SettingsError(f"{name}={value!r} must be an integer of at least {least}", name)


def check_number(
    name: str, value: Any, least: float, above: bool = False, most: float = np.inf
) -> None:
    """Raise an error unless ``value`` is a finite number from ``least`` to ``most``.

    With ``above`` it must be larger than ``least``.
    """
    if _is_finite_number(value) and least <= value <= most and not (above and value == least):
        return
    limits = f"of at least {least:g}"
    if above:
        limits = f"above {least:g}"
    if most < np.inf:
        limits += f" and at most {most:g}"
    raise SettingsError(f"{name}={value!r} must be a number {limits}", name)


def _is_finite_number(value: Any) -> bool:
    """Whether a value is a finite number; true and false are not numbers."""
    if isinstance(value, bool | np.bool_):
        return False
    if not isinstance(value, int | float | np.number):
        return False
    magnitude: Any = abs(value)
    return bool(magnitude <= sys.float_info.max)


def check_among(name: str, value: Any, options: tuple[Any, ...]) -> None:
    """Raise an error unless ``value`` is one of ``options``."""
    for option in options:
        if value is option or value == option:
            return
    listed = ", ".join(map(repr, options))
    raise SettingsError(f"{name}={value!r} must be one of {listed}", name)
