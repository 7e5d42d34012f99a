"""The benchmarks of scale run, small, and their simulation behaves as arithmetic says."""

from dataclasses import replace

import pytest
from benchmarks.scale import CLUSTERS, Costs, Problem, simulate

from benchmarks import out_of_core, scale

COSTS = Costs(visit=3e-8, column=6e-10, add=1e-9, dense=1e-10)


def test_out_of_core_measures_rate_and_peak():
    found = out_of_core.main(scale=0.0004, iterations=2)
    assert found["ratio"] > 0 and found["embedding"]["passes"] > 5
    assert 5e7 < found["embedding"]["peak"] < 4e9


def test_costs_grow_with_the_width_of_a_block():
    found = scale.main(scale=0.004, parts=("costs", "plan"))
    assert found["costs"]["column"] > 0 and len(found["plan"]) == 7


def test_more_machines_compute_less_and_move_more():
    few, many = (simulate(COSTS, Problem(), CLUSTERS[i], "rows") for i in (1, 2))
    assert many["compute"] == pytest.approx(few["compute"] / 4)
    assert many["moved"] > few["moved"] and many["network"] > few["network"]


def test_columns_move_no_more_on_more_machines():
    few, many = (simulate(COSTS, Problem(), CLUSTERS[i], "columns") for i in (1, 2))
    assert many["moved"] == few["moved"] < simulate(COSTS, Problem(), CLUSTERS[1], "rows")["moved"]


def test_data_that_fits_in_memory_is_not_read_again():
    small = replace(Problem(), examples=1e6)
    assert (
        simulate(COSTS, small, CLUSTERS[1], "columns")["disk"]
        == 0
        < simulate(COSTS, Problem(), CLUSTERS[1], "columns")["disk"]
    )
