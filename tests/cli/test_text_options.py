"""Options of texts, delimiters and vectors on the command line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from rembrandt import load
from rembrandt.data.vectors import read_vectors
from rembrandt.errors import DataError
from tests.cli.conftest import FAST, TABLE, Run
from tests.encoders import word_encoder


def test_terms_are_limited_by_their_frequency(data: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("\n".join(load_words(data)[:2]))
    options = (
        "--min-df",
        "5",
        "--max-df",
        "0.5",
        "--max-features",
        "50",
        "--stop-words",
        tmp_path / "words.txt",
    )
    answer = run(
        "fit", data / "train.tsv", "-o", tmp_path / "model", *TABLE, *FAST, *options, "--json"
    ).json
    assert answer["n_features"] == 50
    text = load(tmp_path / "model").text_
    assert (text.min_df, text.max_df, text.max_features) == (5, 0.5, 50)
    assert not set(load_words(data)[:2]) & set(text.terms_)
    run(
        "fit",
        data / "train.tsv",
        "-o",
        tmp_path / "two",
        *TABLE,
        *FAST,
        "--stop-words",
        "english",
        "--ngrams",
        "1-2",
    )
    assert load(tmp_path / "two").text_.get_params()["stop_words"] == "english"
    for option, value in (("--min-df", "0"), ("--max-df", "1.5"), ("--min-df", "100000")):
        failed = run(
            "fit", data / "train.tsv", "-o", tmp_path / "no", *TABLE, *FAST, option, value, code=1
        ).err
        assert option in failed


def load_words(data: Path) -> list[str]:
    words = (data / "train.tsv").read_text().split("\n", 1)[1].lower().split()
    return sorted({word for word in words if word.isalpha()})


def test_a_csv_file_with_semicolons(data: Path, run: Run, tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text((data / f"{name}.tsv").read_text().replace("\t", ";"))
    run("fit", tmp_path / "train.csv", "-o", tmp_path / "model", *TABLE, *FAST)
    detected = run("evaluate", tmp_path / "model", tmp_path / "test.csv", "--json").json
    stated = run(
        "evaluate", tmp_path / "model", tmp_path / "test.csv", "--delimiter", ";", "--json"
    ).json
    assert detected["p@1"] == stated["p@1"] > 0.5
    assert (
        "--delimiter"
        in run(
            "evaluate", tmp_path / "model", tmp_path / "test.csv", "--delimiter", "xx", code=1
        ).err
    )


@pytest.fixture(scope="module")
def vectors(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors that say which topic an example has."""
    folder = tmp_path_factory.mktemp("vectors")
    for name in ("train", "test"):
        rows = (data / f"{name}.tsv").read_text().splitlines()[1:]
        topics = [[f"topic-0{topic}" in row.split("\t")[3] for topic in range(5)] for row in rows]
        np.save(folder / f"{name}.npy", np.array(topics, dtype=np.float32))
        parquet.write_table(
            pa.table({"vector": np.array(topics, float).tolist()}), folder / f"{name}.parquet"
        )
    return folder


