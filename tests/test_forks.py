"""Processes that are forked while other threads hold locks or compute cached values."""

import multiprocessing
import os
import pickle
import threading
import warnings

import pytest
import scipy.linalg  # noqa: F401  so that BLAS is loaded before it is counted
from threadpoolctl import threadpool_info

from rembrandt.forks import Lock, cached_property
from rembrandt.linalg.threads import own_threads

SECONDS = 20  # after which a process counts as stuck
forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")


class Squared:
    def __init__(self, number):
        self.number = number
        self.n_computed = 0

    @cached_property
    def square(self):
        """The square."""
        self.n_computed += 1
        return self.number**2


class Slow:
    def __init__(self):
        self.is_computing = threading.Event()
        self.may_end = threading.Event()

    @cached_property
    def value(self):
        self.is_computing.set()
        self.may_end.wait(SECONDS)
        return 1


def blas_threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def answer_of_a_fork(ask):
    """Return what a forked process answers."""

    def tell(answers):
        answers.put(ask())

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
        child = context.Process(target=tell, args=(answers,))
        child.start()
    try:
        return answers.get(timeout=SECONDS)
    finally:
        child.kill()


def test_values_are_computed_once():
    nine = Squared(3)
    assert nine.square == nine.square == 9
    assert nine.n_computed == 1
    assert Squared(2).square == 4
    assert Squared.square.__doc__ == "The square."
    assert pickle.loads(pickle.dumps(nine)).square == 9


def test_a_lock_lets_its_own_thread_in_again():
    lock = Lock()
    with lock, lock:
        pass
    with pytest.raises(ValueError, match="no"), lock:
        raise ValueError("no")
    entered = []

    def enter():
        with lock:
            entered.append(True)

    with lock:
        other = threading.Thread(target=enter)
        other.start()
        other.join(0.05)
        assert not entered
    other.join(SECONDS)
    assert entered


@forking
def test_a_lock_of_another_thread_is_free_in_a_fork():
    lock = Lock()
    is_held = threading.Event()
    may_end = threading.Event()

    def hold():
        with lock:
            is_held.set()
            may_end.wait(SECONDS)

    def enter():
        with lock:
            return "entered"

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(SECONDS)
    try:
        assert answer_of_a_fork(enter) == "entered"
    finally:
        may_end.set()
        holder.join()


@forking
def test_a_value_that_another_thread_computes_is_computed_in_a_fork():
    slow = Slow()
    computing = threading.Thread(target=lambda: slow.value)
    computing.start()
    slow.is_computing.wait(SECONDS)

    def quick():
        other = Slow()
        other.may_end.set()
        return other.value

    try:
        assert answer_of_a_fork(quick) == 1
    finally:
        slow.may_end.set()
        computing.join()


@forking
def test_blas_has_its_threads_in_a_fork_although_another_thread_wanted_one():
    before = blas_threads()
    is_limited = threading.Event()
    may_end = threading.Event()

    def limit():
        with own_threads():
            is_limited.set()
            may_end.wait(SECONDS)

    def used_and_left():
        at_first = blas_threads()
        with own_threads():
            within = blas_threads()
        return at_first, within, blas_threads()

    limiting = threading.Thread(target=limit)
    limiting.start()
    is_limited.wait(SECONDS)
    try:
        assert answer_of_a_fork(used_and_left) == (before, {1}, before)
        assert blas_threads() == {1}  # here somebody still wants that
    finally:
        may_end.set()
        limiting.join()
    assert blas_threads() == before
