"""A store: examples in a folder of row shards, for data that is larger than memory.

``store.json`` lists the shards with their sizes and checksums. A shard also has the names of labels
and features that occur in it first, so a store can grow without rewriting what it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rembrandt import __version__
from rembrandt.data.dataset import Dataset, Notes, Task
from rembrandt.data.labels import LabelIndex
from rembrandt.data.shard import REMEDY, Entry, MappedShard, ShardData
from rembrandt.data.stored import StoredRows
from rembrandt.errors import DataError, StorageError
from rembrandt.forks import cached_property
from rembrandt.storage.arrays import parse_json, read_arrays, write_arrays
from rembrandt.storage.atomic import atomic_file, write_errors
from rembrandt.storage.files import read_bounded

if TYPE_CHECKING:
    from rembrandt.features.text import TextFeatures

MANIFEST = "store.json"
# The manifest of an unfinished conversion; the store stays as it was until it ends.
PROGRESS = "progress.json"
TEXT = "text.safetensors"
FORMAT = "rembrandt-store"
FORMAT_VERSION = 2
_MAX_MANIFEST_BYTES = 256 << 20
_COLUMN_LIMIT = 1 << 31  # columns of a shard are numbered by int32


@dataclass(frozen=True)
class Manifest:
    """What a store holds."""

    task: Task = "multiclass"
    n_features: int = 0
    n_labels: int = 0
    has_feature_names: bool = False
    shards: tuple[Entry, ...] = ()
    # Parameters of the text features, and the checksum of what they learned.
    text: dict[str, Any] | None = None
    # The files it was made from: path, size and how they were read.
    inputs: tuple[dict[str, Any], ...] = ()
    notes: Notes = field(default_factory=Notes)

    def write(self, folder: Path, name: str = MANIFEST) -> None:
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, "library_version": __version__}
        with atomic_file(folder / name) as file:
            file.write(json.dumps(head | asdict(self), indent=1).encode())

    @classmethod
    def read(cls, folder: Path, name: str = MANIFEST) -> Manifest:
        path = folder / name
        try:
            facts = parse_json(path, read_bounded(path, _MAX_MANIFEST_BYTES))
        except FileNotFoundError as error:
            if (folder / PROGRESS).is_file():
                message = "the conversion was not finished; run its command again to continue it"
            else:
                message = (
                    f"this is not a store, it has no {MANIFEST}; make one with "
                    "rembrandt data convert"
                )
            raise DataError(message, folder) from error
        except (StorageError, OSError) as error:
            raise DataError(f"it cannot be read ({error}); convert the data again", path) from error
        if not isinstance(facts, dict) or facts.pop("format", None) != FORMAT:
            raise DataError(f"it does not describe a {FORMAT}; check the path", path)
        version = facts.pop("format_version", None)
        library = facts.pop("library_version", None)
        if version != FORMAT_VERSION:
            raise DataError(
                f"it has format version {version}, and this version of Rembrandt reads version "
                f"{FORMAT_VERSION}; convert the data again, or install Rembrandt {library}",
                path,
            )
        try:
            return cls._checked(facts)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise DataError(
                f"the store is damaged ({error}); convert the data again", path
            ) from error

    @classmethod
    def _checked(cls, facts: dict[str, Any]) -> Manifest:
        """The manifest with these facts, which are not trusted."""
        shards = tuple(Entry.of(entry) for entry in facts["shards"])
        inputs = tuple(dict(source) for source in facts["inputs"])
        notes = Notes(**facts["notes"])
        manifest = cls(**facts | {"shards": shards, "inputs": inputs, "notes": notes})
        if manifest.text is not None:  # a mapping and a checksum, or an error
            manifest.text["config"].items()
            manifest.text["sha256"]
        d = manifest.n_features
        c = manifest.n_labels
        is_possible = 0 <= d < _COLUMN_LIMIT and 0 <= c < _COLUMN_LIMIT
        fits = all(entry.d <= d and entry.c <= c for entry in shards)
        if not (is_possible and fits) or manifest.task not in get_args(Task):
            raise ValueError("its numbers contradict each other")
        return manifest

    def names(self, folder: Path, kind: str) -> LabelIndex:
        """The names of all "labels" or "features"."""
        names: list[str] = []
        for entry in self.shards:
            shard = MappedShard(folder / entry.file, entry)
            names.extend(shard.names(kind))
        index = LabelIndex(names)
        expected = self.n_labels if kind == "labels" else self.n_features
        if not len(index) == len(names) == expected:
            raise DataError(
                f"it does not have one distinct name for each of its {kind}; {REMEDY}", folder
            )
        return index

    def text_features(self, folder: Path) -> TextFeatures | None:
        """The text features of the store, or None when it was not made from texts."""
        if self.text is None:
            return None
        from rembrandt.features.text import TextFeatures  # loads scikit-learn and numba

        path = folder / TEXT
        try:
            arrays = read_arrays(path, sha256=self.text["sha256"])
            return TextFeatures.from_arrays(arrays, self.text["config"])
        except (OSError, StorageError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise DataError(
                f"the text features cannot be read ({error}); {REMEDY}", path
            ) from error


class Store:
    """A store that is open for reading."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.manifest = Manifest.read(self.path)
        if not self.manifest.shards:
            raise DataError(
                "there are no examples in it; convert data with at least one", self.path
            )
        self.shards = [MappedShard(self.path / entry.file, entry) for entry in self.manifest.shards]
        for shard in self.shards:
            if not shard.path.is_file():
                raise DataError(f"this shard of the store is missing; {REMEDY}", shard.path)
        self.n = sum(entry.n for entry in self.manifest.shards)
        self.d = self.manifest.n_features
        self.c = self.manifest.n_labels

    @cached_property
    def label_ids(self) -> list[str]:
        return self.manifest.names(self.path, "labels").names

    @cached_property
    def feature_names(self) -> list[str] | None:
        if not self.manifest.has_feature_names:
            return None
        return self.manifest.names(self.path, "features").names

    @cached_property
    def text(self) -> TextFeatures | None:
        """The transformer that turned texts into the features of the store."""
        return self.manifest.text_features(self.path)

    @cached_property
    def is_used(self) -> NDArray[np.bool_]:
        """Whether each feature occurs in some row; one pass over the shards."""
        used = np.zeros(self.d, dtype=bool)
        for data in self.contents():
            used[data.X.indices] = True
        return used

    def dataset(self) -> Dataset:
        """The store as a dataset whose features stay on disk; its labels are in memory."""
        rows: Any = StoredRows(self)
        return Dataset(
            Y=self.labels(),
            X=rows,
            texts=None,
            label_ids=self.label_ids,
            feature_names=self.feature_names,
            task=self.manifest.task,
            notes=self.manifest.notes,
            weights=self.weights(),
        )

    def contents(self) -> Iterator[ShardData]:
        """The contents of each shard; its memory is given back before the next one is read."""
        for shard in self.shards:
            yield shard.rows(self.d, self.c)
            shard.release()

    def labels(self) -> sp.csr_array:
        """All of Y."""
        blocks = [data.Y.copy() for data in self.contents()]
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def weights(self) -> NDArray[np.float32] | None:
        """The weight of each example, or None when no shard has weights."""
        if not any(entry.has_weights for entry in self.manifest.shards):
            return None
        blocks = []
        for shard in self.shards:
            weights = shard.rows(self.d, self.c).weights
            if weights is None:
                weights = np.ones(shard.n, np.float32)
            blocks.append(weights)
        return np.concatenate(blocks)


def is_store(path: str | Path) -> bool:
    """Whether there is a store, or an unfinished one, at this path."""
    folder = Path(path)
    return (folder / MANIFEST).is_file() or (folder / PROGRESS).is_file()


def write_text_features(folder: Path, text: TextFeatures) -> dict[str, Any]:
    """Save text features next to the shards; returns their entry in the manifest."""
    path = folder / TEXT
    with write_errors(path):
        _, sha256 = write_arrays(path, text.to_arrays())
    return {"config": text.to_config(), "sha256": sha256}
