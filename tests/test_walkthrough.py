"""A person's day with it: real files through the command line and through Python, and what is seen
at each step.
"""

import gzip
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from rembrandt import RembrandtClassifier, label_array, load, read
from rembrandt.errors import DataError, RembrandtWarning
from rembrandt.estimators.requests import rows_of, top_columns
from tests.cli.conftest import Run, no_terminal, run

__all__ = ["no_terminal", "run"]  # fixtures

pytestmark = pytest.mark.data
FAST = ("--preset", "fast")


def lines(path: Path, n: int) -> list[str]:
    if not path.is_file():
        pytest.skip(f"{path} is not here: see the README of the data")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line, _ in zip(file, range(n), strict=False)]


@pytest.fixture(scope="module")
def cooking(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Titles with tags as a person has them: CSV with tags joined by semicolons, and JSON lines."""
    folder = tmp_path_factory.mktemp("cooking")
    for part, n in (("train", 4000), ("test", 600)):
        rows = []
        for number, line in enumerate(lines(real_data / "cooking" / f"{part}.txt.gz", n)):
            tags = re.findall(r"__label__(\S+)", line)
            rows.append((f"q{number}", re.sub(r"__label__\S+", "", line).strip(), tags))
        cells = [
            f'{key},"{title.replace(chr(34), chr(39))}",{";".join(tags)}'
            for key, title, tags in rows
        ]
        (folder / f"{part}.csv").write_text("\n".join(["key,title,tags", *cells]) + "\n")
        mixed = (
            {"title": title, "tags": tags[0] if len(tags) == 1 else tags} for _, title, tags in rows
        )
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mixed))
    return folder


@pytest.fixture(scope="module")
def model(cooking: Path, run: Run) -> Path:
    read_as = ("--text", "title", "--labels", "tags", "--label-separator", ";")
    said = run("fit", cooking / "train.csv", "-o", cooking / "model", *read_as, *FAST).out
    assert "4,000 texts, 663 labels, 2.3 per example (multilabel)" in said
    return cooking / "model"


def test_a_forgotten_or_wrong_separator_leaves_no_model(cooking: Path, run: Run) -> None:
    for more in ((), ("--label-separator", "|")):
        fit = (
            "fit",
            cooking / "train.csv",
            "-o",
            cooking / "wrong",
            "--text",
            "title",
            "--labels",
            "tags",
            *more,
            *FAST,
        )
        failed = run(*fit, code=1).err
        assert (
            "split at ';'" in failed
            and "--label-separator" in failed
            and "--verbatim-labels" in failed
        )
        assert not (cooking / "wrong").exists()
    with pytest.raises(DataError, match="set label_separator to ';'"):
        read(cooking / "train.csv", text="title", labels="tags")


def test_strings_and_lists_are_the_same_labels(cooking: Path) -> None:
    table = read(cooking / "train.csv", text="title", labels="tags", label_separator=";")
    mixed = read(cooking / "train.jsonl", text="title", labels="tags")
    assert (
        mixed.label_ids == table.label_ids
        and (mixed.Y != table.Y).nnz == 0
        and mixed.task == table.task
    )


def test_evaluate_says_what_is_possible(cooking: Path, model: Path, run: Run) -> None:
    said = run("evaluate", model, cooking / "test.csv").out
    assert re.search(
        r"P@5 can be 4\d\.\d\d % at most here: examples have 2\.\d labels on average", said
    )
    assert (
        all(name in said for name in ("R@k", "F1@k", "nDCG@k", "PSP@k"))
        and "F1 of the labels" in said
    )
    answer = run("evaluate", model, cooking / "test.csv", "--json").json
    assert answer["p@1"] > 0.35 and answer["r@5"] > answer["r@1"] and 0 < answer["micro_f1"] < 1
    warned = run(
        "evaluate", model, cooking / "test.csv", "--label-separator", "|", "--verbatim-labels"
    ).err
    assert "unknown to the model" in warned and "split at ';'" in warned


def test_predictions_are_files_that_others_read(cooking: Path, model: Path, run: Run) -> None:
    pd = pytest.importorskip("pandas")
    for suffix in ("csv", "parquet"):
        target = cooking / f"found.{suffix}"
        said = run("predict", model, cooking / "test.csv", "-o", target, "--id", "key", "-k", 3).out
        assert "600 examples" in said and "; 1 has none" in said, (
            "one title has no word of the training titles"
        )
        found = pd.read_csv(target) if suffix == "csv" else pd.read_parquet(target)
        assert list(found.columns) == ["id", "label", "name", "probability", "rank"]
        assert (
            found.id.nunique() == 599
            and found.groupby("id").probability.is_monotonic_decreasing.all()
        )
        assert found.probability.between(0, 1).all()
    rows = run("predict", model, "-", "--json", input="how to bake bread\nqwertyuiop\n").rows
    assert rows[0]["labels"][0]["label"] in ("bread", "baking") and rows[1]["labels"] == []
    reached = run("predict", model, cooking / "test.csv", "--min-probability", 0.2, "--json").rows
    assert all(one["probability"] >= 0.2 for row in reached for one in row["labels"])


def test_a_model_says_what_it_is(model: Path, run: Run) -> None:
    said = run("info", model).out
    assert "Trained on: 4,000 examples (texts, " in said and "663 labels, 2.3 per example" in said
    assert re.search(r"the first label is right for \d\d\.\d % of [\d,]+ held-out examples", said)
    assert (
        "Mean of P@1 and nDCG@5: " in said
        and "in a table they are in title, and labels are in tags, separated by ';'" in said
    )
    answer = run("info", model, "--json").json
    assert [set(one["parts"]) for one in answer["blends"] if one["chosen"]] == [
        set(answer["chosen"]["parts"])
    ]
    assert "encoder" not in str(answer["chosen"]) + str(answer["parts"]), (
        "no part is described that the model lacks"
    )
    assert answer["parts"][0]["bytes"] < answer["bytes"] and 0.3 < answer["quality"]["p@1"] < 0.8


def test_probabilities_mean_something(cooking: Path, model: Path, run: Run) -> None:
    fitted = load(model)
    threshold = fitted.threshold_
    assert threshold == fitted.model_.threshold != 0.5
    assert fitted.facts_.calibration_error < 0.05
    rows = run("predict", model, cooking / "test.csv", "--above-threshold", "--json").rows
    values = [one["probability"] for row in rows for one in row["labels"]]
    assert min(values) >= threshold and max(values) < 1
    assert "1.0000" not in run("predict", model, cooking / "test.csv").out
    data = read(cooking / "test.csv", text="title", labels="tags", label_separator=";")
    known = data.align_labels(fitted.classes_.tolist())
    labels, likely = top_columns(fitted, rows_of(fitted, known.texts), 5)
    right = np.take_along_axis(known.Y.toarray(), labels, axis=1)[labels >= 0]
    assert abs(right.mean() - likely[labels >= 0].mean()) < 0.05


def test_a_model_learns_more(cooking: Path, model: Path, run: Run) -> None:
    rows = (cooking / "test.csv").read_text().splitlines()
    new = [f"{row.rpartition(',')[0]},{row.rpartition(',')[2]};week-47" for row in rows[1:101]]
    (cooking / "more.csv").write_text("\n".join([rows[0], *new]) + "\n")
    update = ("update", model, cooking / "more.csv", "-o")
    said = run(*update, cooking / "updated", "--history", cooking / "train.csv").out
    assert (
        "has now seen 4,100 examples" in said
        and "of them new" in said
        and "has learned 31" in said
        and "Not learned: " not in said
    )
    updated = load(cooking / "updated")
    assert "week-47" in updated.classes_ and updated.describe()["trained_on"]["n_updated"] == 100
    assert "100 of them added by updates" in run("info", cooking / "updated").out
    if "centroids" in updated.model_.parts:
        assert (
            "Not learned: the trees score the known labels as before"
            in run(*update, cooking / "partly").out
        )
    else:
        assert "give the old ones as history" in run(*update, cooking / "partly", code=1).err


def test_a_sparse_file_is_not_text(
    real_data: Path, cooking: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "sparse.txt").write_text(
        "\n".join(lines(real_data / "bibtex" / "test.txt.gz", 50)[1:])
    )
    assert "was fitted on texts" in run("predict", model, tmp_path / "sparse.txt", code=1).err


def test_the_same_in_python_with_pandas(cooking: Path) -> None:
    pd = pytest.importorskip("pandas")
    from sklearn.model_selection import cross_val_score

    frame = pd.read_csv(cooking / "train.csv", index_col="key").head(1500)
    with pytest.raises(DataError, match=r"give that column, X\['title'\]"):
        RembrandtClassifier().fit(frame[["title"]], frame["tags"])
    with pytest.warns(RembrandtWarning, match=r"label.split\(';'\)"):
        RembrandtClassifier(preset="fast", random_state=0).fit(frame["title"], frame["tags"])
    y = frame["tags"].str.split(";")
    classifier = RembrandtClassifier(preset="fast", random_state=0).fit(frame["title"], y)
    found = classifier.predict_labels(frame["title"].head(), k=3)
    assert found.index.equals(frame.index[:5]) and all(isinstance(labels, list) for labels in found)
    assert (
        cross_val_score(
            RembrandtClassifier(preset="fast"), frame["title"], label_array(y), cv=2
        ).min()
        > 0.2
    )
    y.iloc[::10] = None
    with pytest.warns(RembrandtWarning, match="150 labels in 1,500 rows are missing"):
        again = RembrandtClassifier(preset="fast", random_state=0).fit(frame["title"], y)
    assert not {"nan", "None"} & set(again.classes_)


@pytest.fixture(scope="module")
def pubmed(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pubmed")
    for part, n in (("train", 1000), ("test", 200)):
        rows = lines(real_data / "pubmed-mesh" / f"{part}.tsv.gz", n)
        (folder / f"{part}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def test_identifiers_have_names(real_data: Path, pubmed: Path, run: Run) -> None:
    names = real_data / "mesh" / "descriptors.tsv.gz"
    if not names.is_file():
        pytest.skip(f"{names} is not here: see the README of the data")
    read_as = ("--text", "title,abstract", "--labels", "mesh")
    assert (
        "--label-separator"
        in run("fit", pubmed / "train.tsv", "-o", pubmed / "no", *read_as, code=1).err
    )
    fit = (
        "fit",
        pubmed / "train.tsv",
        "-o",
        pubmed / "model",
        *read_as,
        "--label-separator",
        "|",
        *FAST,
    )
    said = run(*fit, "--label-names", names).out
    assert re.search(r"has a name for [\d,]+ of [\d,]+ labels", said)
    listed = run("labels", pubmed / "model", "--json").json
    assert listed["n_named"] > 0.95 * listed["n_labels"] and "Humans" in [
        one["name"] for one in listed["labels"]
    ]
    assert (
        "Humans (D006801)"
        in run("predict", pubmed / "model", "-", input="blood pressure in patients\n").out
    )
    assert run("neighbors", pubmed / "model", "humans", "--json").json["label"] == "D006801"
    fitted = load(pubmed / "model")
    assert (
        "Humans"
        in fitted.predict_labels(["blood pressure in patients"], k=10, min_probability=0.0)[0]
    )
    plain = RembrandtClassifier(preset="fast", random_state=0)
    data = read(pubmed / "test.tsv", text="title", labels="mesh", label_separator="|")
    plain.fit(data.texts, data.Y, classes=data.label_ids, label_names=read_names(names))
    assert plain.classes_.tolist() == data.label_ids and plain.label_names_["D006801"] == "Humans"
    plain.save(pubmed / "plain")
    assert load(pubmed / "plain").label_names_ == plain.label_names_
    with pytest.raises(FileExistsError, match="force=True"):
        plain.save(pubmed / "plain")


def read_names(path: Path) -> dict[str, str]:
    from rembrandt.data.label_names import read_label_names

    return read_label_names(path)


def test_headings_with_commas_are_read_without_a_word(
    real_data: Path, run: Run, tmp_path: Path
) -> None:
    rows = lines(real_data / "gutenberg" / "train.tsv.gz", 2000)
    (tmp_path / "books.tsv").write_text("\n".join(rows) + "\n")
    read_as = ("--text", "title,author", "--labels", "subjects")
    refused = run("fit", tmp_path / "books.tsv", "-o", tmp_path / "no", *read_as, *FAST, code=1).err
    assert "split at '|'" in refused
    options = ("--min-df", 1, "--stop-words", "english", "--ngrams", "1-2", "--max-features", 20000)
    fitted = run(
        "fit",
        tmp_path / "books.tsv",
        "-o",
        tmp_path / "model",
        *read_as,
        "--label-separator",
        "|",
        *FAST,
        *options,
    )
    assert "warning:" not in fitted.err and "several in one" not in fitted.out
    vectors = np.random.default_rng(0).standard_normal((len(rows) - 1, 8))
    np.save(tmp_path / "vectors.npy", vectors)
    both = ("--label-separator", "|", *FAST, "--vectors", tmp_path / "vectors.npy", "--json")
    answer = run("fit", tmp_path / "books.tsv", "-o", tmp_path / "both", *read_as, *both).json
    assert answer["n_features"] == load(tmp_path / "both").text_.n_features_out_
    vectors_part = answer["settings"]["parts"]["vectors"]
    assert (vectors_part["kind"], vectors_part["view"]) == ("embedding", "vectors")


def test_the_same_questions_in_other_files(cooking: Path, tmp_path: Path) -> None:
    """Excel, arrays of JSON, cells that spell lists, another encoding, tables in memory."""
    table = read(cooking / "train.csv", label_separator=";")
    assert table.columns is not None and table.columns.chosen == ("text", "labels")
    rows = [
        {"Title": text, "tags": [table.label_ids[i] for i in table.Y.indices[start:stop]]}
        for text, start, stop in zip(
            table.texts[:500], table.Y.indptr[:500], table.Y.indptr[1:501], strict=True
        )
    ]
    frame = pytest.importorskip("pandas").DataFrame(rows)
    frame.to_csv(tmp_path / "lists.csv", index=False)  # ['baking', 'bread']
    (tmp_path / "rows.json").write_text(json.dumps(rows, indent=1))
    frame.to_csv(tmp_path / "utf-16.csv", index=False, encoding="utf-16")
    sources = [tmp_path / name for name in ("lists.csv", "rows.json", "utf-16.csv")]
    try:
        frame.assign(tags=frame["tags"].map(str)).to_excel(tmp_path / "rows.xlsx", index=False)
        sources.append(tmp_path / "rows.xlsx")
    except ModuleNotFoundError:  # openpyxl
        pass
    for source in (*sources, frame):
        data = read(source)
        assert data.texts == table.texts[:500] and data.task == "multilabel"
        assert data.Y.nnz == table.Y[:500].nnz and set(data.label_ids) <= set(table.label_ids)
    nested = [{"doc": {"title": row["Title"]}, "meta": {"tags": row["tags"]}} for row in rows]
    (tmp_path / "nested.jsonl").write_text("".join(json.dumps(row) + "\n" for row in nested))
    deep = read(tmp_path / "nested.jsonl", text="doc.title", labels="meta.tags")
    assert deep.texts == table.texts[:500]


def test_from_one_file_to_a_measured_model(real_data: Path, run: Run, tmp_path: Path) -> None:
    """Books: split, fit with the columns that are there, evaluate, predict from a pipe."""
    rows = lines(real_data / "gutenberg" / "train.tsv.gz", 2500)
    (tmp_path / "books.tsv").write_text("\n".join(rows) + "\n")
    bar = ("--label-separator", "|")
    said = run("data", "split", tmp_path / "books.tsv", *bar, "-o", tmp_path / "parts").out
    sizes = [int(n.replace(",", "")) for n in re.findall(r"Wrote ([\d,]+) examples", said)]
    assert sum(sizes) == 2499 and 450 < sizes[1] < 550
    train, test = (tmp_path / "parts" / f"{part}.tsv" for part in ("train", "test"))
    assert sorted(train.read_text().splitlines()[1:] + test.read_text().splitlines()[1:]) == sorted(
        rows[1:]
    )
    said = run("fit", train, "-o", tmp_path / "model", *bar, *FAST).out
    assert "By the names of the columns, texts are in 'title' and labels are in 'subjects'" in said
    assert run("evaluate", tmp_path / "model", test, "--json").json["p@1"] > 0.05
    piped = run("predict", tmp_path / "model", "-", "--json", input=test.read_text())
    assert len(piped.rows) == sizes[1] and "read as TSV, with texts in 'title'" in piped.err
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"{sizes[0]:,} examples (texts, " in card and "95 % interval" in card


def test_new_labels_with_new_words(real_data: Path, run: Run, tmp_path: Path) -> None:
    """Reports of attacks: columns in doubt are listed, and an update says what it did not know."""
    header, *rows = lines(real_data / "attack" / "train.tsv.gz", 1500)
    extra = [f"zorblax frobnicated the quuxer number {i}\tT9999" for i in range(12)]
    for name, part in (("train", rows), ("new", extra)):
        (tmp_path / f"{name}.tsv").write_text("\n".join([header, *part]) + "\n")
    refused = run("fit", tmp_path / "train.tsv", "-o", tmp_path / "model", code=1).err
    assert "set labels to one of the columns: text, techniques" in refused
    fit = ("fit", tmp_path / "train.tsv", "-o", tmp_path / "model", "--labels", "techniques", *FAST)
    assert "texts are in 'text'." in run(*fit).out
    said = run("update", tmp_path / "model", tmp_path / "new.tsv").out
    words = re.search(r"(\d+) different words; the model did not know (\d+) .* learned (\d+)", said)
    assert words is not None
    different, unknown, learned = map(int, words.groups())
    assert 3 <= learned <= unknown < different and "Not learned: the trees" in said
    answer = run("predict", tmp_path / "model", "-", "--json", input="frobnicated zorblax\n").rows
    assert answer[0]["labels"][0]["label"] == "T9999"


def test_mistakes_that_were_silent(cooking: Path, model: Path, run: Run, tmp_path: Path) -> None:
    """A header on standard input, repeated ids, names of other labels, words for missing values."""
    lines = (cooking / "test.csv").read_text().splitlines()
    piped = run("predict", model, "-", "--json", input="\n".join(lines[:4]) + "\n")
    assert len(piped.rows) == 3 and "read as CSV, with texts in 'title'" in piped.err
    other = "\n".join(["headline,year", "how to bake bread,1999", "green eggs,2001"]) + "\n"
    assert "looks like a table" in run("predict", model, "-", input=other).err

    (tmp_path / "twice.csv").write_text("\n".join([*lines[:4], *lines[1:4]]) + "\n")
    said = run("predict", model, tmp_path / "twice.csv", "--id", "key").err
    assert "3 values of the column 'key' stand for several examples (6)" in said

    (tmp_path / "names.tsv").write_text("id\tname\nbaking\tBaking\nno-such-tag\tNothing\n")
    shutil.copytree(model, tmp_path / "named")
    said = run("labels", tmp_path / "named", "--set-names", tmp_path / "names.tsv").err
    assert "1 id of 2 are not of a label of the model" in said and "'no-such-tag'" in said

    titles = [f'"{line.split(",")[1].strip(chr(34))} crème",NaN' for line in lines[1:31]]
    tagged = [f'"{line.split(",")[1].strip(chr(34))}",bread' for line in lines[31:61]]
    table = "\n".join(["title,tags", *titles, *tagged]) + "\n"
    (tmp_path / "old.csv").write_bytes(table.encode("cp1252"))
    fit = ("fit", tmp_path / "old.csv", "-o", tmp_path / "old", "--parts", "centroids")
    assert "this line is not UTF-8" in run(*fit, code=1).err
    said = run(*fit, "--encoding", "cp1252")
    assert "30 examples with the label 'NaN'" in said.err
    assert "rembrandt predict" in said.out and "--encoding cp1252" in said.out


def test_mistakes_in_python(cooking: Path) -> None:
    data = read(cooking / "train.csv", label_separator=";").rows(np.arange(400))
    ids = data.label_ids
    pairs = zip(data.Y.indptr[:-1], data.Y.indptr[1:], strict=True)
    labels = [[ids[column] for column in data.Y.indices[start:stop]] for start, stop in pairs]
    small = RembrandtClassifier(parts=("centroids",), random_state=0).fit(data.texts, labels)
    for wrong, kind in (({"text": data.texts}, "a dict"), (iter(data.texts), "a list_iterator")):
        with pytest.raises(DataError, match=f"X is {kind}; give a list of texts"):
            small.predict_labels(wrong)
    with pytest.raises(ValueError, match=r"k=2\.5 must be an integer"):
        small.predict_topk(data.texts[:2], k=2.5)
    joined = [" ;".join(row).split(";") for row in labels]  # "bread " is not "bread"
    with pytest.warns(RembrandtWarning, match="only by spaces"):
        RembrandtClassifier(parts=("centroids",)).fit(data.texts, joined)
    with pytest.warns(RembrandtWarning, match="40 examples with an empty label"):
        RembrandtClassifier(parts=("centroids",)).fit(data.texts, [[""]] * 40 + labels[40:])
    same = RembrandtClassifier(preset="fast", random_state=0)
    same.fit(["one and the same title"] * 200, labels[:200])
    assert np.isfinite(same.predict_topk(["one and the same title"], k=3)[1]).all()
