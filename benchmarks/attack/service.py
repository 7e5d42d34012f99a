"""Hostile clients of the service, next to good ones that must not notice them.

python -m benchmarks.attack service [--cases 100000] [--model MODEL] [--rate 250] [--clients 64]
[--hostile 8]
                                    [--swaps 5] [--rest 40]

``rembrandt serve`` runs in a process of its own with a token. Good clients send one text at a time;
their requests are within the limits, so each must be answered with status 200. Hostile clients
repeat what is listed in `ATTACKS`: the largest bodies, endless headers, half-sent requests and what
else is not a request; they must get a status below 500, or a closed connection. Meanwhile the model
is replaced by another version and reloaded a few times.

First, a tenth of the requests is sent as fast as they are answered, each client waiting for its
answer. This warms the service up and shows its rate under this attack. Then every client sends at
random (exponential) intervals, ``--rate`` requests per second in total, and latencies count from
the time at which a request was due, whether or not the client was still waiting for its last
answer. They include what the clients themselves are late: all share one thread, and their own
lateness is printed beside, with the processor time of both processes for a request, which depends
less on what else the machine does. At the end the requests of every kind are sent once more, one by
one, and take little memory.
"""

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from benchmarks.serve_load import processor_seconds
from rembrandt import RembrandtClassifier, load
from rembrandt.data.generated import labelled_documents
from rembrandt.serve.limits import Limits

TOKEN = "for-the-attack-alone"
SIZE = 8 << 20  # the largest body
ALLOWED = int(0.9 * Limits().values)  # values of a body that is parsed
PATIENCE = 60.0  # seconds after which a request counts as lost
# Of a connection, after which a client opens another one: the service closes it after five.
MAX_IDLE_SECONDS = 4.0
MOST_MEGABYTES, MOST_SECONDS = 100.0, 1.0  # of one hostile request on a quiet machine
HEAD = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
JSON = HEAD + b"Content-Type: application/json\r\n"


