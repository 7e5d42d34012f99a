"""Requests that arrive together become one product.

One thread does the numerics. While it works, requests queue up; when it is free it takes what is there, up to a bound,
as one batch. A request that finds it idle starts at once: nothing waits for company.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from rembrandt.serve.limits import Limits
from rembrandt.serve.metrics import Metrics
from rembrandt.serve.refusals import Refusal


class Job(Protocol):
    """What is waited for; ``rows`` is how many texts it has."""

    @property
    def rows(self) -> int: ...


class Batcher:
    """A bounded queue in front of one worker thread, to be used from one event loop.

    ``work`` gets a list of jobs and returns as many results; an exception among them is raised where it was asked for.
    """

    def __init__(self, work: Callable[[Sequence[Any]], Sequence[Any]], limits: Limits, metrics: Metrics) -> None:
        self._work, self._limits, self._metrics = work, limits, metrics
        self._waiting: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self._rows = 0  # texts in the queue
        self._rate = 100.0  # texts a second of late, for Retry-After
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predicting")
        self._runner: asyncio.Task[None] | None = None
        self._closed = False

    async def submit(self, job: Job) -> Any:
        """The job's result; refused at once when the queue is full, and given up after the time limit."""
        if self._closed:
            raise Refusal(503, "the service is shutting down; ask another one, or come back", {"Retry-After": "5"})
        if self._waiting and self._rows + job.rows > self._limits.queue:
            wait = str(max(1, round(self._rows / self._rate)))
            raise Refusal(429, f"{self._rows} texts are waiting already; try again in {wait} s", {"Retry-After": wait})
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        self._count(job.rows)
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await future
        except TimeoutError:
            raise Refusal(
                503, f"no answer within {self._limits.seconds:g} s; send fewer texts at a time", {"Retry-After": "1"}
            ) from None

    async def close(self) -> None:
        """Finish what was accepted, then stop."""
        self._closed = True
        if self._runner is not None:
            await self._runner
        self._thread.shutdown()

    async def _run(self) -> None:
        """Work until the queue is empty."""
        loop = asyncio.get_running_loop()
        while batch := self._take():
            rows = sum(job.rows for job, _ in batch)
            self._metrics.batch_texts.observe(rows)
            start = time.perf_counter()
            try:
                results = await loop.run_in_executor(self._thread, self._work, [job for job, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
                results = [error] * len(batch)
            self._rate += 0.2 * (rows / (time.perf_counter() - start) - self._rate)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():  # given up meanwhile
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        self._runner = None

    def _take(self) -> list[tuple[Any, asyncio.Future[Any]]]:
        """The oldest jobs, as many as make a batch, without those that were given up."""
        batch: list[tuple[Any, asyncio.Future[Any]]] = []
        rows = 0
        while self._waiting:
            job, future = self._waiting[0]
            if batch and rows + job.rows > self._limits.batch:
                break
            self._waiting.popleft()
            self._count(-job.rows)
            if not future.done():
                batch.append((job, future))
                rows += job.rows
        return batch

    def _count(self, change: int) -> None:
        self._rows += change
        self._metrics.queue_texts.set(self._rows)
