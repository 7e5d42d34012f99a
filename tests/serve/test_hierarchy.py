"""Parents and children of labels in the service."""

from pathlib import Path
from typing import Any

import pytest

from rembrandt import RembrandtClassifier
from rembrandt.serve.errors import RequestError
from rembrandt.serve.predictions import PredictJob, predict
from rembrandt.serve.registry import ServedModel
from rembrandt.serve.schemas import Label, PredictRequest

TEXTS = ["red fox", "white fox", "brown hen", "old oak"] * 9
LABELS = [["animal/fox"], ["animal/fox/arctic"], ["animal/hen"], ["plant/oak"]] * 9


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    path: Path = tmp_path_factory.mktemp("models") / "nested"
    classifier = RembrandtClassifier(preset="fast", random_state=0)
    classifier.fit(TEXTS, LABELS, label_parents="/")
    classifier.save(path)
    return ServedModel("nested", path)


def ask(served: ServedModel, **fields: Any) -> Any:
    request = PredictRequest.of({"texts": ["white fox"], "top_k": 9, **fields})
    (answer,) = predict([PredictJob(served, request)])
    if isinstance(answer, Exception):
        raise answer
    return answer[0]


def test_predictions_over_a_hierarchy(served: ServedModel) -> None:
    closed = ask(served)
    names = [prediction["label"] for prediction in closed]
    assert names[:3] == ["animal", "animal/fox", "animal/fox/arctic"]
    expected, probabilities = served.classifier.predict_topk(["white fox"], 9)
    assert names == expected[0].tolist()
    assert [prediction["probability"] for prediction in closed] == probabilities[0].tolist()
    flat = ask(served, hierarchy="flat")
    assert "animal" not in [prediction["label"] for prediction in flat]
    plants = ask(served, include=["plant"], branches=True)
    assert [prediction["label"] for prediction in plants] == ["plant", "plant/oak"]
    explained = ask(served, top_k=2, explain=True)
    assert "explanation" not in explained[0]  # a group
    assert explained[1]["explanation"]["words"]
    with pytest.raises(RequestError, match="no label 'plant'"):
        ask(served, include=["plant"], hierarchy="flat")


def test_labels_have_parents_and_children(served: ServedModel) -> None:
    column = served.find("animal/fox")
    document = served.labels.document(column)
    assert document["parents"] == [{"label": "animal", "name": "animal", "is_label": False}]
    below = {"label": "animal/fox/arctic", "name": "animal/fox/arctic", "is_label": True}
    assert document["children"] == [below]
    assert Label.model_validate(document).children[0].is_label
