"""Mistakes that went unnoticed, through the command line: each is repaired, reported or refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from rembrandt import load
from rembrandt.cli.examples import EXAMPLES
from tests.cli.conftest import FAST, Run
from tests.cli.test_failure import commands

SMALL = ("--parts", "centroids")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    rows = ["title,tags,author"]
    for number in range(60):
        kind = "bread" if number % 2 else "cake"
        rows.append(f"""{kind} recipe {number},"['{kind}', 'food']",author {number % 7}""")
    (folder / "train.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def model(files: Path, run: Run) -> Path:
    said = run("fit", files / "train.csv", "--output", files / "model", *SMALL)
    assert "3 labels, 2.0 per example (multilabel)" in said.out
    assert "texts are in 'title' and labels are in 'tags'" in said.out
    return files / "model"


def test_the_columns_that_were_chosen_are_those_of_later_commands(
    files: Path, model: Path, run: Run
) -> None:
    assert run("evaluate", model, files / "train.csv", "--json").json["p@1"] == 1
    assert load(model).extra_["reading"]["labels"] == "tags"


def test_standard_input_may_be_a_table(files: Path, model: Path, run: Run) -> None:
    table = (files / "train.csv").read_text()
    said = run("predict", model, "-", "--json", input=table)
    assert len(said.rows) == 60 and "read as CSV, with texts in 'title'" in said.err
    objects = "".join(json.dumps({"title": f"{kind} x"}) + "\n" for kind in ("cake", "bread"))
    said = run("predict", model, "-", "--json", input=objects)
    assert [row["labels"][0]["label"] for row in said.rows] == ["cake", "bread"]
    assert "read as JSONL" in said.err


def test_standard_input_of_texts(model: Path, run: Run) -> None:
    said = run("predict", model, "-", "--json", input="a cake, and why\nbread\n")
    assert len(said.rows) == 2 and "table" not in said.err
    said = run("predict", model, "-", "--json", input="name,year\ncake,1\nbread,2\n")
    assert len(said.rows) == 3
    assert "looks like a table, but no line names the column 'title'" in said.err
    assert "--text" in said.err and "--format" in said.err


def test_ids_that_are_repeated_are_reported(files: Path, model: Path, run: Run) -> None:
    said = run("predict", model, files / "train.csv", "--id", "author")
    assert "7 values of the column 'author' stand for several examples (60)" in said.err
    assert "warning" not in run("predict", model, files / "train.csv", "--id", "title").err


def test_names_of_unknown_labels_are_reported(files: Path, model: Path, run: Run) -> None:
    names = files / "names.csv"
    names.write_text("id,name\ncake,Cakes\nbraed,Breads\n")
    said = run("labels", model, "--set-names", names)
    assert "1 id of 2 are not of a label of the model" in said.err and "'braed'" in said.err
    names.write_text("id,name\ncake,Cakes\ncake,Gateaux\nbread,Breads\nfood,Food\n")
    said = run("labels", model, "--set-names", names)
    assert (
        "1 id with several names, such as 'cake'" in said.err and "not of a label" not in said.err
    )


def test_models_with_vectors_say_what_they_need(files: Path, run: Run) -> None:
    vectors = np.random.default_rng(0).standard_normal((60, 4))
    np.save(files / "vectors.npy", vectors)
    given = ("--vectors", files / "vectors.npy")
    output = files / "with-vectors"
    said = run("fit", files / "train.csv", "--output", output, *given, *FAST[:-2], "--seed", 1)
    for verb in ("predict", "evaluate"):
        assert f"rembrandt {verb} {output} FILE --vectors VECTORS.npy" in said.out
    for verb in ("predict", "explain", "evaluate", "confusions"):
        refused = run(verb, output, files / "train.csv", code=1).err
        assert "the model was fitted with vectors" in refused and "--vectors" in refused, verb
    assert run("explain", output, files / "train.csv", *given, "--rows", 1).out
    pytest.importorskip("fastapi")
    refused = run("serve", output, code=1).err
    assert "was fitted with vectors beside its features, which requests do not have" in refused


def test_next_steps_repeat_the_encoding(files: Path, run: Run) -> None:
    path = files / "old.csv"
    path.write_bytes((files / "train.csv").read_text().replace("cake", "gâteau").encode("cp1252"))
    refused = run("fit", path, "--output", files / "none", *SMALL, code=1).err
    assert "not UTF-8" in refused and "(option --encoding)" in refused
    said = run("fit", path, "--output", files / "old", *SMALL, "--encoding", "cp1252")
    assert f"rembrandt evaluate {files / 'old'} FILE --encoding cp1252" in said.out
    assert "gâteau" in load(files / "old").classes_


def test_split_keeps_all_columns_and_the_shares_of_labels(files: Path, run: Run) -> None:
    split = ("data", "split", files / "train.csv")
    said = run(*split, "--output", files / "parts", "--fraction", "0.25")
    assert "Wrote 45 examples to" in said.out and "Wrote 15 examples to" in said.out
    lines = [(files / f"parts/{part}.csv").read_text().splitlines() for part in ("train", "test")]
    assert lines[0][0] == lines[1][0] == "title,tags,author"
    assert sorted(lines[0][1:] + lines[1][1:]) == sorted(
        (files / "train.csv").read_text().splitlines()[1:]
    )
    assert sum("'cake'" in line for line in lines[1]) in (7, 8)
    assert "already exists" in run(*split, "--output", files / "parts", code=1).err
    answer = run(
        *split, "--output", files / "parts", "--force", "--groups", "author", "--json"
    ).json
    assert answer["test"]["n_examples"] + answer["train"]["n_examples"] == 60
    authors = [
        {
            line.rpartition(",")[2]
            for line in Path(answer[part]["file"]).read_text().split("\n")[1:-1]
        }
        for part in ("train", "test")
    ]
    assert not authors[0] & authors[1]


@pytest.mark.parametrize("verb", sorted(EXAMPLES))
def test_help_pages_have_examples_with_their_options(verb: str, run: Run) -> None:
    said = " ".join(run(*verb.split(), "--help").out.split())
    for example in EXAMPLES[verb]:
        assert example in said
        words = example[example.index("rembrandt ") :].split()
        assert " ".join(words[1:]).startswith(verb)
        options = {name for param in commands()[verb].params for name in param.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_every_command_has_an_example() -> None:
    assert set(commands()) - {"annif"} == set(EXAMPLES)


def test_a_value_that_is_no_choice_is_named_with_the_choices(run: Run) -> None:
    error = run("fit", "train.csv", "--output", "model", "--preset", "quick", code=2).err
    assert error.startswith("error: Invalid value for '--preset': 'quick' is not one of 'fast',")
