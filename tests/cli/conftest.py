"""Small data on disk, and the command line called as a user calls it, in an environment that is
always the same.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer import rich_utils
from typer.testing import CliRunner

from rembrandt.cli.app import app
from rembrandt.data import Dataset
from rembrandt.data.generated import labelled_documents

TABLE = ("--text", "title,body", "--labels", "tags", "--label-separator", "|")
# Nothing is left to choose.
FAST = (
    *("--decoder", "ridge", "--kernel", "none", "--decoder-ridge", "0.01", "--normalize", "no"),
    *("--n-components", "20", "--leave-out", "0", "--label-power", "0", "--row-power", "0"),
    *("--parts", "embedding"),
)

# Variables that change what terminal libraries write; the width of help texts is fixed.
TERMINAL = (
    "COLUMNS",
    "LINES",
    "TERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR_FORCE",
    "TTY_COMPATIBLE",
    "PY_COLORS",
)
ENVIRONMENT: dict[str, str | None] = {**dict.fromkeys(TERMINAL), "COLUMNS": "200"}
START = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from rembrandt.__main__ import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="session", autouse=True)
def no_terminal() -> None:
    """Undo what typer read from the environment when it was imported."""
    rich_utils.MAX_WIDTH, rich_utils.FORCE_TERMINAL = None, False


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """The objects of JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture(scope="session")
def run() -> Run:
    """Call the command line in this process."""

    def call(
        *arguments: Any, code: int = 0, input: str | None = None, env: dict[str, str] | None = None
    ) -> Ran:
        words = [str(argument) for argument in arguments]
        result = CliRunner().invoke(app, words, input=input, env=ENVIRONMENT | (env or {}))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return Ran(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture(scope="session")
def shell() -> Callable[..., subprocess.Popen[str]]:
    """Start the command line in a new process, with Ctrl-C enabled also where the parent ignores
    it.
    """

    def start(
        *arguments: Any, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", START, *map(str, arguments)]
        environment = {name: value for name, value in os.environ.items() if name not in TERMINAL}
        environment |= {"PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"} | (env or {})
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, encoding="utf-8", cwd=cwd, env=environment
        )

    return start


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one problem twice, as tables of texts (``.tsv``) and as features (``.txt``):
    train and test.
    """
    folder = tmp_path_factory.mktemp("data")
    train, test = labelled_documents(1000, n_topics=5, labels_per_topic=8)
    for name, examples in (("train", train), ("test", test)):
        (folder / f"{name}.tsv").write_text(table(examples))
        (folder / f"{name}.txt").write_text(repository(examples))
    return folder


@pytest.fixture(scope="session")
def model(data: Path, run: Run) -> Path:
    """A model of the tables."""
    run("fit", data / "train.tsv", "--output", data / "model", *TABLE, *FAST)
    return data / "model"


@pytest.fixture(scope="session")
def feature_model(data: Path, run: Run) -> Path:
    """A model of the features."""
    run("fit", data / "train.txt", "--output", data / "feature-model", *FAST)
    return data / "feature-model"


def rows(data: Dataset) -> list[tuple[list[str], list[int]]]:
    """For each document its words and its labels' numbers."""
    starts = data.Y.indptr.tolist()
    labels = [data.Y.indices[a:b].tolist() for a, b in pairwise(starts)]
    return [(text.split(), each) for text, each in zip(data.texts or [], labels, strict=True)]


def table(data: Dataset) -> str:
    lines = ["id\ttitle\tbody\ttags"]
    for i, (words, labels) in enumerate(rows(data)):
        tags = "|".join(data.label_ids[label] for label in labels)
        lines.append(f"{i}\t{' '.join(words[:8])}\t{' '.join(words[8:])}\t{tags}")
    return "\n".join(lines) + "\n"


def repository(data: Dataset, n_features: int = 800) -> str:
    """Words counted under numbers that depend on their spelling alone."""
    lines = [f"{data.n_examples} {n_features} {data.n_labels}"]
    for words, labels in rows(data):
        numbers = [
            sum(ord(letter) * 31**backend for backend, letter in enumerate(word)) % n_features
            for word in words
        ]
        counts = " ".join(f"{number}:{numbers.count(number)}" for number in sorted(set(numbers)))
        lines.append(f"{','.join(map(str, labels))} {counts}")
    return "\n".join(lines) + "\n"
