"""Commands in the documentation have verbs and options that exist, and its Python code compiles."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_failure import commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def lines(page: Path) -> Iterator[list[str]]:
    """The words of every rembrandt command."""
    for block in blocks(page, "console"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$"), comments=True)
            if line.startswith("$") and "rembrandt" in words:
                yield words[words.index("rembrandt") + 1 :]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    known = commands()
    for words in lines(page):
        if words[0] == "annif":
            continue
        verb = " ".join(words[:2]) if words[0] == "data" else words[0]
        assert verb in known, words
        options = {name for param in known[verb].params for name in param.opts}
        assert {word for word in words if word.startswith("--")} <= options, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_code_compiles(page: Path) -> None:
    for block in blocks(page, "python"):
        compile(block, page.name, "exec")
