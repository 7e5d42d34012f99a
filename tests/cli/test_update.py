"""``rembrandt update``: more examples and new labels."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rembrandt import RembrandtClassifier, load

from .conftest import FAST, TABLE, Run

LABEL = "topic-00/label-000"


def weights(classifier: RembrandtClassifier) -> np.ndarray:
    """The weights of the decoder."""
    embedding: Any = classifier.model_.parts["embedding"]
    return np.asarray(embedding.decoder.weights)


@pytest.fixture(scope="module")
def parts(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The training table in two: one label is in the second alone."""
    lines = (data / "train.tsv").read_text().splitlines(keepends=True)
    late = [LABEL in line or i % 10 == 0 for i, line in enumerate(lines)]
    folder = tmp_path_factory.mktemp("parts")
    for name, wanted in (("first", False), ("second", True)):
        kept = [
            line for line, is_late in zip(lines[1:], late[1:], strict=True) if is_late == wanted
        ]
        (folder / f"{name}.tsv").write_text("".join([lines[0], *kept]))
    return folder / "first.tsv", folder / "second.tsv"


@pytest.fixture(scope="module")
def small(parts: tuple[Path, Path], run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "small"
    run("fit", parts[0], "-o", folder, *TABLE, *FAST, "--growable")
    return folder


def test_a_model_learns_from_more_examples(
    data: Path, parts: tuple[Path, Path], small: Path, run: Run, tmp_path: Path
) -> None:
    answer = run("update", small, parts[1], "--output", tmp_path / "more", "--json").json
    assert answer["added"] == [LABEL] and answer["n_labels"] == 40 and answer["n_train"] == 800
    before, after = (
        run("evaluate", each, data / "test.tsv", "--json").json
        for each in (small, tmp_path / "more")
    )
    assert before["unseen_labels"] == 1 and after["unseen_labels"] == 0
    assert after["p@1"] > before["p@1"] - 0.01 and after["p@5"] > before["p@5"]
    assert load(small).n_train_ < 800, "the model that was updated elsewhere is as it was"
    said = run("update", tmp_path / "more", parts[1], "-o", tmp_path / "more", code=1).err
    assert "--force" in said


def test_without_an_output_the_model_is_replaced_when_all_is_done(
    parts: tuple[Path, Path], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    run("fit", parts[0], "-o", model, *TABLE, *FAST, "--growable")
    before = (model / "weights.safetensors").read_bytes()
    (tmp_path / "bad.tsv").write_text("id\ttitle\tbody\n1\ta\tb\n")
    assert "tags" in run("update", model, tmp_path / "bad.tsv", code=1).err
    with monkeypatch.context() as patch:
        patch.setattr("rembrandt.model.folder.write_arrays", _full)
        assert "the disk is full" in run("update", model, parts[1], code=1).err
    assert (model / "weights.safetensors").read_bytes() == before
    out = run("update", model, parts[1]).out
    assert (
        "now seen 800 examples and has 40 labels, 1 of them new" in out
        and f"saved as {model}" in out
    )
    assert load(model).n_train_ == 800
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "kernel", [(), ("--kernel", "gaussian", "--n-random-features", "30")], ids=["none", "kernel"]
)
def test_a_store_is_taken_for_a_file(
    kernel: tuple[str, ...], parts: tuple[Path, Path], run: Run, tmp_path: Path
) -> None:
    first, small = parts[0], tmp_path / "small"
    run("fit", first, "-o", small, *TABLE, *FAST, *kernel, "--growable")
    convert = (
        "data",
        "convert",
        parts[1],
        "--output",
        tmp_path / "store",
        "--like",
        small,
        "--rows",
        "40",
    )
    run(*convert, *TABLE)
    run("update", small, tmp_path / "store", "-o", tmp_path / "by-store")
    run("update", small, parts[1], "-o", tmp_path / "by-file")
    by_store, by_file = (load(tmp_path / each) for each in ("by-store", "by-file"))
    assert by_store.classes_.tolist() == by_file.classes_.tolist()
    [of_store], [of_file] = by_store.facts_.updates, by_file.facts_.updates
    assert of_file.n_unknown_words > 0 == of_file.n_learned_words, "an embedding learns no words"
    assert of_store == replace(of_file, n_words=0, n_unknown_words=0)
    assert_allclose(weights(by_store), weights(by_file), atol=1e-5)


def test_trees_take_the_old_examples(parts: tuple[Path, Path], run: Run, tmp_path: Path) -> None:
    options = ("--parts", "trees", "--n-trees", 1, "--tree-cost", 1)
    run("fit", parts[0], "-o", tmp_path / "trees", *TABLE, *options)
    refused = run("update", tmp_path / "trees", parts[1], code=1).err
    assert "give the old ones as history" in refused and "(option --history)" in refused
    said = run(
        "update", tmp_path / "trees", parts[1], "--history", parts[0], "-o", tmp_path / "more"
    ).out
    assert "has 40 labels, 1 of them new" in said and "Not learned:" not in said
    conflicting = ("--history", parts[0], "--refit")
    assert (
        "give one of the two"
        in run("update", tmp_path / "trees", parts[1], *conflicting, code=1).err
    )


def test_what_was_missed_is_said(parts: tuple[Path, Path], run: Run, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    run("fit", parts[0], "-o", plain, *TABLE, *FAST)
    said = run("update", plain, parts[1], "-o", tmp_path / "more").out
    assert "Not learned: the old examples were taken to be like the new ones" in said
    answer = run(
        "update", plain, parts[1], "--history", parts[0], "-o", tmp_path / "exact", "--json"
    ).json
    assert answer["missed"] == [] and answer["n_train"] == 800
    (tmp_path / "empty").mkdir()
    assert "not a model" in run("update", tmp_path / "empty", parts[1], code=1).err
    refused = ("fit", parts[0], "-o", tmp_path / "no", *TABLE, *FAST, "--growable")
    assert "(option --decoder)" in run(*refused, "--decoder", "transpose", code=1).err
    assert "growable=True needs" in run(*refused, "--parts", "trees", code=1).err


def test_features_with_other_numbers_of_labels(data: Path, run: Run, tmp_path: Path) -> None:
    """Labels of a numeric file keep their numbers; those of the model stay in its order."""
    lines = (data / "train.txt").read_text().splitlines(keepends=True)
    for name, kept in (("first", lines[1:700]), ("second", lines[700:])):
        (tmp_path / f"{name}.txt").write_text(f"{len(kept)} 800 40\n{''.join(kept)}")
    run("fit", tmp_path / "first.txt", "-o", tmp_path / "model", *FAST, "--growable")
    answer = run("update", tmp_path / "model", tmp_path / "second.txt", "--json").json
    assert answer["n_train"] == len(lines) - 1 and answer["refit_due"] is None
    [updated] = answer["updates"]
    assert (updated["n_labels"], updated["n_examples"], updated["outside"]) == (0, 101, 0.0)
    assert updated["missed"] == [] and updated["n_words"] == 0
    assert np.isfinite(weights(load(tmp_path / "model"))).all()


def test_refit_is_a_fit_to_all_examples_with_the_settings_found_before(
    data: Path, parts: tuple[Path, Path], run: Run, tmp_path: Path
) -> None:
    """A model fitted without --growable can be refitted too; the file is read as the first one
    was.
    """
    plain, all_at_once = tmp_path / "model", tmp_path / "all"
    options = ("--decoder", "ridge", "--label-power", 0, "--row-power", 0)
    run("fit", parts[0], "-o", plain, *TABLE, *FAST, *options)
    answer = run("update", plain, data / "train.tsv", "--refit", "--json").json
    assert answer["added"] == [LABEL] and answer["n_train"] == 800 and answer["updates"] == []
    run("fit", data / "train.tsv", "-o", all_at_once, *TABLE, *FAST, *options)
    again, expected = load(plain), load(all_at_once)
    assert again.extra_["reading"] == expected.extra_["reading"]
    assert again.classes_.tolist() == expected.classes_.tolist()
    assert_allclose(weights(again), weights(expected), atol=1e-6)


def test_a_store_that_grows_is_the_list_of_shards_for_the_day_of_a_fit(
    data: Path, parts: tuple[Path, Path], run: Run, tmp_path: Path
) -> None:
    store, model = tmp_path / "store", tmp_path / "model"
    run("data", "convert", parts[0], "--output", store, *TABLE)
    run("fit", store, "-o", model, *FAST, "--growable")
    run("data", "convert", parts[1], "--output", store, "--append", *TABLE)
    answer = run("update", model, store, "--refit", "--json").json
    assert answer["n_train"] == 800 and answer["added"] == [LABEL]
    run(
        "data", "convert", data / "test.tsv", "--output", tmp_path / "test", "--like", model, *TABLE
    )
    assert run("update", model, tmp_path / "test", "--json").json["n_train"] == 1000
