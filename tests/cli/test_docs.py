"""Every command and every line of Python in the documentation is run, on small files with the names
that it uses. On pages that a newcomer follows, what the commands print is compared with the page.

Blocks after a comment ``<!-- not run: reason -->`` are not run, nor is ``pip install``, which `make
package` runs. Their commands must exist and their Python code must compile all the same.
"""

import gzip
import io
import math
import os
import re
import shlex
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier, __version__, load
from rembrandt.data import Dataset
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import RembrandtWarning
from rembrandt.features.text import TextFeatures
from tests.cli.conftest import Run, rows
from tests.cli.test_failure import commands

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Pages whose commands are run on the files that they name, and whose outputs are compared.
WALKS = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("index", "quickstart", "troubleshooting")),
]
SHELL = ("cat", "cp", "echo", "head", "mkdir", "printf")  # programs that walks may call
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
TIMED = (" s ", " s\n", " examples per second")  # what follows a number that depends on the machine
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>.+?) -->\n\n?)?```(?P<language>\w*)\n(?P<text>.*?)^```", re.M | re.S
)
NAMES = {1: "Humans", 2: "Dystonia"}  # labels that the pages name
REPLACED = (
    "fit",
    "map",
    "report",
    "predict",
)  # commands whose output may be left from an earlier block


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    why_not: str | None

    def lines(self) -> list[str]:
        """The commands of a console block."""
        return [command for command, _ in self.steps()]

    def steps(self) -> list[tuple[str, str]]:
        """The commands of a console block, each with the output that the page shows."""
        joined = self.text.replace("\\\n", " ")
        steps = []
        for step in re.split(r"^\$ ", joined, flags=re.M)[1:]:
            command, _, output = step.partition("\n")
            steps.append((command, output))
        return steps

    def printed(self) -> str:
        """What a block of Python prints, by the comments after its calls of print."""
        return "\n".join(re.findall(r"^print\(.*\)  # (.+)$", self.text, re.M))


def blocks(page: Path) -> list[Block]:
    matches = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(match["language"], match["text"], match["why"]) for match in matches]


def words_of(line: str) -> list[str] | None:
    """The words of a rembrandt command after that word, None for another command."""
    words = shlex.split(line, comments=True)
    return words[words.index("rembrandt") + 1 :] if "rembrandt" in words else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist_and_code_compiles(page: Path) -> None:
    verbs = commands()
    for block in blocks(page):
        assert block.language != "" or "rembrandt " not in block.text, "say console or text"
        if block.language == "python":
            compile(block.text, page.name, "exec")
        for words in filter(
            None, map(words_of, block.lines() if block.language == "console" else ())
        ):
            if words[0] == "annif":
                continue
            verb = " ".join(words[:2]) if words[0] == "data" else words[0]
            assert verb in verbs or words[0] == "--version", words
            options = (
                {name for param in verbs[verb].params for name in param.opts}
                if verb in verbs
                else {"--version"}
            )
            assert {word for word in words if word.startswith("--")} <= options, words


def document(data: Dataset, columns: str, separator: str, label_separator: str) -> str:
    """The documents as a table."""
    lines = [columns]
    for i, (words, labels) in enumerate(rows(data)):
        tags = label_separator.join(NAMES.get(label, data.label_ids[label]) for label in labels)
        cells = {"id": str(i), "title": " ".join(words[:8]), "tags": tags, "headings": tags}
        body = " ".join(words[8:])
        lines.append(separator.join(cells.get(name, body) for name in columns.split(separator)))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """The files that the pages name. With so few examples nothing is searched, and a fit takes less
    than a second.
    """
    folder = tmp_path_factory.mktemp("docs")
    train, test = labelled_documents(120, n_topics=3, labels_per_topic=3)
    table = "\t".join(("id", "title", "body", "abstract", "tags", "headings"))
    for name, contents in (
        ("train", train),
        ("all", train),
        ("test", test),
        ("new", test),
        ("week-47", test),
    ):
        (folder / f"{name}.tsv").write_text(document(contents, table, "\t", "|"))
    for name, contents in (("questions", train), ("test", test)):
        (folder / f"{name}.csv").write_text(document(contents, "title,tags", ",", ";"))
    head, *lines = (folder / "train.tsv").read_text().splitlines(keepends=True)
    for number in (1, 2):
        contents = "".join([head, *lines[(number - 1) * 40 : number * 40]])
        (folder / f"part-{number}.tsv.gz").write_bytes(gzip.compress(contents.encode()))
    (folder / "names.tsv").write_text("id\tname\ntopic-00/label-000\tThe first topic\n")
    read_as = ("--text", "title,body", "--labels", "tags", "--label-separator", "|")
    run("fit", folder / "train.tsv", *read_as, "--preset", "fast", "--output", folder / "model")
    (folder / "docs").mkdir()
    for file in (ROOT / "docs").glob("garden*"):
        shutil.copy(file, folder / "docs")
    return folder


@pytest.fixture(scope="module")
def variables() -> dict[str, Any]:
    """The variables that the pages use without defining them."""
    train, more = labelled_documents(120, n_topics=3, labels_per_topic=3)
    X = TextFeatures().fit_transform(train.texts)
    vectors = X[:, :4].toarray()
    names = [[train.label_ids[i] for i in labels] for _, labels in rows(train)]
    more_names = [[more.label_ids[i] for i in labels] for _, labels in rows(more)]
    names: dict[str, Any] = {
        "texts": train.texts,
        "labels": names,
        "more_texts": more.texts,
        "more_labels": more_names,
    }
    names |= {"X": X, "Y": sparse.csr_array(train.Y), "vectors": vectors}
    return names | {"RembrandtClassifier": RembrandtClassifier, "load": load}


