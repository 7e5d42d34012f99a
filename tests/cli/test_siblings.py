"""The siblings verb: made-up labels are paths, so their topics are found again."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def edges(data: Path) -> Path:
    """The hierarchy of the labels as a file."""
    rows = [f"topic-{topic:02d}\ttopic-{topic:02d}/label-{label:03d}\n" for topic in range(5) for label in range(8)]
    path = data / "hierarchy.tsv"
    path.write_text("".join(rows))
    return path


def test_siblings_are_found_by_paths_and_by_edges(model: Path, edges: Path, run: Run) -> None:
    by_path = run("siblings", model, "/", "--json").json
    by_edges = run("siblings", model, edges, "--format", "edges", "--json").json
    assert by_path.pop("hierarchy") == ["/"] and by_edges.pop("hierarchy") == [str(edges)]
    assert by_path == by_edges
    assert by_path["n_labels"] == 40 and by_path["unknown_labels"] == 0
    assert by_path["fraction"] > 0.9
    assert by_path["chance"] == pytest.approx(7 / 39) and by_path["most_fraternal"] == pytest.approx(7 / 40)
    assert by_path["most_fraternal_label"] == "topic-00/label-000"


def test_a_table_for_people(model: Path, run: Run) -> None:
    said = run("siblings", model, "/").out
    assert "40 of 40 labels count." in said and "in this embedding (rembrandt, 20 dimensions)" in said
    assert "always the most fraternal label, topic-00/label-000" in said and "17.50" in said and "chance" in said


def test_labels_are_compared_by_what_is_predicted_of_examples(model: Path, data: Path, run: Run) -> None:
    found = run("siblings", model, "/", "--examples", data / "train.tsv", "--json").json
    assert found["examples"] == str(data / "train.tsv") and found["n_labels"] == 40
    assert found["fraction"] > 0.8


def test_labels_that_do_not_count_are_counted(model: Path, edges: Path, run: Run, tmp_path: Path) -> None:
    rows = edges.read_text().splitlines()[:-3]
    (tmp_path / "part.tsv").write_text("\n".join([*rows[1:], "alone\ttopic-00/label-000", "topic-04/label-007\tx"]))
    said = run("siblings", model, tmp_path / "part.tsv").out
    assert "37 of 40 labels count; 2 are not in the hierarchy, 1 have no parent in it." in said
    assert "1 of them are only children" in said


def test_refusals_name_what_and_where(model: Path, data: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("a\tb\nc\n")
    (tmp_path / "other.tsv").write_text("a\tb\n")
    cases = [
        ([model, tmp_path / "gone.tsv"], ["gone.tsv", "no such file"]),
        ([model, tmp_path / "bad.tsv"], ["bad.tsv, line 2", "a parent and a child"]),
        ([model, tmp_path / "other.tsv"], ["other.tsv", "none of the 40 labels", "check that the names agree"]),
        ([model, ":"], ["none of the 40 labels"]),
        ([model, data / "train.tsv"], ["train.tsv", "--format"]),
        ([tmp_path, "/"], [str(tmp_path), "not a model"]),
    ]
    for arguments, mentions in cases:
        last = run("siblings", *arguments, code=1).err.strip().splitlines()[-1]
        assert last.startswith("error: ") and all(mention in last for mention in mentions), last
