"""The models of a service; a new version is loaded completely before it replaces the old one."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from scipy import sparse

from rembrandt import memory
from rembrandt.data.labels import LabelIndex
from rembrandt.errors import ModelError, RembrandtError
from rembrandt.estimators import load
from rembrandt.estimators.requests import feature_names
from rembrandt.forks import cached_property
from rembrandt.linalg.threads import this_thread_only
from rembrandt.model.folder import version
from rembrandt.serve.errors import RequestError, shutting_down
from rembrandt.serve.labels import Labels
from rembrandt.serve.limits import Limits
from rembrandt.serve.metrics import Metrics

_IN_USE_SECONDS = 2.0  # after which no request uses a model that was replaced
_MAX_STUCK_LOADS = 4  # that passed their deadline and still run
_LAST_SECOND = 253_402_300_799  # of the year 9999
_VERSION_CHARACTERS = 12  # of the checksum of a model


class ServedModel:
    """One version of a model in memory."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        while True:  # the folder may be replaced while it is read
            self.version = _version(path)
            self.classifier = load(path)
            if _version(path) == self.version:
                break
        if self.classifier.model_.vector_widths:
            raise ModelError(
                f"{path} was fitted with vectors beside its features, which requests do not have; "
                "fit without vectors to serve a model"
            )
        text = self.classifier.text_
        self.saved_at = _saved_at(path / "model.json")
        self.classifier.model_ = self.classifier.model_.for_prediction()
        self.labels = Labels(self.classifier)
        self.feature_names = feature_names(self.classifier)
        self.n_features = int(self.classifier.n_features_in_)
        self.takes_texts = text is not None
        self._warm_up()

    def _warm_up(self) -> None:
        """Predict and search once: the first time loads compiled code and builds tables.

        Some of the tables are those for requests for many labels.
        """
        example: Any = ["a text"]
        if not self.takes_texts:
            example = sparse.csr_array((1, self.n_features), dtype="float32")
        for k in (1, len(self.classifier.model_.labels)):
            self.classifier.predict_topk(example, k)
        self.labels.search("a", 1)

    @cached_property
    def features(self) -> LabelIndex | None:
        """Columns of features by name; None if features are numbered or hashed."""
        names = self.feature_names
        if names is None:
            return None
        return LabelIndex(map(str, names))

    def is_current(self) -> bool:
        """Return whether the folder still holds this version."""
        return _version(self.path) == self.version

    def find(self, label: str, with_groups: bool = False) -> int:
        """Return the column of the label with this name or title, or the number of the group."""
        index = self.labels.index
        if with_groups:
            index = self.labels.nodes
        column = index.find(label)
        if column is None:
            message = (
                f"model {self.name!r} has no label {label!r}; search for it with GET "
                "/v1/labels?query="
            )
            raise RequestError(404, message)
        return column


class Registry:
    """Models by name; the first is the default."""

    def __init__(
        self,
        paths: Mapping[str, Path],
        metrics: Metrics,
        load_seconds: float = Limits.load,
    ) -> None:
        self._metrics = metrics
        self._load_seconds = load_seconds
        self._models: dict[str, ServedModel] = {}
        self._loads: dict[str, asyncio.Lock] = {}  # one at a time of each model
        self._n_stuck = 0
        self._closing = asyncio.Event()
        for name, path in paths.items():
            self._put(ServedModel(name, path))
            self._loads[name] = asyncio.Lock()
        self.default = next(iter(self._models))

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    def get(self, name: str | None) -> ServedModel:
        """Return the model with this name, or the default."""
        served = self._models.get(self.default if name is None else name)
        if served is None:
            names = ", ".join(self._models)
            raise RequestError(404, f"there is no model {name!r}; choose from {names}")
        return served

    async def reload(self, name: str) -> ServedModel:
        """Load a model again from its folder; the old version serves requests until the new one is
        ready.

        A load that takes too long, for example on a network drive that does not respond, is left to
        itself: its result is not used, and the next load starts.
        """
        old = self.get(name)
        load = partial(ServedModel, name, old.path)
        async with self._loads[name]:
            try:
                new = await self._within_deadline(load)
            except (RembrandtError, OSError, MemoryError) as error:
                message = f"the new version cannot be loaded, and the old one stays in use: {error}"
                raise RequestError(422, message) from error
            self._put(new)
        loop = asyncio.get_running_loop()
        loop.call_later(_IN_USE_SECONDS, _start_thread, memory.give_back)
        return new

    def close(self) -> None:
        """Give up the loads in progress; called when the service shuts down."""
        self._closing.set()

    async def _within_deadline(self, load: Callable[[], ServedModel]) -> ServedModel:
        """Return what a thread loads; raise an error after the deadline and at shutdown."""
        if self._n_stuck >= _MAX_STUCK_LOADS:
            message = f"{self._n_stuck} earlier loads have not ended; restart the service"
            raise RequestError(503, message)
        loading = _run_in_thread(load)
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait(
                (loading, closing),
                timeout=self._load_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            closing.cancel()
        if loading.done():
            return loading.result()
        self._n_stuck += 1
        loading.add_done_callback(self._end_stuck)
        if self._closing.is_set():
            raise shutting_down()
        message = (
            f"the new version was not loaded within {self._load_seconds:g} s, and the old one "
            "stays in use; check the folder of the model"
        )
        raise RequestError(503, message)

    def _end_stuck(self, loading: asyncio.Future[ServedModel]) -> None:
        self._n_stuck -= 1
        loading.exception()  # nobody else looks at it

    def _put(self, served: ServedModel) -> None:
        """Use this model from now on, in place of an older version."""
        old = self._models.get(served.name)
        old_version = None if old is None else old.version
        self._models[served.name] = served
        self._metrics.set_version(served.name, old_version, served.version)


def _run_in_thread(load: Callable[[], ServedModel]) -> asyncio.Future[ServedModel]:
    """Call a function in a new thread; return the future of its result.

    The process does not wait for the thread at its end, as it does for the threads of an executor.
    All of the work is done by this thread: predictions would wait for it in the pools. The thread
    has no lower priority: it would still hold the interpreter's lock, and on busy cores everyone
    who needs the lock would wait until the thread is given a core.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[ServedModel] = loop.create_future()

    def run() -> None:
        try:
            with this_thread_only():
                served = load()
        except BaseException as error:  # noqa: BLE001 - it is raised where the load was started
            deliver = partial(future.set_exception, error)
        else:
            deliver = partial(future.set_result, served)
        with suppress(RuntimeError):  # the service has ended
            loop.call_soon_threadsafe(deliver)

    _start_thread(run)
    return future


def _start_thread(work: Callable[[], Any]) -> None:
    threading.Thread(target=work, name="load", daemon=True).start()


def _version(path: Path) -> str:
    """Return the first characters of the model's checksum; none if there is no model, which loading
    reports.
    """
    checksum = version(path) or ""
    return checksum[:_VERSION_CHARACTERS]


def _saved_at(file: Path) -> datetime:
    """Return when a file was changed, within what a date can express; file systems allow any
    time.
    """
    modified = file.stat().st_mtime
    expressible = min(max(modified, 0), _LAST_SECOND)
    return datetime.fromtimestamp(expressible, UTC)
