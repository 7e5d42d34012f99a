"""The report in a real browser: every part is drawn, and names of labels are never run as code."""

import re

import numpy as np
import pytest

from rembrandt import RembrandtClassifier
from rembrandt.data import Dataset
from rembrandt.data.generated import labelled_documents
from rembrandt.explanations.explanation import Explanation
from rembrandt.explore.report import gather, render
from rembrandt.explore.report.contents import _explanation
from tests.looks import check_looks

HOSTILE = (
    "</script><img src=x "
    "onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
)
SECTIONS = (
    "glance",
    "measures",
    "frequency",
    "shape",
    "map",
    "labels",
    "confusions",
    "explained",
    "settings",
)


@pytest.mark.parametrize(
    ("part", "charts", "scheme", "width"),
    [("embedding", 4, "light", 1200), ("trees", 3, "dark", 390)],
)
def test_a_browser_draws_the_page(browser, tmp_path, part, charts, scheme, width):
    train, test = labelled_documents(400, n_topics=4, labels_per_topic=5)
    names = [HOSTILE, *train.label_ids[1:]]
    train, test = (
        Dataset.from_arrays(Y=part.Y, texts=part.texts, label_ids=names) for part in (train, test)
    )
    classifier = RembrandtClassifier("fast", parts=part, random_state=0).fit_dataset(train)
    contents = gather(classifier, test, "a model")
    words = [["<i>word", 1.25], ["other", -0.5]]
    for example in contents["explained"]:
        for prediction in example["predictions"]:
            prediction["estimates"] = [{"part": "encoder", "words": words}]
    file = tmp_path / "report.html"
    file.write_text(render(contents), encoding="utf-8")
    with browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 844}
    ) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        check_looks(page)
        drawn = page.content()
    assert "<title>a model · Rembrandt report</title>" in drawn
    assert all(f'<section id="{name}">' in drawn for name in SECTIONS)
    assert drawn.count("<canvas") == 2 and drawn.count("<svg") == charts and "<img" not in drawn
    marks = sum(len(example["predictions"][0]["segments"]) for example in contents["explained"])
    assert drawn.count("<mark ") == marks > 0
    p1 = next(m["value"] for m in contents["metrics"] if m["name"] == "p@1")
    assert float(re.search(r'<div class="value">([\d.]+)&nbsp;%', drawn)[1]) == pytest.approx(
        100 * p1, abs=0.06
    )
    assert f'data-theme="{scheme}"' in drawn
    assert (
        "Its predictions come from " + ("label trees" if part == "trees" else "the label embedding")
        in drawn
    )
    assert "[object Object]" not in drawn
    assert "Estimates for the encoder, by leaving a word out, which do not add up" in drawn
    assert "<b>&lt;i&gt;word</b> +1.250" in drawn


def test_estimates_of_words_are_in_the_report():
    explanation = Explanation(
        label="a",
        column=0,
        base=-1.0,
        features=np.empty(0, np.int64),
        contributions=np.empty(0),
        text="brown butter",
        estimates={"encoder": [(0, 5, 0.25), (6, 12, -1.5)]},
    )
    expected = [{"part": "encoder", "words": [["butter", -1.5], ["brown", 0.25]]}]
    assert _explanation(explanation)["estimates"] == expected
