"""Shares and probabilities as text.

Rounding never turns what is nearly certain into what is certain.
"""

from math import isfinite


def percent(share: float | None, digits: int = 1, unit: str = " %") -> str:
    """Return a share in per cent; a missing share is "-".

    0.9996 is ">99.9 %", and "100.0 %" is exactly one.

    >>> percent(0.6612), percent(0.99996), percent(1.0), percent(0.0002), percent(0.0)
    ('66.1 %', '>99.9 %', '100.0 %', '<0.1 %', '0.0 %')
    """
    if share is None or not isfinite(share):
        return "-"
    text = f"{100 * share:.{digits}f}"
    step = 10.0**-digits
    if share < 1 and float(text) >= 100:
        text = f">{100 - step:.{digits}f}"
    elif share > 0 and float(text) <= 0:
        text = f"<{step:.{digits}f}"
    return f"{text}{unit}"


def probability(value: float, digits: int = 4) -> str:
    """Return a probability as a number that programs can read too: 0 or 1 only if it is that.

    >>> probability(0.25), probability(0.99999), probability(1.0), probability(1e-9)
    ('0.2500', '0.9999', '1.0000', '0.0001')
    """
    if 0 < value < 1:
        step = 10.0**-digits
        value = min(max(value, step), 1 - step)
    return f"{value:.{digits}f}"
