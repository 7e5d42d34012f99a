"""The service under load from another process on the same machine.

python -m benchmarks.serve_load MODEL [--seconds 15] [--memory-requests 100000]

MODEL is a model fitted to texts, such as `rembrandt demo` writes. The requests contain PubMed
articles if that data is available, and generated texts otherwise. Measured are the time from the
start to the first answer, the rate and the latencies with 1, 8 and 64 clients, next to a plain
FastAPI handler with the same model, the gain from batching with 64 clients, failures while the
model is reloaded, and the memory of the service over many requests. Every line is printed as soon
as it is measured, and every part ends after a fixed time. The processor time of a request depends
less on other processes than its latency.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from rembrandt import load as load_model
from rembrandt.data import catalogue, pubmed
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import DataError

TOKEN = "for-the-benchmark-alone"
CLIENTS = (1, 8, 64)


@contextmanager
def service(model: Path, *options: str, bare: bool = False) -> Iterator[tuple[str, int, int]]:
    """Run ``rembrandt serve``, or the plain handler, in a process; yield host, port and process
    id.
    """
    module = ["benchmarks.serve_load", "--bare"] if bare else ["rembrandt", "serve", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "REMBRANDT_TOKEN": TOKEN}
    command = [sys.executable, "-m", *module, str(model), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
        assert found
        yield found[1], int(found[2]), process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


def serve_bare(path: Path) -> None:
    """Serve a model by a handler as one would write it with FastAPI alone."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Asked(BaseModel):
        texts: list[str]
        top_k: int = 5

    app, classifier = FastAPI(), load_model(path)

    @app.post("/v1/predict")
    def predict(asked: Asked) -> Any:
        labels, probabilities = classifier.predict_topk(asked.texts, asked.top_k)
        rows = zip(labels.tolist(), probabilities.tolist(), strict=True)
        return [
            [{"label": name, "probability": p} for name, p in zip(*row, strict=True)]
            for row in rows
        ]

    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run([listening])


