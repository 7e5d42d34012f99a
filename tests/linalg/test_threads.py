"""The number of threads."""

import os

import pytest
import scipy.linalg  # noqa: F401  so that BLAS is loaded before it is counted
from threadpoolctl import threadpool_info

from rembrandt.linalg.threads import at_most, cpu_count, n_threads


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
