"""Clients that mean harm: large and endless requests are refused in time and memory, and reloads
keep the old model.
"""

import gc
import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rembrandt.data import Dataset
from rembrandt.serve import connection, registry
from rembrandt.serve.bodies import count_values
from rembrandt.serve.limits import Limits
from rembrandt.serve.predictions import PredictJob, predict
from rembrandt.serve.registry import _saved_at
from rembrandt.serve.sending import Unsent
from tests.serve.conftest import TOKEN, served, started, until

SIZE = 8 << 20  # of the largest body
LAST_OF_MANY = b"\r\nConnection: close\r\n"
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
            with httpx.Client(base_url=url, timeout=60) as session:
                while not stop.is_set():
                    start = time.perf_counter()
                    assert session.get("/healthz").status_code == 200
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
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match
    return int(match[1]) / 1000


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


def exchange(url: str, *chunks: bytes) -> bytes:
    """Send bytes and return what comes back until the connection is closed; the other side may
    close it any time.
    """
    host, port = url.removeprefix("http://").split(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        try:
            for chunk in chunks:
                opened.sendall(chunk)
            while answer := opened.recv(1 << 16):
                received += answer
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


NOT_HTTP = {
    "a text": b"what is this?\r\n\r\n",
    "bytes": bytes(range(256)),
    "an invented version": b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "no length": POST + b"Content-Length: many\r\n\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    "a length of a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nmany\r\n",
    "no header": POST + b"no colon\r\n\r\n",
    "a control character": POST + b"X: a\x00b\r\n\r\n",
    "a path beyond ASCII": "GET /größe HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
}


@pytest.mark.parametrize("request_bytes", NOT_HTTP.values(), ids=NOT_HTTP)
def test_what_is_not_http_is_answered_with_json(address: str, request_bytes: bytes) -> None:
    head, _, body = exchange(address, request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/json" in head
    error = json.loads(body)["error"]
    assert error["status"] == 400
    assert "not a valid HTTP/1.1 request" in error["message"]
    assert httpx.get(f"{address}/healthz").status_code == 200


def test_headers_within_the_bounds(token_address: str) -> None:
    headers = {f"X-{i}": "x" * 600 for i in range(90)}
    assert httpx.get(f"{token_address}/healthz", headers=headers).status_code == 200
    assert httpx.get(f"{token_address}/v1/models", headers=headers).status_code == 401


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
        for half_sent, half in zip(opened, halves, strict=True):
            half_sent.sendall(half)
        assert httpx.get(f"{url}/healthz").status_code == 200
        start = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert time.perf_counter() - start < 8  # about a second on a quiet machine
        assert b" 503 " in opened[-1].recv(1 << 12).splitlines()[0]
        for half_sent in opened:
            half_sent.close()


def test_any_modification_time() -> None:
    for seconds, year in ((1e18, 9999), (-1e18, 1970), (1.7e9, 2023)):
        file: Any = SimpleNamespace(stat=lambda seconds=seconds: SimpleNamespace(st_mtime=seconds))
        assert _saved_at(file).year == year


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    """A copy of a model, to be damaged."""
    path = tmp_path / "words"
    shutil.copytree(model, path)
    return path


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
def test_a_damaged_folder_is_a_sentence_and_the_old_model_stays(copy: Path, damage: Any) -> None:
    path = copy
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


def test_a_file_that_shrinks_during_a_reload(copy: Path) -> None:
    """A file that is truncated and restored in place all the time is refused or loaded, and the
    service goes on.
    """
    path = copy
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
            statuses = {client.post("/v1/models/words/reload").status_code for _ in range(20)}
        finally:
            stop.set()
            shrinking.join()
        assert statuses <= {200, 422}
        assert client.post("/v1/models/words/reload").status_code == 200
        assert client.post("/v1/predict", json={"texts": ["a b"]}).status_code == 200


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes with a name")
@pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
@pytest.mark.parametrize("replace", [pipe, endless, large])
def test_only_regular_files_of_bounded_size_are_read(
    copy: Path, name: str, replace: Callable[[Path], None]
) -> None:
    """The reload is refused at once, the next one works, and SIGTERM ends the service."""
    right = {"Authorization": f"Bearer {TOKEN}"}
    whole = (copy / name).read_bytes()
    with (
        started(copy, token=TOKEN) as (url, process),
        httpx.Client(base_url=url, headers=right, timeout=20) as client,
    ):
        (copy / name).unlink()
        replace(copy / name)
        refused = client.post(f"/v1/models/{copy.name}/reload")
        assert refused.status_code == 422
        assert "the old one stays in use" in refused.json()["error"]["message"]
        (copy / name).unlink()
        (copy / name).write_bytes(whole)
        assert client.post(f"/v1/models/{copy.name}/reload").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_a_stuck_load_holds_neither_the_next_one_nor_the_end(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reloads wait for a file system that does not respond, until a deadline."""
    responds = threading.Event()
    load = registry.load

    def stuck(path: Path) -> Any:
        responds.wait(60)
        return load(path)

    right = {"Authorization": f"Bearer {TOKEN}"}
    with (
        served({"words": model, "others": model}, Limits(load=0.5), token=TOKEN) as url,
        httpx.Client(base_url=url, headers=right, timeout=20) as client,
    ):
        monkeypatch.setattr(registry, "load", stuck)
        late = client.post("/v1/models/words/reload")
        assert late.status_code == 503
        assert "0.5 s, and the old one stays in use" in late.json()["error"]["message"]
        monkeypatch.setattr(registry, "load", load)
        assert client.post("/v1/models/words/reload").status_code == 200
        monkeypatch.setattr(registry, "load", stuck)
        for _ in range(registry._MAX_STUCK_LOADS - 1):
            assert client.post("/v1/models/others/reload").status_code == 503
        refused = client.post("/v1/models/words/reload")
        assert "restart the service" in refused.json()["error"]["message"]
        responds.set()
        until(lambda: client.post("/v1/models/words/reload").status_code == 200)


def test_a_stuck_load_does_not_delay_the_end(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    responds = threading.Event()
    right = {"Authorization": f"Bearer {TOKEN}"}
    with ThreadPoolExecutor(1) as pool:
        with served({"words": model}, token=TOKEN) as url:
            monkeypatch.setattr(registry, "load", lambda _: responds.wait(60))
            reload = f"{url}/v1/models/words/reload"
            asked = pool.submit(httpx.post, reload, headers=right, timeout=60)
            until(lambda: any(thread.name == "load" for thread in threading.enumerate()))
            start = time.perf_counter()
        assert time.perf_counter() - start < 8  # about a second on a quiet machine
        assert asked.result().status_code == 503
        responds.set()


FLOODS = {
    "maps": b"/v1/map?limit=200000",
    "searches": b"/v1/labels?query=a&limit=1000",
    "neighbours": b"/v1/labels/%s/neighbors?k=1000",
    "models": b"/v1/models",
}


@pytest.mark.parametrize("path", FLOODS.values(), ids=FLOODS)
def test_predictions_are_fast_during_a_flood(model: Path, documents: Dataset, path: bytes) -> None:
    """Eight clients send a hundred requests at once, again and again."""
    if b"%s" in path:
        path = path % documents.label_ids[0].encode()
    request = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    stop = threading.Event()
    statuses: list[bytes] = []

    def flood(address: tuple[str, int]) -> None:
        while not stop.is_set():
            with socket.create_connection(address, timeout=60) as opened:
                opened.sendall(request * 99 + request.replace(b"\r\n", LAST_OF_MANY, 1))
                statuses.extend(re.findall(rb"HTTP/1.1 (\d+) ", received(opened)))

    with started(model) as (url, _), httpx.Client(base_url=url, timeout=60) as client:
        host, port = url.removeprefix("http://").split(":")
        floods = [threading.Thread(target=flood, args=((host, int(port)),)) for _ in range(8)]
        for thread in floods:
            thread.start()
        try:
            until(lambda: len(statuses) > 800)
            seconds = []
            for _ in range(20):
                start = time.perf_counter()
                answer = client.post("/v1/predict", json={"texts": ["dakel"]})
                seconds.append(time.perf_counter() - start)
                assert answer.status_code == 200
        finally:
            stop.set()
            for thread in floods:
                thread.join()
    assert set(statuses) <= {b"200", b"429"}
    assert b"200" in statuses
    assert sorted(seconds)[10] < 0.5  # a few hundredths on a quiet machine


def unread(url: str, request: bytes) -> socket.socket:
    """Send requests with large answers at once, and read none of them."""
    host, port = url.removeprefix("http://").split(":")
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.connect((host, int(port)))
    opened.settimeout(60)
    opened.sendall(request)
    return opened


@pytest.fixture(scope="module")
def much(documents: Dataset) -> dict[str, Any]:
    """A request for an answer of half a megabyte."""
    words = (documents.texts or [])[0].split()[:3]
    return {"texts": [" ".join(words)] * 250, "top_k": 20}


def as_http(request: dict[str, Any]) -> bytes:
    body = json.dumps(request).encode()
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


def n_answered(url: str) -> float:
    metrics = httpx.get(f"{url}/metrics").text
    pattern = r'^rembrandt_requests_total{.*route="/v1/predict",status="200"} (\S+)'
    counts = re.findall(pattern, metrics, re.M)
    return sum(map(float, counts))


def received(opened: socket.socket) -> bytes:
    """Return all bytes until the other side closes the connection."""
    chunks = []
    try:
        while chunk := opened.recv(1 << 16):
            chunks.append(chunk)
    except ConnectionError:
        pass
    return b"".join(chunks)


def test_a_client_that_does_not_read_is_sent_no_more(
    model: Path, much: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next requests are not computed, and its connection is closed."""
    monkeypatch.setattr(connection, "DRAIN_SECONDS", 2.0)
    with served({"words": model}) as url:
        with unread(url, as_http(much) * 60) as opened:
            until(lambda: n_answered(url) > 0)
            time.sleep(1.0)
            before = n_answered(url)
            assert before < 60
            time.sleep(4.0)
            assert n_answered(url) == before
            assert received(opened).count(b"HTTP/1.1 200 OK") < 60
        start = time.perf_counter()
    assert time.perf_counter() - start < 8


def test_what_a_client_asked_for_that_has_left_is_not_computed(
    model: Path, much: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it has sent several requests at once, after the first of which nothing is read."""
    rows = []

    def work(jobs: Sequence[PredictJob]) -> list[Any]:
        rows.append(sum(job.n_rows for job in jobs))
        if len(rows) == 2:
            opened.close()
        return predict(jobs)

    monkeypatch.setattr("rembrandt.serve.app.predict", work)
    with served({"words": model}) as url:
        opened = unread(url, as_http(much) * 99)  # more than is read at once
        until(lambda: len(rows) > 1)
        answer = httpx.post(f"{url}/v1/predict", json=much, timeout=60)
        assert answer.status_code == 200
        assert len(rows) <= 2 + 5  # each request has five parts


def test_closed_connections_are_freed_without_a_garbage_collection(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection of the cycles of many connections would stop all threads meanwhile."""
    opened: list[weakref.ref[connection.Connection]] = []
    made = connection.Connection.connection_made

    def recorded(self: connection.Connection, transport: Any) -> None:
        opened.append(weakref.ref(self))
        made(self, transport)

    def request(document: Any) -> bytes:
        body = json.dumps(document).encode()
        return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body

    monkeypatch.setattr(connection.Connection, "connection_made", recorded)
    requests = {
        "good": request({"texts": ["a b"]}),
        "many at once": request({"texts": ["a b"]}) * 20,
        "unknown label": request({"texts": ["a"], "include": ["no such label"]}),
        "half": POST + b"Content-Length: 10\r\n\r\n{",
        "not HTTP": b"\0\r\n\r\n",
        "nothing": b"",
    }
    with served({"words": model}) as url:
        host, port = url.removeprefix("http://").split(":")
        gc.collect()
        gc.disable()
        try:
            for sent in requests.values():
                with socket.create_connection((host, int(port)), timeout=60) as client:
                    client.sendall(sent)
                    if sent.endswith(b"}"):
                        assert client.recv(1 << 16)
            until(lambda: len(opened) == len(requests))
            until(lambda: all(ref() is None for ref in opened))
        finally:
            gc.enable()


def test_a_client_that_reads_slowly_gets_all_answers(
    model: Path, much: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DRAIN_SECONDS", 1.0)
    monkeypatch.setattr(connection, "MIN_DRAINED_BYTES", 1000)
    requests = as_http(much) * 9 + as_http(much).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    chunks = []
    with served({"words": model}) as url, unread(url, requests) as opened:
        while chunk := opened.recv(1 << 18):
            chunks.append(chunk)
            time.sleep(0.002)
    assert b"".join(chunks).count(b"HTTP/1.1 200 OK") == 10


def test_unsent_answers_are_bounded_in_total(model: Path, much: dict[str, Any]) -> None:
    """The connections of those who do not read are closed, and who reads is answered."""
    with served({"words": model}, Limits(unsent=1 << 20)) as url:
        idle = [unread(url, as_http(much) * 60) for _ in range(8)]
        until(lambda: n_answered(url) >= 8)
        for _ in range(20):
            answer = httpx.post(f"{url}/v1/predict", json=much, timeout=60)
            assert len(answer.json()["predictions"]) == 250
        n_closed = sum(is_closed(opened) for opened in idle)
        assert n_closed >= 4
        for opened in idle:
            opened.close()


def is_closed(opened: socket.socket) -> bool:
    """Return whether the other side has dropped a connection, after what it had sent is read."""
    opened.settimeout(1.0)
    try:
        received(opened)
    except TimeoutError:
        return False
    return True


class Client:
    """A client that has read some of its answer."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self.is_aborted = False

    def unsent_bytes(self) -> int:
        return self.n_bytes

    def abort(self) -> None:
        self.is_aborted = True


def test_the_slowest_client_is_dropped_first() -> None:
    unsent = Unsent(100)
    clients = [Client(40), Client(40)]
    for client in clients:
        unsent.add(client)
    clients[0].n_bytes = 30  # it reads
    clients.append(Client(40))
    unsent.add(clients[2])
    assert [client.is_aborted for client in clients] == [False, True, False]
    unsent.remove(clients[0])
    clients.append(Client(90))
    unsent.add(clients[3])
    assert [client.is_aborted for client in clients] == [False, True, True, False]


def test_a_very_large_answer_is_refused(model: Path, much: dict[str, Any]) -> None:
    with served({"words": model}, Limits(answer=3000)) as url:
        refused = httpx.post(f"{url}/v1/predict", json=much)
        assert refused.status_code == 413
        assert "the limit is 3,000" in refused.json()["error"]["message"]
        assert httpx.post(f"{url}/v1/predict", json={"texts": ["dakel"]}).status_code == 200