def request(path: str, body: Any = None) -> bytes:
    """Return the bytes of a POST request."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> int:
    """Send a request on an open connection, read the response and return its status."""
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    assert length is not None
    await reader.readexactly(int(length[1]))
    return int(head[9:12])


async def load(
    address: tuple[str, int, int], requests: list[bytes], clients: int, total: int, seconds: float
) -> dict[str, Any]:
    """Send requests from ``clients`` connections, one at a time on each, until ``total`` are sent
    or time is up.
    """
    host, port, pid = address
    latencies: list[float] = []
    statuses: dict[int, int] = {}
    begun = 0
    end = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal begun
        reader, writer = await asyncio.open_connection(host, port)
        while begun < total and time.perf_counter() < end:
            begun += 1
            start = time.perf_counter()
            status = await exchange(reader, writer, requests[begun % len(requests)])
            latencies.append(time.perf_counter() - start)
            statuses[status] = statuses.get(status, 0) + 1
        writer.close()

    start, used = time.perf_counter(), processor_seconds(pid)
    await asyncio.gather(*(client() for _ in range(clients)))
    spent, used = time.perf_counter() - start, processor_seconds(pid) - used
    p50, p99 = np.percentile(latencies, [50, 99])
    answered = len(latencies)
    return {
        "clients": clients,
        "requests": answered,
        "per_second": answered / spent,
        "p50_ms": 1e3 * p50,
        "p99_ms": 1e3 * p99,
        "processor_ms": 1e3 * used / answered,
        "failed": answered - statuses.get(200, 0),
    }


def run(coroutine: Any) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


def memory(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1000


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def line(name: str, found: dict[str, Any]) -> None:
    """Print one measurement."""
    print(
        f"{name:<24}{found['per_second']:>7.0f} /s   p50 {found['p50_ms']:>7.1f} ms   p99 "
        f"{found['p99_ms']:>7.1f} ms   "
        f"processor {found['processor_ms']:>6.2f} ms   {found['requests']:>7,} requests, "
        f"{found['failed']} failed",
        flush=True,
    )


def measure_rates(model: Path, requests: list[bytes], seconds: float) -> dict[str, Any]:
    """Measure rates and latencies, next to a plain handler and without batching."""
    results: dict[str, Any] = {}
    kinds: Any = (
        ("batched", (), False, CLIENTS),
        ("one by one", ("--max-batch", "1"), False, CLIENTS[-1:]),
        ("plain FastAPI", (), True, CLIENTS),
    )
    for name, options, bare, counts in kinds:
        start = time.perf_counter()
        with service(model, *options, bare=bare) as address:
            run(load(address, requests, 1, 1, seconds))
            results[f"{name}, first answer"] = time.perf_counter() - start
            print(
                f"{name}: first answer {results[f'{name}, first answer']:.1f} s after the start",
                flush=True,
            )
            run(load(address, requests, 8, 100, seconds))  # warm up
            for clients in counts:
                stage = f"{name}, {clients} clients"
                results[stage] = run(load(address, requests, clients, 1 << 30, seconds))
                line(stage, results[stage])
    most = CLIENTS[-1]
    results["gain"] = (
        results[f"batched, {most} clients"]["per_second"]
        / results[f"one by one, {most} clients"]["per_second"]
    )
    print(f"batching with {most} clients: {results['gain']:.1f} times the rate", flush=True)
    return results


async def swap(
    address: tuple[str, int, int], model: Path, requests: list[bytes], seconds: float
) -> dict[str, Any]:
    """Send requests while the model is reloaded three times."""
    under_load = asyncio.create_task(load(address, requests, 16, 1 << 30, seconds))
    reader, writer = await asyncio.open_connection(*address[:2])
    path = f"/v1/models/{model.resolve().name}/reload"
    await asyncio.sleep(1)
    swapped = [await exchange(reader, writer, request(path)) for _ in range(3)]
    writer.close()
    return {**await under_load, "swaps": swapped.count(200)}


def measure_memory(
    model: Path, requests: list[bytes], total: int, seconds: float
) -> dict[str, Any]:
    """Count failures while the model is reloaded, then measure the memory after each tenth of
    ``total`` requests.
    """
    with service(model) as address:
        swapped = run(swap(address, model, requests, seconds))
        line(f"{swapped['swaps']} reloads", swapped)
        readings, answered, failed = [memory(address[2])], 0, 0
        for _ in range(10):
            found = run(load(address, requests, 64, total // 10, 120))
            answered, failed = answered + found["requests"], failed + found["failed"]
            readings.append(memory(address[2]))
            print(
                f"memory after {answered:,} requests, {failed} failed: {readings[-1]:.0f} MB",
                flush=True,
            )
    print(f"memory growth: {readings[-1] - readings[1]:.0f} MB after the first tenth", flush=True)
    return {
        "swap": swapped,
        "memory_mb": readings,
        "memory_requests": answered,
        "memory_failed": failed,
    }


def texts() -> list[str]:
    """Return PubMed articles, or generated texts without that data."""
    try:
        if catalogue.folder_of(catalogue.DATA_SETS["pubmed-mesh"], None) is None:
            pubmed.get()
        found = catalogue.load("pubmed-mesh", "test").texts
    except (DataError, OSError):
        found = labelled_documents(2000)[1].texts
    return (found or [])[:2000]


def main(model: Path, seconds: float = 15.0, memory_requests: int = 100_000) -> dict[str, Any]:
    """Run all measurements and print them."""
    requests = [request("/v1/predict", {"texts": [text], "top_k": 5}) for text in texts()]
    print(
        f"{len(requests):,} texts, {np.mean([len(r) for r in requests]):.0f} bytes per request",
        flush=True,
    )
    results = measure_rates(model, requests, seconds)
    if memory_requests:
        results |= measure_memory(model, requests, memory_requests, seconds)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument(
        "--memory-requests", type=int, default=100_000, help="0 leaves the memory out"
    )
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.bare:
        serve_bare(given.model)
    else:
        print(json.dumps(main(given.model, given.seconds, given.memory_requests)))
