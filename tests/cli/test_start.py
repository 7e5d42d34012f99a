"""Starting the program: few imports, and results apart from progress."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rembrandt import __version__
from rembrandt.__main__ import main
from tests.cli.conftest import Run

Shell = Callable[..., subprocess.Popen[str]]


HEAVY = "numpy", "scipy", "sklearn", "numba", "pyarrow", "torch"


def imported(code: str, modules: tuple[str, ...]) -> list[str]:
    """Which of these modules a new process has imported after running ``code``."""
    code = (
        f"import sys; {code}; print(*(m for m in {modules} if m in sys.modules), file=sys.stderr)"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stderr.split()


def test_the_version_imports_not_even_the_command_line(shell: Shell) -> None:
    assert shell("--version").communicate()[0] == f"rembrandt {__version__}\n"
    assert (
        imported("import rembrandt.__main__ as m; m.main(['--version'])", (*HEAVY, "typer", "rich"))
        == []
    )


def test_help_imports_nothing_heavy() -> None:
    assert imported("import rembrandt.cli.app", HEAVY) == []


def test_help_names_every_verb(run: Run) -> None:
    said = run("--help").out
    verbs = (
        "fit",
        "predict",
        "evaluate",
        "embed",
        "neighbors",
        "spectrum",
        "serve",
        "data",
        "demo",
    )
    assert all(verb in said for verb in verbs)
    assert run("--version").out == f"rembrandt {__version__}\n"


def test_main_takes_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"rembrandt {__version__}\n"


def test_progress_and_answers_do_not_mix(model: Path, data: Path, shell: Shell) -> None:
    out, err = shell("evaluate", model, data / "test.tsv", "--json").communicate()
    assert json.loads(out)["n_examples"] == 200 and "predicting ..." in err.splitlines()
    out, err = shell("evaluate", model, data / "test.tsv", "--json", "--quiet").communicate()
    assert json.loads(out)["n_examples"] == 200 and err == ""


def test_terminals_without_unicode(model: Path, shell: Shell) -> None:
    out, err = shell(
        "spectrum", model, env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    ).communicate()
    assert "rank 20" in out and r"\u2588" in out and "Error" not in err
