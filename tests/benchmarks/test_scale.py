"""The benchmarks of scale run at a small size, and the simulation depends on its inputs as it
should.
"""

import math
from dataclasses import replace

import pytest
from benchmarks.scale import CLUSTERS, Costs, Problem, simulate

from benchmarks import out_of_core, scale, stores

COSTS = Costs(visit=3e-8, column=6e-10, add=1e-9, dense=1e-10)


def test_out_of_core_measures_rate_and_peak():
    found = out_of_core.main(scale=0.0004, iterations=2)
    assert found["ratio"] > 0 and found["embedding"]["passes"] > 5
    assert 5e7 < found["embedding"]["peak"] < 4e9


def test_a_preset_is_fitted_to_a_store_within_its_limit():
    [found] = stores.main("generated", "fast", (), limit=2.0, scale=0.0005)
    assert found["parts"] and 0 < found["estimate"] < 2e9 and found["peak"] < 2e9
    assert 0 <= found["p@1"] <= 1 and len(found["model"]) == 64


def test_costs_are_measured_and_every_cluster_is_planned():
    found = scale.main(scale=0.004, parts=("costs", "plan"))
    assert all(map(math.isfinite, found["costs"].values()))
    assert [row["cluster"] for row in found["plan"]] == [cluster.name for cluster in CLUSTERS]


def test_costs_grow_with_the_width_of_a_block():
    wide, narrow = (
        simulate(COSTS, replace(Problem(), width=width), CLUSTERS[1])["compute"]
        for width in (120, 12)
    )
    assert narrow < wide < 10 * narrow


def test_more_machines_compute_less_and_move_more():
    few, many = (simulate(COSTS, Problem(), CLUSTERS[i]) for i in (1, 2))
    assert many["compute"] == pytest.approx(few["compute"] / 4)
    assert many["moved"] > few["moved"] and many["network"] > few["network"]


def test_data_that_fits_in_memory_is_not_read_again():
    one = replace(CLUSTERS[1], memory=16)
    small = replace(Problem(), examples=1e6)
    assert simulate(COSTS, small, one)["disk"] == 0 < simulate(COSTS, Problem(), one)["disk"]
