"""The comparison of two commits: its figures and its table, from runs with known figures."""

import pytest

from benchmarks import compare


def run(tree, cpu, *precisions, name="bibtex"):
    return {
        "set": name,
        "preset": "fast",
        "tree": tree,
        "cpu": cpu,
        "p@1": precisions[0],
        "p@3": 0.4,
        "p@5": 0.3,
    }


@pytest.fixture
def runs():
    return [
        run("abc1234", 4.0, 0.60),
        run("working tree", 3.5, 0.61),
        run("working tree", 3.0, 0.63),
        run("abc1234", 2.0, 0.60),
        run("abc1234", 1.0, 0.50, name="cooking"),
    ]


def test_precisions_are_means_and_cpu_seconds_minima(runs):
    (row,) = compare.comparison(runs)  # the other set has no run of the working tree yet
    assert (row["set"], row["preset"]) == ("bibtex", "fast")
    assert row["before"]["p@1"] == pytest.approx(0.60) and row["after"]["p@1"] == pytest.approx(
        0.62
    )
    assert row["before"]["cpu"] == 2.0 and row["after"]["cpu"] == 3.0
    assert row["change"] == pytest.approx({"p@1": 0.02, "p@3": 0.0, "p@5": 0.0, "cpu_ratio": 1.5})


def test_the_table_shows_both_trees_their_change_and_the_worst(runs):
    runs.append(run("working tree", 1.2, 0.49, name="cooking"))
    header, *lines, worst = compare.table(compare.comparison(runs), "abc1234")
    assert header.split() == ["set", "preset", "tree", "P@1", "P@3", "P@5", "CPU", "s"]
    assert [line.split()[-4:] for line in lines[:3]] == [
        ["60.00", "40.00", "30.00", "2.0"],
        ["62.00", "40.00", "30.00", "3.0"],
        ["+2.00", "+0.00", "+0.00", "×1.50"],
    ]
    assert lines[3].split()[:3] == ["cooking", "fast", "abc1234"] and len(lines) == 6
    assert worst == "worst change: P@k -1.00 points, CPU seconds ×1.50"


def test_nothing_to_compare_is_an_empty_table():
    assert len(compare.table(compare.comparison([]), "abc1234")) == 1


def test_a_run_of_another_package_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match=f"not from {tmp_path}"):
        compare.measure({"root": str(tmp_path)})
