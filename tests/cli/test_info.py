"""``rembrandt info``: a model described on one screen."""

from pathlib import Path

from tests.cli.conftest import Run


def test_a_model_is_described(data: Path, model: Path, run: Run) -> None:
    said = run("info", model).out
    assert "Trained on: 800 examples (texts, " in said and "40 labels" in said
    assert (
        "Chosen: embedding (rank 20, ridge 1, decoder ridge, penalty 0.01)." in said
        and "trees" not in said
    )
    assert "the first label is right for " in said and "Quality: P@1 " in said
    assert "in a table they are in title, body; labels in tags, separated by '|'." in said
    assert (
        "learned on held-out examples for the best micro F1" in said and "label embedding" in said
    )
    answer = run("info", model, "--json").json
    assert answer["bytes"] == sum(file.stat().st_size for file in model.iterdir())
    assert answer["trained_on"]["n_examples"] == 800 and answer["quality"]["held_out"] > 0
    assert answer["reading"]["text"] == ["title", "body"]


def test_features_and_what_is_no_model(feature_model: Path, run: Run, tmp_path: Path) -> None:
    assert "Give 800 features for each example" in run("info", feature_model).out
    assert "not a model" in run("info", tmp_path, code=1).err
