"""Short forms of the attacks; ``python -m benchmarks.attack`` runs the long ones."""

import pytest
from benchmarks.attack import processes
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
    outcomes, failures = processes.kills(2, seed=1)
    assert failures == [] and outcomes == {"kept": 2}


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
