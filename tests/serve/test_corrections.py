"""Corrections over HTTP: they are on disk before the answer, and what is wrong is refused."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rembrandt.data import Dataset
from rembrandt.data.corrections import Correction, read_corrections
from rembrandt.errors import RembrandtError
from rembrandt.serve.app import create_app
from rembrandt.serve.limits import Limits
from tests.serve.conftest import TOKEN, served, started
from tests.serve.test_hostile import full

URL = "/v1/corrections"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corrections") / "answers.jsonl"


@pytest.fixture(scope="module")
def reviewing(model: Path, feature_model: Path, path: Path) -> Iterator[httpx.Client]:
    """A client of a service that keeps corrections."""
    paths = {"words": model, "numbers": feature_model}
    with served(paths, corrections=path) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


def test_a_correction_is_on_disk_before_the_answer(
    reviewing: httpx.Client, path: Path, documents: Dataset
) -> None:
    known = documents.label_ids
    correction = {
        "text": "a text\nwith “quotes” \u2028",
        "labels": ["A PLAIN TITLE", known[2], known[2], "a  new label"],
        "rejected": [known[3]],
    }
    answer = reviewing.post(URL, json={"corrections": [correction]})
    assert answer.status_code == 200
    facts = answer.json()
    assert facts["accepted"] == 1 and facts["new_labels"] == ["a new label"]
    labels = (known[1], known[2], "a new label")  # a name became the identifier
    assert read_corrections(path)[-1] == Correction(correction["text"], labels, (known[3],))
    row = json.loads(path.read_text().strip().split("\n")[-1])
    assert row["model"] == "words" and row["version"] == facts["version"]
    assert reviewing.get("/v1/models").json()["corrections"] is True


def one(**fields: Any) -> dict[str, Any]:
    return {"corrections": [{"text": "a", "labels": ["b"]} | fields]}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"corrections": []}, 422, "at least 1 item"),
        ({}, 422, "corrections"),
        ({"other": 1}, 422, "there is no field 'other'"),
        (one(text=" "), 422, "corrections[0]: the text is empty"),
        (one(text=7), 422, "corrections[0].text"),
        (one(text="a" * 200_001), 413, "200,001 characters in one text"),
        (one(labels=None), 422, "corrections[0].labels"),
        (one(labels=[""]), 422, "a label is empty"),
        (one(labels=["b" * 1001]), 413, "a label has 1,001 characters"),
        (one(labels=[str(i) for i in range(1001)]), 413, "1,001 labels; the limit is 1,000"),
        (one(rejected=["b"]), 422, "'b' is accepted and rejected"),
        (one(extra=1), 422, "extra"),
        (one() | {"model": "numbers"}, 422, "only texts can be corrected"),
        (one() | {"model": "nothing"}, 404, "there is no model 'nothing'"),
        ({"corrections": one()["corrections"] * 257}, 413, "257 corrections in one request"),
    ],
)
def test_what_is_wrong_is_refused(
    reviewing: httpx.Client, path: Path, body: Any, status: int, message: str
) -> None:
    before = path.read_bytes()
    answer = reviewing.post(URL, json=body)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]["message"]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "body",
    [
        full(b'{"corrections":[1', b",1", b"]}"),
        full(b'{"corrections":[{"text":"', b"\\u0000", b'","labels":[]}]}'),
        full(b'{"corrections":[{"text":"a","labels":["b"', b',"b"', b"]}]}"),
        b'{"corrections":[{"text":"\\ud800","labels":[]}]}',
        b'{"corrections":[{"text":"a","labels":["\\ud800"]}]}',
        b"\xff",
        full(b"[", b"[", b""),
    ],
    ids=["numbers", "a long text", "many labels", "half a pair", "a label", "bytes", "brackets"],
)
def test_hostile_bodies_are_refused(reviewing: httpx.Client, path: Path, body: bytes) -> None:
    before = path.read_bytes()
    answer = reviewing.post(URL, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 413, 422)
    assert len(answer.content) < 5000 and answer.json()["error"]["message"]
    assert path.read_bytes() == before


def test_a_form_of_another_site_is_refused(reviewing: httpx.Client) -> None:
    assert reviewing.post(URL, data={"corrections": "a"}).status_code == 415


def test_a_service_without_a_file_refuses_corrections(client: httpx.Client) -> None:
    answer = client.post(URL, json=one())
    assert answer.status_code == 403
    assert "--corrections FILE" in answer.json()["error"]["message"]
    assert client.get("/v1/models").json()["corrections"] is False


def test_a_token_and_a_bound_on_the_file(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    limits = Limits(corrections=400)
    with served({"words": model}, limits, TOKEN, corrections=path) as url:
        assert httpx.post(url + URL, json=one(), timeout=30).status_code == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(url + URL, json=one(), headers=headers, timeout=30)
        assert answer.status_code == 200
        before = path.read_bytes()
        refused = httpx.post(url + URL, json=one(text="a" * 400), headers=headers, timeout=30)
        assert refused.status_code == 507 and "beyond 400 bytes" in refused.text
        assert path.read_bytes() == before


def test_other_files_are_not_written(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "a", "labels": []}\n')
    for path in (other, tmp_path / "answers.csv", tmp_path / "nowhere" / "a.jsonl"):
        with pytest.raises(RembrandtError):
            create_app({"words": model}, corrections=path)
    assert other.read_text() == '{"text": "a", "labels": []}\n'


def test_a_killed_service_loses_no_confirmed_correction(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    confirmed = []
    path.write_text('{"text": "cut sho')  # as an earlier kill leaves it
    with started(model, "--corrections", path) as (url, process), httpx.Client() as client:
        for number in range(20):
            body = one(text=f"text {number}")
            assert client.post(url + URL, json=body, timeout=30).status_code == 200
            confirmed.append(f"text {number}")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
    assert [correction.text for correction in read_corrections(path)] == confirmed
