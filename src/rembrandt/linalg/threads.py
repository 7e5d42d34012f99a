"""Threads for compiled kernels that release the GIL."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from threading import Lock
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

from rembrandt.progress import Report, silent

T = TypeVar("T")
R = TypeVar("R")


@cache
def cpu_count() -> int:
    """Return how many cores this process may use, given its affinity and its control group."""
    return int(joblib.cpu_count())


def n_threads() -> int:
    """Return how many threads to use: ``REMBRANDT_NUM_THREADS``, or `cpu_count`."""
    setting = os.environ.get("REMBRANDT_NUM_THREADS", "")
    if setting.isdigit():
        return max(1, int(setting))
    return cpu_count()


@contextmanager
def at_most(n: int) -> Iterator[None]:
    """Use at most ``n`` threads here and in BLAS; 0 changes nothing."""
    if n < 1:
        yield
        return
    before = os.environ.get("REMBRANDT_NUM_THREADS")
    os.environ["REMBRANDT_NUM_THREADS"] = str(min(n, n_threads()))
    try:
        with _libraries().limit(limits=n, user_api="blas"):
            yield
    finally:
        os.environ.pop("REMBRANDT_NUM_THREADS")
        if before is not None:
            os.environ["REMBRANDT_NUM_THREADS"] = before


@lru_cache(maxsize=4)
def _pool(_pid: int, size: int) -> ThreadPoolExecutor:
    """Return a pool of threads for this process: threads do not survive a fork."""
    return ThreadPoolExecutor(size, thread_name_prefix="rembrandt")


def own_threads() -> AbstractContextManager[Any]:
    """Run BLAS on one thread.

    This is for small products and factorisations, and for work that our own threads share. On a
    busy machine a product of half a millisecond on two BLAS threads may wait a time slice for the
    slower one.
    """
    return _libraries().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """Return the BLAS libraries; SciPy and NumPy each bring one, which must be loaded."""
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()


def for_each(
    work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], small: bool = False
) -> None:
    """Call ``work(*a)`` for every ``a`` of ``arguments`` in parallel.

    The first exception is raised, and calls that have not begun are dropped. ``small`` work is done
    by this thread: handing it to others takes longer.
    """
    calls = list(arguments)
    if small or len(calls) == 1 or n_threads() == 1:
        for call in calls:
            work(*call)
        return
    pool = _pool(os.getpid(), n_threads())
    futures = [pool.submit(work, *call) for call in calls]
    try:
        for future in futures:
            future.result()
    except BaseException:
        for future in futures:
            future.cancel()
        raise


class Interrupted(Exception):
    """Ends work whose result nobody waits for any more."""


def side_by_side(
    work: Callable[[T, Report], R], items: Sequence[T], report: Report = silent
) -> list[R]:
    """Return ``work(item, report)`` of every item, each computed by a thread of its own.

    For few pieces of long work that call `for_each`: while one does what cannot be shared, the
    threads of `for_each` work for the others. What they report of a stage is added up. If one of
    them fails, or this thread is interrupted, the others end at their next report.
    """
    if len(items) < 2 or n_threads() == 1:
        return [work(item, report) for item in items]
    reports = SharedReports(report, len(items))
    pool = ThreadPoolExecutor(len(items), thread_name_prefix="rembrandt-side")
    try:
        futures = [pool.submit(work, item, reports.of(number)) for number, item in enumerate(items)]
        ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in ended:
            future.result()  # raises what ended it
        return [future.result() for future in futures]
    except BaseException:
        reports.stop()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class SharedReports:
    """Adds up what several threads report of the same stages."""

    def __init__(self, report: Report, n_threads: int) -> None:
        self._report = report
        self._n_threads = n_threads
        self._done: dict[str, dict[int, int]] = {}
        self._lock = Lock()
        self._is_stopped = False

    def of(self, number: int) -> Report:
        """Return what receives the reports of one thread."""

        def report(stage: str, done: int, total: int | None) -> None:
            with self._lock:
                if self._is_stopped:
                    raise Interrupted
                done_of_threads = self._done.setdefault(stage, {})
                done_of_threads[number] = done
                all_done = sum(done_of_threads.values())
                self._report(stage, all_done, None if total is None else self._n_threads * total)

        return report

    def stop(self) -> None:
        """End every thread at its next report."""
        with self._lock:
            self._is_stopped = True


class Workspace:
    """Arrays that parallel calls borrow, one each; a borrower restores the initial contents."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._free: list[Any] = []

    @contextmanager
    def borrowed(self) -> Iterator[Any]:
        """Lend an array that no other call uses."""
        array = self._free.pop() if self._free else self._make()
        yield array
        self._free.append(array)
