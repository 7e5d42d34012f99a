"""Requests that arrive together are answered in one batch.

One thread does the computation. While it is busy, requests wait in a queue; when it is free, it
takes what is there, up to a limit, as one batch. A request that finds it idle starts immediately. A
large request comes as several jobs, and others are computed between them.

Quick jobs never wait for more than one slow job, however many there are. While both kinds wait,
slow ones take a quarter of the time. What a client asked for that has left is not computed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from rembrandt.errors import counted
from rembrandt.serve.errors import RequestError, client_left, shutting_down
from rembrandt.serve.limits import Limits
from rembrandt.serve.metrics import Metrics

# What is computed. It has a size, ``n_rows``, and says whether it takes long, ``is_slow``, and
# whether somebody still waits for it, ``is_wanted()``.
Job = Any
Waiting = tuple[Job, asyncio.Future[Any]]  # a job in the queue, and where its result goes

# After a slow job, quick ones come first for as many times as long as it took.
_QUICK_SHARE = 3


class Batcher:
    """A bounded queue in front of one worker thread, for use from one event loop.

    ``work`` takes a list of jobs and returns as many results; a result that is an exception is
    raised by `submit`.
    """

    def __init__(
        self, work: Callable[[Sequence[Job]], Sequence[Any]], limits: Limits, metrics: Metrics
    ) -> None:
        self._work = work
        self._limits = limits
        self._metrics = metrics
        self._quick: deque[Waiting] = deque()
        self._slow: deque[Waiting] = deque()
        self._quick_seconds = 0.0  # for which quick jobs come first
        self._n_queued = 0  # rows of the jobs in both queues
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predict")
        self._runner: asyncio.Task[None] | None = None
        self._closed = False
        metrics.queue_texts.set_function(lambda: self._n_queued)

    async def submit(self, *jobs: Job) -> list[Any]:
        """Return the results of the jobs of one request, one job at a time in the queue.

        An error is raised at once if the queue is full, and after the time limit.
        """
        if self._closed:
            raise shutting_down()
        n_rows = sum(job.n_rows for job in jobs)
        is_waiting = self._quick or self._slow
        if is_waiting and self._n_queued + n_rows > self._limits.queue:
            message = f"the queue is full ({counted(self._n_queued, 'text')}); try again soon"
            raise RequestError(429, message, {"Retry-After": "1"})
        try:
            async with asyncio.timeout(self._limits.timeout):
                return [await self._enqueue(job) for job in jobs]
        except TimeoutError:
            message = f"no result within {self._limits.timeout:g} s; send fewer texts per request"
            raise RequestError(503, message, {"Retry-After": "1"}) from None

    def _enqueue(self, job: Job) -> asyncio.Future[Any]:
        """Put a job into its queue; return the future of its result."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        queue = self._quick
        if job.is_slow:
            queue = self._slow
        queue.append((job, future))
        self._n_queued += job.n_rows
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        return future

    async def close(self) -> None:
        """Finish the accepted jobs, then stop."""
        self._closed = True
        if self._runner is not None:
            await self._runner
        self._thread.shutdown()

    async def _run(self) -> None:
        """Work until the queues are empty."""
        loop = asyncio.get_running_loop()
        while batch := self._take():
            jobs = [job for job, _ in batch]
            n_rows = sum(job.n_rows for job in jobs)
            self._metrics.batch_texts.observe(n_rows)
            results: Sequence[Any]
            start = monotonic()
            try:
                results = await loop.run_in_executor(self._thread, self._work, jobs)
            except Exception as error:  # noqa: BLE001 - it is raised by every submit of the batch
                results = [error] * len(batch)
            self._count_time(jobs[0].is_slow, monotonic() - start)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():  # timed out in the meantime
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        self._runner = None

    def _count_time(self, is_slow: bool, seconds: float) -> None:
        """Note what a slow job or a batch of quick ones took."""
        if is_slow:
            self._quick_seconds = _QUICK_SHARE * seconds
        else:
            self._quick_seconds -= seconds

    def _take(self) -> list[Waiting]:
        """Remove and return the next batch: the oldest quick jobs, or the oldest slow one."""
        queues = [self._quick, self._slow]
        if self._quick_seconds <= 0:
            queues.reverse()
        for queue in queues:
            batch = self._take_from(queue)
            if batch:
                return batch
        return []

    def _take_from(self, queue: deque[Waiting]) -> list[Waiting]:
        """Remove and return the oldest jobs of a queue, up to one batch, or one slow job.

        Jobs that timed out are dropped, and those of clients that have left.
        """
        max_rows = 0
        if queue is self._quick:
            max_rows = self._limits.batch
        batch: list[Waiting] = []
        n_rows = 0
        while queue:
            job, future = queue[0]
            if batch and n_rows + job.n_rows > max_rows:
                break
            queue.popleft()
            self._n_queued -= job.n_rows
            if future.done():
                continue
            if not job.is_wanted():
                future.set_exception(client_left())
                continue
            batch.append((job, future))
            n_rows += job.n_rows
        return batch
