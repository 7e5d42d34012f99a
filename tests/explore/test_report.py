"""The page contains what was measured, sends no requests, and shows labels and texts as text."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from rembrandt import RembrandtClassifier
from rembrandt.data import Dataset
from rembrandt.data.generated import labelled_documents
from rembrandt.estimators.requests import rows_of, top_columns
from rembrandt.explore.report import gather, render
from rembrandt.explore.report.contents import MAX_NAME_BYTES, N_MAPPED, N_NEIGHBOURS, _cut
from rembrandt.explore.report.page import as_data

HOSTILE = "</script><script>alert(1)</script>"
SETTLED = {
    "n_components": 12,
    "decoder": "ridge",
    "decoder_ridge": 0.1,
    "kernel": None,
    "normalize": True,
}


class Elements(HTMLParser):
    """The elements of a page, and the text of each script."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.scripts = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)


@pytest.fixture(scope="module")
def problem():
    train, test = labelled_documents(500, n_topics=4, labels_per_topic=6)
    names = [HOSTILE, "<img src=x onerror=alert(1)>", "{{data}}", *train.label_ids[3:]]
    texts = [f"{HOSTILE} & {text}" for text in test.texts]
    test = Dataset.from_arrays(Y=test.Y, texts=texts, label_ids=names)
    train = Dataset.from_arrays(Y=train.Y, texts=train.texts, label_ids=names)
    return RembrandtClassifier(random_state=0, **SETTLED | {"parts": "embedding"}).fit_dataset(
        train
    ), test


@pytest.fixture(scope="module")
def contents(problem):
    return gather(*problem, title=f"Ä <b>{HOSTILE}", seed=1)


def test_every_part_is_there_and_agrees_with_evaluate(problem, contents):
    classifier, test = problem
    p1 = next(m for m in contents["metrics"] if m["name"] == "p@1")
    labels = top_columns(classifier, rows_of(classifier, test.texts), 1)[0][:, 0]
    assert p1["value"] == pytest.approx(
        np.mean([test.Y[[i], [j]][0] > 0 for i, j in enumerate(labels)])
    )
    assert p1["low"] <= p1["value"] <= p1["high"] and p1["popular"] < p1["value"]
    assert len(contents["metrics"]) == 15 and len(contents["deciles"]) == 10
    assert sum(b["n"] for b in contents["calibration"]["bins"]) == 5 * test.n_examples
    assert len(contents["spectrum"]["values"]) == 12 and len(contents["explained"]) == 20
    assert len(contents["map"]["names"]) == 24 and HOSTILE in contents["map"]["names"]
    assert len(contents["map"]["x"]) == len(contents["map"]["y"]) == 24
    assert contents["confusions"] and contents["labels"]["best"] and contents["labels"]["worst"]
    settings = contents["settings"]["parts"]
    assert settings.keys() == {"embedding"}
    assert settings["embedding"]["settings"]["method"] == "rembrandt"
    assert contents["model"]["parts"] == ["embedding"]


def test_explained_predictions_add_up_and_mark_their_text(contents):
    for example in contents["explained"]:
        for prediction in example["predictions"]:
            total = (
                prediction["base"]
                + prediction["comparison"]
                + sum(value for _, _, value in prediction["segments"])
            )
            assert total == pytest.approx(
                prediction["log_odds"], abs=1e-3
            )  # each piece is rounded to five digits
            assert 0 < prediction["probability"] <= 1
            assert all(
                0 <= start < stop <= len(example["text"])
                for start, stop, _ in prediction["segments"]
            )


def test_names_and_texts_stay_data(contents):
    page = render(contents)
    elements = Elements(page)
    assert (
        elements.tags.count("script") == 2
        and "img" not in elements.tags
        and "b" not in elements.tags
    )
    assert "<script>alert" not in page and HOSTILE not in page
    read = json.loads(elements.scripts[0])
    assert HOSTILE in read["map"]["names"] and "{{data}}" in read["map"]["names"]
    assert read["title"] == contents["title"]


