"""Checks of parameters; each error names the parameter."""

import sys
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from rembrandt.errors import SettingsError


def seed_of(random_state: Any) -> int:
    """Return an integer seed: a non-negative integer as it is, otherwise a draw from the random
    generator.
    """
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def check_whole(name: str, value: Any, least: int) -> None:
    if (
        not isinstance(value, int | np.integer)
        or isinstance(value, bool | np.bool_)
        or value < least
    ):
        raise SettingsError(f"{name}={value!r} must be an integer of at least {least}", name)


def check_number(
    name: str, value: Any, least: float, above: bool = False, most: float = np.inf
) -> None:
    real = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
    if (
        not real
        or not abs(value) <= sys.float_info.max
        or not least <= value <= most
        or (above and value == least)
    ):
        limits = (
            f"{'above' if above else 'of at least'} "
            f"{least:g}{f' and at most {most:g}' if most < np.inf else ''}"
        )
        raise SettingsError(f"{name}={value!r} must be a number {limits}", name)


def check_among(name: str, value: Any, options: tuple[Any, ...]) -> None:
    if not any(value is option or value == option for option in options):
        raise SettingsError(
            f"{name}={value!r} must be one of {', '.join(map(repr, options))}", name
        )
