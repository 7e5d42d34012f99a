"""Errors are one line that names the cause and the file, and leave no partial output."""

import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from rembrandt import EmbeddingSettings, TreeSettings
from rembrandt.cli import reading
from rembrandt.cli.app import app
from rembrandt.cli.failure import explained, options_of, with_options
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.estimators import RembrandtClassifier
from tests.cli.conftest import FAST, TABLE, Run, table

Shell = Callable[..., subprocess.Popen[str]]


def test_an_output_that_exists_is_refused_before_anything_is_read(model: Path, run: Run) -> None:
    before = (model / "model.json").read_bytes()
    said = run("fit", "there-is-no-such-file.tsv", "--output", model, code=1).err
    assert str(model) in said and "--force" in said
    assert (model / "model.json").read_bytes() == before


def test_a_folder_that_is_no_model_is_never_replaced(data: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    said = run("fit", data / "train.tsv", "--output", tmp_path, *TABLE, "--force", code=1).err
    assert str(tmp_path) in said and "not part of a model" in said
    assert (tmp_path / "letters").read_text() == "dear"


def test_force_replaces_a_model(data: Path, run: Run, tmp_path: Path) -> None:
    for k in (5, 6):
        run(
            "fit",
            data / "train.txt",
            "-o",
            tmp_path / "model",
            *FAST,
            "--n-components",
            k,
            "--force",
        )
        assert run("spectrum", tmp_path / "model", "--json").json["rank"] == k


def wrong_commands(
    data: Path, model: Path, feature_model: Path, folder: Path
) -> list[tuple[list[Any], list[str]]]:
    """Commands that fail, and what their errors must mention."""
    train, test = data / "train.tsv", data / "test.tsv"
    (folder / "bad.txt").write_text("2 5 3\n0 1:1.0\n1 9:1.0\n")
    (folder / "ragged.tsv").write_text("title\tbody\ttags\na\tb\tc\nonly one cell\n")
    (folder / "other.txt").write_text("1 5 3\n0 1:1.0\n")
    (folder / "plain.txt").write_text("just a few words\n")
    new = ("-o", folder / "new")
    return [
        (["fit", folder / "absent.tsv", *new], ["absent.tsv", "no such file"]),
        (
            ["fit", folder / "absent.tsv", *new, "--n-components", 0],
            ["n_components=0", "(option --n-components)"],
        ),
        (
            ["fit", folder / "absent.tsv", *new, "--n-components", "many"],
            ["'many'", "(option --n-components)"],
        ),
        (
            ["fit", folder / "absent.tsv", *new, "--decoder-ridge", -1],
            ["decoder_ridge=-1", "(option --decoder-ridge)"],
        ),
        (
            ["fit", folder / "absent.tsv", *new, "--tree-cost", "nan"],
            ["cost=nan", "(option --tree-cost)"],
        ),
        (
            ["tune", folder / "absent.tsv", "--threshold", "best"],
            ["'best'", "'micro'", "(option --threshold)"],
        ),
        (["fit", train, *new], [str(train), "--label-separator", "'|'"]),
        (
            ["fit", train, *new, "--text", "headline", "--labels", "tags"],
            [str(train), "headline", "title"],
        ),
        (["fit", folder / "bad.txt", *new], ["bad.txt, line 3"]),
        (["fit", folder / "ragged.tsv", *new, *TABLE], ["ragged.tsv, line 3"]),
        (["fit", folder / "plain.txt", *new], ["plain.txt", "--format"]),
        (["fit", folder / "plain.txt", *new, "--format", "lines"], ["plain.txt", "labels"]),
        (["fit", data / "train.txt", *new, "--hashed"], ["train.txt", "(option --hashed)"]),
        (
            ["fit", data / "train.txt", *new, *FAST, "--method", "pca", "--decoder", "transpose"],
            ["train.txt", "pca"],
        ),
        (["evaluate", folder / "nothing", test], [str(folder / "nothing"), "not a model"]),
        (["evaluate", model, data / "test.txt"], ["test.txt", "fitted on texts"]),
        (["evaluate", feature_model, test, *TABLE], ["test.tsv", "fitted on features"]),
        (["predict", model, folder / "absent.tsv"], ["absent.tsv", "no such file"]),
        (
            ["predict", model, test, "--include", "topic-09/label-000"],
            [str(model), "'topic-09/label-000'", "similar labels"],
        ),
        (
            ["predict", model, test, "--output", folder / "no" / "where.tsv"],
            ["where.tsv", "no folder"],
        ),
        (
            ["neighbors", model, "topik-00/label-000"],
            [str(model), "'topik-00/label-000'", "topic-00/label-000"],
        ),
        (["neighbors", model, "@@@@@@@@@@"], [str(model), "none is similar"]),
        (["data", "get", "mnist"], ["'mnist'", "pubmed-mesh"]),
    ]


def test_refusals_name_what_and_where(
    data: Path, model: Path, feature_model: Path, run: Run, tmp_path: Path
) -> None:
    for command, mentions in wrong_commands(data, model, feature_model, tmp_path):
        ran = run(*command, code=1)
        last = ran.err.strip().splitlines()[-1]
        assert last.startswith("error: ") and all(mention in last for mention in mentions), (
            command,
            ran.err,
        )
        assert "Traceback" not in ran.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["fit"],
        ["fit", "train.tsv", "--output", "m", "--decoder", "magic"],
        ["fit", "train.tsv", "--output", "m", "--ngrams", "3-1"],
        ["embed", "train.tsv", "--output", "vectors.doc"],
        ["paint"],
    ],
)
def test_commands_that_make_no_sense_exit_with_2(command: list[str], run: Run) -> None:
    assert run(*command, code=2).out == ""