def filled(start: bytes, repeated: bytes, end: bytes) -> bytes:
    """Return a body of the largest size."""
    return start + repeated * ((SIZE - len(start) - len(end)) // len(repeated)) + end


def post(body: bytes, head: bytes = JSON) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def get(path: bytes) -> bytes:
    return HEAD.replace(b"POST /v1/predict", b"GET " + path) + b"\r\n"


FORM = HEAD.replace(b"/v1/predict", b"/v1/projects/model/suggest")
FORM += b"Content-Type: application/x-www-form-urlencoded\r\n"
ATTACKS: dict[str, bytes] = {
    "numbers for texts": post(filled(b'{"texts":[1', b",1", b"]}")),
    "empty texts": post(filled(b'{"texts":[""', b',""', b"]}")),
    "empty vectors": post(filled(b'{"vectors":[{}', b",{}", b"]}")),
    "a long vector": post(filled(b'{"vectors":[{"a":1', b',"a":1', b"}]}")),
    "nested lists": post(filled(b'{"texts":[[]', b"," + b"[" * 150 + b"]" * 150, b"]}")),
    "no vectors": post(
        b'{"vectors":[{' + b",".join(b'"%d":null' % i for i in range(ALLOWED)) + b"}]}"
    ),
    "unknown fields": post(b"{" + b",".join(b'"%d":1' % i for i in range(ALLOWED)) + b"}"),
    "a long name": post(filled(b'{"texts":["a"],"', b"x", b'":1}')),
    "a long number": post(filled(b'{"texts":["a"],"top_k":1', b"0", b"}")),
    "a long text": post(filled(b'{"texts":["', b"a ", b'"]}')),
    "a long form": post(filled(b"text=", b"%41", b""), FORM),
    "brackets": post(b"[" * SIZE),
    "bytes": post(bytes(range(256)) * 400),
    "no JSON": post(b"{"),
    "too many texts": post(json.dumps({"texts": ["a"] * 2000}).encode()),
    "many labels": post(
        json.dumps({"texts": ["the rate of cells in patients"], "top_k": 1000}).encode()
    ),
    "unknown label": post(json.dumps({"texts": ["a"], "include": ["x" * 100_000]}).encode()),
    "no token": post(b"{}", b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n"),
    "a large header": JSON + b"X: " + b"x" * (1 << 20) + b"\r\n\r\n",
    "many headers": JSON + b"X: 1\r\n" * 10_000 + b"\r\n",
    "a long path": b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a search for all": get(b"/v1/labels?query=a&limit=1000"),
    "a long search": get(b"/v1/labels?query=" + b"a" * 1000),
    "neighbours": get(b"/v1/labels/nothing/neighbors?k=1000"),
    "a map": get(b"/v1/map?limit=200000"),
    "a path outside": get(b"/page/..%2f..%2f..%2fapp.py"),
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "half a request": JSON + b'Content-Length: 100\r\n\r\n{"texts": [',
    "half a header": HEAD[:60],
    "two lengths": JSON + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "bad chunks": JSON + b"Transfer-Encoding: chunked\r\n\r\nsize\r\n{}",
    "an endless chunk": JSON + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n{}",
    "pipelined and bad": post(b'{"texts":["a"]}') * 20 + b"\0",
    "pipelined": post(b'{"texts":["a"]}') * 50,
    "a flood of searches": get(b"/v1/labels?query=a&limit=1000") * 30,
    "a flood of neighbours": get(b"/v1/labels/nothing/neighbors?k=1000") * 30,
    "a flood of maps": get(b"/v1/map?limit=200000") * 30,
    "a flood of models": get(b"/v1/models") * 30,
    "a flood of measures": get(b"/metrics") * 30,
    "a flood of pages": get(b"/") * 30,
    "a flood of suggestions": post(b"text=cells", FORM) * 30,
    "a flood of reloads": get(b"/v1/models/model/reload") * 30,
    "unread answers": post(json.dumps({"texts": ["the rate"] * 200, "top_k": 100}).encode()) * 10,
    "a slow request": post(b'{"texts":["a"]}'),
}
LEAVING = (
    "half a request",
    "half a header",
    "an endless chunk",
)  # the client closes the connection without waiting
UNREAD = ("unread answers",)  # the client waits, and does not read
SLOW = ("a slow request",)  # it arrives byte by byte
SLOWNESS = 1.0  # seconds that unread answers and slow requests take


@contextmanager
def service(model: Path, log: Any = None) -> Iterator[tuple[str, int, subprocess.Popen[str]]]:
    """Run ``rembrandt serve`` in a process; yield host, port and the process."""
    command = [
        sys.executable,
        "-m",
        "rembrandt",
        "serve",
        "--model",
        f"model={model}",
        "--port",
        "0",
        "--quiet",
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "REMBRANDT_TOKEN": TOKEN}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
        assert found
        yield found[1], int(found[2]), process
    finally:
        process.terminate()
        process.wait(timeout=60)


def megabytes(pid: int, what: str = "VmRSS") -> float:
    """Return the resident memory of a process, or with ``VmHWM`` the most that it was."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1000


async def answer(reader: asyncio.StreamReader) -> int:
    """Read a response and return its status; one that sends a client away must say when to come
    back.
    """
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status, length = int(head[9:12]), re.search(rb"\r\ncontent-length: (\d+)", head)
    await reader.readexactly(int(length[1]) if length else 0)
    assert status not in (429, 503) or b"\r\nretry-after:" in head
    return status


class Attack:
    """Clients and what they were answered."""

    def __init__(
        self, address: tuple[str, int], texts: list[str], total: int, options: Any, rate: float = 0
    ) -> None:
        self.host, self.port = address
        self.total, self.rng = total, random.Random(options.seed)
        self.rate, self.clients = rate, options.clients
        self.good = [post(json.dumps({"texts": [text], "top_k": 5}).encode()) for text in texts]
        self.begun, self.start, self.seconds = 0, time.perf_counter(), 0.0
        self.latencies: list[float] = []
        self.latencies_in_swaps: list[float] = []  # of the requests during which a model was loaded
        self.delays: list[float] = []  # seconds for which the clients left requests unsent
        self.processor_seconds: dict[str, float] = {}  # by process
        self.n_loads = 0  # in progress
        self.statuses: dict[str, Counter[str]] = {"good": Counter(), "hostile": Counter()}
        self.failures: list[str] = []

    async def due(self) -> AsyncIterator[tuple[int, float]]:
        """Yield the number of each request and the time at which it is due: at random intervals, or
        immediately.
        """
        when = time.perf_counter()
        while True:
            if self.rate:
                when += self.rng.expovariate(self.rate / self.clients)
                could_send = max(when, time.perf_counter())
                await asyncio.sleep(could_send - time.perf_counter())
                self.delays.append(time.perf_counter() - could_send)
            if self.begun >= self.total:
                return
            self.begun += 1
            yield self.begun, when if self.rate else time.perf_counter()

    async def good_client(self) -> None:
        """Send requests within the limits on one connection, which may be closed only while it is
        idle.
        """
        reader, writer = await asyncio.open_connection(self.host, self.port)
        last = time.perf_counter()
        async for number, start in self.due():
            is_in_swap = self.n_loads > 0
            try:
                is_idle = time.perf_counter() - last > MAX_IDLE_SECONDS
                if reader.at_eof() or is_idle:
                    writer.close()
                    reader, writer = await asyncio.open_connection(self.host, self.port)
                writer.write(self.good[number % len(self.good)])
                status = await asyncio.wait_for(answer(reader), PATIENCE)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                self.failures.append(f"a good request: {type(error).__name__}")
                return
            last = time.perf_counter()
            self.latencies.append(last - start)
            if is_in_swap or self.n_loads > 0:
                self.latencies_in_swaps.append(last - start)
            self.seconds = last - self.start
            self.statuses["good"][str(status)] += 1
            if status != 200:
                self.failures.append(f"a good request got status {status}")
        writer.close()

    async def hostile_client(self) -> None:
        async for _ in self.due():
            await self.attack(self.rng.choice(list(ATTACKS)))

    async def attack(self, name: str) -> str:
        """Send a hostile request on a connection of its own; return the status or what else became
        of it.
        """
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            await self.send(name, writer)
            if name in LEAVING or name in UNREAD:
                await asyncio.sleep(0.05 if name in LEAVING else SLOWNESS)
                outcome = "left"
            else:
                status = await asyncio.wait_for(answer(reader), PATIENCE)
                outcome = str(status)
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            outcome = "closed"  # by the service, while the request was being sent
        except TimeoutError:
            outcome = "no answer"
        self.statuses["hostile"][outcome] += 1
        if outcome == "no answer" or outcome.startswith("5"):
            self.failures.append(f"{name}: {outcome}")
        return outcome

    async def send(self, name: str, writer: asyncio.StreamWriter) -> None:
        """Send the bytes of a hostile request."""
        request = ATTACKS[name]
        if name not in SLOW:
            writer.write(request)
            return
        for at in range(len(request)):
            writer.write(request[at : at + 1])
            await asyncio.sleep(SLOWNESS / len(request))

    def line(self, what: str) -> str:
        """What clients were answered so far."""
        p50, p99 = 1e3 * np.percentile(self.latencies, [50, 99])
        kinds = "; ".join(f"{kind} {_listed(found)}" for kind, found in self.statuses.items())
        requests = sum(sum(found.values()) for found in self.statuses.values())
        due = (
            f"due at {self.rate:.0f} requests/s"
            if self.rate
            else "each client waiting for its answer"
        )
        rate = f"{due}, answered at {requests / self.seconds:.0f} requests/s"
        line = (
            f"{what}: {requests:,} requests: {kinds}; {rate}: good p50 {p50:.0f} ms, p99 {p99:.0f} "
            "ms"
        )
        if self.latencies_in_swaps:
            p99_in_swaps = 1e3 * np.percentile(self.latencies_in_swaps, 99)
            line += f" ({p99_in_swaps:.0f} ms while a model is loaded)"
        if self.delays:
            line += (
                f", of which clients were late p99 {1e3 * np.percentile(self.delays, 99):.0f} ms"
            )
        for process, seconds in self.processor_seconds.items():
            line += f"; processor of the {process} {1e3 * seconds / requests:.1f} ms a request"
        return line

    async def swaps(self, model: Path, others: list[Path], count: int) -> int:
        """Replace and reload the model at even intervals; return how often that succeeded."""
        done = 0
        for number in range(count):
            while self.begun < self.total * (number + 1) / (count + 1):
                await asyncio.sleep(0.05)
            await asyncio.to_thread(_replace, model, others[number % len(others)])
            self.n_loads += 1
            reader, writer = await asyncio.open_connection(self.host, self.port)
            writer.write(
                HEAD.replace(b"/v1/predict", b"/v1/models/model/reload")
                + b"Content-Length: 0\r\n\r\n"
            )
            status = await asyncio.wait_for(answer(reader), PATIENCE)
            writer.close()
            self.n_loads -= 1
            done += status == 200
            if status != 200:
                self.failures.append(f"a reload got status {status}")
        return done


def _replace(model: Path, other: Path) -> None:
    """Put a copy of another model in the place of a model, file by file and in place, as nobody
    should.
    """
    for file in other.iterdir():
        shutil.copyfile(file, model / file.name)


def prepare(root: Path, model: Path | None) -> tuple[Path, list[Path], list[str]]:
    """Return a folder to serve, the models to replace it by, and texts."""
    train, test = labelled_documents(600, n_topics=4, labels_per_topic=5)
    texts = test.texts or []
    if model is None:
        for seed in (0, 1):
            RembrandtClassifier("fast", random_state=seed).fit_dataset(train).save(
                root / f"model{seed}"
            )
        others = [root / "model1", root / "model0"]
    else:
        from benchmarks.serve_load import texts as articles

        load(model).save(root / "model1", extra={"version": "another"})
        others, texts = [root / "model1", model], articles()
    shutil.copytree(others[-1], root / "served")
    return root / "served", others, texts


async def under_attack(
    attack: Attack, pid: int, model: Path, others: list[Path], options: Any, swaps: int
) -> int:
    """Run all clients, and replace the model meanwhile; return how often that succeeded."""
    processes = {"service": pid, "clients": os.getpid()}
    before = {name: processor_seconds(of) for name, of in processes.items()}
    clients = [attack.good_client() for _ in range(options.clients - options.hostile)]
    clients += [attack.hostile_client() for _ in range(options.hostile)]
    swapping = asyncio.create_task(attack.swaps(model, others, swaps))
    await asyncio.gather(*clients)
    attack.begun = attack.total
    n_swaps = await swapping
    for name, of in processes.items():
        attack.processor_seconds[name] = processor_seconds(of) - before[name]
    return n_swaps


async def one_by_one(attack: Attack, pid: int) -> tuple[float, float]:
    """Send every hostile request alone; print its time and memory, and return the most of both."""
    slowest = most = 0.0
    for name in ATTACKS:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM starts again
        before, start = megabytes(pid), time.perf_counter()
        outcome = await attack.attack(name)
        seconds, more = time.perf_counter() - start, megabytes(pid, "VmHWM") - before
        print(f"{name:<20}{outcome:>10}{seconds:>8.2f} s{more:>+8.0f} MB", flush=True)
        slowest, most = max(slowest, seconds), max(most, more)
    return slowest, most


def run(options: Any) -> tuple[str, list[str]]:
    """Attack a service; return the line of figures and the failures."""
    with tempfile.TemporaryDirectory(prefix="rembrandt-attack-") as folder:
        root = Path(folder)
        model, others, texts = prepare(root, options.model)
        with (root / "log").open("w") as log, service(model, log) as (host, port, process):
            address = (host, port)
            start = time.perf_counter()
            warm = Attack(address, texts, max(64, options.cases // 10), options)
            uvloop.run(under_attack(warm, process.pid, model, others, options, 1))
            before = at_rest(process.pid, options.rest)
            print(f"{warm.line('warm-up')}; memory {before:.0f} MB", flush=True)
            attack = Attack(address, texts, options.cases, options, options.rate)
            n_swaps = uvloop.run(
                under_attack(attack, process.pid, model, others, options, options.swaps)
            )
            growth = megabytes(process.pid) - before
            growth_at_rest = at_rest(process.pid, options.rest) - before
            line = attack.line(f"service, {options.clients} clients, {n_swaps} swaps")
            print(f"{line}; memory {growth:+.0f} MB", flush=True)
            slowest, largest = uvloop.run(one_by_one(attack, process.pid))
            seconds = time.perf_counter() - start
            failures = warm.failures + attack.failures
            if process.poll() is not None:
                failures.append(f"the service ended with {process.returncode}")
        if process.returncode != 0:
            failures.append(f"the service exited with {process.returncode}")
        logged = (root / "log").read_text()
        if "Traceback" in logged:
            failures.append(f"the service logged {logged[-1500:]}")
    if largest > MOST_MEGABYTES:
        failures.append(f"a hostile request took {largest:.0f} MB")
    memory = f"memory {before:.0f} MB, {growth:+.0f} MB, at rest {growth_at_rest:+.0f} MB"
    alone = f"hostile alone {slowest:.2f} s, {largest:+.0f} MB"
    return f"{line}; {memory}; {alone}; {len(failures)} failures; {seconds:.0f} s", failures


def at_rest(pid: int, seconds: float) -> float:
    """Return the resident memory of a process that nobody has used for some seconds."""
    time.sleep(seconds)
    return megabytes(pid)


def _listed(found: Counter[str]) -> str:
    return ", ".join(f"{count:,} × {what}" for what, count in sorted(found.items()))


def parser() -> argparse.ArgumentParser:
    """The options of the attack."""
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--cases", type=int, default=5_000)
    found.add_argument("--seed", type=int, default=0)
    found.add_argument(
        "--model", type=Path, help="a model fitted to texts; a small one is made by default"
    )
    found.add_argument(
        "--rate", type=float, default=250.0, help="requests per second of all clients together"
    )
    found.add_argument("--clients", type=int, default=64)
    found.add_argument("--hostile", type=int, default=8, help="of the clients")
    found.add_argument("--swaps", type=int, default=5)
    found.add_argument(
        "--rest",
        type=float,
        default=40.0,
        help="seconds before memory is measured; it is given back",
    )
    return found


def main(given: list[str]) -> int:
    """Run the attack and print its figures."""
    line, failures = run(parser().parse_args(given))
    for what, count in Counter(failures).most_common(5):
        print(f"{count} × {what}")
    print(line)
    return 1 if failures else 0
