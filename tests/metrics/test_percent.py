"""Shares as text: never rounded to what is certain."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rembrandt.metrics.percent import percent, probability


@given(st.floats(0, 1), st.integers(0, 4))
def test_only_what_is_certain_looks_certain(share, digits):
    text = percent(share, digits).removesuffix(" %")
    assert (text == f"{100:.{digits}f}") == (share == 1) and (text == f"{0:.{digits}f}") == (
        share == 0
    )
    if text[0] in "<>":
        assert (
            (100 * share < float(text[1:])) if text[0] == "<" else (100 * share > float(text[1:]))
        )
    else:
        assert abs(float(text) - 100 * share) <= 0.5 * 10.0**-digits + 1e-9
    number = probability(share)
    assert (float(number) == 1) == (share == 1) and (float(number) == 0) == (share == 0)
    assert abs(float(number) - share) <= 1e-4


def test_examples():
    assert percent(0.9995) == ">99.9 %" and percent(0.99949) == "99.9 %" and percent(1) == "100.0 %"
    assert percent(None) == percent(math.nan) == "-" and percent(-0.012) == "-1.2 %"
