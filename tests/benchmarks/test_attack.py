"""Short forms of the attacks; ``python -m benchmarks.attack`` runs the long ones."""

import pytest
from benchmarks.attack import processes, service
from benchmarks.attack.__main__ import ATTACKS
from benchmarks.attack.harness import attack

CASES = {"readers": 400, "generated": 200, "models": 120, "stores": 120, "checkpoints": 15}


@pytest.mark.parametrize("name", ATTACKS)
def test_damage_is_refused_or_harmless(name):
    module, function, _ = ATTACKS[name]
    figures = attack(module, function, CASES[name], seed=1)
    assert figures.failures == []
    assert sum(figures.outcomes.values()) == CASES[name] and len(figures.outcomes) in (1, 2)
    assert figures.megabytes < 2000


def test_a_killed_process_loses_nothing():
    outcomes, failures = processes.kills(3, seed=1)
    assert failures == [] and outcomes == {"kept": 3}


def test_hostile_clients_harm_nobody():
    given = service.parser().parse_args(["--cases", "300", "--clients", "12", "--hostile", "4", "--swaps", "2"])
    line, failures = service.run(given)
    assert failures == []
    assert "2 swaps: " in line and " requests: good " in line and "0 failures" in line


def test_of_two_writers_one_wins():
    outcomes, failures = processes.writers(4)
    assert failures == [] and outcomes == {"one saved": 4}


def bad_case(root):
    import ctypes

    def case(rng, root):
        match rng.integers(3):
            case 0:
                ctypes.string_at(0)
            case 1:
                raise ZeroDivisionError
        return "fine"

    return case


def test_crashes_and_tracebacks_are_seen():
    figures = attack("tests.benchmarks.test_attack", "bad_case", 12, seed=0)
    assert {"crash", "traceback", "fine"} == set(figures.outcomes)
    assert len(figures.failures) == figures.outcomes["crash"] + figures.outcomes["traceback"]
    assert "12 cases: " in figures.line()
