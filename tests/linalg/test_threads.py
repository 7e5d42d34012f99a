"""The number of threads."""

import os
import threading
import time
from functools import partial

import pytest
import scipy.linalg  # noqa: F401  so that BLAS is loaded before it is counted
from threadpoolctl import threadpool_info, threadpool_limits

from rembrandt import RembrandtClassifier
from rembrandt.linalg.threads import (
    at_most,
    cpu_count,
    for_each,
    n_threads,
    own_threads,
    side_by_side,
    this_thread_only,
)


def blas() -> set[int]:
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


@pytest.mark.parametrize("asked", [None, "2"])
def test_fewer_threads_for_a_while(monkeypatch: pytest.MonkeyPatch, asked: str | None) -> None:
    monkeypatch.delenv("REMBRANDT_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", asked)
    before = n_threads(), blas()
    with at_most(1):
        assert n_threads() == 1 and blas() == {1}
    with at_most(0):
        assert (n_threads(), blas()) == before
    assert (n_threads(), blas()) == before


def test_cores_are_counted_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS and Windows."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert 1 <= cpu_count.__wrapped__() <= (os.cpu_count() or 1)


@pytest.fixture(params=["1", "4"])
def some_threads(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", request.param)
    return int(request.param)


class TestSideBySide:
    def test_results_are_in_order_and_reports_are_added_up(self, some_threads):
        reports = []

        def work(item, report):
            shares = []
            for_each(lambda number: shares.append(number * item), [(0,), (1,), (2,)])
            report("stage", item, 10)
            return sum(shares)

        def note(stage, done, total):
            reports.append((stage, done, total))

        assert side_by_side(work, [3, 4, 5], note) == [9, 12, 15]
        if some_threads == 1:
            assert reports == [("stage", 3, 10), ("stage", 4, 10), ("stage", 5, 10)]
        else:
            assert reports[-1] == ("stage", 12, 30)

    @pytest.mark.parametrize("ends_at", ["report", "for_each"])
    def test_if_one_fails_the_others_end(self, some_threads, ends_at):
        begun = threading.Event()
        ended = threading.Event()

        def work(item, report):
            if item == 0:
                begun.wait(10 if some_threads > 1 else 0)
                raise MemoryError("no room")
            begun.set()
            try:
                while True:
                    if ends_at == "report":
                        report("stage", 1, None)
                    else:
                        for_each(lambda: None, [(), ()])
                    time.sleep(0.001)
            finally:
                ended.set()

        with pytest.raises(MemoryError, match="no room"):
            side_by_side(work, [0, 1])
        if some_threads > 1:
            assert ended.wait(10)

    def test_of_nothing(self, some_threads):
        assert side_by_side(lambda item, report: item, []) == []

    def test_totals_of_different_stages_are_their_own(self, monkeypatch):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
        reports = []

        def work(item, report):
            report(f"stage {item}", item, 10 * item)
            report("both", 1, None if item == 1 else 5)

        side_by_side(work, [1, 2], lambda *values: reports.append(values))
        assert ("stage 1", 1, 10) in reports
        assert ("stage 2", 2, 20) in reports
        assert reports[-1] == ("both", 2, None)

    @pytest.mark.parametrize("own_pools", [False, True])
    def test_with_pools_of_their_own_short_calls_do_not_wait_for_long_ones(
        self, monkeypatch, own_pools
    ):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
        are_waiting = threading.Barrier(3)
        have_waited = threading.Barrier(2)
        is_done = threading.Event()
        waited = []

        def wait():
            are_waiting.wait(10)
            waited.append(is_done.wait(10 if own_pools else 0.1))
            have_waited.wait(10)  # until then neither thread is free for the short call

        def work(item, report):
            if item == "long":
                for_each(wait, [(), ()])
                return
            are_waiting.wait(10)  # both threads of the other pool are taken
            for_each(lambda: None, [(), ()])
            is_done.set()

        side_by_side(work, ["long", "short"], own_pools=own_pools)
        assert waited == [own_pools, own_pools]


def test_calls_within_calls_do_not_wait_for_themselves(monkeypatch):
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
    results = []

    def outer(number):
        for_each(lambda inner: results.append((number, inner)), [(0,), (1,), (2,)])

    for_each(outer, [(number,) for number in range(4)])
    assert sorted(results) == [(number, inner) for number in range(4) for inner in range(3)]


def test_work_in_the_background_leaves_the_pools_alone(monkeypatch):
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
    threads = []

    def work(_):
        threads.append(threading.current_thread())

    with this_thread_only():
        with this_thread_only():
            pass
        for_each(work, [(0,), (1,)])
    assert threads == [threading.current_thread()] * 2
    for_each(work, [(0,), (1,)])
    assert threading.current_thread() not in threads[2:]


def in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(10)


def test_one_thread_limits_blas_and_another_one_ends_that():
    before = blas()
    for _ in range(2):
        first, second = own_threads(), own_threads()
        first.__enter__()
        in_thread(second.__enter__)
        assert blas() == {1}
        first.__exit__(None, None, None)
        assert blas() == {1}
        in_thread(partial(second.__exit__, None, None, None))
        assert blas() == before
    limit = at_most(1)
    in_thread(limit.__enter__)
    assert blas() == {1}
    limit.__exit__(None, None, None)
    assert blas() == before


def test_others_can_limit_blas_too():
    before = blas()

    def limit_for_a_while():
        with own_threads():
            pass

    in_thread(limit_for_a_while)
    with threadpool_limits(1, "blas"):
        assert blas() == {1}
    assert blas() == before


def test_a_fit_leaves_blas_as_it_was():
    before = blas()
    texts = [f"word{i % 40} other{i % 7}" for i in range(200)]
    labels = [[f"l{i % 20}", f"m{i % 7}"] for i in range(200)]
    RembrandtClassifier(random_state=0).fit(texts, labels).predict(texts[:3])
    assert blas() == before


def test_blas_has_its_threads_again_when_nobody_wants_one():
    before = blas()
    first, second = own_threads(), own_threads()
    with at_most(n_threads()):
        first.__enter__()
        second.__enter__()
        assert blas() == {1}
        first.__exit__(None, None, None)
        assert blas() == {1}
        second.__exit__(None, None, None)
    assert blas() == before


def test_after_an_error_calls_that_have_not_begun_are_dropped(monkeypatch):
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "2")
    begun = []

    def work(number):
        begun.append(number)
        if number == 0:
            raise ValueError("the first")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="the first"):
        for_each(work, [(number,) for number in range(1000)])
    time.sleep(0.1)
    assert len(begun) < 100
