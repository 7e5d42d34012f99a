"""The service returns what the library returns."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rembrandt import load
from rembrandt.data import Dataset
from rembrandt.data.views import as_views
from rembrandt.model.model import Model
from rembrandt.predict import Answer, Request, answer
from rembrandt.serve import predictions
from rembrandt.serve.predictions import PredictJob
from rembrandt.serve.registry import ServedModel
from rembrandt.serve.schemas import PredictRequest
from tests.serve.conftest import HOSTILE


def ask(client: httpx.Client, **body: Any) -> Any:
    response = client.post("/v1/predict", json=body)
    assert response.status_code == 200, response.text
    return response.json()["predictions"]


def labels(answer: Any) -> list[list[str]]:
    return [[prediction["label"] for prediction in row] for row in answer]


def test_predictions_are_those_of_the_library(
    client: httpx.Client, model: Path, documents: Dataset
) -> None:
    texts = (documents.texts or [])[:7]
    expected, probabilities = load(model).predict_topk(texts, k=4)
    answer = ask(client, texts=texts, top_k=4)
    assert labels(answer) == expected.tolist()
    np.testing.assert_allclose(
        [[prediction["probability"] for prediction in row] for row in answer],
        probabilities,
        rtol=1e-5,
    )
    assert all(
        prediction.keys() == {"label", "name", "probability", "assigned"}
        for row in answer
        for prediction in row
    )
    titled = {
        prediction["label"]: prediction["name"]
        for row in ask(client, texts=texts, top_k=20)
        for prediction in row
    }
    assert (
        titled[documents.label_ids[0]] == HOSTILE
        and titled[documents.label_ids[2]] == documents.label_ids[2]
    )


def test_requests_for_many_labels_are_split_and_do_not_slow_others_down(
    client: httpx.Client, model: Path, documents: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = (documents.texts or [])[:9]
    every = load(model).predict_topk(texts, k=20)[0].tolist()
    assert labels(ask(client, texts=texts, top_k=1000)) == every
    assert [len(row) for row in ask(client, texts=texts, top_k=2, explain=True)] == [2] * 9
    words = ServedModel("words", model)

    def job(top_k: int, **options: Any) -> PredictJob:
        return PredictJob(words, PredictRequest(texts=texts, top_k=top_k, **options))

    def sizes(parts: list[PredictJob]) -> list[int]:
        return [smaller.n_rows for smaller in parts]

    assert sizes(job(5).parts(64)) == [9]
    assert sizes(job(5).parts(4)) == [4, 4, 1]
    assert sizes(job(500).parts(64)) == [2, 2, 2, 2, 1]
    assert sizes(job(1000).parts(64)) == [1] * 9
    assert sizes(job(1, explain=True).parts(64)) == [1] * 9
    asked: list[tuple[int, int]] = []

    def recorded(model: Model, request: Request) -> Answer:
        assert request.k is not None
        asked.append((as_views(request.rows).n, request.k))
        return answer(model, request)

    monkeypatch.setattr(predictions, "answer", recorded)
    results = predictions.predict([job(4), job(20), job(5)])
    assert asked == [(18, 5), (9, 20)]
    assert [len(rows[0]) for rows in results if not isinstance(rows, Exception)] == [4, 20, 5]


def test_labels_are_included_excluded_and_thresholded(
    client: httpx.Client, model: Path, documents: Dataset
) -> None:
    texts = (documents.texts or [])[:5]
    classifier, names = load(model), documents.label_ids
    include = [names[3], names[4], names[9]]
    expected = classifier.predict_topk(texts, k=3, include=include)[0].tolist()
    assert labels(ask(client, texts=texts, top_k=3, include=include)) == expected
    best = labels(ask(client, texts=texts, top_k=1))
    exclude = [best[0][0], "A plain title"]
    expected = classifier.predict_topk(texts, k=5, exclude=[best[0][0], names[1]])[0].tolist()
    assert labels(ask(client, texts=texts, exclude=exclude)) == expected
    probabilities = [
        prediction["probability"]
        for row in ask(client, texts=texts, top_k=20, min_probability=0.3)
        for prediction in row
    ]
    assert probabilities and min(probabilities) >= 0.3
    assert ask(client, texts=texts, min_probability=1e9) == [[]] * 5


def test_a_text_without_a_known_word_has_no_labels(client: httpx.Client, model: Path) -> None:
    known_word = str(load(model).text_.get_feature_names_out()[0])
    for options in ({}, {"explain": True}):
        nothing, some, empty = ask(client, texts=["日本", known_word, ""], **options)
        assert nothing == empty == [] and len(some) == 5


def test_probabilities_are_those_of_the_library(
    client: httpx.Client, model: Path, feature_model: Path
) -> None:
    numbers = load(feature_model)
    answer = ask(client, model="numbers", vectors=[{"1": 1.0}, {"0": 2, "4": 1.0}], top_k=5)
    P = numbers.predict_proba(np.array([[0, 1.0, 0, 0, 0], [2, 0, 0, 0, 1]], dtype=np.float32))
    for row, expected in zip(answer, P, strict=True):
        assert sum(prediction["probability"] for prediction in row) == pytest.approx(1, abs=1e-5)
        for prediction in row:
            assert prediction["probability"] == pytest.approx(
                expected[int(prediction["label"])], abs=1e-5
            )
    known_word = str(load(model).text_.get_feature_names_out()[0])
    shares = [
        prediction["probability"]
        for row in ask(client, texts=[known_word], top_k=20)
        for prediction in row
    ]
    assert min(shares) >= 0 and max(shares) <= 1


def test_vectors_of_named_features_are_equivalent_to_texts(
    client: httpx.Client, model: Path, documents: Dataset
) -> None:
    text = (documents.texts or [])[0]
    features = load(model).text_
    row = features.transform([text])
    names = features.get_feature_names_out()
    vector = {
        names[column]: float(value) for column, value in zip(row.indices, row.data, strict=True)
    }
    by_text, by_vector = (
        ask(client, texts=[text])[0],
        ask(client, vectors=[vector | {"never seen before": 1.0}])[0],
    )
    assert labels([by_text]) == labels([by_vector])
    np.testing.assert_allclose(
        [a["probability"] for a in by_text], [b["probability"] for b in by_vector], rtol=1e-4
    )


def test_explanations_add_up_and_have_the_spans_of_words(
    client: httpx.Client, documents: Dataset
) -> None:
    text = "🜁 " + (documents.texts or [])[3]  # code points, not bytes or halves of them
    for prediction in ask(client, texts=[text], explain=True, top_k=3)[0]:
        why = prediction["explanation"]
        words = sum(word["contribution"] for word in why["words"]) + why["rest"]
        assert why["base"] + why["comparison"] + words == pytest.approx(why["log_odds"], abs=1e-4)
        assert sum(s[2] for s in why["segments"]) == pytest.approx(words, abs=1e-4)
        assert 1 / (1 + np.exp(-why["log_odds"])) == pytest.approx(
            prediction["probability"], abs=1e-4
        )
        for word in why["words"]:
            assert word["spans"] and all(
                text[a:b].lower() == word["word"] for a, b in word["spans"]
            )
    why = ask(client, model="numbers", vectors=[{"1": 1.0}], explain=True, top_k=1)[0][0][
        "explanation"
    ]
    total = why["base"] + why["comparison"] + sum(word["contribution"] for word in why["words"])
    assert total == pytest.approx(why["log_odds"], abs=1e-4)


def test_labels_are_found(client: httpx.Client, documents: Dataset) -> None:
    matches = client.get("/v1/labels", params={"query": " PLAIN  title"}).json()["labels"]
    assert [label["label"] for label in matches] == [documents.label_ids[1]] and matches[0][
        "description"
    ] == ""
    described = client.get(f"/v1/labels/{documents.label_ids[0]}/neighbors").json()
    assert (
        described["description"] == f"About {HOSTILE}"
        and described["neighbors"][0]["description"] == ""
    )
    everything = client.get("/v1/labels", params={"limit": 1000}).json()["labels"]
    assert len(everything) == len(documents.label_ids)
    counts = [label["count"] for label in everything]
    assert counts == sorted(counts, reverse=True)
    assert (
        client.get("/v1/labels", params={"query": "topic-01", "limit": 3}).json()["labels"]
        == [label for label in everything if label["label"].startswith("topic-01")][:3]
    )
    assert client.get("/v1/labels", params={"query": ".*"}).json()["labels"] == []


def test_neighbors_are_those_of_the_command(client: httpx.Client, documents: Dataset) -> None:
    label = documents.label_ids[7]  # it has a slash in it
    answer = client.get(f"/v1/labels/{label}/neighbors", params={"k": 4}).json()
    assert answer["label"] == label and len(answer["neighbors"]) == 4
    assert {neighbor["label"].split("/")[0] for neighbor in answer["neighbors"]} == {
        label.split("/")[0]
    }
    cosines = [neighbor["cosine"] for neighbor in answer["neighbors"]]
    assert cosines == sorted(cosines, reverse=True) and cosines[0] <= 1
    assert client.get("/v1/labels/no such label/neighbors").status_code == 404


def test_models_describe_themselves(client: httpx.Client) -> None:
    models = client.get("/v1/models").json()["models"]
    assert [(m["name"], m["default"], m["takes"]) for m in models] == [
        ("words", True, "texts"),
        ("numbers", False, "vectors"),
        ("fast", False, "texts"),
    ]
    assert [m["parts"] for m in models[:2]] == [["embedding"], ["embedding"]]
    assert models[2]["parts"] == ["trees", "centroids"]
    details = client.get("/v1/models/words").json()
    assert details["about"][0].startswith("Trained on ") and "threshold" not in details["about"][0]
    assert (
        details["metrics"] == {"P@1": 0.5}
        and len(details["singular_values"]) == details["rank"] == 12
    )
    parts = details["settings"]["parts"]
    assert parts["embedding"]["settings"]["decoder"] == "ridge" and "trees" not in parts


def test_a_model_without_an_embedding_is_served(
    client: httpx.Client, fast_model: Path, documents: Dataset
) -> None:
    texts = (documents.texts or [])[:7]
    answer = ask(client, model="fast", texts=texts, top_k=3, explain=True)
    assert labels(answer) == load(fast_model).predict_topk(texts, k=3)[0].tolist()
    for prediction in answer[0]:
        why = prediction["explanation"]
        total = (
            why["base"]
            + why["comparison"]
            + sum(word["contribution"] for word in why["words"])
            + why["rest"]
        )
        assert total == pytest.approx(why["log_odds"], abs=1e-4)
    details = client.get("/v1/models/fast").json()
    assert details["rank"] is None and details["singular_values"] == []
    assert list(details["settings"]["parts"]) == ["trees", "centroids"]
    label = documents.label_ids[7]
    near = client.get(f"/v1/labels/{label}/neighbors", params={"k": 4, "model": "fast"}).json()[
        "neighbors"
    ]
    assert sum(neighbor["label"].split("/")[0] == label.split("/")[0] for neighbor in near) >= 2
    assert client.get("/v1/map", params={"model": "fast"}).json()["state"] == "ready"


def test_requests_in_the_format_of_annif(client: httpx.Client, documents: Dataset) -> None:
    """Annif's `http` backend gets the project, then posts a form and reads uri and score from the
    results.
    """
    endpoint = "/v1/projects/words/suggest"
    project = client.get(endpoint.replace("/suggest", "")).json()
    assert project["is_trained"] is True and project["modification_time"]
    form = {
        "text": (documents.texts or [])[0],
        "project": "words",
        "limit": "3",
        "metadata_title": "of the document",
    }
    results = client.post(endpoint, data=form).json()["results"]
    assert len(results) == 3 and {suggestion["uri"] for suggestion in results} <= set(
        documents.label_ids
    )
    assert all(0 <= suggestion["score"] <= 1 for suggestion in results)
    for wrong in (
        {},
        {"text": "a", "limit": "0"},
        {"text": "a", "limit": "many"},
        {"text": "a", "threshold": "nan"},
    ):
        refused = client.post(
            endpoint, data=wrong, headers={"Content-Type": "application/x-www-form-urlencoded"}
        )
        assert refused.status_code == 422 and refused.json()["error"]["message"]
