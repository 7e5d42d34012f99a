"""Runs tests again and again, each time in a process that has its libraries already.

``python -m benchmarks.mutate_tests`` imports the libraries that tests use, and nothing of the
package. Then it reads tasks from its standard input, one JSON object a line, and answers each with
a line. A task runs in a process that is forked for it, in the folder and with the environment of
this process, so that it sees the sources of the package as they are at that moment.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import threading
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

# What most tests import; together it takes longer than many of them.
LIBRARIES = (
    "hypothesis.extra.numpy",
    "numpy",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "scipy.stats",
    "sklearn.base",
    "sklearn.linear_model",
    "sklearn.metrics",
    "joblib",
    "numba",
    "platformdirs",
    "threadpoolctl",
    "pyarrow.csv",
    "pyarrow.parquet",
)
OPTIONAL_LIBRARIES = ("torch", "transformers")


class Order:
    """Runs the tests of a task, quick files first, and remembers the one that failed."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds  # of each test; empty for all
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.seconds:
            file_seconds: dict[str, float] = defaultdict(float)
            for test, seconds in self.seconds.items():
                file_seconds[file_of(test)] += seconds
            items[:] = [item for item in items if item.nodeid in self.seconds]
            items.sort(
                key=lambda item: (file_seconds[file_of(item.nodeid)], self.seconds[item.nodeid])
            )

    def pytest_collectreport(self, report: Any) -> None:
        self._note(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


class Recorder:
    """Remembers how long each test takes, and which lines of the package it executes.

    What is executed while tests are collected counts for all of them, and what is executed for the
    fixtures of a test for all tests of its file. A compiled function counts as a whole, with those
    that it calls.
    """

    def __init__(self, package: Path) -> None:
        self.prefix = f"{package}{os.sep}"
        self.seconds: dict[str, float] = defaultdict(float)
        # The executed lines by test, by file of tests, and of "" for all tests.
        self._lines: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self._begin("")

    def users(self) -> dict[str, list[str]]:
        """Return the tests and files, or "", that execute a line, by ``FILE:LINE``."""
        users: dict[str, list[str]] = defaultdict(list)
        for user, lines in self._lines.items():
            for file, line in lines:
                users[f"{file}:{line}"].append(user)
        return users

    def _begin(self, user: str) -> None:
        self._executed = self._lines[user]

    def start(self) -> None:
        """Record what this process executes from now on."""
        from rembrandt.kernels import Kernel

        call = Kernel.__call__

        def recorded(kernel: Any, *arguments: Any) -> Any:
            self._add_kernel(kernel, set())
            return call(kernel, *arguments)

        Kernel.__call__ = recorded  # type: ignore[method-assign]
        sys.settrace(self._traced)
        threading.settrace(self._traced)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._begin(file_of(item.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._begin(item.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self._begin(file_of(item.nodeid))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration

    def _traced(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Record the lines of functions of the package; called for every function."""
        if not frame.f_code.co_filename.startswith(self.prefix):
            return None
        file = frame.f_code.co_filename.removeprefix(self.prefix)

        def traced_line(frame: FrameType, event: str, argument: Any) -> Any:
            self._executed.add((file, frame.f_lineno))
            return traced_line

        return traced_line(frame, event, argument)

    def _add_kernel(self, kernel: Any, seen: set[Any]) -> None:
        code = kernel.py_func.__code__
        file = code.co_filename.removeprefix(self.prefix)
        seen.add(kernel)
        for _, _, line in code.co_lines():
            self._executed.add((file, line))
        for name in code.co_names:
            called = kernel.py_func.__globals__.get(name)
            if hasattr(called, "py_func") and called not in seen:
                self._add_kernel(called, seen)


def file_of(test: str) -> str:
    """Return the file of a test."""
    return test.split("::")[0]


def run_tests(task: dict[str, Any]) -> None:
    """Run the tests of a task in this process, and write what they gave to its output."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (task["limit"], task["limit"] + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (task["memory"], task["memory"]))
    signal.alarm(task["patience"])  # which ends a process that waits for ever
    os.environ["NUMBA_CACHE_DIR"] = task["kernels"]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # which would load those of no use here
    output = Path(task["output"])
    with output.with_suffix(".log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    order = Order(task["seconds"])
    plugins: list[Any] = [order]
    answer: dict[str, Any] = {}
    if task["record"]:
        recorder = Recorder(Path(task["record"]))
        recorder.start()
        plugins.append(recorder)
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "--tb=short"]
    code = pytest.main([*options, *task["tests"]], plugins=plugins)
    answer["failed"] = order.failed
    if task["record"]:
        sys.settrace(None)
        answer["seconds"] = recorder.seconds
        answer["users"] = recorder.users()
    output.write_text(json.dumps(answer), encoding="utf-8")
    sys.stdout.flush()
    os._exit(int(code))


def forked(task: dict[str, Any]) -> dict[str, Any]:
    """Run a task in a process of its own; return its exit code and its processor seconds."""
    child = os.fork()
    if child == 0:
        try:
            run_tests(task)
        finally:
            os._exit(70)  # it was left by an exception
    _, status, usage = os.wait4(child, 0)
    with contextlib.suppress(ProcessLookupError):  # what the tests have started
        os.killpg(child, signal.SIGKILL)
    seconds = usage.ru_utime + usage.ru_stime
    return {"code": os.waitstatus_to_exitcode(status), "cpu": seconds}


def serve() -> None:
    """Answer tasks until the input ends."""
    from hypothesis import Phase, settings

    for name in LIBRARIES:
        importlib.import_module(name)
    for name in OPTIONAL_LIBRARIES:
        if find_spec(name) is not None:
            importlib.import_module(name)
    # The tests of a room have profiles that are based on this one. Every run tries the same
    # examples, and the first failure is enough.
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile(
        "mutants", database=None, deadline=None, derandomize=True, phases=phases
    )
    settings.load_profile("mutants")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in sys.stdin:
        print(json.dumps(forked(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    serve()
