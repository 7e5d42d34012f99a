"""The service under load from another process on the same machine.

python -m benchmarks.serve_load MODEL [--memory-requests 100000]

MODEL is a model fitted to texts, such as `rembrandt demo` writes. The requests contain PubMed articles if that data is
available, and generated texts otherwise. Measured are the rate and the latencies with 1, 8 and 64 clients, the gain
from batching with 64 clients, failures while the model is reloaded, and the memory of the service over many requests.
The duration of every part is limited.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.data import catalogue, pubmed
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import DataError
from rembrandt.progress import Report, bars

TOKEN = "for-the-benchmark-alone"
CLIENTS = (1, 8, 64)
SECONDS = 15.0  # of one measurement


@contextmanager
def service(model: Path, *options: str) -> Iterator[tuple[str, int, int]]:
    """Run ``rembrandt serve`` in a process; yield host, port and process id."""
    command = [sys.executable, "-m", "rembrandt", "serve", str(model), "--port", "0", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "REMBRANDT_TOKEN": TOKEN}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
        assert found
        yield found[1], int(found[2]), process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


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
    host: str, port: int, requests: list[bytes], clients: int, total: int, seconds: float, report: Report, stage: str
) -> dict[str, Any]:
    """Send requests from ``clients`` connections, one at a time on each, until ``total`` are sent or time is up."""
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
            if begun % 64 == 0:
                report(stage, begun, total)
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    spent = time.perf_counter() - start
    p50, p99 = np.percentile(latencies, [50, 99])
    answered = len(latencies)
    return {
        "clients": clients,
        "requests": answered,
        "per_second": answered / spent,
        "p50_ms": 1e3 * p50,
        "p99_ms": 1e3 * p99,
        "failed": answered - statuses.get(200, 0),
    }


def memory(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1000


def line(name: str, found: dict[str, Any]) -> None:
    """Print one measurement."""
    print(
        f"{name:<26}{found['per_second']:>8.0f} /s   p50 {found['p50_ms']:>7.1f} ms   p99 {found['p99_ms']:>7.1f} ms   "
        f"{found['requests']:>7,} requests, {found['failed']} failed",
        flush=True,
    )


def measure_rates(model: Path, requests: list[bytes], report: Report) -> dict[str, Any]:
    """Measure rates and latencies, with and without batching."""
    results: dict[str, Any] = {}
    for name, options, counts in (("batched", (), CLIENTS), ("one by one", ("--max-batch", "1"), CLIENTS[-1:])):
        with service(model, *options) as (host, port, _):
            asyncio.run(load(host, port, requests, 8, 100, SECONDS, report, "warming up"))
            for clients in counts:
                stage = f"{name}, {clients} clients"
                found = asyncio.run(load(host, port, requests, clients, 10_000, SECONDS, report, stage))
                results[stage] = found
                line(stage, found)
    most = CLIENTS[-1]
    results["gain"] = (
        results[f"batched, {most} clients"]["per_second"] / results[f"one by one, {most} clients"]["per_second"]
    )
    print(f"batching with {most} clients: {results['gain']:.1f} times the rate", flush=True)
    return results


async def swap(host: str, port: int, model: Path, requests: list[bytes], report: Report) -> dict[str, Any]:
    """Send requests while the model is reloaded three times."""
    under_load = asyncio.create_task(load(host, port, requests, 16, 10_000, SECONDS, report, "reloading"))
    reader, writer = await asyncio.open_connection(host, port)
    path = f"/v1/models/{model.resolve().name}/reload"
    await asyncio.sleep(1)
    swapped = [await exchange(reader, writer, request(path)) for _ in range(3)]
    writer.close()
    return {**await under_load, "swaps": swapped.count(200)}


def measure_memory(model: Path, requests: list[bytes], total: int, report: Report) -> dict[str, Any]:
    """Count failures while the model is reloaded, then measure the memory after each tenth of ``total`` requests."""
    with service(model) as (host, port, pid):
        swapped = asyncio.run(swap(host, port, model, requests, report))
        line(f"{swapped['swaps']} reloads", swapped)
        readings, answered, failed = [memory(pid)], 0, 0
        for tenth in range(10):
            stage = f"memory, part {tenth + 1} of 10"
            found = asyncio.run(load(host, port, requests, 64, total // 10, 120, report, stage))
            answered, failed = answered + found["requests"], failed + found["failed"]
            readings.append(memory(pid))
    print(
        f"memory over {answered:,} requests, {failed} failed: {', '.join(f'{r:.0f}' for r in readings)} MB", flush=True
    )
    return {"swap": swapped, "memory_mb": readings, "memory_requests": answered, "memory_failed": failed}


def texts(report: Report) -> list[str]:
    """Return PubMed articles, or generated texts without that data."""
    try:
        folder = pubmed.get(report)
        found = catalogue.load("pubmed-mesh", "test", folder.parent, report).texts
    except (DataError, OSError):
        found = labelled_documents(2000)[1].texts
    return (found or [])[:2000]


def main(model: Path, memory_requests: int = 100_000) -> dict[str, Any]:
    """Run all measurements and print them."""
    with bars() as report:
        requests = [request("/v1/predict", {"texts": [text], "top_k": 5}) for text in texts(report)]
        print(f"{len(requests):,} texts, {np.mean([len(r) for r in requests]):.0f} bytes per request", flush=True)
        results = measure_rates(model, requests, report)
        return results | measure_memory(model, requests, memory_requests, report)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--memory-requests", type=int, default=100_000)
    given = parser.parse_args()
    print(json.dumps(main(given.model, given.memory_requests)))
