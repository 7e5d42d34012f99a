"""Mutants: what is changed, and that the runner tells a caught one from one that survives."""

import ast

import pytest
from benchmarks.mutants import KINDS, mutants

from benchmarks import mutate

SOURCE = b'''
def area(a: int | None, b, rows, text):
    """Docstring with 1 + 1."""
    if a < b and rows.sum(axis=1) == 3:
        raise ValueError(f"{a + b} is wrong" + "-")
    total = -a + max(a, b) * 2
    total -= 1  # a comment - with an operator
    return total, "x" + text
'''


def test_each_changes_one_piece_of_the_code():
    changes = set()
    for mutant in mutants("area.py", SOURCE):
        changed = mutant.applied(SOURCE).decode()
        ast.parse(changed)
        before = SOURCE.decode().splitlines()
        [line] = [
            new.strip() for old, new in zip(before, changed.splitlines(), strict=True) if old != new
        ]
        changes.add((mutant.kind, line))
        assert mutant.describe(SOURCE).startswith(f"area.py:{mutant.line} {mutant.kind}: ")
    condition = "if {} and rows.sum(axis={}) {} {}:"
    result = "total = {}"
    assert changes == {
        ("comparison", condition.format("a >= b", 1, "==", 3)),
        ("boundary", condition.format("a <= b", 1, "==", 3)),
        ("axis", condition.format("a < b", 0, "==", 3)),
        ("comparison", condition.format("a < b", 1, "!=", 3)),
        ("off by one", condition.format("a < b", 1, "==", 4)),
        ("sign", result.format("a + max(a, b) * 2")),
        ("sign", result.format("-a - max(a, b) * 2")),
        ("sign", result.format("-a + max(a, b) / 2")),
        ("dropped term", result.format("(-a)")),
        ("dropped term", result.format("-a + (max(a, b))")),
        ("min and max", result.format("-a + min(a, b) * 2")),
        ("off by one", result.format("-a + max(a, b) * 3")),
        ("sign", "total += 1  # a comment - with an operator"),
        ("off by one", "total -= 2  # a comment - with an operator"),
    }


def test_kinds_have_equal_shares_and_every_file_has_tests():
    selection = mutate.chosen(70, seed=1, only=["metrics/", "blend.py"])
    assert len(set(selection)) == 70
    for kind in set(KINDS) - {"axis"}:
        assert sum(mutant.kind == kind for mutant in selection) >= 10
    for mutant in mutate.chosen(100_000, seed=0, only=[]):
        for tests in mutate.tests_of(mutant.file):
            assert (mutate.ROOT / tests).exists()


@pytest.mark.slow
def test_a_mutant_is_caught_and_another_survives(tmp_path, monkeypatch):
    monkeypatch.setitem(mutate.TESTS, "linalg/dense.py", ("tests/metrics/test_percent.py",))
    monkeypatch.setitem(mutate.TESTS, "metrics/", ("tests/metrics/test_percent.py",))
    workshop = mutate.Workshop(tmp_path)
    path = mutate.ROOT / mutate.PACKAGE / "metrics/percent.py"
    [caught, *_] = mutants("metrics/percent.py", path.read_bytes())
    outcome = workshop.test(caught)
    assert (outcome.outcome, outcome.file) == ("caught", "metrics/percent.py")
    assert outcome.test.startswith("tests/metrics/test_percent.py::")
    path = mutate.ROOT / mutate.PACKAGE / "linalg/dense.py"
    [unseen, *_] = mutants("linalg/dense.py", path.read_bytes())
    assert workshop.test(unseen).outcome == "survives"
    workshop.close()
    assert path.read_bytes() == (workshop.tree / mutate.PACKAGE / "linalg/dense.py").read_bytes()


def test_tests_of_a_mutant_are_those_that_execute_its_statement():
    """Fixtures count for all tests of a file, and what runs at the import of tests for all."""
    seconds = {"a.py::one": 1.0, "a.py::two": 2.0, "b.py::three": 3.0}
    users = {"x.py:4": ["a.py::two"], "x.py:6": ["a.py"], "x.py:8": [""], "x.py:9": ["b.py::three"]}
    clean = mutate.CleanRun(6.0, {"seconds": seconds, "users": users})
    assert set(clean.tests_of("x.py", range(4, 6))) == {"a.py::two"}
    assert set(clean.tests_of("x.py", range(6, 7))) == {"a.py::one", "a.py::two"}
    assert set(clean.tests_of("x.py", range(9, 11))) == {"b.py::three"}
    assert clean.tests_of("x.py", range(7, 10)) == seconds
    assert clean.tests_of("x.py", range(5, 6)) == clean.tests_of("y.py", range(1, 9)) == {}


def test_a_statement_is_its_lines_or_its_head():
    source = b"""
def f(a, b):
    while (
        a < b
    ):
        a += (
            1
        )
    return a
"""
    lines = {mutant.line: mutant.lines for mutant in mutants("f.py", source)}
    assert lines == {4: range(3, 6), 6: range(6, 9), 7: range(6, 9)}
