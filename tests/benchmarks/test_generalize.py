"""Comparison of programs on test rows, the leave-one-set-out check, and the parts that it is made
of.
"""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.peers import contests, prepare, report, scoring
from benchmarks.peers.scoring import Truth, best_f1
from scipy import sparse

from benchmarks import ablation, generalize, parts
from rembrandt import RembrandtClassifier
from rembrandt.data.generated import labelled_documents
from rembrandt.estimators.requests import top_columns


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets") / "tiny-0123"
    folder.mkdir()
    prepare.write("tiny", *labelled_documents(900, n_topics=5, labels_per_topic=5), folder)
    return folder


def terms(hits):
    hits = np.asarray(hits, float)
    return {"p@1": (hits, np.ones(len(hits)))}


def test_a_difference_inside_the_interval_is_a_tie():
    rng = np.random.default_rng(0)
    ours = rng.random(2000) < 0.5
    worse, level = ours & (rng.random(2000) < 0.9), ours.copy()
    level[:20], level[20:40] = 1 - ours[:20], ours[20:40]
    others = {
        "worse": terms(worse),
        "level": terms(level),
        "better": terms(np.ones(2000)),
        "same": terms(ours),
    }
    found = contests.compare(terms(ours), others)
    assert found == {
        "worse": {"p@1": "win"},
        "level": {"p@1": "tie"},
        "better": {"p@1": "loss"},
        "same": {"p@1": "tie"},
    }


def test_pairs_resolve_differences_that_two_separate_intervals_would_not():
    ours = np.arange(1000) % 2
    theirs = ours.copy()
    theirs[1:20:2] = 0  # ten of a thousand rows, all of them in one direction
    assert contests.compare(terms(ours), {"other": terms(theirs)}) == {"other": {"p@1": "win"}}


def test_programs_measured_on_other_rows_are_refused():
    with pytest.raises(ValueError, match="other test rows"):
        contests.compare(terms(np.ones(5)), {"other": terms(np.ones(6))})


def test_limits_of_the_cpu_time():
    seconds = {"omikuji": 4.0, "omikuji bonsai": 10.0, "Rembrandt fast": 1.0}
    assert contests.limit("Rembrandt fast", seconds) == 6
    assert contests.limit("Rembrandt fast", {"omikuji": 1.0}) == 3
    assert contests.limit("Rembrandt balanced", seconds) == 20
    assert contests.limit("Rembrandt balanced", {"omikuji": 1.0}) == 8
    assert contests.limit("Rembrandt best", seconds) == 10
    assert contests.limit("Rembrandt fast", {}) is None


def test_the_summary_names_what_was_lost_and_exceeded():
    ours = {
        "peer": "Rembrandt fast",
        "set": "bibtex",
        "p@1": 0.5,
        "p@3": 0.3,
        "p@5": 0.2,
        "train_cpu": 7.0,
    }
    ours |= {"calibration_error": 0.05, "f1_share": 0.9}
    ours["against"] = {"omikuji": {"p@1": "win", "p@3": "loss", "p@5": "loss"}}
    other = ours | {"peer": "omikuji", "p@1": 0.4, "p@3": 0.31, "train_cpu": 4.0}
    text = "\n".join(contests.summary([ours, other]))
    assert "against omikuji: 1 wins, 0 ties, 2 losses (bibtex @3/5)" in text
    assert "mean +10.00 / -1.00 / +0.00" in text and "bibtex 7.0 > 6.0" in text
    assert "0 of 1: bibtex 5.0 %" in text and "0 of 1: bibtex 0.900" in text
    assert contests.summary([other]) == []


def test_stored_terms_become_outcomes(tmp_path):
    for peer, right in (("omikuji", 0.2), ("Rembrandt fast", 0.7)):
        slug = peer.lower().replace(" ", "-")
        row = {"peer": peer, "set": "bibtex, half", "p@1": right, "train_cpu": 2.0}
        (tmp_path / f"{slug}--bibtex-half.json").write_text(json.dumps(row))
        scoring.write_terms(
            tmp_path / f"{slug}--bibtex-half.npz", terms(np.arange(100) < 100 * right)
        )
    rows = generalize.stored(tmp_path)
    assert [row["peer"] for row in rows] == ["Rembrandt fast", "omikuji"]
    assert rows[0]["against"] == {"omikuji": {"p@1": "win"}} and rows[0]["times"] == 1
    assert "× omikuji" in report.table(rows, False, generalize.COLUMNS)[0]


def test_the_best_f1_agrees_with_trying_every_threshold():
    rng = np.random.default_rng(1)
    likely, right = rng.integers(0, 20, 300) / 20, rng.random(300) < 0.3
    n_true = int(right.sum()) + 7
    tried = [
        2 * (right & (likely >= t)).sum() / ((likely >= t).sum() + n_true)
        for t in np.unique(likely)
    ]
    assert best_f1(likely, right, n_true) == pytest.approx(max(tried))


