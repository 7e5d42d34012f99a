"""Short forms of the attacks; ``python -m benchmarks.attack`` runs the long ones."""

import asyncio

import pytest
from benchmarks.attack import processes, service
from benchmarks.attack.__main__ import ATTACKS
from benchmarks.attack.harness import attack

CASES = {
    "readers": 400,
    "generated": 200,
    "models": 120,
    "stores": 120,
    "checkpoints": 15,
    "matrices": 150,
    "answers": 40,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_damage_is_refused_or_harmless(name):
    module, function, _ = ATTACKS[name]
    figures = attack(module, function, CASES[name], seed=1)
    assert figures.failures == []
    assert sum(figures.outcomes.values()) == CASES[name] and len(figures.outcomes) in (1, 2)
    assert figures.megabytes < 2000


def test_a_killed_process_loses_nothing():
    outcomes, failures = processes.kills(6, seed=1)
    assert failures == [] and outcomes == {"kept": 6}


def test_hostile_clients_harm_nobody():
    given = service.parser().parse_args(
        ["--cases", "300", "--clients", "12", "--hostile", "4", "--swaps", "2", "--rest", "0"]
    )
    line, failures = service.run(given)
    assert failures == []
    assert "2 swaps: " in line and " requests: good " in line and "0 failures" in line
    assert "due at 250 requests/s, answered at " in line


def test_the_latency_of_a_late_request_counts_from_when_it_was_due():
    """Requests are due at 1,000 a second and answered at 50; the last one is answered almost two
    seconds late.
    """

    async def answer(reader, writer):
        for _ in range(100):
            await reader.readuntil(b"}")
            await asyncio.sleep(0.02)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    async def main():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            options = service.parser().parse_args(["--clients", "1"])
            attack = service.Attack(server.sockets[0].getsockname(), ["a"], 100, options, rate=1000)
            await attack.good_client()
        return attack

    attack = asyncio.run(main())
    assert attack.failures == [] and attack.statuses["good"] == {"200": 100}
    assert attack.latencies[-1] > 1.5 and attack.seconds > 1.9


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
