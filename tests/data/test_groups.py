"""Columns that say which rows are held out together, or later."""

import numpy as np
import pandas as pd
import pytest

from rembrandt import RembrandtClassifier
from rembrandt.data.examples import numbered
from rembrandt.data.splits import latest_rows
from rembrandt.errors import DataError, SettingsError
from tests.estimators.problems import several


@pytest.mark.parametrize(
    "values",
    [
        ["2024-01-02", "2023-05-01", "2024-01-02", "2025-01-01"],
        [10, 9.5, 10, 11],
        ["10", "9.5", "10", "11"],
        pd.Series(pd.to_datetime(["2024-01-02", "2023-05-01", "2024-01-02", "2025-01-01"])),
        np.array([b"b", b"a", b"b", b"c"]),
    ],
    ids=["dates", "numbers", "numbers as text", "pandas", "bytes"],
)
def test_values_are_numbered_in_their_order(values):
    assert numbered("times", values, 4).tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize(
    "values", [["a", None], [1.0, np.nan], pd.Series([pd.Timestamp(0), pd.NaT]), ["", "b"]]
)
def test_missing_values_are_counted(values):
    with pytest.raises(DataError, match="groups has 1 missing values"):
        numbered("groups", values, 2)


def test_a_column_has_a_value_for_each_row():
    with pytest.raises(DataError, match="one value for each of the 3 rows"):
        numbered("groups", [1, 2], 3)
    assert numbered("groups", None, 3) is None


def test_rows_of_the_same_time_stay_together():
    fit, held = latest_rows(np.array([5, 1, 5, 2, 3, 5]), 1 / 3, 100)
    assert fit.tolist() == [1, 3, 4] and held.tolist() == [0, 2, 5]
    fit, held = latest_rows(np.zeros(6, int), 1 / 3, 100)
    assert fit.tolist() == [0, 1, 2, 3] and held.tolist() == [4, 5]


def test_a_fit_takes_groups_or_times():
    X, Y = several()
    model = RembrandtClassifier(preset="fast", random_state=0)
    plain = model.fit(X, Y).predict_proba(X)
    for given in ({"groups": np.arange(300) // 30}, {"times": np.arange(300)}):
        other = model.fit(X, Y, **given).predict_proba(X)
        assert other.shape == plain.shape and not np.array_equal(other, plain)
    with pytest.raises(SettingsError, match="give one of them"):
        model.fit(X, Y, groups=np.arange(300), times=np.arange(300))
