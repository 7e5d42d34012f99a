"""Threads for compiled kernels that release the GIL."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, lru_cache
from threading import Lock, RLock, local
from typing import Any, TypeVar

import joblib
from threadpoolctl import OpenBLASController, ThreadpoolController

from rembrandt.progress import Report, silent

T = TypeVar("T")
R = TypeVar("R")

# What is computed side by side with the work of this thread.
_group: ContextVar["SharedReports | None"] = ContextVar("group", default=None)
# Whether `for_each` leaves all work to this thread: one of a pool, or one that asked for that.
_here = local()
# Pools of threads that are kept: one for each number of threads and lane.
MAX_POOLS = 32
# Which pool `for_each` uses: pieces of long work that are computed side by side have their own.
_lane: ContextVar[int] = ContextVar("lane", default=0)


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
    limit = _limit_blas(n)
    try:
        yield
    finally:
        _restore_blas(limit)
        os.environ.pop("REMBRANDT_NUM_THREADS")
        if before is not None:
            os.environ["REMBRANDT_NUM_THREADS"] = before


@lru_cache(maxsize=MAX_POOLS)
def _pool(_pid: int, size: int, _lane_number: int) -> ThreadPoolExecutor:
    """Return a pool of threads for this process: threads do not survive a fork."""
    return ThreadPoolExecutor(size, thread_name_prefix="rembrandt", initializer=_begin_thread)


def _begin_thread() -> None:
    _here.works_alone = True


@contextmanager
def this_thread_only() -> Iterator[None]:
    """Let `for_each` do all work in this thread.

    This is for long work in the background: in a pool, short calls of others would wait for it.
    """
    before = getattr(_here, "works_alone", False)
    _here.works_alone = True
    try:
        yield
    finally:
        _here.works_alone = before


def _limit_blas(n: int) -> Any:
    """Let BLAS use at most ``n`` threads; return what `_restore_blas` takes."""
    _let_this_thread_decide()
    limit = _libraries().limit(limits=n, user_api="blas")
    _let_this_thread_decide()
    return limit


def _restore_blas(limit: Any) -> None:
    _let_this_thread_decide()
    limit.restore_original_limits()
    _let_this_thread_decide()


def _let_this_thread_decide() -> None:
    """Let whichever thread comes next set the number of BLAS threads.

    It is one number of the process. Since version 3.8 of threadpoolctl only the thread that set it
    first may set it again, and others do nothing without a word. Here one thread begins what
    another may end.
    """
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


class _SingleThreaded:
    """Limits BLAS to one thread while anybody wants that: the limit is one of the process."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._n_users = 0
        self._limit: Any = None

    def begin(self) -> None:
        with self._lock:
            if self._n_users == 0:
                self._limit = _limit_blas(1)
            self._n_users += 1

    def end(self) -> None:
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0:
                _restore_blas(self._limit)

    def before_fork(self) -> None:
        """Wait until no other thread is just setting or removing the limit."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Give BLAS its threads again: those that wanted one are not in the new process."""
        self._lock = RLock()
        if self._n_users > 0:
            self._n_users = 0
            _restore_blas(self._limit)


_single_threaded = _SingleThreaded()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_single_threaded.before_fork,
        after_in_parent=_single_threaded.after_fork_in_parent,
        after_in_child=_single_threaded.after_fork_in_child,
    )


@contextmanager
def own_threads() -> Iterator[None]:
    """Run BLAS on one thread.

    This is for small products and factorisations, and for work that our own threads share. On a
    busy machine a product of half a millisecond on two BLAS threads may wait a time slice for the
    slower one.
    """
    _single_threaded.begin()
    try:
        yield
    finally:
        _single_threaded.end()


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
    by this thread: handing it to others takes longer. So are calls within such a call, which
    might wait for each other, and those in `this_thread_only`.
    """
    group = _group.get()
    if group is not None and group.is_stopped:
        raise Interrupted
    calls = list(arguments)
    works_alone = getattr(_here, "works_alone", False)
    if small or works_alone or len(calls) == 1 or n_threads() == 1:
        for call in calls:
            work(*call)
        return
    pool = _pool(os.getpid(), n_threads(), _lane.get())
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
    work: Callable[[T, Report], R],
    items: Sequence[T],
    report: Report = silent,
    own_pools: bool = False,
) -> list[R]:
    """Return ``work(item, report)`` of every item, each computed by a thread of its own.

    For few pieces of long work that call `for_each`: while one does what cannot be shared, the
    threads of `for_each` work for the others. What they report of a stage is added up. If one of
    them fails, or this thread is interrupted, the others end at their next report or `for_each`.

    With ``own_pools`` each has threads of its own in `for_each`, so that many short calls of one do
    not wait for a few long ones of another; the system divides the cores among them.
    """
    if len(items) < 2 or n_threads() == 1:
        return [work(item, report) for item in items]
    reports = SharedReports(report)
    pool = ThreadPoolExecutor(len(items), thread_name_prefix="rembrandt-side")
    try:
        futures = []
        for number, item in enumerate(items):
            context = copy_context()
            context.run(_group.set, reports)
            if own_pools:
                context.run(_lane.set, number + 1)
            futures.append(pool.submit(context.run, work, item, reports.of(number)))
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

    def __init__(self, report: Report) -> None:
        self._report = report
        self._done: dict[str, dict[int, int]] = {}
        self._totals: dict[str, dict[int, int | None]] = {}
        self._lock = Lock()
        self.is_stopped = False

    def of(self, number: int) -> Report:
        """Return what receives the reports of one thread."""

        def report(stage: str, done: int, total: int | None) -> None:
            with self._lock:
                if self.is_stopped:
                    raise Interrupted
                done_of_threads = self._done.setdefault(stage, {})
                done_of_threads[number] = done
                totals = self._totals.setdefault(stage, {})
                totals[number] = total
                known_totals = [known for known in totals.values() if known is not None]
                is_known = len(known_totals) == len(totals)
                self._report(
                    stage, sum(done_of_threads.values()), sum(known_totals) if is_known else None
                )

        return report

    def stop(self) -> None:
        """End every thread at its next report."""
        with self._lock:
            self.is_stopped = True


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