def test_the_page_asks_for_nothing(contents):
    page = render(contents)
    elements = Elements(page)
    assert {
        value for name, value in elements.attributes if name in ("src", "href", "srcset", "action")
    } == {"#main"}
    without_data = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.S)
    outside = set(re.findall(r"https?://[^\s\"'<>]+", without_data)) - {
        "http://www.w3.org/2000/svg"
    }
    assert not outside and "url(" not in without_data and "@import" not in without_data
    assert "default-src 'none'" in page


def test_the_page_of_many_labels_with_long_names_is_small(contents):
    n = N_MAPPED
    numbers = {"counts": [10**6] * n, "x": [-123.45] * n, "y": [-123.45] * n, "recall": [0.99] * n}
    near = {"neighbours": [[n - 1] * N_NEIGHBOURS] * n, "n_labels": 10**6}
    page = render(
        contents | {"map": {"names": [_cut("ü" * 1000, MAX_NAME_BYTES)] * n} | numbers | near}
    )
    assert 2_000_000 < len(page.encode()) < 5_000_000


def test_labels_are_counted_and_ranked_by_f1(problem, contents):
    classifier, test = problem
    predicted = top_columns(classifier, rows_of(classifier, test.texts), 5)[0]
    names = classifier.classes_.tolist()
    for rows, sign in ((contents["labels"]["best"], -1), (contents["labels"]["worst"], 1)):
        for row in rows:
            column = names.index(row["name"])
            true, said = (
                set(test.Y[:, [column]].nonzero()[0]),
                set(np.nonzero(predicted == column)[0]),
            )
            assert row["true"] == len(true) and row["recall"] == len(true & said) / len(true)
            assert row["f1"] == pytest.approx(2 * len(true & said) / (len(true) + len(said)))
        assert rows == sorted(rows, key=lambda row: (sign * row["f1"], -row["true"]))
    best, worst = (
        {row["name"] for row in contents["labels"][section]} for section in ("best", "worst")
    )
    assert len(best) == len(worst) == 12 and not best & worst


@pytest.mark.parametrize(
    "value", ["<!--", "]]>", "\u2028", "\ud800", "&lt;", float("nan"), float("-inf")]
)
def test_data_is_valid_json_without_markup(value):
    text = as_data({"value": [value]})
    assert not set("<>&\u2028\u2029") & set(text)
    back = json.loads(text)["value"][0]
    assert back == (None if isinstance(value, float) else value.encode("utf-8", "replace").decode())


def test_classes_and_features_are_reported_too():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 5
    X = np.eye(5)[y].repeat(3, axis=1) + 0.4 * rng.standard_normal((300, 15))
    data = Dataset.from_arrays(X, [f"class {i}" for i in y])
    classifier = RembrandtClassifier(random_state=0, **{**SETTLED, "n_components": 4}).fit_dataset(
        data.rows(range(200))
    )
    contents = gather(classifier, data.rows(range(200, 300)), "features", with_map=False)
    assert contents["map"] is None and contents["explained"][0]["text"] is None
    assert sum(b["n"] for b in contents["calibration"]["bins"]) == 500
    assert len(contents["explained"][0]["predictions"][0]["words"]) == 12
    render(contents)


@pytest.mark.parametrize(
    "names", [("trees",), ("trees", "centroids", "embedding")], ids=["fast", "blend"]
)
def test_models_of_other_parts_are_reported_too(names):
    train, test = labelled_documents(400, n_topics=4, labels_per_topic=5)
    classifier = RembrandtClassifier(
        "fast", parts=names, n_components=8, random_state=0
    ).fit_dataset(train)
    classifier.set_label_names({train.label_ids[0]: ("A name", "What it means")})
    contents = gather(classifier, test, "a blend")
    # The best and the worst are all labels.
    rows = [*contents["labels"]["best"], *contents["labels"]["worst"]]
    assert {row["description"] for row in rows} == {"", "What it means"}
    assert contents["about"][0].startswith("Trained")
    assert contents["model"]["parts"] == list(names)
    assert len(contents["map"]["x"]) == 20
    settings = contents["settings"]["parts"]
    assert tuple(settings) == names
    if "embedding" in names:
        assert len(contents["spectrum"]["values"]) == 8
        assert settings["embedding"]["settings"]["ridge"] == 1
    else:
        assert contents["spectrum"] is None
    render(contents)
