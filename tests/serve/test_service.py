"""The service under load, while a model is replaced, and at shutdown."""

import asyncio
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import numpy as np
import pytest

from rembrandt import load as load_model
from rembrandt.explore.neighbors import unit_vectors
from rembrandt.linalg.threads import cpu_count, for_each, n_threads
from rembrandt.serve import registry, running
from rembrandt.serve.batching import Batcher
from rembrandt.serve.errors import RequestError
from rembrandt.serve.labels import Labels
from rembrandt.serve.limits import Limits
from rembrandt.serve.metrics import Metrics
from rembrandt.serve.predictions import PredictJob, predict
from rembrandt.serve.registry import Registry
from rembrandt.serve.schemas import PredictRequest
from tests.serve.conftest import TOKEN, fit, served, started, texts_of, until


@dataclass(frozen=True)
class Job:
    value: int
    n_rows: int = 1
    is_slow: bool = False
    client: Any = None

    def is_wanted(self) -> bool:
        return self.client is None or not self.client.has_left()


def test_jobs_that_wait_become_one_batch() -> None:
    """The first job is computed alone; jobs that arrive in the meantime are batched in order, up to
    the limit.
    """
    batches: list[list[int]] = []
    submitted = threading.Event()

    def work(jobs: Sequence[Job]) -> list[Any]:
        batches.append([job.value for job in jobs])
        submitted.wait(30)
        return [ValueError(str(job.value)) if job.value == 3 else 10 * job.value for job in jobs]

    async def main() -> list[Any]:
        batcher = Batcher(work, Limits(batch=4), Metrics())
        first = asyncio.create_task(batcher.submit(Job(0)))
        while not batches:
            await asyncio.sleep(0.001)
        others = [
            asyncio.create_task(batcher.submit(Job(i, n_rows=9 if i == 6 else 1)))
            for i in range(1, 8)
        ]
        await asyncio.sleep(0)  # all of them are in the queue
        submitted.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        await batcher.close()
        with pytest.raises(RequestError, match="shutting down"):
            await batcher.submit(Job(9))
        return results

    results = asyncio.run(main())
    assert batches == [[0], [1, 2, 3, 4], [5], [6], [7]]  # 6 is larger than a batch
    assert isinstance(results.pop(3), ValueError) and results == [
        [0],
        [10],
        [20],
        [40],
        [50],
        [60],
        [70],
    ]


def test_others_are_computed_between_the_jobs_of_one_request() -> None:
    batches: list[list[int]] = []

    def work(jobs: Sequence[Job]) -> list[int]:
        batches.append([job.value for job in jobs])
        return batches[-1]

    async def main() -> list[Any]:
        batcher = Batcher(work, Limits(batch=2), Metrics())
        large = batcher.submit(*(Job(i, n_rows=2) for i in range(50)))
        results = await asyncio.gather(large, batcher.submit(Job(50)), batcher.submit(Job(51)))
        await batcher.close()
        return results

    assert asyncio.run(main()) == [list(range(50)), [50], [51]]
    assert batches[:3] == [[0], [50, 51], [1]] and len(batches) == 51


