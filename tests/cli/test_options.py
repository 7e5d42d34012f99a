"""Groups of options, their panels in the help, and options as words of a command."""

import shlex
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rembrandt.cli import options
from rembrandt.cli.reading import Reading
from rembrandt.cli.settings import Settings, TextSettings
from rembrandt.declarations import ModelSettings, PartSpec, preset_settings
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.trees.settings import TreeSettings
from tests.cli.conftest import Run

PANELS = {
    "fit": {
        "Options": (
            "--output",
            "--text",
            "--labels",
            "--label-separator",
            "--label-names",
            "--vectors",
            "--preset",
            "--budget",
            "--device",
            "--force",
            "--json",
            "--quiet",
        ),
        "Data": ("--format", "--delimiter", "--encoding", "--verbatim-labels"),
        "Model": (
            "--parts",
            "--seed",
            "--n-components",
            "--method",
            "--decoder",
        ),
        "Text": ("--analyzer", "--ngrams", "--hashed"),
        "Advanced": ("--kernel-scale", "--n-iter", "--checkpoint", "--scheduler"),
    },
    "tune": {
        "Options": ("--budget", "--text", "--labels", "--preset", "--output"),
        "Data": ("--format",),
        "Model": ("--parts", "--seed"),
        "Text": ("--ngrams",),
    },
    "update": {"Options": ("--output", "--refit"), "Data": ("--format", "--labels")},
    "predict": {"Options": ("--top-k", "--include"), "Data": ("--text",), "Model": ("--tail",)},
    "evaluate": {
        "Options": ("--by-frequency",),
        "Data": ("--labels",),
        "Model": ("--shortlist", "--device"),
    },
}


@pytest.mark.parametrize("verb", PANELS)
def test_help_groups_options_in_panels(verb: str, run: Run) -> None:
    said = run(verb, "--help").out
    panels = {part.split(" ", 1)[0]: part for part in said.split("╭─ ")[1:]}
    assert [name for name in panels if name != "Arguments"] == [
        name for name in ("Options", "Data", "Model", "Text", "Advanced") if name in panels
    ]
    for name, wanted in PANELS[verb].items():
        places = [panels[name].find(f" {option} ") for option in wanted]
        assert -1 not in places and places == sorted(places), (
            name,
            dict(zip(wanted, places, strict=True)),
        )
    assert "<bool>" not in said and "--no-force" not in said


def test_a_group_becomes_options_and_is_passed_on() -> None:
    @dataclass(frozen=True)
    class Group:
        number: Annotated[int, typer.Option(help="A number.")] = 3
        names: Annotated[list[str] | None, typer.Option("--name")] = None

    seen: list[Any] = []

    def command(word: str, *, last: bool = False, group: Group) -> None:
        seen.append((word, last, group))

    app = typer.Typer()
    app.command()(options.grouped(command))
    assert (
        CliRunner()
        .invoke(app, ["a", "--number", "5", "--name", "x", "--name", "y", "--last"])
        .exit_code
        == 0
    )
    assert CliRunner().invoke(app, ["b"]).exit_code == 0
    assert seen == [("a", True, Group(5, ["x", "y"])), ("b", False, Group())]


words = st.text(
    st.characters(codec="utf-8", exclude_characters=",\x00", exclude_categories=["C", "Z"]),
    min_size=1,
)


@given(
    st.builds(
        Reading,
        format=st.sampled_from([None, "csv", "npz"]),
        text=st.none()
        | st.lists(words.filter(lambda word: not word.startswith("-")), min_size=1, max_size=3),
        label_separator=st.sampled_from([None, "|", "\t", " "]),
    ),
    st.builds(TextSettings, ngrams=st.sampled_from([None, (1, 1), (1, 2)]), hashed=st.booleans()),
    st.floats(1e-9, 1e9),
    st.sampled_from(["auto", ("trees",), ("trees", "embedding")]),
    st.sampled_from(["auto", 5]),
)
def test_words_of_options_give_the_same_options(
    reading: Reading, texts: TextSettings, ridge: float, parts: Any, rank: Any
) -> None:
    settings = replace(
        Settings(), ridge=ridge, parts=parts, n_components=rank, kernel="none", seed=4
    )
    seen: list[Any] = []

    def command(*, reading: Reading, settings: Settings, texts: TextSettings) -> None:
        seen.append((reading, settings, texts))

    app = typer.Typer()
    app.command()(options.grouped(command))
    line = shlex.join(
        word for group in (reading, settings, texts) for word in options.as_words(group)
    )
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, result.output
    assert seen == [(reading, settings, texts)]


TREES = TreeSettings(n_trees=2, max_example_node_pairs=3e7, cost=0.3, passes=6)
EMBEDDING = EmbeddingSettings(
    n_components=20,
    ridge=1.0,
    decoder="ridge",
    decoder_ridge=0.1,
    kernel=None,
    normalize=True,
    label_power=0.0,
    row_power=0.0,
)
TREE_OPTIONS = "--n-trees 2 --tree-max-example-node-pairs 3e+07 --tree-cost 0.3 --tree-passes 6"
EMBEDDING_OPTIONS = (
    "--n-components 20 --ridge 1 --decoder ridge --decoder-ridge 0.1 --kernel none --normalize yes "
    "--kernel-scale 1 --n-random-features none --label-power 0 --row-power 0 --leave-out 0.5 "
    "--n-iter 1"
)


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (("trees",), f"--parts trees {TREE_OPTIONS}"),
        (("trees", "vectors"), f"--parts trees {TREE_OPTIONS}"),
        (("trees", "embedding"), f"--parts trees,embedding {EMBEDDING_OPTIONS} {TREE_OPTIONS}"),
    ],
)
def test_settings_of_a_model_become_options(names: tuple[str, ...], line: str) -> None:
    embedding = preset_settings("embedding", "balanced", EMBEDDING)
    specs = {
        "trees": PartSpec("trees", preset_settings("trees", "balanced", TREES)),
        "embedding": PartSpec("embedding", embedding),
        "vectors": PartSpec("embedding", embedding, view="vectors"),
    }
    settings = Settings(budget=5.0).with_settings(
        ModelSettings({name: specs[name] for name in names})
    )
    assert " ".join(options.as_words(settings)) == line
    parameters = settings.parameters()
    assert parameters["trees"] == TREES and parameters["budget"] is None
    assert (parameters["kernel"] is None and parameters["normalize"] is True) == (
        "embedding" in names
    )
