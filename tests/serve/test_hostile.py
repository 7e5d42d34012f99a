"""Clients that mean harm: large and endless requests are refused in time and memory, and reloads
keep the old model.
"""

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rembrandt.serve import connection
from rembrandt.serve.bodies import count_values
from rembrandt.serve.registry import _saved_at
from tests.serve.conftest import TOKEN, served, started

SIZE = 8 << 20  # of the largest body
POST = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def full(start: bytes, repeated: bytes, end: bytes) -> bytes:
    return start + repeated * ((SIZE - len(start) - len(end)) // len(repeated)) + end


BODIES = {
    "numbers for texts": full(b'{"texts":[1', b",1", b"]}"),
    "empty texts": full(b'{"texts":[""', b',""', b"]}"),
    "empty vectors": full(b'{"vectors":[{}', b",{}", b"]}"),
    "a long vector": full(b'{"vectors":[{"a":1', b',"a":1', b"}]}"),
    "numbers for vectors": full(b'{"vectors":[1', b",1", b"]}"),
    "nested lists": full(b'{"texts":[[]', b"," + b"[" * 150 + b"]" * 150, b"]}"),
    "unknown fields": b"{" + b",".join(b'"%d":1' % i for i in range(90_000)) + b"}",
    "no numbers": b'{"vectors":[{' + b",".join(b'"%d":null' % i for i in range(90_000)) + b"}]}",
    "numbers for labels": b'{"texts":["a"],"include":[1' + b",1" * 90_000 + b"]}",
    "a long name": full(b'{"texts":["a"],"', b"x", b'":1}'),
    "a long label": full(b'{"texts":["a"],"include":["', b"\\u0000", b'"]}'),
    "a long number": full(b'{"texts":["a"],"top_k":1', b"0", b"}"),
    "quotes": full(b'{"texts":["', b'\\"', b'"]}'),
    "no end": full(b"", b"[", b""),
}


def test_the_largest_requests_cost_little(model: Path) -> None:
    """Each is answered in about a second and with little memory, while other requests are
    answered.
    """
    delays: list[float] = []
    with started(model) as (url, process), httpx.Client(base_url=url, timeout=60) as client:
        assert client.post("/v1/predict", json={"texts": ["a b c" * 10_000]}).status_code == 200
        before, stop = peak(process.pid), threading.Event()

        def watch() -> None:
            with httpx.Client(base_url=url, timeout=60) as own:
                while not stop.is_set():
                    start = time.perf_counter()
                    assert own.get("/healthz").status_code == 200
                    delays.append(time.perf_counter() - start)

        watching = threading.Thread(target=watch)
        watching.start()
        for name, body in BODIES.items():
            start = time.perf_counter()
            answer = client.post(
                "/v1/predict", content=body, headers={"Content-Type": "application/json"}
            )
            seconds = time.perf_counter() - start
            assert answer.status_code in (400, 404, 413, 422), name
            assert len(answer.content) < 5000 and answer.json()["error"]["message"], name
            assert seconds < 5, name  # it takes a tenth of a second on a quiet machine
        form = full(b"text=", b"%41", b"")
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        refused = client.post("/v1/projects/words/suggest", content=form, headers=kind)
        assert refused.status_code == 413
        stop.set()
        watching.join()
        assert peak(process.pid) - before < 100
    assert len(delays) > 10 and max(delays) < 3


def peak(pid: int) -> float:
    """Return the largest resident memory of a process so far in MB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1000


@given(
    st.recursive(
        st.none() | st.integers() | st.text(alphabet='a,[{"\\\n', max_size=6),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.text('ab,[{"\\', max_size=3), inner, max_size=4)
        ),
        max_leaves=30,
    ),
    st.integers(0, 60),
)
def test_values_are_counted_without_parsing(value: Any, limit: int) -> None:
    def count(node: Any) -> int:
        if not isinstance(node, list | dict):
            return 0
        return max(1, len(node)) + sum(
            map(count, node.values() if isinstance(node, dict) else node)
        )

    body = json.dumps(value).encode()
    n_values, longest = count_values(body + b" " * 60, limit, 1000)
    assert min(n_values, limit + 1) == min(count(value), limit + 1)
    if n_values <= limit:
        strings = re.findall(rb'"((?:[^"\\]|\\.)*)"', body)
        assert longest == max(map(len, strings), default=0)


def test_counting_ends_at_the_limits() -> None:
    """The rest of a body is not read. Commas in a text are not values."""
    assert count_values(b"," * 1000, 10, 10) == (11, 0)
    assert count_values(b'"' + b",[{" * 1000, 10, 5000) == (0, 2999)
    assert count_values(b'["' + b"a" * 1000 + b'",1]', 10, 100) == (1, 101)


def exchange(url: str, *parts: bytes) -> bytes:
    """Send bytes and return what comes back until the connection is closed; the other side may
    close it any time.
    """
    host, port = url.removeprefix("http://").split(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        try:
            for part in parts:
                opened.sendall(part)
            while more := opened.recv(1 << 16):
                received += more
        except ConnectionError:
            pass
    return received


HEADS = {
    "many": [POST + b"".join(b"X-%d: 1\r\n" % i for i in range(100)) + b"\r\n"],
    "a large one": [POST + b"X: " + b"x" * (64 << 10) + b"\r\n\r\n"],
    "several large ones": [
        POST + b"".join(b"X-%d: %s\r\n" % (i, b"x" * 10_000) for i in range(7)) + b"\r\n"
    ],
    "an endless one": [POST + b"X: ", *[b"x" * (32 << 10)] * 40],
    "an endless name": [POST, *[b"x" * (32 << 10)] * 40],
    "an endless path": [b"GET /", *[b"x" * (32 << 10)] * 40],
    "an endless list": [POST, *[b"X: 1\r\n" * 50] * 40],
}


@pytest.mark.parametrize("parts", HEADS.values(), ids=HEADS)
def test_headers_are_bounded_before_the_token(token_address: str, parts: list[bytes]) -> None:
    answer = exchange(token_address, *parts)
    assert not answer or answer.startswith(
        b"HTTP/1.1 431 "
    )  # nothing if the client was still sending
    if len(parts) == 1:
        document = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert document["error"]["status"] == 431 and "65,536" in document["error"]["message"]


def test_headers_within_the_bounds(token_address: str) -> None:
    more = {f"X-{i}": "x" * 600 for i in range(90)}
    assert httpx.get(f"{token_address}/healthz", headers=more).status_code == 200
    assert httpx.get(f"{token_address}/v1/models", headers=more).status_code == 401


@pytest.mark.parametrize(
    "trailers", [b"X: 1\r\n" * 200, b"X: " + b"x" * (1 << 20)], ids=["many", "large"]
)
def test_headers_after_a_body_are_bounded(address: str, trailers: bytes) -> None:
    """The connection ends, whether the request was answered before or not."""
    start = POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
    assert exchange(address, start, trailers)[:13] in (b"", b"HTTP/1.1 431 ", b"HTTP/1.1 400 ")


def test_slow_headers_end_the_connection(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.3)
    with served({"words": model}) as url:
        assert exchange(url) == exchange(url, b"GET /healthz HTTP/1.1\r\nHost: loc") == b""
        whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert exchange(url, whole, whole + b"GET").count(b"HTTP/1.1 200 OK") == 2
        assert httpx.get(f"{url}/healthz").status_code == 200


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to send")
def test_half_sent_requests_do_not_delay_the_end(model: Path) -> None:
    with started(model) as (url, process):
        host, port = url.removeprefix("http://").split(":")
        halves = [
            b"",
            b"GET /heal",
            POST + b"Content-Length: 100\r\n\r\n",
            POST + b"Content-Length: 9\r\n\r\n{",
        ]
        opened = [socket.create_connection((host, int(port))) for _ in halves]
        for one, half in zip(opened, halves, strict=True):
            one.sendall(half)
        assert httpx.get(f"{url}/healthz").status_code == 200
        start = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert time.perf_counter() - start < 8  # about a second on a quiet machine
        assert b" 503 " in opened[-1].recv(1 << 12).splitlines()[0]
        for one in opened:
            one.close()


def test_any_modification_time() -> None:
    for seconds, year in ((1e18, 9999), (-1e18, 1970), (1.7e9, 2023)):
        file: Any = SimpleNamespace(stat=lambda seconds=seconds: SimpleNamespace(st_mtime=seconds))
        assert _saved_at(file).year == year


def nested(path: Path) -> None:
    (path / "model.json").write_text("[" * 200_000)


def nested_metadata(path: Path) -> None:
    card = json.loads((path / "model.json").read_text())
    text = json.dumps(card | {"metadata": 0}).replace(
        '"metadata": 0', '"metadata": ' + '{"a":' * 900 + "1" + "}" * 900
    )
    (path / "model.json").write_text(text)


def truncated(path: Path) -> None:
    os.truncate(path / "weights.safetensors", 5000)


def no_checksum(path: Path) -> None:
    (path / "model.json").write_text(
        json.dumps({"format": "rembrandt-model", "format_version": 2, "sha256": {}})
    )


def emptied(path: Path) -> None:
    (path / "model.json").unlink()


@pytest.mark.parametrize("damage", [nested, nested_metadata, truncated, no_checksum, emptied])
def test_a_damaged_folder_is_a_sentence_and_the_old_model_stays(
    model: Path, tmp_path: Path, damage: Any
) -> None:
    path = tmp_path / "words"
    path.mkdir()
    for file in model.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    right = {"Authorization": f"Bearer {TOKEN}"}
    with (
        served({"words": path}, token=TOKEN) as url,
        httpx.Client(base_url=url, headers=right) as client,
    ):
        before = client.post("/v1/predict", json={"texts": ["a b"]})
        damage(path)
        refused = client.post("/v1/models/words/reload")
        assert (
            refused.status_code == 422
            and "the old one stays in use" in refused.json()["error"]["message"]
        )
        assert client.post("/v1/predict", json={"texts": ["a b"]}).json() == before.json()


def test_a_file_that_shrinks_during_a_reload(model: Path, tmp_path: Path) -> None:
    """A file that is truncated and restored in place all the time is refused or loaded, and the
    service goes on.
    """
    path = tmp_path / "words"
    path.mkdir()
    for file in model.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    weights, stop = path / "weights.safetensors", threading.Event()
    whole = weights.read_bytes()

    def shrink() -> None:
        while not stop.is_set():
            os.truncate(weights, len(whole) // 2)
            weights.write_bytes(whole)

    right = {"Authorization": f"Bearer {TOKEN}"}
    with (
        served({"words": path}, token=TOKEN) as url,
        httpx.Client(base_url=url, headers=right, timeout=60) as client,
    ):
        shrinking = threading.Thread(target=shrink)
        shrinking.start()
        try:
            found = {client.post("/v1/models/words/reload").status_code for _ in range(20)}
        finally:
            stop.set()
            shrinking.join()
        assert found <= {200, 422}
        assert client.post("/v1/models/words/reload").status_code == 200
        assert client.post("/v1/predict", json={"texts": ["a b"]}).status_code == 200