def run_line(line: str, run: Run, expected: str = "") -> str:
    """Run a command; return warnings, what it prints, and its error, in this order."""
    words = words_of(line)
    if words is None:
        return run_program(line)
    echoed = re.match(r"echo (.*?) \| rembrandt ", line)
    output = Path(words[words.index("--output") + 1]) if "--output" in words else None
    fails = re.search("^error: ", expected, re.M) is not None
    if output is not None and output.exists() and words[0] in REPLACED and not fails:
        shutil.rmtree(output) if output.is_dir() else output.unlink()
    if "--budget" in words:
        words[words.index("--budget") + 1] = "1s"
    code = 0
    if fails:
        code = 2 if "\nSee rembrandt " in expected else 1
    matched = [sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in words]
    ran = run(
        *(word for each in matched for word in each),
        input=None if echoed is None else shlex.split(echoed[1])[0],
        code=code,
    )
    said = ran.err.splitlines()
    said_before = [line for line in said if line.startswith("warning: ")]
    said_after = [line for line in said if line.startswith(("error: ", "See rembrandt "))]
    return "\n".join([*said_before, ran.out, *said_after])


def run_program(line: str) -> str:
    """Run a command of the shell; return what it prints."""
    program, *words = shlex.split(line)
    if program == "cd":
        os.chdir(words[0])
        return ""
    if line.startswith("pip install "):
        return ""
    assert program in SHELL, f"mark it as not run, with the reason: {line}"
    return subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout


def check_same(actual: str, expected: str) -> None:
    """Check that a page shows what a command prints.

    Words and their order are the same, line breaks are not compared, and "…" stands for anything.
    Numbers agree up to a tenth, or a twentieth of one: other processors round differently. Times
    are not compared.
    """
    pattern = ""
    end = 0
    shown = []
    expected = " ".join(expected.split()) + "\n"
    for number in NUMBER.finditer(expected):
        pattern += re.escape(expected[end : number.start()]) + f"({NUMBER.pattern})"
        end = number.end()
        shown.append((number[0], expected[end:].startswith(TIMED)))
    pattern += re.escape(expected[end:])
    pattern = pattern.replace("…", ".*")
    match = re.fullmatch(pattern, " ".join(actual.split()) + "\n")
    assert match is not None, f"the page shows\n{expected}\nand the command prints\n{actual}"
    for (number, is_time), printed in zip(shown, match.groups(), strict=True):
        values = [float(text.replace(",", "")) for text in (number, printed)]
        is_close = math.isclose(*values, rel_tol=0.1, abs_tol=0.05)
        assert is_time or is_close, f"{number} on the page, {printed} printed:\n{actual}"


@pytest.mark.parametrize(
    "printed",
    ["right for 76 %", "right for 50.5 % of 198", "wrong for 76.8 % of 198", ""],
)
def test_a_page_that_shows_something_else_is_noticed(printed: str) -> None:
    check_same("right for 76.9 % of\n198, in 3.5 s\n", "right for 76.8 % of 198, in 90.1 s")
    check_same("a\nb\nc", "a … c")
    with pytest.raises(AssertionError):
        check_same(printed, "right for 76.8 % of 198")


def runnable() -> Iterator[Any]:
    for page in PAGES:
        if any(
            block.why_not is None and block.language in ("console", "python")
            for block in blocks(page)
        ):
            yield pytest.param(page, id=str(page.relative_to(ROOT)))


@pytest.mark.parametrize("page", list(runnable()))
def test_blocks_run(
    page: Path,
    files: Path,
    variables: dict[str, Any],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = shutil.copytree(files, tmp_path / "work")
    monkeypatch.chdir(folder)
    namespace = dict(variables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RembrandtWarning)  # of so few examples
        for block in blocks(page):
            if block.why_not is not None:
                continue
            if block.language == "python":
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(compile(block.text, page.name, "exec"), namespace)
                if page in WALKS:
                    check_same(printed.getvalue(), block.printed())
            if block.language == "console":
                for line, expected in block.steps():
                    actual = run_line(line, run, expected)
                    if page in WALKS and expected.strip():
                        check_same(actual, expected)


def slugs(text: str) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return {"", *(re.sub(r"[ -]+", "-", each) for each in plain)}


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links and anchors exist; links to other hosts are https addresses of a host with a
    domain.
    """
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
    links = re.findall(r"\]\(([^)]*)\)|^\[[^\]\n]+\]: (.*)$|<([a-z]+:[^>]*)>", text, flags=re.M)
    bare = re.findall(r"(?<![(<])\b[a-z]+://[^\s)>]+", text)
    for link in [*("".join(each) for each in links), *(each.rstrip(".,;:") for each in bare)]:
        if re.match(r"[a-z]+:", link):
            assert re.fullmatch(
                r"https://([a-z0-9-]+\.)+[a-z]{2,}(:\d+)?(/[^\s<>\"]*)?(?<![.,;:])", link
            ), link
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        if file.suffix == ".md":
            assert anchor in slugs(file.read_text(encoding="utf-8")), link


def test_versions_agree() -> None:
    for file, pattern in (
        ("pyproject.toml", r'^version = "(.+)"$'),
        ("CITATION.cff", r"^version: (.+)$"),
    ):
        match = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.M)
        assert match is not None and match[1] == __version__, file
