"""The siblings of a saved model's labels: labels that are paths, so that their topics are the
hierarchy.
"""

import json
from pathlib import Path

import pytest
from benchmarks.paper.model_siblings import main

from rembrandt import RembrandtClassifier
from rembrandt.data.generated import labelled_documents
from tests.benchmarks.paper.conftest import call


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    train, _ = labelled_documents(1000, n_topics=5, labels_per_topic=8)
    folder = tmp_path_factory.mktemp("siblings") / "model"
    RembrandtClassifier(
        n_components=20,
        decoder="ridge",
        kernel=None,
        decoder_ridge=0.01,
        normalize=False,
        random_state=0,
    ).fit_dataset(train).save(folder)
    return folder


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hierarchy of the labels as a file."""
    rows = [
        f"topic-{topic:02d}\ttopic-{topic:02d}/label-{label:03d}\n"
        for topic in range(5)
        for label in range(8)
    ]
    path = tmp_path_factory.mktemp("edges") / "hierarchy.tsv"
    path.write_text("".join(rows))
    return path


def test_siblings_by_paths_and_by_edges(model: Path, edges: Path) -> None:
    by_path = json.loads(call(main, model, "/", "--json").out)
    by_edges = json.loads(call(main, model, edges, "--format", "edges", "--json").out)
    assert by_path == by_edges
    assert by_path["n_labels"] == 40 and by_path["unknown_labels"] == 0
    assert by_path["fraction"] > 0.9
    assert by_path["chance"] == pytest.approx(7 / 39) and by_path[
        "most_fraternal"
    ] == pytest.approx(7 / 40)
    assert by_path["most_fraternal_label"] == "topic-00/label-000"


def test_excluded_labels_are_counted(model: Path, edges: Path, tmp_path: Path) -> None:
    rows = edges.read_text().splitlines()[:-3]
    (tmp_path / "part.tsv").write_text(
        "\n".join([*rows[1:], "alone\ttopic-00/label-000", "topic-04/label-007\tx"])
    )
    lines = [line.split() for line in call(main, model, tmp_path / "part.tsv").out.splitlines()]
    assert [line[-1] for line in lines[1:5]] == ["2", "1", "0", "1"] and lines[0][-3:] == [
        "37",
        "of",
        "40",
    ]


def test_errors_name_the_source(model: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("a\tb\nc\n")
    (tmp_path / "other.tsv").write_text("a\tb\n")
    cases = [
        ([model, tmp_path / "gone.tsv"], ["gone.tsv", "no such file"]),
        ([model, tmp_path / "bad.tsv"], ["bad.tsv, line 2", "a parent and a child"]),
        (
            [model, tmp_path / "other.tsv"],
            ["other.tsv", "none of the 40 labels", "check that the names agree"],
        ),
        ([model, ":"], ["none of the 40 labels"]),
        ([tmp_path, "/"], [str(tmp_path), "not a model"]),
    ]
    for arguments, mentions in cases:
        message = call(main, *arguments, code=1).err
        assert message.startswith("error: ") and all(mention in message for mention in mentions), (
            message
        )
