"""The backend in a real Annif, and Annif's own `http` backend with our service."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks.annif import annif_python, corpus, uri, variables

import rembrandt
from rembrandt.data import Dataset
from rembrandt.data.generated import labelled_documents
from rembrandt.estimators.requests import rows_of, top_columns
from rembrandt.metrics import ndcg_at_k
from tests.serve.conftest import served

Run = Callable[..., subprocess.CompletedProcess[str]]

FAST = "n_components=30\ndecoder=ridge\ndecoder_ridge=0.01\nkernel=none\n"
PROJECTS = f"""
[ours]
name=Ours
language=en
backend=rembrandt
vocab=words
allow_learn=true
{FAST}
[fresh]
name=Never trained
language=en
backend=rembrandt
vocab=words

[stemmed]
name=By way of Annif's analyzer
language=en
backend=rembrandt
vocab=words
analyzer=snowball(english)
n_component=3
{FAST}
"""


@pytest.fixture(scope="module")
def python() -> Path:
    found = annif_python()
    if found is None:
        pytest.skip("no environment with Annif here: make annif-env")
    return found


@pytest.fixture(scope="module")
def documents() -> tuple[Dataset, Dataset]:
    return labelled_documents(600, n_topics=4, labels_per_topic=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, documents: tuple[Dataset, Dataset]) -> Path:
    """Projects, a vocabulary with one subject that no document has, and documents with labels as
    URIs.
    """
    path = tmp_path_factory.mktemp("annif")
    train, test = documents
    (path / "projects.cfg").write_text(PROJECTS)
    (path / "train.tsv").write_text(corpus(train) + "a document about nothing\t\n")
    (path / "test.tsv").write_text(corpus(test))
    (path / "vocabulary.tsv").write_text(vocabulary([*train.label_ids, "new"]))
    return path


def vocabulary(labels: list[str]) -> str:
    return "".join(f"{uri(label)}\tThe {label}\n" for label in labels)


@pytest.fixture(scope="module")
def run(python: Path, folder: Path) -> Run:
    """Annif's commands in that folder: through rembrandt annif, or without it."""

    def call(*arguments: str, stock: bool = False, code: int = 0, text: str | None = None) -> Run:
        start = (
            [str(python.parent / "annif")] if stock else [str(python), "-m", "rembrandt", "annif"]
        )
        done = subprocess.run(
            [*start, *arguments],
            cwd=folder,
            env=variables(python),
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


@pytest.fixture(scope="module")
def trained(run: Run, folder: Path) -> Path:
    """The model that `train` leaves in the project's folder."""
    run("load-vocab", "words", "vocabulary.tsv", "--language", "en")
    said = run("train", "ours", "train.tsv").stderr
    assert "1 documents have no subject" in said
    return folder / "data" / "projects" / "ours" / "rembrandt-model"


def suggestions(run: Run, project: str, limit: int) -> list[list[tuple[str, float]]]:
    """What Annif suggests for the test documents."""
    said = run(
        "index", project, "test.tsv", "--limit", str(limit), "--output", "-", "--no-include-doc"
    ).stdout
    return [
        [(each["uri"], each["score"]) for each in json.loads(line)["results"]]
        for line in said.splitlines()
    ]


def test_annif_suggests_what_the_model_predicts(
    run: Run, trained: Path, documents: tuple[Dataset, Dataset]
) -> None:
    model = rembrandt.load(
        trained
    )  # here, with other versions of NumPy and scikit-learn than it was fitted with
    labels, _ = model.predict_topk(documents[1].texts, 5)
    best, _ = top_columns(model, rows_of(model, documents[1].texts), 5)
    chances = np.take_along_axis(model.predict_proba(documents[1].texts), best, axis=1)
    found = suggestions(run, "ours", 5)
    assert [[label for label, _ in row] for row in found] == labels.tolist()
    np.testing.assert_allclose([[score for _, score in row] for row in found], chances, atol=2e-5)
    assert model.label_names_[str(labels[0, 0])].startswith("The topic-")


def test_eval_in_two_processes_measures_what_we_measure(
    run: Run, trained: Path, folder: Path, documents: tuple[Dataset, Dataset]
) -> None:
    run(
        "eval",
        "ours",
        "test.tsv",
        "--jobs",
        "2",
        "--metric",
        "NDCG@5",
        "--metrics-file",
        "measured.json",
    )
    model = rembrandt.load(trained)
    test = documents[1]
    names = [str(label).rpartition("example/")[2] for label in model.classes_]
    best, _ = top_columns(model, rows_of(model, test.texts), 5)
    ours = ndcg_at_k(test.align_labels(names).Y, best, 5)
    assert json.loads((folder / "measured.json").read_text())["NDCG@5"] == pytest.approx(
        ours, abs=1e-3
    )
    assert ours > 0.5


def test_a_stock_annif_asks_the_service(
    run: Run, trained: Path, folder: Path, documents: tuple[Dataset, Dataset]
) -> None:
    """Annif with its own `http` backend gets what our backend gives it."""
    text = documents[1].texts[0]
    with served({"subjects": trained}) as address:
        section = PROJECTS[: PROJECTS.index("backend=")].replace("ours", "asked")
        endpoint = f"{address}/v1/projects/subjects/suggest"
        (folder / "http.cfg").write_text(
            f"{section}backend=http\nvocab=words\nendpoint={endpoint}\nlimit=100\n"
        )
        asked = run(
            "suggest", "asked", "--projects", "http.cfg", "--limit", "5", stock=True, text=text
        ).stdout
    assert asked == run("suggest", "ours", "--limit", "5", text=text).stdout
    assert asked.count("\n") == 5


def test_learn_adds_documents_and_subjects(run: Run, trained: Path, folder: Path) -> None:
    before = rembrandt.load(trained)
    lines = "".join(
        f"quokka wallaby {word}\t{uri('new')}\n" for word in ("one", "two", "three", "four")
    )
    (folder / "more.tsv").write_text(lines)
    run("learn", "ours", "more.tsv")
    after = rembrandt.load(trained)
    assert after.n_train_ == before.n_train_ + 4 and {*after.classes_} - {*before.classes_} == {
        uri("new")[1:-1]
    }
    assert after.settings_ == before.settings_
    embedding = after.settings_["parts"]["embedding"]["settings"]
    assert embedding["decoder_ridge"] == 0.01
    said = run("suggest", "ours", "--limit", "1", text="a wallaby, a quokka").stdout
    assert said.startswith(f"{uri('new')}\tThe new\t")
    assert (
        run("suggest", "ours", text="xyzzy").stdout == ""
    )  # a text without a known word gets no suggestions


def test_subjects_that_left_the_vocabulary_are_not_suggested(
    run: Run, trained: Path, folder: Path, documents: tuple[Dataset, Dataset]
) -> None:
    first = suggestions(run, "ours", 1)
    gone = max((row[0][0] for row in first), key=[row[0][0] for row in first].count)
    labels = [label for label in [*documents[0].label_ids, "new"] if uri(label) != f"<{gone}>"]
    (folder / "smaller.tsv").write_text(vocabulary(labels))
    try:
        run("load-vocab", "words", "smaller.tsv", "--language", "en", "--force")
        found = suggestions(run, "ours", 5)
    finally:
        run("load-vocab", "words", "vocabulary.tsv", "--language", "en", "--force")
    assert {len(row) for row in found} == {5}
    assert not any(gone in dict(row) for row in found)


def test_the_analyzer_of_a_project_is_used(run: Run, trained: Path, folder: Path) -> None:
    lines = f"the cities\t{uri('new')}\n" * 2
    (folder / "english.tsv").write_text((folder / "train.tsv").read_text() + lines)
    said = run("train", "stemmed", "english.tsv", "--jobs", "1").stderr
    assert "unknown setting 'n_component' is ignored" in said
    terms = rembrandt.load(
        folder / "data" / "projects" / "stemmed" / "rembrandt-model"
    ).text_.terms_
    assert "citi" in terms and "cities" not in terms
    assert "new" in run("suggest", "stemmed", "--limit", "1", text="A city.").stdout


def test_the_web_application_knows_the_backend(python: Path, trained: Path, folder: Path) -> None:
    code = (
        "from rembrandt.annif import create_app; import annif.backend; "
        "app = create_app('annif.default_config.ProductionConfig'); "
        "projects = app.app.annif_registry.get_projects(); "
        "print({each: project.is_trained for each, project in projects.items()})"
    )
    said = subprocess.run(
        [str(python), "-c", code],
        cwd=folder,
        env=variables(python),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "'ours': True" in said.stdout and "'fresh': False" in said.stdout


def test_errors_are_one_message(run: Run, trained: Path) -> None:
    for arguments, sentence in (
        (("suggest", "fresh"), "not trained"),
        (
            ("train", "ours", "train.tsv", "-b", "rembrandt.n_components=many"),
            "n_components=many is not valid",
        ),
        (("train", "fresh", "--cached"), "no documents are stored"),
    ):
        said = run(*arguments, code=1, text="").stderr
        assert sentence in said and "Traceback" not in said
