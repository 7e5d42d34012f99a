"""The command as a user types it: quick to start, and quiet where it should be."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rembrandt import __version__
from rembrandt.__main__ import main
from tests.cli.conftest import Run

Shell = Callable[..., subprocess.Popen[str]]


def test_the_version_comes_at_once(shell: Shell) -> None:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        out, _ = shell("--version").communicate()
        times.append(time.perf_counter() - start)
        assert out == f"rembrandt {__version__}\n"
    assert min(times) < 0.3


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, rembrandt.cli.app; print(*(m for m in ('numpy', 'scipy', 'numba', 'pyarrow') if m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_help_names_every_verb(run: Run) -> None:
    said = run("--help").out
    verbs = ("fit", "predict", "evaluate", "embed", "neighbors", "spectrum", "serve", "data", "demo")
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
