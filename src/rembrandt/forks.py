"""Locks and cached values that do not stop a process that was forked while other threads worked.

A lock that another thread holds at that moment stays locked in the new process, and nobody there
will ever release it.
"""

import os
from collections.abc import Callable
from threading import RLock
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload
from weakref import WeakSet

T = TypeVar("T")

_all_locks: "WeakSet[Lock]" = WeakSet()


class Lock:
    """A lock that its thread may take again, and that is free in a new process."""

    def __init__(self) -> None:
        self.free()
        _all_locks.add(self)

    def free(self) -> None:
        """Forget who holds it."""
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


def _free_locks() -> None:
    for lock in list(_all_locks):
        lock.free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_locks)


class cached_property(Generic[T]):
    """A value that is computed when it is first read.

    That of functools has one lock for all objects of a class before Python 3.12. Here two threads
    that read a value for the first time may both compute it.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | Self:
        if instance is None:
            return self
        value = self.compute(instance)
        instance.__dict__[self.name] = value  # from now on it hides this descriptor
        return value
