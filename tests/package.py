"""Try a built wheel as a new user would: ``python -m tests.package dist``, after ``python -m
build``.

The wheel is installed into a clean environment, without the extras. There ``rembrandt --version``
and a small fit must work.
"""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

from rembrandt import __version__
from tests.cli.conftest import table

SOURCES = (
    ".py",
    ".json",
    ".typed",
    ".css",
    ".html",
    ".js",
    ".svg",
    ".md",
    ".cff",
    ".toml",
    "LICENSE",
    "PKG-INFO",
    ".gitignore",
)
LARGEST = 2 << 20  # bytes of a distribution


def check_contents(dist: Path) -> Path:
    """Check that both distributions have the package and no data; return the wheel."""
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = set(opened.namelist())
    with tarfile.open(sdist) as opened_sdist:
        in_sdist = {
            member.name.split("/", 1)[1] for member in opened_sdist.getmembers() if member.isfile()
        }
    package = {
        path.relative_to("src").as_posix()
        for path in Path("src").rglob("*")
        if path.suffix in SOURCES
    }
    assert package <= in_wheel, package - in_wheel
    assert {f"src/{name}" for name in package} <= in_sdist, (
        "files of the package are missing in the sdist"
    )
    data = {name for name in in_sdist if not name.endswith(SOURCES)}
    assert not data, data
    for file in (wheel, sdist):
        assert file.stat().st_size < LARGEST, file
    return wheel


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment and use it from there."""
    from rembrandt.data.generated import labelled_documents

    venv.create(folder / "env", with_pip=True)
    programs = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    python, rembrandt = programs / "python", programs / "rembrandt"

    def call(*command: str | Path) -> str:
        return subprocess.run(
            command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel.resolve())
    assert call(rembrandt, "--version").split()[-1] == __version__
    train, test = labelled_documents(200, n_topics=3, labels_per_topic=3)
    for name, part in (("train", train), ("test", test)):
        (folder / f"{name}.tsv").write_text(table(part), encoding="utf-8")
    read_as = ("--text", "title,body", "--labels", "tags", "--label-separator", "|")
    call(rembrandt, "fit", "train.tsv", *read_as, "--preset", "fast", "--output", "model")
    assert "P@k" in call(rembrandt, "evaluate", "model", "test.tsv")
    assert (
        call(rembrandt, "predict", "model", "test.tsv", "--top-k", "1").count("topic-")
        == test.n_examples
    )


if __name__ == "__main__":
    wheel = check_contents(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        try_wheel(wheel, Path(folder))
    print(f"{wheel.name} works in a clean environment.")
