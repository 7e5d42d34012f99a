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

_IN_USE_SECONDS = 2.0  # after which no request uses a model that was replaced
_NICENESS = 10  # of the thread that loads models
_LAST_SECOND = 253_402_300_799  # of the year 9999
_VERSION_CHARACTERS = 12  # of the checksum of a model


class SharedEncoder:
    """An encoder that one thread uses at a time: models are reloaded while others predict."""

    def __init__(self, encoder: Any) -> None:
        self.name = name_of(encoder)
        self._encoder = encoder
        self._lock = threading.Lock()

    def encode(self, texts: list[str]) -> Any:
        with self._lock:
            return self._encoder.encode(texts)


class ServedModel:
    """One version of a model in memory."""

    def __init__(self, name: str, path: Path, encoder: Any = None) -> None:
        self.name = name
        self.path = path
        self.encoder = encoder
        while True:  # the folder may be replaced while it is read
            self.version = _version(path)
            self.classifier = load(path)
            if _version(path) == self.version:
                break
        text = self.classifier.text_
        if encoder is not None and text is not None and text.n_encoded_:
            text.set_encoder(encoder)
        self.saved_at = _saved_at(path / "model.json")
        self.classifier.model_ = self.classifier.model_.for_prediction()
        self.labels = Labels(self.classifier)
        self.feature_names = feature_names(self.classifier)
        self.n_features = int(self.classifier.n_features_in_)
        self.takes_texts = text is not None
        self._warm_up()

    def _warm_up(self) -> None:
        """Predict and search once: the first time loads compiled code and builds tables."""
        example: Any = ["a text"]
        if not self.takes_texts:
            example = sparse.csr_array((1, self.n_features), dtype="float32")
        self.classifier.predict_topk(example, 1)
        self.labels.search("a", 1)

    @cached_property
    def features(self) -> LabelIndex | None:
        """Columns of features by name; None if features are numbered or hashed."""
        names = self.feature_names
        if names is None:
            return None
        text = self.classifier.text_
        if text is not None and text.n_encoded_:
            # Explanations have one name for all dimensions of an encoder.
            names = list(text.get_feature_names_out())
        return LabelIndex(map(str, names))

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
        if encoder is not None:
            encoder = SharedEncoder(encoder)
        self._metrics = metrics
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
        served = self._models.get(self.default if name is None else name)
        if served is None:
            names = ", ".join(self._models)
            raise RequestError(404, f"there is no model {name!r}; choose from {names}")
        return served

    async def reload(self, name: str) -> ServedModel:
        """Load a model again from its folder; the old version serves requests until the new one is
        ready.
        """
        old = self.get(name)
        loop = asyncio.get_running_loop()
        try:
            new = await loop.run_in_executor(self._loader, ServedModel, name, old.path, old.encoder)
        except (RembrandtError, OSError, MemoryError) as error:
            message = f"the new version cannot be loaded, and the old one stays in use: {error}"
            raise RequestError(422, message) from error
        self._put(new)
        loop.call_later(_IN_USE_SECONDS, loop.run_in_executor, self._loader, memory.give_back)
        return new

    def _put(self, served: ServedModel) -> None:
        """Use this model from now on, in place of an older version."""
        old = self._models.get(served.name)
        old_version = None if old is None else old.version
        self._models[served.name] = served
        self._metrics.set_version(served.name, old_version, served.version)


def _lower_priority() -> None:
    """Let predictions go before the current thread; only Linux has priorities of threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


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
