"""The models that are served: each loaded whole beside the one it replaces, then put in its place."""

import asyncio
import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from rembrandt.errors import ModelError
from rembrandt.estimators import load
from rembrandt.serve.labels import Labels
from rembrandt.serve.metrics import Metrics
from rembrandt.serve.refusals import Refusal


class Served:
    """One version of a model, ready to answer."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        while True:  # the folder may be replaced while it is read
            self.version = _version(path)
            self.classifier = load(path)
            if _version(path) == self.version:
                break
        self.saved_at = datetime.fromtimestamp((path / "model.json").stat().st_mtime, UTC)
        # A copy in memory: a file that is mapped, and overwritten in place by whoever copies a new version, is fatal.
        self.model = self.classifier.model_ = copy.deepcopy(replace(self.classifier.model_, moments=None))
        self.text = self.classifier.text_
        self.labels = Labels(self.classifier)
        self._warm()

    def _warm(self) -> None:
        """Answer once: compiled code is loaded, and the weights are in memory."""
        from scipy import sparse

        empty = sparse.csr_array((1, self.model.n_features), dtype="float32")
        self.model.top_k(empty if self.text is None else self.text.transform(["warm"]), 1)
        self.labels.search("warm", 1)

    @cached_property
    def features(self) -> dict[str, int] | None:
        """The column of each named feature; None where features have numbers only."""
        names = self.classifier.feature_names_
        if self.text is not None and self.text.weighting == "tfidf":
            names = self.text.get_feature_names_out().tolist()
        return None if names is None else {str(name): column for column, name in enumerate(names)}

    def is_current(self) -> bool:
        """Whether the folder still holds this version."""
        return _version(self.path) == self.version

    def find(self, label: str) -> int:
        column = self.labels.find(label)
        if column is None:
            raise Refusal(404, f"model {self.name!r} knows no label {label!r}; look for it with GET /v1/labels?query=")
        return column


class Registry:
    """Models by name; the first is the one meant where none is named."""

    def __init__(self, paths: Mapping[str, Path], metrics: Metrics) -> None:
        self._metrics = metrics
        self._served: dict[str, Served] = {}
        self._loading: set[str] = set()
        for name, path in paths.items():
            self._put(Served(name, path))
        self.default = next(iter(self._served))

    def __iter__(self) -> Any:
        return iter(self._served.values())

    def get(self, name: str | None) -> Served:
        found = self._served.get(self.default if name is None else name)
        if found is None:
            raise Refusal(404, f"there is no model {name!r} here; there is {', '.join(self._served)}")
        return found

    async def reload(self, name: str) -> Served:
        """Read the model's folder again; requests are answered by the old version until the new one is ready."""
        old = self.get(name)
        if name in self._loading:
            raise Refusal(409, f"model {name!r} is being loaded already; wait for that", {"Retry-After": "1"})
        self._loading.add(name)
        try:
            fresh = await asyncio.to_thread(Served, name, old.path)
        except (ModelError, OSError) as error:
            raise Refusal(422, f"the old version stays, for the new one cannot be loaded: {error}") from error
        finally:
            self._loading.discard(name)
        self._put(fresh)
        return fresh

    def _put(self, served: Served) -> None:
        old = self._served.get(served.name)
        self._served[served.name] = served
        self._metrics.version(served.name, None if old is None else old.version, served.version)


def _version(path: Path) -> str:
    """The first letters of the checksum over the whole model."""
    try:
        return str(json.loads((path / "model.json").read_text(encoding="utf-8"))["sha256"])[:12]
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # loading says what is wrong with it
