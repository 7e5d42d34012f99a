"""``tune`` and ``--budget``: a search, its table, and the command that repeats its choice."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rembrandt import load
from rembrandt.declarations import FLAT
from rembrandt.errors import SettingsError
from tests.cli.conftest import TABLE, Run

# What is left to choose: the cost of the trees, the penalty of the decoder, and the blend.
NARROW = (
    *(
        "--decoder",
        "ridge",
        "--kernel",
        "none",
        "--normalize",
        "no",
        "--ridge",
        "1",
        "--n-components",
        "20",
    ),
    *("--leave-out", "0", "--n-trees", "1"),
)


@given(st.integers(1, 10_000), st.sampled_from(["", "s", "m", "h"]))
def test_a_time_is_read(number: int, unit: str) -> None:
    seconds = FLAT["budget"].parse(f"{number}{unit}")
    assert seconds == number * {"": 1, "s": 1, "m": 60, "h": 3600}[unit]


@given(st.text(max_size=8))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        seconds = FLAT["budget"].parse(text)
        assert seconds is None or seconds > 0
    except SettingsError as error:
        assert "write 90s, 5m or 1h" in str(error)


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--parts", "embedding", "--preset", "best", "--seed", "3", "--analyzer", "char"),
        ("--parts", "trees"),
    ],
)
def test_the_command_that_is_printed_gives_the_same_model(
    data: Path, run: Run, tmp_path: Path, more
) -> None:
    tuned = run(
        "tune",
        data / "train.tsv",
        *TABLE,
        "--budget",
        "1h",
        "-o",
        tmp_path / "tuned",
        *NARROW,
        *more,
    )
    assert "800 texts, 40 labels" in tuned.out
    assert "outcome" in tuned.out and "not chosen" in tuned.out
    assert "Chosen: " in tuned.out and "everything was tried" in tuned.out
    assert "at P@1/3/5 with " in tuned.err
    line = tuned.out.splitlines()[-1]
    words = shlex.split(line)
    assert words[:2] == ["rembrandt", "fit"]
    words[words.index("--output") + 1] = str(tmp_path / "again")
    run(*words[1:])
    repeated = load(tmp_path / "again").selection_
    assert all(trial["outcome"] == "chosen" for trial in repeated), "nothing else is tried"
    first, second = (
        (tmp_path / name / "weights.safetensors").read_bytes() for name in ("tuned", "again")
    )
    assert first == second
    kept = load(tmp_path / "tuned").selection_
    assert [trial["outcome"] for trial in kept].count("chosen") >= 1
    assert all(trial["splits"] >= 1 and trial["held_out"] > 0 for trial in kept)


def test_without_an_output_nothing_is_written(
    data: Path, run: Run, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = run("tune", data / "train.txt", "--budget", "30s", *NARROW, "--json").json
    assert answer["budget"] == 30 and answer["ended"] and answer["chosen"]
    embeddings = [trial for trial in answer["trials"] if trial["part"] == "embedding"]
    assert {trial["settings"]["n_components"] for trial in embeddings} == {20}
    names = {"part", "words", "settings", "rows", "splits", "held_out", "quality", "outcome"}
    for trial in answer["trials"]:
        assert names | {"p@1", "p@3", "p@5"} <= trial.keys()
    assert any("seconds" in trial for trial in answer["trials"])
    assert answer["command"].startswith("rembrandt fit ") and "--output MODEL" in answer["command"]
    assert list(tmp_path.iterdir()) == []


def test_a_fit_with_a_budget_searches_first(data: Path, run: Run, tmp_path: Path) -> None:
    fit = ("fit", data / "train.txt", "-o", tmp_path / "model", "--budget", "30s", *NARROW)
    said = run(*fit)
    assert "the first label is right for " in said.out
    assert "fitting without held-out examples ..." in said.err
    answer = run(*fit, "--force", "--json").json
    assert [trial["outcome"] for trial in answer["selection"]].count("chosen") >= 1


def test_what_cannot_be_is_refused_before_anything_is_read(
    data: Path, run: Run, tmp_path: Path, model: Path
) -> None:
    assert "write 90s, 5m or 1h" in run("tune", data / "train.tsv", "--budget", "soon", code=2).err
    assert (
        "--budget"
        in run("fit", data / "train.tsv", "-o", tmp_path / "no", "--budget", "0", code=2).err
    )
    assert "already exists" in run("tune", tmp_path / "nowhere", "-o", model, code=1).err
    assert "nowhere" in run("tune", tmp_path / "nowhere", code=1).err
    assert "(option --hashed)" in run("tune", data / "train.txt", "--hashed", code=1).err


def test_too_few_examples_leave_nothing_to_choose(run: Run, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text(
        "".join(f"__label__{i % 3} word{i % 3} other{i % 5}\n" for i in range(50))
    )
    said = run("tune", tmp_path / "few.txt", "--budget", "5s").out
    assert "There was nothing to choose" in said and "rembrandt fit" in said