def test_vectors_go_next_to_texts(data: Path, vectors: Path, run: Run, tmp_path: Path) -> None:
    text = ("--text", "title", *TABLE[2:], *FAST)
    run("fit", data / "train.tsv", "-o", tmp_path / "plain", *text)
    said = run(
        "fit",
        data / "train.tsv",
        "-o",
        tmp_path / "model",
        *text,
        "--vectors",
        vectors / "train.npy",
    ).out
    assert "800 texts with vectors of 5 dimensions" in said
    plain = run("evaluate", tmp_path / "plain", data / "test.tsv", "--json").json
    combined = run(
        "evaluate",
        tmp_path / "model",
        data / "test.tsv",
        "--vectors",
        vectors / "test.npy",
        "--json",
    ).json
    again = run(
        "evaluate",
        tmp_path / "model",
        data / "test.tsv",
        "--vectors",
        vectors / "test.parquet",
        "--json",
    ).json
    assert combined["p@5"] == again["p@5"] >= plain["p@5"]
    rows = run(
        "predict",
        tmp_path / "model",
        data / "test.tsv",
        "--vectors",
        vectors / "test.npy",
        "--json",
    ).rows
    assert len(rows) == 200
    explained = run(
        "explain",
        tmp_path / "model",
        data / "test.tsv",
        "--vectors",
        vectors / "test.npy",
        "--rows",
        1,
    )
    assert ", the vectors +" in explained.out
    assert "(option --vectors)" in run("predict", tmp_path / "model", data / "test.tsv", code=1).err
    options = ("--vectors", vectors / "test.npy")
    assert (
        "(option --vectors)"
        in run("predict", tmp_path / "plain", data / "test.tsv", *options, code=1).err
    )
    assert (
        "800 vectors and 200 examples"
        in run(
            "predict",
            tmp_path / "model",
            data / "test.tsv",
            "--vectors",
            vectors / "train.npy",
            code=1,
        ).err
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", b"no array", "not an array in NumPy's format"),
        ("a.parquet", b"no table", "not a whole Parquet file"),
        ("a.csv", b"1,2", "use .npy or .parquet"),
        ("a.npy", np.zeros(3), "expected a matrix"),
        ("a.npy", np.array([["a"]]), "expected a matrix"),
        ("a.npy", np.array([[1.0, np.nan]]), "row 0 has a value that is not finite"),
        ("a.npy", np.array([{}], dtype=object), "not an array in NumPy's format"),
        ("a.parquet", {"v": [[1.0], [1.0, 2.0]]}, "not of one length"),
        ("a.parquet", {"v": ["x"]}, "not numbers"),
        ("a.parquet", {"v": [[1.0]], "w": [[1.0]]}, "hold lists"),
    ],
)
def test_vectors_that_are_refused(tmp_path: Path, name: str, content: object, message: str) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        parquet.write_table(pa.table(content), path)
    else:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(DataError, match=message):
        read_vectors(path)


def test_columns_of_numbers_are_vectors(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1.0, 2.0], "b": [3, 4]}), tmp_path / "a.parquet")
    assert read_vectors(tmp_path / "a.parquet").tolist() == [[1, 3], [2, 4]]


def test_columns_say_which_examples_are_held_out(data: Path, run: Run, tmp_path: Path) -> None:
    header, *lines = (data / "train.tsv").read_text().splitlines()
    table = [
        f"{header}\tday",
        *(f"{line}\t2024-{1 + i % 12:02}-01" for i, line in enumerate(lines)),
    ]
    (tmp_path / "train.tsv").write_text("\n".join(table) + "\n")
    measures = {}
    for option in ("--groups", "--time"):
        run("fit", tmp_path / "train.tsv", "-o", tmp_path / option, *TABLE, *FAST, option, "day")
        measures[option] = load(tmp_path / option).facts_.held_out
    assert measures["--groups"] != measures["--time"]
    refused = run(
        "fit",
        tmp_path / "train.tsv",
        "-o",
        tmp_path / "no",
        *TABLE,
        "--groups",
        "day",
        "--time",
        "day",
        code=1,
    )
    assert "only one of" in refused.err
    assert (
        "no column"
        in run("fit", tmp_path / "train.tsv", "-o", "no", *TABLE, "--time", "when", code=1).err
    )


def test_an_encoder_reads_the_texts(data: Path, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="an encoder needs transformers")
    model, encoder = tmp_path / "model", ("--encoder", word_encoder())
    frozen = (*encoder, "--encoder-training", "frozen", "--include-encoder")
    answer = run("fit", data / "train.tsv", "-o", model, *TABLE, *FAST, *frozen, "--json").json
    assert answer["settings"]["parts"]["encoder"]["settings"]["include_encoder"] is True
    assert len(run("predict", model, data / "test.tsv").out.splitlines()) == 200
    assert "its licence: bsd-3-clause" in run("info", model).out
    refused = ("fit", data / "train.txt", "-o", tmp_path / "no", *FAST, *encoder)
    assert "it has features, not texts" in run(*refused, code=1).err
    nothing = ("--encoder", str(tmp_path / "nothing"))
    refused = ("fit", data / "train.tsv", "-o", tmp_path / "no", *TABLE, *FAST, *nothing)
    assert "cannot be loaded" in run(*refused, code=1).err
    alone = ("--encoder-training", "frozen")
    refused = ("fit", data / "train.tsv", "-o", tmp_path / "no", *TABLE, *FAST, *alone)
    assert "--encoder" in run(*refused, code=1).err
