"""The models of a service; a new version is loaded completely before it replaces the old one."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from scipy import sparse

from rembrandt import memory
from rembrandt.data.labels import LabelIndex
from rembrandt.errors import RembrandtError
from rembrandt.estimators import load
from rembrandt.explore.explain import feature_names
from rembrandt.features.encoder import name_of
from rembrandt.model.folder import version
from rembrandt.serve.errors import RequestError
from rembrandt.serve.labels import Labels
from rembrandt.serve.metrics import Metrics

_IN_USE = 2.0  # seconds after which no request uses a model that was replaced
_NICENESS = 10  # of the thread that loads models
_LAST_SECOND = 253_402_300_799  # of the year 9999


class SharedEncoder:
    """An encoder that one thread uses at a time: models are reloaded while others predict."""

    def __init__(self, encoder: Any) -> None:
        self.name, self._encoder, self._lock = name_of(encoder), encoder, threading.Lock()

    def encode(self, texts: list[str]) -> Any:
        with self._lock:
            return self._encoder.encode(texts)


class ServedModel:
    """One version of a model in memory."""

    def __init__(self, name: str, path: Path, encoder: Any = None) -> None:
        self.name, self.path, self.encoder = name, path, encoder
        while True:  # the folder may be replaced while it is read
            self.version = _version(path)
            self.classifier = load(path)
            if _version(path) == self.version:
                break
        if (
            encoder is not None
            and self.classifier.text_ is not None
            and self.classifier.text_.n_encoded_
        ):
            self.classifier.text_.set_encoder(encoder)
        self.saved_at = _saved_at(path / "model.json")
        self.classifier.model_ = self.classifier.model_.for_prediction()
        self.labels = Labels(self.classifier)
        self.feature_names = feature_names(self.classifier)
        self.n_features = int(self.classifier.n_features_in_)
        self.takes_texts = self.classifier.text_ is not None
        # The first prediction and the first search load compiled code and build tables.
        empty = sparse.csr_array((1, self.n_features), dtype="float32")
        self.classifier.predict_topk(["a text"] if self.takes_texts else empty, 1)
        self.labels.search("a", 1)

    @cached_property
    def features(self) -> LabelIndex | None:
        """Columns of features by name; None if features are numbered or hashed."""
        names, text = self.feature_names, self.classifier.text_
        if (
            names is not None and text is not None and text.n_encoded_
        ):  # explanations have one name for all of these
            names = list(text.get_feature_names_out())
        return None if names is None else LabelIndex(map(str, names))

    def is_current(self) -> bool:
        """Return whether the folder still holds this version."""
        return _version(self.path) == self.version

    def find(self, label: str) -> int:
        """Return the column of the label with this name or title."""
        column = self.labels.index.find(label)
        if column is None:
            message = (
                f"model {self.name!r} has no label {label!r}; search for it with GET "
                "/v1/labels?query="
            )
            raise RequestError(404, message)
        return column


class Registry:
    """Models by name; the first is the default."""

    def __init__(self, paths: Mapping[str, Path], metrics: Metrics, encoder: Any = None) -> None:
        self._metrics, encoder = metrics, None if encoder is None else SharedEncoder(encoder)
        self._models: dict[str, ServedModel] = {}
        # One model is loaded at a time, at a low priority.
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="load", initializer=_lower_priority)
        for name, path in paths.items():
            self._put(ServedModel(name, path, encoder))
        self.default = next(iter(self._models))

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    def get(self, name: str | None) -> ServedModel:
        """Return the model with this name, or the default."""
        found = self._models.get(self.default if name is None else name)
        if found is None:
            raise RequestError(
                404, f"there is no model {name!r}; choose from {', '.join(self._models)}"
            )
        return found

    async def reload(self, name: str) -> ServedModel:
        """Load a model again from its folder; the old version serves requests until the new one is
        ready.
        """
        old, loop = self.get(name), asyncio.get_running_loop()
        try:
            new = await loop.run_in_executor(self._loader, ServedModel, name, old.path, old.encoder)
        except (RembrandtError, OSError, MemoryError) as error:
            message = f"the new version cannot be loaded, and the old one stays in use: {error}"
            raise RequestError(422, message) from error
        self._put(new)
        loop.call_later(_IN_USE, loop.run_in_executor, self._loader, memory.give_back)
        return new

    def _put(self, served: ServedModel) -> None:
        old = self._models.get(served.name)
        self._models[served.name] = served
        self._metrics.set_version(served.name, None if old is None else old.version, served.version)


def _lower_priority() -> None:
    """Let predictions go before the current thread; only Linux has priorities of threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def _version(path: Path) -> str:
    """Return the first characters of the model's checksum; none if there is no model, which loading
    reports.
    """
    return (version(path) or "")[:12]


def _saved_at(file: Path) -> datetime:
    """Return when a file was changed, within what a date can express; file systems allow any
    time.
    """
    return datetime.fromtimestamp(min(max(file.stat().st_mtime, 0), _LAST_SECOND), UTC)
