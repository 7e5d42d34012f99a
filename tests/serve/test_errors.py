"""Bad requests get a 4xx status and a message, and the service goes on."""

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rembrandt import load
from rembrandt.errors import SettingsError
from rembrandt.serve import running
from rembrandt.serve.guard import Guard
from rembrandt.serve.limits import Limits
from rembrandt.serve.metrics import Metrics
from tests.serve.conftest import TOKEN, served

BODIES: list[tuple[bytes, int, str]] = [
    (b"", 400, "JSON"),
    (b"{", 400, "JSON"),
    (b"texts=a", 400, "JSON"),
    (b'{"texts": ["\xff"]}', 400, "JSON"),
    (b'{"texts": ["\\ud800"]}', 400, "JSON"),
    (b"[" * 50_000, 400, "JSON"),
    (b"null", 422, "object"),
    (b"{}", 422, "texts or vectors"),
    (b'{"texts": ["a"], "vectors": [{}]}', 422, "texts or vectors"),
    (b'{"texts": []}', 422, "texts"),
    (b'{"texts": [1]}', 422, "texts[0]"),
    (b'{"texts": ["a"], "top_k": 0}', 422, "top_k"),
    (b'{"texts": ["a"], "top_k": "5"}', 422, "top_k"),
    (b'{"texts": ["a"], "top_k": 1' + b"0" * 300 + b"}", 413, "labels for each text"),
    (b'{"texts": ["a"], "topk": 5}', 422, "topk"),
    (b'{"texts": ["a"], "min_probability": NaN}', 422, "min_probability"),
    (b'{"texts": ["a"], "min_probability": -Infinity}', 422, "min_probability"),
    (b'{"vectors": [{"a": 1e999}]}', 422, "vectors[0]: the value of 'a'"),
    (b'{"vectors": [{"0": 1e300}], "model": "numbers"}', 422, "too large"),
    (b'{"vectors": [{"5": 1}], "model": "numbers"}', 422, "'5'"),
    (b'{"vectors": [{"-1": 1}], "model": "numbers"}', 422, "'-1'"),
    (b'{"texts": ["a"], "model": "numbers"}', 422, "send vectors"),
    (b'{"texts": ["a"], "model": "nobody"}', 404, "'nobody'"),
    (b'{"texts": ["a"], "include": ["no such label"]}', 404, "'no such label'"),
    (b'{"texts": ["a"], "exclude": ["no such label"]}', 404, "'no such label'"),
    (
        b'{"texts": ["a"], "include": ["A plain title"], "exclude": ["A plain title"]}',
        422,
        "no label is left",
    ),
    (json.dumps({"texts": ["a"] * 257}).encode(), 413, "257"),
    (json.dumps({"texts": ["a" * 200_001]}).encode(), 413, "200,001"),
    (json.dumps({"texts": ["a"] * 100, "explain": True}).encode(), 413, "explain"),
    (
        json.dumps({"texts": ["a b " * 45_000], "top_k": 20, "explain": True}).encode(),
        413,
        "3,600,000",
    ),
]


def message(response: httpx.Response) -> str:
    error = response.json()["error"]
    assert (
        error["status"] == response.status_code
        and response.headers["content-type"] == "application/json"
    )
    return str(error["message"])


