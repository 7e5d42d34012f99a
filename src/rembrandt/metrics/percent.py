"""Shares and probabilities as text. Rounding never turns what is nearly certain into what is certain."""

from math import isfinite


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share in per cent: 0.9996 is ">99.9 %", and "100.0 %" is exactly one. A missing share is "-".

    >>> percent(0.6612), percent(0.99996), percent(1.0), percent(0.0002), percent(0.0)
    ('66.1 %', '>99.9 %', '100.0 %', '<0.1 %', '0.0 %')
    """
    return "-" if share is None or not isfinite(share) else f"{_bounded(100 * share, 100, digits)} %"


def probability(value: float, digits: int = 4) -> str:
    """Return a probability as a decimal number, between 0 and 1 unless it is one of them.

    >>> probability(0.25), probability(0.99999), probability(1.0), probability(1e-9)
    ('0.2500', '>0.9999', '1.0000', '<0.0001')
    """
    return _bounded(value, 1, digits)


def _bounded(value: float, most: int, digits: int) -> str:
    step = 10.0**-digits
    if 0 < value < most:
        text = f"{value:.{digits}f}"
        if float(text) >= most:
            return f">{most - step:.{digits}f}"
        return text if float(text) > 0 else f"<{step:.{digits}f}"
    return f"{value:.{digits}f}"
