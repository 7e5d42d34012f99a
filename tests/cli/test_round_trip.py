"""Fit, evaluate, predict and inspect models of texts and of features."""

from pathlib import Path

import numpy as np
import pytest

from rembrandt import load
from rembrandt.cli.evaluate import _unseen
from rembrandt.cli.settings import TextSettings
from tests.cli.conftest import FAST, TABLE, Run

MEASURES = [
    "error",
    *(f"{name}@{k}" for name in ("p", "ndcg", "psp") for k in (1, 3, 5)),
    "examples_per_second",
]


def test_fit_says_what_was_read_chosen_and_written(data: Path, run: Run, tmp_path: Path) -> None:
    said = run("fit", data / "train.tsv", "-o", tmp_path / "model", *TABLE, *FAST).out
    assert "800 texts, 40 labels" in said and "(multilabel)" in said
    assert "Parts: embedding (rank 20, ridge 1, decoder ridge, penalty 0.01)." in said
    assert (
        f"saved as {tmp_path / 'model'}" in said
        and f"rembrandt predict {tmp_path / 'model'} FILE" in said
    )


def test_fit_compares_the_parts_on_held_out_data(data: Path, run: Run, tmp_path: Path) -> None:
    answer = run(
        "fit", data / "train.txt", "-o", tmp_path / "model", "--kernel", "none", "--json"
    ).json
    together, *alone = answer["facts"]["held_out"]
    assert set(together["parts"]) == {"trees", "centroids", "embedding"} and len(alone) == 3
    assert 0 < together["quality"] <= 1 and answer["selection"] == []
    assert answer["n_labels"] == 40 and answer["bytes"] > 0 and answer["task"] == "multilabel"


def test_parts_are_an_option(data: Path, run: Run, tmp_path: Path) -> None:
    options = ("--parts", "trees,centroids,embedding", "--n-trees", "1", "--tree-cost", "1")
    said = run("fit", data / "train.tsv", "-o", tmp_path / "model", *TABLE, *FAST, *options).out
    assert "the first label is right for " in said and " held-out examples." in said
    answer = run("evaluate", tmp_path / "model", data / "test.tsv", "--json").json
    assert answer["p@1"] > answer["most_popular"]["p@1"] + 0.2
    refused = (
        "fit",
        data / "train.tsv",
        "-o",
        tmp_path / "no",
        *TABLE,
        "--parts",
        "trees,forest",
    )
    assert "(option --parts)" in run(*refused, code=1).err


def test_a_preset_sets_what_no_option_sets(data: Path, run: Run, tmp_path: Path) -> None:
    said = run("fit", data / "train.tsv", "-o", tmp_path / "fast", *TABLE, "--preset", "fast").out
    assert "Parts: trees (one classifier per label, no clusters, cost 1); centroids; " in said
    options = ("--preset", "fast", "--tree-cost", "3", "--n-trees", "2", "--json")
    answer = run("fit", data / "train.tsv", "-o", tmp_path / "given", *TABLE, *options).json
    trees = answer["settings"]["parts"]["trees"]["settings"]
    assert trees["cost"] == 3 and trees["n_trees"] == 2
    assert load(tmp_path / "given").preset == "fast"
    answer = run(
        "fit",
        data / "train.tsv",
        "-o",
        tmp_path / "both",
        *TABLE,
        "--decoder",
        "ridge",
        "--preset",
        "fast",
        "--json",
    ).json
    parts = answer["settings"]["parts"]
    assert list(parts) == ["trees", "centroids", "embedding"], (
        "a setting of the embedding adds that part"
    )
    assert (
        "--preset"
        in run("fit", data / "train.tsv", "-o", tmp_path / "no", "--preset", "quick", code=2).err
    )


