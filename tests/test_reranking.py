"""The best labels, ranked again by another model."""

import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rembrandt import RembrandtClassifier, Reranker
from rembrandt.errors import DataError, RembrandtError, RembrandtWarning, SettingsError

EXAMPLE = Path(__file__).parents[1] / "examples" / "rerank_labels.py"
NAMES = {"a": "red apple", "b": "yellow banana", "c": "green cucumber", "d": "blue plum"}
TEXTS = ["apple or banana", "banana and plum", "cucumber"]


@cache
def fitted() -> RembrandtClassifier:
    texts = [*NAMES.values(), "apple banana", "plum cucumber"] * 12
    labels = [["a"], ["b"], ["c"], ["d"], ["a", "b"], ["c", "d"]] * 12
    classifier = RembrandtClassifier(preset="fast", random_state=0)
    return classifier.fit(texts, labels, label_names=NAMES)


class Scorer:
    """Scores names by their last letter, and counts its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []

    def score(self, text: str, names: list[str]) -> list[float]:
        self.calls.append((text, names))
        return [float(ord(name[0])) for name in names]


def test_scores_are_added_to_log_odds() -> None:
    classifier = fitted()
    scorer = Scorer()
    reranker = Reranker(scorer, n_labels=3, weight=0.1)
    plain, probabilities = classifier.predict_topk(TEXTS, 4)
    labels, scores = classifier.predict_topk(TEXTS, 4, reranker=reranker)
    for row in range(len(TEXTS)):
        first = plain[row, :3].tolist()
        p = probabilities[row, :3].astype(float)
        s = np.array([ord(NAMES[label][0]) for label in first], dtype=float)
        z = np.log(p / (1 - p)) + 0.1 * (s - s.mean())
        assert labels[row, :3].tolist() == [first[i] for i in np.argsort(-z)]
        expected = np.maximum(np.sort(1 / (1 + np.exp(-z)))[::-1], probabilities[row, 3])
        assert np.allclose(scores[row, :3], expected, rtol=1e-5)
        assert labels[row, 3] == plain[row, 3]
        assert scores[row, 3] == probabilities[row, 3]
    assert scorer.calls[0] == (TEXTS[0], [NAMES[label] for label in plain[0, :3]])
    # The first label does not depend on how many are asked for, and no text is scored twice.
    assert np.array_equal(classifier.predict_topk(TEXTS, 1, reranker=reranker)[0], labels[:, :1])
    assert len(scorer.calls) == len(TEXTS)
    without = Reranker(Scorer(), n_labels=3, weight=0)
    assert np.array_equal(classifier.predict_topk(TEXTS, 4, reranker=without)[0], plain)
    sets = classifier.predict_labels(TEXTS, min_probability=0.5, reranker=reranker)
    for row, names in enumerate(sets):
        assert names == [
            NAMES[label] for label, p in zip(labels[row, :3], scores[row], strict=False) if p >= 0.5
        ]


def test_many_texts_in_a_call() -> None:
    sizes = []

    class Many:
        def score_many(self, texts: list[str], names: list[list[str]]) -> list[np.ndarray]:
            sizes.append(len(texts))
            return [np.zeros(len(row)) for row in names]

    texts = [f"apple {number}" for number in range(7)]
    fitted().predict_topk(texts, 2, reranker=Reranker(Many(), batch_size=3))
    assert sizes == [3, 3, 1]


def test_a_learned_weight() -> None:
    classifier = fitted()

    class Oracle:
        def score(self, text: str, names: list[str]) -> list[float]:
            return [float(name == NAMES[truth[text]]) for name in names]

    asked = []

    class Wrong:
        def score(self, text: str, names: list[str]) -> list[float]:
            asked.append(text)
            return [float(name != NAMES[truth[text]]) for name in names]

    texts = [f"{name} {number}" for number in range(80) for name in ("apple", "plum", "cucumber")]
    truth = {text: "abcd"[number % 4] for number, text in enumerate(texts)}
    labels = [[truth[text]] for text in texts]
    oracle = Reranker(Oracle(), n_labels=4).learn_weight(classifier, texts, labels)
    assert oracle.weight > 3
    best, _ = classifier.predict_topk(texts[-20:], 1, reranker=oracle)
    assert [[label] for label in best[:, 0]] == labels[-20:]
    wrong = Reranker(Wrong(), n_labels=4).learn_weight(classifier, texts, labels)
    assert wrong.weight < 1e-3
    assert len(asked) == 200
    with pytest.raises(DataError, match="0 texts"):
        oracle.learn_weight(classifier, [], [])


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (lambda names: 1 / 0, "division by zero"),
        (lambda names: [0.0], "expected a finite number for each"),
        (lambda names: [float("nan")] * len(names), "expected a finite number for each"),
        (lambda names: time.sleep(20), "longer than max_seconds"),
    ],
)
def test_what_goes_wrong_is_a_warning(outcome: Any, reason: str) -> None:
    class Failing:
        def score(self, text: str, names: list[str]) -> Any:
            return outcome(names)

    classifier = fitted()
    reranker = Reranker(Failing(), max_seconds=0.3)
    plain, probabilities = classifier.predict_topk(TEXTS, 3)
    with pytest.warns(RembrandtWarning, match=f"3 of 3 texts keep .*{reason}"):
        labels, scores = classifier.predict_topk(TEXTS, 3, reranker=reranker)
    assert np.array_equal(labels, plain)
    assert np.array_equal(scores, probabilities)
    if reason == "division by zero":
        with (
            pytest.warns(RembrandtWarning),
            pytest.raises(RembrandtError, match="nothing to learn"),
        ):
            reranker.learn_weight(classifier, TEXTS, ["a", "b", "c"])


def test_bounds_on_texts_and_cache() -> None:
    scorer = Scorer()
    reranker = Reranker(scorer, max_texts=2, cache_size=1)
    with pytest.warns(RembrandtWarning, match="1 of 3 texts .* max_texts is 2"):
        fitted().predict_topk(TEXTS, 3, reranker=reranker)
    assert len(scorer.calls) == 2
    fitted().predict_topk(TEXTS[1:2], 3, reranker=reranker)
    assert len(scorer.calls) == 2
    fitted().predict_topk(TEXTS[:1], 3, reranker=reranker)
    assert len(scorer.calls) == 3


def test_impossible_requests() -> None:
    classifier = fitted()
    reranker = Reranker(Scorer())
    with pytest.raises(SettingsError, match="tail and reranker"):
        classifier.predict_topk(TEXTS, tail=True, reranker=reranker)
    with pytest.raises(SettingsError, match="take parents apart"):
        classifier.predict_topk(TEXTS, hierarchy="closed", reranker=reranker)
    with pytest.raises(DataError, match="reads texts"):
        classifier.predict_topk(classifier.text_.transform(TEXTS), reranker=reranker)
    with pytest.raises(SettingsError, match="has no score"):
        Reranker(object())
    with pytest.raises(SettingsError, match="n_labels"):
        Reranker(Scorer(), n_labels=1)


@pytest.fixture
def service() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A local server that speaks the protocol of OpenAI's API, and what it was asked."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "key": self.headers["Authorization"]} | body)
            subjects = body["messages"][0]["content"].split("Subjects:\n")[1].splitlines()
            numbers = [10.0 * ("plum" in subject) for subject in subjects]
            content = json.dumps({"choices": [{"message": {"content": json.dumps(numbers)}}]})
            self.send_response(200 if body["model"] == "small" else 500)
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", asked
    server.shutdown()
    server.server_close()


def test_a_language_model_behind_an_address(
    service: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = service
    specification = importlib.util.spec_from_file_location("rerank_labels", EXAMPLE)
    assert specification is not None and specification.loader is not None
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    reranker = Reranker(example.LanguageModel(address, "small"), n_labels=4, weight=5)
    labels, _ = fitted().predict_topk(TEXTS, 2, reranker=reranker)
    assert labels[:, 0].tolist() == ["d", "d", "d"]
    assert asked[0]["path"] == "/v1/chat/completions"
    assert asked[0]["key"] == "Bearer secret"
    assert TEXTS[0] in asked[0]["messages"][0]["content"]
    failing = Reranker(example.LanguageModel(address, "large"), n_labels=4)
    with pytest.warns(RembrandtWarning, match="500"):
        fitted().predict_topk(TEXTS, 2, reranker=failing)
