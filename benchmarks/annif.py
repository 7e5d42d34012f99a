"""Rembrandt as an Annif backend compared with the backends of Annif, on the cooking set with one
vocabulary and split.

python -m benchmarks.annif [--install] [--projects NAME ...]

``--install`` creates the environment for Annif, which the tests use too. It has the dependencies of
this package, but the package itself comes from this checkout. Everything runs through Annif's
commands. The threshold of each project is chosen on a sixth of the training documents, which the
first training leaves out.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.environments import install, python_of
from benchmarks.peers.roster import Environment
from rembrandt.data import Dataset, catalogue
from rembrandt.progress import bars

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
ENVIRONMENT = Environment(
    "annif",
    (*PROJECT["dependencies"], *EXTRAS["serve"], *EXTRAS["annif"], "annif[omikuji,fasttext]"),
    (
        "llama-index-core==0.14.25",
    ),  # only for NLTK's sentence data, which Annif would download otherwise
    ("annif", "omikuji", "fasttext-numpy2", "scikit-learn", "numpy", "scipy"),
)
SNOWBALL = {"analyzer": "snowball(english)"}
BONSAI = {"cluster_balanced": "False", "cluster_k": "100", "max_depth": "3"}
TUTORIAL = {
    "lr": "0.5",
    "epoch": "25",
    "wordNgrams": "2",
    "bucket": "200000",
    "dim": "50",
    "loss": "ova",
}
PROJECTS = {
    "rembrandt": {"backend": "rembrandt"},
    "rembrandt-snowball": {"backend": "rembrandt"} | SNOWBALL,
    "omikuji": {"backend": "omikuji"} | SNOWBALL,
    "omikuji-bonsai": {"backend": "omikuji"} | SNOWBALL | BONSAI,
    "fasttext": {"backend": "fasttext"} | SNOWBALL,
    "fasttext-tutorial": {"backend": "fasttext"} | SNOWBALL | TUTORIAL,
}
MEASURES = ("F1@5", "NDCG", "NDCG@5", "Precision@1")
THRESHOLDS = np.arange(0, 0.5, 0.01)


def annif_python() -> Path | None:
    """Return the interpreter that has Annif, or None; ``REMBRANDT_ANNIF_ENV`` names another
    environment.
    """
    own = os.environ.get("REMBRANDT_ANNIF_ENV")
    return Path(own) / "bin" / "python" if own else python_of(ENVIRONMENT)


def variables(python: Path) -> dict[str, str]:
    """Return the environment variables for a command: the paths of this checkout and of NLTK's
    data.
    """
    own = next(
        python.parent.parent.glob("lib/python*/site-packages/llama_index/core/_static/nltk_cache"),
        None,
    )
    return (
        os.environ
        | {"PYTHONPATH": str(ROOT / "src")}
        | ({} if own is None else {"NLTK_DATA": str(own)})
    )


def uri(label: str) -> str:
    return f"<http://cooking.example/{label}>"


def corpus(data: Dataset) -> str:
    """Return documents in Annif's format: a text, a tab, and the URIs of the subjects on each
    line.
    """
    ends = data.Y.indptr.tolist()
    names = [uri(name) for name in data.label_ids]
    return "".join(
        f"{' '.join(text.split())}\t{' '.join(names[label] for label in data.Y.indices[start:end])}\n"
        for text, start, end in zip(data.texts or (), ends, ends[1:], strict=False)
    )


def section(name: str, settings: dict[str, str]) -> str:
    """Return the section of a project in Annif's configuration file."""
    common = {"name": name, "language": "en", "vocab": "cooking"}
    return "\n".join(
        [f"[{name}]", *(f"{key}={value}" for key, value in (common | settings).items()), ""]
    )