def test_calibration_and_threshold_of_known_predictions():
    truth = Truth(
        sparse.csr_array(np.array([[1, 0, 0], [0, 1, 0]])),
        np.array([0, 1]),
        np.array([9, 5, 1]),
        10,
    )
    found = {
        "long": np.array([[0, 1], [1, 2]]),
        "probabilities": np.array([[1.0, 0.0], [1.0, 0.5]]),
    }
    found |= {"set_starts": np.array([0, 1, 3]), "set_labels": np.array([0, 1, 2])}
    result = truth.more(found)
    assert result["calibration_error"] == pytest.approx(0.5 / 4)
    assert result["f1"] == pytest.approx(
        4 / 6
    )  # two of three sets' labels; three true labels, one without a column
    assert result["f1_share"] == pytest.approx((4 / 6) / (4 / 5))
    assert (
        truth.rare_recall(np.array([[0], [1]])) == {}
    )  # three labels do not reach the rarest deciles


def test_the_chosen_row_is_that_of_all_parts():
    rows = [
        {"length": 10, "penalty": 1.0, "parts": ["trees"], "quality": 0.9},
        {"length": 10, "penalty": 1.0, "parts": ["trees", "centroids"], "quality": 0.5},
        {"length": 10, "penalty": 0.1, "parts": ["trees", "centroids"], "quality": 0.6},
        {"length": 15, "penalty": 1.0, "parts": ["trees", "centroids"], "quality": 0.7},
    ]
    result = {"chosen": ["centroids", "trees"], "rows": rows}
    assert parts.chosen(result, (10, 1.0)) == rows[1]
    assert parts.chosen(result, (10, 0.1)) == rows[2]
    assert parts.chosen(result, (15, 1.0)) == rows[3]


def test_a_part_that_lists_no_labels_needs_another():
    fitted = {
        "trees": SimpleNamespace(retrieves_labels=True),
        "embedding": SimpleNamespace(retrieves_labels=False),
    }
    assert parts.subsets(fitted) == [("trees",), ("trees", "embedding")]


def test_constants_of_a_set_come_from_sets_with_other_files(monkeypatch):
    monkeypatch.setattr(parts, "GRID", [(10, 1.0), (15, 1.0)])

    def result(name, at_10, at_15):
        rows = [
            {
                "length": length,
                "penalty": 1.0,
                "parts": ["trees"],
                "quality": 0.5,
                "p@1": p,
                "p@3": p,
                "p@5": p,
            }
            for length, p in ((10, at_10), (15, at_15))
        ]
        return {"set": name, "present": [10, 1.0], "chosen": ["trees"], "rows": rows}

    found = [
        result("bibtex", 0.5, 0.4),
        result("bibtex, half", 0.9, 0.1),
        result("cooking", 0.3, 0.35),
    ]
    rows = {row["set"]: row for row in generalize.left_out(found)}
    assert (
        rows["bibtex"]["left out"]["constants"] == (15, 1.0)
        and rows["bibtex"]["left out"]["p@1"] == 0.4
    )
    assert rows["bibtex, half"]["left out"]["p@1"] == 0.1
    assert rows["cooking"]["left out"]["p@1"] == 0.3 and rows["cooking"]["own best"]["p@1"] == 0.35
    assert generalize.left_out(found[:1])[0]["left out"]["constants"] == (10, 1.0)
    assert len(generalize.constants_table(list(rows.values()))) == 5


def test_the_present_constants_give_what_a_fit_gives(data, monkeypatch):
    """With the present constants all parts together predict what the classifier predicts."""
    for name in ("LENGTHS", "PENALTIES"):
        monkeypatch.setattr(parts, name, [parts.PRESENT[name == "PENALTIES"]])
    result = parts.measure("tiny", "fast", data)
    X, Y = (sparse.csr_array(sparse.load_npz(data / f"{name}_train.npz")) for name in "XY")
    model = RembrandtClassifier(preset="fast", random_state=0).fit(X, Y)
    X_test = sparse.csr_array(sparse.load_npz(data / "X_test.npz"))
    expected = scoring.means(Truth.load(data).terms(top_columns(model, X_test, 5)[0]))
    row = parts.chosen(result, parts.PRESENT)
    assert row["parts"] == result["chosen"] == list(model.model_.parts)
    assert all(row[f"p@{k}"] == pytest.approx(expected[f"p@{k}"], abs=1e-12) for k in (1, 3, 5))
    assert all(math.isfinite(cost) for cost in [result["search_cpu"], *result["cpu"].values()])
    line = ablation.line(json.loads(json.dumps(result)), markdown=True)
    n_columns = ablation.heading(True)[0].count("|")
    assert line.count("|") == n_columns
    assert "–" not in line
    without = [row for row in result["rows"] if "embedding" not in row["parts"]]
    line = ablation.line(json.loads(json.dumps(result | {"rows": without})), markdown=True)
    assert line.count("|") == n_columns
    assert line.count("–") == 4