def test_the_same_seed_gives_the_same_model(
    data: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    run("fit", data / "train.tsv", "-o", tmp_path / "again", *TABLE, *FAST, "--examples", "2")
    assert (
        len(load(tmp_path / "again").extra_["examples"]) == 2
        and "examples" not in load(model).extra_
    )
    again, first = (
        (folder / "weights.safetensors").read_bytes() for folder in (tmp_path / "again", model)
    )
    assert again == first


@pytest.mark.parametrize(("kind", "file"), [("model", "test.tsv"), ("feature_model", "test.txt")])
def test_evaluate_needs_no_options_and_beats_the_baseline(
    kind: str, file: str, data: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    answer = run("evaluate", request.getfixturevalue(kind), data / file, "--json").json
    assert set(MEASURES) <= set(answer) and answer["n_examples"] == 200
    assert answer["p@1"] > answer["most_popular"]["p@1"] + 0.2 and answer["error"] == pytest.approx(
        1 - answer["p@1"]
    )
    assert answer["unseen_labels"] == 0


def test_evaluate_prints_a_table_beside_the_baseline(data: Path, model: Path, run: Run) -> None:
    said = run("evaluate", model, data / "test.tsv", "--by-frequency").out
    assert "most popular labels" in said and "PSP@k" in said and "tenth 10" in said


def test_labels_that_training_never_saw_are_counted(
    data: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    changed = (data / "test.tsv").read_text().replace("topic-00/label-000", "never-seen")
    (tmp_path / "test.tsv").write_text(changed)
    answer = run("evaluate", model, tmp_path / "test.tsv", "--json").json
    assert answer["unseen_labels"] == 1 and answer["unseen_label_uses"] == changed.count(
        "never-seen"
    )
    assert (
        "1 label did not occur in training; it occurs"
        in run("evaluate", model, tmp_path / "test.tsv").out
    )


def test_evaluate_takes_options_over_what_the_model_remembers(
    data: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    header, lines = (data / "test.tsv").read_text().split("\n", 1)
    (tmp_path / "test.tsv").write_text(
        header.replace("body", "abstract").replace("tags", "topics") + "\n" + lines
    )
    options = ("--text", "title", "--text", "abstract", "--labels", "topics", "--json")
    answer, plain = (
        run("evaluate", model, tmp_path / "test.tsv", *options),
        run("evaluate", model, data / "test.tsv", "--json"),
    )
    assert answer.json["p@5"] == plain.json["p@5"]


def test_predict_answers_every_kind_of_file_alike(
    data: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    rows = [line.split("\t") for line in (data / "test.tsv").read_text().splitlines()[1:4]]
    texts = [f"{title} {body}" for _, title, body, _ in rows]
    (tmp_path / "lines.txt").write_text("\n".join(texts))
    (tmp_path / "fast.txt").write_text("".join(f"__label__x {text}\n" for text in texts))
    (tmp_path / "unlabelled.csv").write_text(
        "title,body\n" + "".join(f"{title},{body}\n" for _, title, body, _ in rows)
    )
    wanted = run("predict", model, data / "test.tsv", "--top-k", 3).out.splitlines()[:3]
    assert all(line.count("\t") == 2 for line in wanted)
    for name in ("lines.txt", "fast.txt", "unlabelled.csv"):
        assert run("predict", model, tmp_path / name, "-k", 3).out.splitlines() == wanted, name
    assert run("predict", model, "-", "-k", 3, input="\n".join(texts)).out.splitlines() == wanted


def test_predict_keeps_one_line_for_each_line_of_text(model: Path, run: Run) -> None:
    assert len(run("predict", model, "-", input="one\n\ntwo\n").out.splitlines()) == 3


def test_predict_features_without_labels(
    data: Path, feature_model: Path, run: Run, tmp_path: Path
) -> None:
    lines = (data / "test.txt").read_text().splitlines()[1:4]
    (tmp_path / "new.svm").write_text(
        "".join(" " + line.partition(" ")[2] + "\n" for line in lines)
    )
    wanted = run("predict", feature_model, data / "test.txt").out.splitlines()[:3]
    assert run("predict", feature_model, tmp_path / "new.svm").out.splitlines() == wanted


def test_predict_features_from_a_matrix(
    data: Path, feature_model: Path, run: Run, tmp_path: Path
) -> None:
    from scipy.sparse import save_npz

    from rembrandt.data import read

    save_npz(tmp_path / "X.npz", read(data / "test.txt").X)
    wanted = run("predict", feature_model, data / "test.txt").out
    assert run("predict", feature_model, tmp_path / "X.npz").out == wanted


def test_include_and_exclude_bound_the_answer(
    data: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    chosen = ["topic-00/label-000", "topic-01/label-001", "topic-02/label-002"]
    (tmp_path / "chosen.txt").write_text("\n".join(chosen))
    for labels in (",".join(chosen), f"@{tmp_path / 'chosen.txt'}"):
        arguments = ("--include", labels, "--exclude", chosen[2], "--json")
        answer = run("predict", model, data / "test.tsv", *arguments).rows
        assert len(answer) == 200
        assert all({label["label"] for label in row["labels"]} == set(chosen[:2]) for row in answer)


def test_predict_writes_a_file(data: Path, model: Path, run: Run, tmp_path: Path) -> None:
    printed = run("predict", model, data / "test.tsv").out
    assert (
        "200 examples"
        in run("predict", model, data / "test.tsv", "--output", tmp_path / "answers.txt").out
    )
    assert (tmp_path / "answers.txt").read_text() == printed
    assert (
        "--force"
        in run(
            "predict", model, data / "test.tsv", "--output", tmp_path / "answers.txt", code=1
        ).err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["answers.txt"]


def test_neighbors_of_a_label_are_of_its_topic(model: Path, run: Run) -> None:
    answer = run("neighbors", model, "topic-01/label-000", "-k", 4, "--json").json
    assert answer["label"] == "topic-01/label-000" and len(answer["neighbors"]) == 4
    assert all(neighbor["label"].startswith("topic-01/") for neighbor in answer["neighbors"])
    assert "topic-01/label-0" in run("neighbors", model, "topic-01/label-000").out


def test_spectrum_falls_and_names_the_rank(model: Path, run: Run) -> None:
    answer = run("spectrum", model, "--json").json
    values = answer["singular_values"]
    assert answer["rank"] == len(values) == 20 and values == sorted(values, reverse=True)
    said = run("spectrum", model).out
    assert "rembrandt embedding, rank 20: as set" in said and "█" in said


def test_embed_writes_a_models_vectors(model: Path, run: Run, tmp_path: Path) -> None:
    assert run("embed", model, "--output", tmp_path / "v.npz", "--json").json["n_components"] == 20
    run("embed", model, "--output", tmp_path / "v.tsv")
    stored = np.load(tmp_path / "v.npz", allow_pickle=False)
    lines = [line.split("\t") for line in (tmp_path / "v.tsv").read_text().splitlines()]
    assert stored["names"].tolist() == [line[0] for line in lines] and stored["vectors"].shape == (
        40,
        20,
    )
    np.testing.assert_allclose(
        stored["vectors"], [[float(cell) for cell in line[1:]] for line in lines], rtol=1e-5
    )


def test_embed_examples_directly(data: Path, run: Run, tmp_path: Path) -> None:
    run(
        "embed",
        data / "train.tsv",
        "--output",
        tmp_path / "v.npz",
        *TABLE,
        "--n-components",
        7,
        "--method",
        "plst",
    )
    assert np.load(tmp_path / "v.npz")["vectors"].shape == (40, 7)


def test_data_list_names_every_set(run: Run) -> None:
    assert "pubmed-mesh" in [listing["name"] for listing in run("data", "list", "--json").json]
    assert "REMBRANDT_DATA" in run("data", "list").out or "present" in run("data", "list").out


def test_text_options_reach_the_features(data: Path, run: Run, tmp_path: Path) -> None:
    options = ("--analyzer", "char", "--ngrams", "2")
    answer = run(
        "fit", data / "train.tsv", "-o", tmp_path / "model", *TABLE, *FAST, *options, "--json"
    ).json
    assert answer["n_features"] < 27**2  # pairs of letters, or of a letter and a space


def test_text_options_that_were_not_given_are_left_to_the_library() -> None:
    assert TextSettings().parameters() == {}
    assert TextSettings(ngrams=(1, 2), hashed=True).parameters() == {
        "ngram_range": (1, 2),
        "weighting": "hashed",
    }


def test_the_tail_comes_first_where_it_is_asked_for(data: Path, model: Path, run: Run) -> None:
    plain, tail = (
        run("evaluate", model, data / "test.tsv", "--json", *options).json
        for options in ((), ("--tail",))
    )
    assert tail["tail"] and not plain["tail"] and tail["psp@5"] >= plain["psp@5"]
    answers = [
        run("predict", model, data / "test.tsv", "--json", *options).rows
        for options in ((), ("--tail",))
    ]
    values = [
        [[label["probability"] for label in row["labels"]] for row in rows] for rows in answers
    ]
    assert values[0] != values[1] and all(row == sorted(row, reverse=True) for row in values[0])


def test_thresholds_of_each_label_are_learnt_where_asked_for(
    data: Path, run: Run, tmp_path: Path
) -> None:
    learn = ("--threshold", "macro")
    answer = run(
        "fit", data / "train.tsv", "-o", tmp_path / "model", *TABLE, *FAST, *learn, "--json"
    ).json
    assert 0 <= answer["facts"]["calibration_error"] < 0.2
    assert len(load(tmp_path / "model").model_.threshold) == 40


def test_a_shortlist_is_made_kept_and_asked(
    data: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    run("fit", data / "train.tsv", "-o", tmp_path / "model", *TABLE, *FAST, "--shortlist")
    kept, without = (
        load(folder).model_.parts["embedding"] for folder in (tmp_path / "model", model)
    )
    assert kept.index is not None and without.index is None

    def labels(folder: Path, *options: str) -> list[list[str]]:
        answers = run("predict", folder, data / "test.tsv", "--json", *options).rows
        return [[label["label"] for label in answer["labels"]] for answer in answers]

    assert (
        labels(model, "--shortlist", "40")
        == labels(tmp_path / "model", "--shortlist", "auto")
        == labels(model)
    )
    figures = run("evaluate", model, data / "test.tsv", "--shortlist", "20", "--json").json
    assert figures["p@5"] > 0.9 * run("evaluate", model, data / "test.tsv", "--json").json["p@5"]
    for verb in ("predict", "evaluate"):
        assert (
            "--shortlist" in run(verb, model, data / "test.tsv", "--shortlist", "few", code=1).err
        )


def test_counts_are_in_the_singular_and_plural() -> None:
    assert _unseen(1, 1) == (
        "1 label did not occur in training; it occurs once and counts as not found."
    )
    assert _unseen(1, 3).endswith("it occurs 3 times and counts as not found.")
    assert _unseen(2, 1200) == (
        "2 labels did not occur in training; they occur 1,200 times and count as not found."
    )