class Annif:
    """Annif in its own folder, with the vocabulary, the projects and the corpora."""

    def __init__(self, python: Path, folder: Path, projects: dict[str, dict[str, str]]) -> None:
        self.python, self.folder = python, folder
        train, test = catalogue.load("cooking", "train"), catalogue.load("cooking", "test")
        part, held = train.split(1 / 6, seed=0)
        for name, data in (("train", train), ("part", part), ("held", held), ("test", test)):
            (folder / f"{name}.tsv").write_text(corpus(data))
        labels = sorted({*train.label_ids, *test.label_ids})
        (folder / "vocabulary.tsv").write_text(
            "".join(f"{uri(label)}\t{label}\n" for label in labels)
        )
        (folder / "projects.cfg").write_text("".join(section(*each) for each in projects.items()))
        self("load-vocab", "cooking", "vocabulary.tsv", "--language", "en")

    def __call__(self, *arguments: str) -> str:
        command = [str(self.python), "-m", "rembrandt", "annif", *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=variables(self.python),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        return done.stdout

    def measures(self, project: str, limit: int, threshold: float) -> dict[str, float]:
        said = self(
            "eval", project, "test.tsv", "--limit", str(limit), "--threshold", f"{threshold:.2f}"
        )
        found = {
            name.strip(): value
            for name, value in re.findall(r"^(.+?):\s+([\d.]+)$", said, re.MULTILINE)
        }
        return {name: float(found[name]) for name in (*MEASURES, "F1 score (doc avg)")}

    def threshold(self, project: str) -> float:
        """Return the threshold with the best F1 of at most five suggestions on the held-out
        documents.
        """
        said = self(
            "index", project, "held.tsv", "--limit", "5", "--output", "-", "--no-include-doc"
        )
        # The library of a backend may write to standard output too; omikuji does.
        found = [json.loads(line)["results"] for line in said.splitlines() if line.startswith("{")]
        scores = [[each["score"] for each in results] for results in found]
        answers = [[each["uri"] for each in results] for results in found]
        truths = [
            [each.strip("<>") for each in line.split("\t")[1].split()]
            for line in (self.folder / "held.tsv").read_text().splitlines()
        ]
        quality = [
            np.mean(
                [f1(a, s, t, threshold) for a, s, t in zip(answers, scores, truths, strict=True)]
            )
            for threshold in THRESHOLDS
        ]
        return float(THRESHOLDS[int(np.argmax(quality))])


def f1(answers: list[str], scores: list[float], truth: list[str], threshold: float) -> float:
    """Return the F1 of the answers whose scores reach the threshold."""
    kept = [answer for answer, score in zip(answers, scores, strict=True) if score >= threshold]
    return 2 * len({*kept} & {*truth}) / max(1, len(kept) + len(truth))


def measure(annif: Annif, project: str) -> dict[str, Any]:
    """Choose the threshold of a project, train it on all training documents, and evaluate it."""
    annif("train", project, "part.tsv")
    threshold = annif.threshold(project)
    start = time.perf_counter()
    annif("train", project, "train.tsv")
    seconds = time.perf_counter() - start
    plain = annif.measures(project, 10, 0.0)
    tuned = annif.measures(project, 5, threshold)
    return {name: plain[name] for name in MEASURES} | {
        "threshold": threshold,
        "F1 tuned": tuned["F1 score (doc avg)"],
        "train s": seconds,
    }


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Measure the projects and print a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.annif", description="Rembrandt as an Annif backend."
    )
    parser.add_argument("--install", action="store_true", help="create the environment and exit")
    parser.add_argument("--projects", nargs="+", choices=PROJECTS, default=list(PROJECTS))
    asked = parser.parse_args(arguments or [])
    if asked.install:
        if annif_python() is None:
            with bars() as report:
                report("installing Annif in a separate environment", 0, None)
                install(ENVIRONMENT)
        print(annif_python())
        return {}
    python = annif_python()
    if python is None:
        print(
            "skipped: there is no environment with Annif; create it with python -m "
            "benchmarks.annif --install"
        )
        return {}
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        annif = Annif(python, Path(folder), {name: PROJECTS[name] for name in asked.projects})
        for project in asked.projects:
            results[project] = measure(annif, project)
            figures = "  ".join(f"{name} {value:.4f}" for name, value in results[project].items())
            print(f"{project:20s} {figures}", flush=True)
    return results


if __name__ == "__main__":
    main(sys.argv[1:])