def test_warnings_are_notes(data: Path, run: Run, tmp_path: Path) -> None:
    ran = run(
        "embed",
        data / "train.tsv",
        "-o",
        tmp_path / "v.npz",
        *TABLE,
        "--n-components",
        500,
        "--json",
    )
    notes = [line for line in ran.err.splitlines() if line.startswith("warning: ")]
    assert (
        len(notes) == 1
        and notes[0].endswith("(option --n-components)")
        and ran.json["n_components"] <= 40
    )


def commands() -> dict[str, Any]:
    """Every command by its words."""
    root: Any = typer.main.get_command(app)
    data = root.commands["data"].commands
    verbs = {name: verb for name, verb in root.commands.items() if name not in ("data", "annif")}
    return verbs | {f"data {name}": verb for name, verb in data.items()}


@pytest.mark.parametrize("verb", commands())
def test_errors_name_options_that_exist(verb: str, run: Run) -> None:
    """Every parameter with an option is shown as an option of this command; others are not shown as
    options.
    """
    options = options_of(commands()[verb])
    shown = run(*verb.split(), "--help").out
    for parameter, option in options.items():
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", shown), (parameter, option)
        assert with_options("bad value", [parameter], options) == f"bad value (option {option})"
    assert with_options("bad value", ["no_such_parameter"], options) == "bad value"


def test_parameters_of_the_estimators_have_options() -> None:
    """Every parameter has an option of ``fit``, or a reason to have none."""
    options = options_of(commands()["fit"])
    parts = (
        RembrandtClassifier().get_params(deep=False),
        vars(EmbeddingSettings()),
        vars(TreeSettings()),
    )
    without = {
        **dict.fromkeys(("embedding", "trees"), "the fields of these settings are options"),
        **dict.fromkeys(
            ("text",), "parameters of TextFeatures are options"
        ),  # --text names columns
        **dict.fromkeys(("verbose",), "--quiet"),
        **dict.fromkeys(
            ("n_oversamples", "solver", "tol", "max_iter", "center", "max_epochs"),
            "the default is right",
        ),
        **dict.fromkeys(
            ("tolerance", "beam", "power", "prune_below", "label_features", "retrieves_labels"),
            "the default is right",
        ),
        **dict.fromkeys(
            ("label_ridge", "projection_ridge"), "for comparisons with other methods and the paper"
        ),
    }
    assert {name for part in parts for name in part} - set(options) == set(without) - {"text"}
    assert options["random_state"] == "--seed" and options["n_components"] == "--n-components"