def test_quick_jobs_wait_for_one_slow_job_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow jobs are computed one by one, in a quarter of the time while quick ones wait."""
    batches: list[list[int]] = []
    arrivals = iter(range(100, 200))
    arrived = threading.Semaphore(0)
    now = 0
    monkeypatch.setattr("rembrandt.serve.batching.monotonic", lambda: now)

    async def main() -> None:
        batcher = Batcher(work, Limits(batch=4), Metrics())
        waiting = [asyncio.ensure_future(batcher.submit(Job(i, 20, True))) for i in range(5)]
        waiting += [asyncio.ensure_future(batcher.submit(Job(i))) for i in range(10, 16)]

        async def steady() -> None:
            """A quick job arrives during every batch."""
            while len(batches) < 40:
                before = len(batches)
                waiting.append(asyncio.ensure_future(batcher.submit(Job(next(arrivals)))))
                await asyncio.sleep(0)  # it is in the queue
                arrived.release()
                while len(batches) == before:
                    await asyncio.sleep(0.001)

        await steady()
        arrived.release(100)
        await asyncio.gather(*waiting)
        await batcher.close()

    def work(jobs: Sequence[Job]) -> list[int]:
        nonlocal now
        now += 2 if jobs[0].is_slow else 1
        assert arrived.acquire(timeout=60)
        batches.append([job.value for job in jobs])
        return batches[-1]

    asyncio.run(main())
    slow = [position for position, batch in enumerate(batches) if batch[0] < 10]
    assert [batches[position] for position in slow] == [[0], [1], [2], [3], [4]]
    assert np.diff(slow).tolist() == [7, 7, 7, 7]
    quick = [value for batch in batches for value in batch if value >= 10]
    assert quick == sorted(quick)


def test_jobs_of_clients_that_have_left_are_not_computed() -> None:
    """The client leaves while the second of the jobs of its request waits."""
    computed = []
    client = SimpleNamespace(has_left=lambda: 1 in computed)

    def work(jobs: Sequence[Job]) -> list[int]:
        computed.extend(job.value for job in jobs)
        return [job.value for job in jobs]

    async def main() -> list[Any]:
        batcher = Batcher(work, Limits(batch=2), Metrics())
        large = batcher.submit(*(Job(i, 2, True, client) for i in range(1, 9)))
        results = await asyncio.gather(large, batcher.submit(Job(20)), return_exceptions=True)
        await batcher.close()
        return results

    left, others = asyncio.run(main())
    assert isinstance(left, RequestError)
    assert "the connection was closed" in left.message
    assert others == [20]
    assert computed == [1, 20]


def test_what_makes_a_job_slow() -> None:
    def job(n_texts: int, k: int, explain: bool = False) -> PredictJob:
        request = PredictRequest(texts=["a"] * n_texts, top_k=k, explain=explain)
        return PredictJob(cast(Any, None), request)

    assert not job(1, 5).is_slow
    assert not job(1, 100).is_slow
    assert job(1, 5, explain=True).is_slow
    assert job(1, 1000).is_slow
    large = job(200, 100).parts(64)
    assert all(part.is_slow for part in large)
    assert max(part.n_rows * 100 for part in large) <= 1000
    assert sum(part.n_rows for part in large) == 200


def test_a_full_queue_and_a_timeout_are_errors() -> None:
    started, free = threading.Event(), threading.Event()

    def work(jobs: Sequence[Job]) -> list[int]:
        started.set()
        free.wait(30)
        return [job.value for job in jobs]

    async def main() -> None:
        batcher = Batcher(work, Limits(queue=3, timeout=0.3), Metrics())
        under_way = [asyncio.create_task(batcher.submit(Job(0)))]
        while not started.is_set():
            await asyncio.sleep(0.001)
        under_way += [asyncio.create_task(batcher.submit(Job(i))) for i in range(1, 4)]
        await asyncio.sleep(0)
        with pytest.raises(RequestError) as full:
            await batcher.submit(Job(9))
        assert full.value.status == 429 and int(full.value.headers["Retry-After"]) >= 1
        for late in await asyncio.gather(*under_way, return_exceptions=True):
            assert isinstance(late, RequestError) and late.status == 503
        free.set()
        await batcher.close()

    asyncio.run(main())


def test_a_full_queue_over_http(model: Path) -> None:
    body = {"texts": ["a"] * 50}
    with (
        served({"words": model}, Limits(batch=50, queue=50)) as url,
        httpx.Client(base_url=url, timeout=30) as client,
        ThreadPoolExecutor(24) as pool,
    ):
        answers = list(pool.map(lambda _: client.post("/v1/predict", json=body), range(96)))
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 429}
    assert all(
        int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status_code == 429
    )


def test_metrics_count_requests(model: Path) -> None:
    with served({"words": model}) as url, httpx.Client(base_url=url) as client:
        for _ in range(3):
            client.post("/v1/predict", json={"texts": ["a", "b"]})
        client.request("PROPFIND", "/v1/predict")
        client.get("/an/invented/path")
        version = client.get("/v1/models").json()["models"][0]["version"]
        said = client.get("/metrics").text
    for line in (
        'rembrandt_requests_total{method="POST",route="/v1/predict",status="200"} 3.0',
        'rembrandt_requests_total{method="other",route="/v1/predict",status="405"} 1.0',
        'rembrandt_requests_total{method="GET",route="none",status="404"} 1.0',
        'rembrandt_request_seconds_count{route="/v1/predict"}',
        "rembrandt_batch_texts_sum 6.0",
        "rembrandt_queue_texts 0.0",
        f'rembrandt_model_info{{model="words",version="{version}"}} 1.0',
    ):
        assert line in said
    assert "invented" not in said and "PROPFIND" not in said


def test_a_replaced_model_is_freed_without_a_garbage_collection(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collections leave out what exists when the service starts, so the first model may not be part
    of a cycle.
    """
    registry = Registry({"words": model}, Metrics())
    monkeypatch.setattr(running.Server, "run", lambda *_: None)
    monkeypatch.setattr(running.signal, "signal", lambda *_: None)
    before = gc.get_freeze_count()
    running.run(cast(Any, SimpleNamespace(limits=Limits())), cast(Any, None))
    gc.disable()
    try:
        assert gc.get_freeze_count() > before
        request = PredictRequest(texts=["a b"], explain=True)
        assert predict([PredictJob(registry.get(None), request)]) and registry.get(
            None
        ).labels.neighbors(0, 5, 1)
        old = weakref.ref(registry.get(None))
        asyncio.run(registry.reload("words"))
        assert old() is None
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_new_version_is_loaded_beside_the_threads_of_predictions(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one thread, so that predictions find their pool free; of the priority of the others, so
    that it does not hold the lock of the interpreter while it waits for a core.
    """
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
    used: list[tuple[str, int]] = []

    def note(_: int) -> None:
        priority = 0
        if sys.platform == "linux":
            priority = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        used.append((threading.current_thread().name, priority))

    def noted_load(path: Path) -> Any:
        for_each(note, [(0,), (1,)])
        return load_model(path)

    models = Registry({"words": model}, Metrics())
    monkeypatch.setattr(registry, "load", noted_load)
    asyncio.run(models.reload("words"))
    priority = 0
    if sys.platform == "linux":
        priority = os.getpriority(os.PRIO_PROCESS, 0)
    assert used == [("load", priority)] * 2


@pytest.mark.parametrize("asked", [None, "3"])
def test_half_of_the_cores_compute(monkeypatch: pytest.MonkeyPatch, asked: str | None) -> None:
    monkeypatch.delenv("REMBRANDT_NUM_THREADS", raising=False)
    expected = max(1, cpu_count() // 2)
    if asked is not None:
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", asked)
        expected = int(asked)
    counts: list[int] = []
    monkeypatch.setattr(running.Server, "run", lambda *_: counts.append(n_threads()))
    monkeypatch.setattr(running.signal, "signal", lambda *_: None)
    try:
        running.run(cast(Any, SimpleNamespace(limits=Limits())), cast(Any, None))
    finally:
        gc.unfreeze()
    assert counts == [expected]


def test_a_running_service_holds_the_current_version_alone(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions: list[weakref.ref[registry.ServedModel]] = []

    class Recorded(registry.ServedModel):
        def __init__(self, name: str, path: Path) -> None:
            super().__init__(name, path)
            versions.append(weakref.ref(self))

    monkeypatch.setattr(registry, "ServedModel", Recorded)
    right = {"Authorization": f"Bearer {TOKEN}"}
    with (
        served({"words": model}, token=TOKEN) as url,
        httpx.Client(base_url=url, headers=right, timeout=60) as client,
    ):
        for n_replaced in (1, 2):
            for path in ("/v1/labels?query=a", "/v1/map", "/v1/models/words"):
                client.get(path).raise_for_status()
            client.post("/v1/predict", json={"texts": ["a b"]}).raise_for_status()
            client.post("/v1/models/words/reload").raise_for_status()
            until(lambda n=n_replaced: all(old() is None for old in versions[:n]))
            assert versions[n_replaced]() is not None


def test_a_model_is_replaced_without_a_failed_request(tmp_path: Path) -> None:
    data = texts_of()
    path = fit(data, tmp_path / "swapped")
    text = (data.texts or [])[0]
    right = {"Authorization": f"Bearer {TOKEN}"}
    with (
        served({"swapped": path}, token=TOKEN) as url,
        httpx.Client(base_url=url, headers=right, timeout=60) as client,
    ):
        stop, answers = threading.Event(), []

        def load() -> None:
            with httpx.Client(base_url=url, headers=right, timeout=60) as session:
                while not stop.is_set():
                    answer = session.post("/v1/predict", json={"texts": [text], "top_k": 1})
                    answers.append((answer.status_code, answer.json().get("version")))

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        old = client.get("/v1/models").json()["models"][0]["version"]
        until(lambda: bool(answers))
        fit(data, path, n_components=6)
        reloaded = client.post("/v1/models/swapped/reload").json()
        until(lambda: answers[-1][1] == reloaded["version"])
        stop.set()
        for thread in threads:
            thread.join()
        assert reloaded["rank"] == 6 and reloaded["version"] != old
        assert {status for status, _ in answers} == {200}
        assert {version for _, version in answers} == {old, reloaded["version"]}

        (path / "weights.safetensors").write_bytes(b"damaged")
        refused = client.post("/v1/models/swapped/reload")
        assert refused.status_code == 422 and "old one stays" in refused.json()["error"]["message"]
        assert (
            client.post("/v1/predict", json={"texts": [text]}).json()["version"]
            == reloaded["version"]
        )
        assert client.post("/v1/models/nobody/reload").status_code == 404


def test_label_vectors_are_computed_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []

    def slow(classifier: Any) -> Any:
        begun.append(classifier)
        time.sleep(0.1)
        return unit_vectors(classifier)

    monkeypatch.setattr("rembrandt.serve.labels.unit_vectors", slow)
    labels = Labels(load_model(model))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: labels.neighbors(0, 3, 0), range(8)))
    assert (
        len(begun) == 1 and len(answers[0]) == 3 and all(answer == answers[0] for answer in answers)
    )


def accepted(metrics: str) -> float:
    """Texts that were computed or wait."""
    return sum(
        float(number)
        for number in re.findall(r"^rembrandt_(?:batch_texts_sum|queue_texts) (\S+)", metrics, re.M)
    )


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to send")
def test_accepted_requests_are_answered_at_shutdown(model: Path) -> None:
    """SIGTERM arrives while requests wait, and all of them are answered."""
    body = {"texts": ["dakel " * 2000] * 20, "top_k": 20}
    with (
        started(model, "--max-batch", 20) as (url, process),
        httpx.Client(base_url=url, timeout=60) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        asked = [pool.submit(client.post, "/v1/predict", json=body) for _ in range(8)]
        until(lambda: accepted(client.get("/metrics").text) >= 8 * 20)
        process.send_signal(signal.SIGTERM)
        assert [response.result().status_code for response in asked] == [200] * 8
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0 and "Finished." in out and "Traceback" not in err


def test_a_missing_extra_is_one_message(model: Path) -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        f"from rembrandt.__main__ import main; main(['serve', {str(model)!r}])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        ran.returncode == 1
        and "pip install 'rembrandt[serve]'" in ran.stderr
        and "Traceback" not in ran.stderr
    )


def test_one_limit_for_all_routes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that are no predictions take an eighth of the places, and predictions the others."""
    begun: list[str] = []
    free = threading.Event()

    def slow(labels: Labels, query: str, limit: int) -> list[int]:
        begun.append(query)
        free.wait(30)
        return []

    prediction = {"texts": ["a"]}
    with (
        served({"words": model}, Limits(requests=16)) as url,
        httpx.Client(base_url=url, timeout=60) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        monkeypatch.setattr(Labels, "search", slow)
        held = [pool.submit(client.get, "/v1/labels") for _ in range(2)]
        until(lambda: len(begun) == 2)
        for path in ("/v1/labels", "/v1/map", "/v1/labels/x/neighbors", "/v1/models", "/"):
            refused = client.get(path)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert "2 other requests" in refused.json()["error"]["message"]
        for path in ("/healthz", "/metrics"):
            assert client.get(path).status_code == 200
        assert client.post("/v1/predict", json=prediction).status_code == 200
        free.set()
        assert [answer.result().status_code for answer in held] == [200, 200]
        assert client.get("/v1/map").status_code == 200


def test_predictions_have_a_limit_too(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()
    free = threading.Event()

    def work(jobs: Sequence[PredictJob]) -> list[Any]:
        started.set()
        free.wait(30)
        return [[[]] for _ in jobs]

    monkeypatch.setattr("rembrandt.serve.app.predict", work)
    prediction = {"texts": ["a"]}
    with (
        served({"words": model}, Limits(requests=1)) as url,
        httpx.Client(base_url=url, timeout=60) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        held = pool.submit(client.post, "/v1/predict", json=prediction)
        assert started.wait(30)
        refused = client.post("/v1/predict", json=prediction)
        assert refused.status_code == 429
        assert "busy with 1 request;" in refused.json()["error"]["message"]
        free.set()
        assert held.result().status_code == 200
        assert client.post("/v1/predict", json=prediction).status_code == 200