@pytest.mark.parametrize(("body", "status", "mention"), BODIES, ids=range(len(BODIES)))
def test_invalid_bodies(client: httpx.Client, body: bytes, status: int, mention: str) -> None:
    response = client.post(
        "/v1/predict", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == status and mention in message(response), response.text


def test_values_that_overflow_give_no_wrong_probability(client: httpx.Client, model: Path) -> None:
    words = load(model).text_.get_feature_names_out()
    answer = client.post(
        "/v1/predict", json={"vectors": [{"a": 1.0}, dict.fromkeys(words, 3.4e38)]}
    )
    if answer.status_code == 422:
        assert "too large" in message(answer)
    else:
        probabilities = [
            label["probability"] for row in answer.json()["predictions"] for label in row
        ]
        assert answer.status_code == 200 and all(
            0 <= probability <= 1 for probability in probabilities
        )


def test_a_body_of_another_type_is_refused(client: httpx.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = client.post(
            "/v1/predict", content=b'{"texts": ["a"]}', headers={"Content-Type": kind}
        )
        assert response.status_code == 415 and "application/json" in message(response)


def test_unknown_paths_and_methods(client: httpx.Client) -> None:
    assert "/nowhere" in message(client.get("/nowhere"))
    refused = client.get("/v1/predict")
    assert (
        refused.status_code == 405
        and "POST" in refused.headers["allow"]
        and "GET" in message(refused)
    )
    assert client.get("/page/..%2fapp.py").status_code == 404


def test_a_bad_request_in_a_batch_fails_alone(client: httpx.Client) -> None:
    """Requests are computed together; those with an error fail alone."""

    def post(i: int) -> int:
        vector = {"9": 1.0} if i % 3 == 0 else {"0": 1.0}
        body = {"model": "numbers", "vectors": [vector]}
        return client.post("/v1/predict", json=body).status_code

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(post, range(60))) == [422 if i % 3 == 0 else 200 for i in range(60)]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["texts", "vectors", "top_k", "include", "explain", "model"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=10,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_no_body_breaks_the_service(client: httpx.Client, body: bytes) -> None:
    response = client.post(
        "/v1/predict", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code < 500
    if response.status_code >= 400:
        assert message(response)


def test_large_bodies_are_refused_while_they_arrive(model: Path) -> None:
    """No more than the limit is read, whether the length was announced or not."""
    with served({"words": model}, Limits(body=1000)) as url:
        assert httpx.post(f"{url}/v1/predict", content=b"x" * 1001).status_code == 413

        def endless() -> Any:
            for _ in range(1000):
                yield b"x" * 100

        try:
            response = httpx.post(f"{url}/v1/predict", content=endless())
            assert response.status_code == 413 and "1,000 bytes" in message(response)
        except httpx.WriteError:  # the connection was closed while the client was sending
            pass
        assert httpx.post(f"{url}/v1/predict", json={"texts": ["a"]}).status_code == 200


def test_all_bodies_together_are_limited() -> None:
    """Incomplete bodies count together; when they are complete, others are accepted."""

    async def main() -> list[int]:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        guard = Guard(app, Limits(body=100, bodies=250), Metrics())
        scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": []}
        finish = asyncio.Event()

        async def ask() -> int:
            statuses = []
            pending = [{"type": "http.request", "body": b"x" * 90, "more_body": True}]

            async def receive() -> Any:
                if pending:
                    return pending.pop()
                await finish.wait()
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(message: Any) -> None:
                statuses.append(message.get("status"))

            await guard(dict(scope), receive, send)
            return int(statuses[0])

        asked = [asyncio.create_task(ask()) for _ in range(3)]
        await asyncio.sleep(0.01)
        finish.set()
        return [*await asyncio.gather(*asked), await ask()]

    assert asyncio.run(main()) == [200, 200, 429, 200]


def test_slow_bodies_time_out(model: Path) -> None:
    with served({"words": model}, Limits(timeout=0.5)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(
                b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                b"application/json\r\n"
                b"Content-Length: 100\r\n\r\n{"
            )
            connection.settimeout(60)
            assert b" 408 " in connection.recv(1 << 16).splitlines()[0]


def test_other_host_names_are_refused_without_a_token(client: httpx.Client) -> None:
    """A web page whose host name points at this machine gets nothing."""
    for name in ("attacker.example", "localhost.attacker.example", ""):
        assert client.get("/v1/models", headers={"Host": name}).status_code == 403
    for name in ("localhost", "localhost:80", "127.0.0.1:8000", "[::1]:8000", "[::1]"):
        assert client.get("/v1/models", headers={"Host": name}).status_code == 200


def test_tokens(model: Path) -> None:
    with served({"words": model}, token=TOKEN) as url, httpx.Client(base_url=url) as client:
        right = {"Authorization": f"Bearer {TOKEN}"}
        for path in ("/v1/models", "/metrics", "/v1/labels"):
            assert client.get(path, headers=right).status_code == 200
            assert (
                client.get(path, auth=("anyone", TOKEN)).status_code == 200
            )  # for clients that can only send passwords
            for wrong in (
                {},
                {"Authorization": f"Bearer {TOKEN}x"},
                {"Authorization": "Basic %%%"},
            ):
                refused = client.get(path, headers=wrong)
                assert (
                    refused.status_code == 401 and "Bearer" in refused.headers["www-authenticate"]
                )
                assert "token" in message(refused) and TOKEN not in refused.text
        for path in ("/", "/healthz", "/readyz", "/openapi.json"):
            assert client.get(path).status_code == 200
        assert client.get("/openapi.json").json()["security"] == [{"token": []}]


def test_reloading_needs_a_token(client: httpx.Client) -> None:
    refused = client.post("/v1/models/words/reload")
    assert refused.status_code == 403 and "token" in message(refused)


def test_addresses_and_tokens_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.8.9.1"):
        running.check_address(host, None, False)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(SettingsError, match="--no-token"):
            running.check_address(host, None, False)
        running.check_address(host, TOKEN, False)
        running.check_address(host, None, True)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SettingsError, match="--port"),
    ):
        running.listen("127.0.0.1", taken.getsockname()[1])
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert running.read_token(file) == TOKEN
    for bad in ("", "short", "with spaces in it, which no header has", "ünïcodeünïcodeünïcode"):
        file.write_text(bad)
        with pytest.raises(SettingsError, match="token"):
            running.read_token(file)
    monkeypatch.setenv(running.TOKEN, TOKEN)
    assert running.read_token(None) == TOKEN