def test_errors_keep_their_parameters() -> None:
    with pytest.raises(SettingsError) as refused:
        RembrandtClassifier(n_components=0).fit([[1.0], [2.0]], [0, 1])
    assert refused.value.parameters == ("n_components",)
    assert pickle.loads(pickle.dumps(refused.value)).parameters == ("n_components",)
    assert DataError("no labels", "a.tsv", 3, parameter=("text", "labels")).parameters == (
        "text",
        "labels",
    )


def test_choices_are_those_of_the_library() -> None:
    from rembrandt.data import detect
    from rembrandt.declarations import FLAT
    from rembrandt.features.fourier import KERNELS

    assert reading.FORMATS == detect.FORMATS
    assert FLAT["kernel"].kind.alternatives() == [repr(name) for name in KERNELS]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
def test_an_interrupted_fit_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    train, _ = labelled_documents(6000, n_topics=20, labels_per_topic=50)
    (tmp_path / "train.tsv").write_text(table(train))
    started = shell(
        "fit", "train.tsv", "--output", "model", *TABLE, "--decoder", "logistic", cwd=tmp_path
    )
    assert started.stderr is not None
    for line in started.stderr:
        if not line.startswith("reading"):  # the fit has begun
            break
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert (
        started.returncode == 130
        and "interrupted; no incomplete output was left" in err
        and "Traceback" not in err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["train.tsv"]


def test_a_closed_pipe_is_no_error(model: Path, data: Path, shell: Shell) -> None:
    started = shell("predict", model, data / "test.tsv", "--quiet", "--top-k", 40)
    assert started.stdout is not None and started.stderr is not None
    started.stdout.close()
    assert started.stderr.read() == ""
    started.wait(timeout=60)


def test_messages_are_bounded_and_printable() -> None:
    error = DataError("a\x1b]0;title\x07\n" + "x" * 10**7 + "; do this", "file\x9b")
    assert len(str(error)) < 2500 and str(error).isprintable() and str(error).endswith("; do this")
    assert str(error).startswith(r"file\x9b: a\x1b]0;title\x07\n")
    assert len(str(RembrandtWarning("y" * 10**6))) < 2500


def test_memory_that_runs_out_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    options = {"n_components": "--n-components", "rows": "--rows of rembrandt fit"}
    with pytest.raises(typer.Exit), explained(options):
        raise MemoryError("Unable to allocate 7.45 GiB")
    said = capsys.readouterr().err
    assert (
        said.startswith("error: memory ran out (Unable to allocate 7.45 GiB; ")
        and said.count("\n") == 1
    )
    assert said.endswith("(option --n-components)\n")


def test_labels_do_not_control_the_terminal(tmp_path: Path, run: Run) -> None:
    name = "a\x1b]0;x\x07b\x9b\u202e"
    rows = "".join(
        f"{name if i % 2 else 'other'}\t{'red apple' if i % 2 else 'blue car'} {i}\n"
        for i in range(40)
    )
    (tmp_path / "a.tsv").write_text(f"label\ttext\n{rows}", encoding="utf-8")
    reading = ["--text", "text", "--labels", "label"]
    run(
        "fit",
        str(tmp_path / "a.tsv"),
        *reading,
        "--output",
        str(tmp_path / "m"),
        "--preset",
        "fast",
        "--quiet",
    )
    command = ["predict", str(tmp_path / "m"), str(tmp_path / "a.tsv"), "--text", "text"]
    shown, as_json = run(*command).out, run(*command, "--json")
    assert r"a\x1b]0;x\x07b\x9b\u202e" in shown
    assert name in {label["label"] for row in as_json.rows for label in row["labels"]}
    for printed in (shown, as_json.out):
        assert "\x1b" not in printed and "\x9b" not in printed and "\u202e" not in printed
