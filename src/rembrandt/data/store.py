"""A store: examples as a folder of row shards that are mapped into memory, for data larger than memory.

``store.json`` names the shards with their sizes and check sums, and the files of label and feature names. Names come in
pieces, in the order in which they were first met: a shard that brings new names adds a piece, so a store can grow and
what was written stays as it is. Nothing in it is pickled.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from rembrandt.data.dataset import Dataset, Notes, Task
from rembrandt.data.shard import Entry, MappedShard
from rembrandt.data.stored import StoredRows
from rembrandt.errors import DataError
from rembrandt.storage.atomic import atomic_file

if TYPE_CHECKING:
    from rembrandt.features.text import TextFeatures

MANIFEST = "store.json"
PROGRESS = "progress.json"  # the manifest of a conversion that has not ended; the store as it was stays beside it
FORMAT, FORMAT_VERSION = "rembrandt-store", 2


@dataclass(frozen=True)
class Names:
    """A piece of a list of names, in a file of its own."""

    file: str
    count: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a store holds."""

    task: Task = "multiclass"
    n_features: int = 0
    n_labels: int = 0
    shards: tuple[Entry, ...] = ()
    labels: tuple[Names, ...] = ()
    features: tuple[Names, ...] | None = None  # None: they have only numbers
    text: Names | None = None  # how texts were turned into features
    inputs: tuple[dict[str, Any], ...] = ()  # what it was made of: path, size and how it was read
    notes: Notes = field(default_factory=Notes)

    def write(self, folder: Path, name: str = MANIFEST) -> None:
        from rembrandt import __version__

        facts = {f.name: getattr(self, f.name) for f in fields(self)}
        facts["shards"] = [entry.facts() for entry in self.shards]
        for kind in ("labels", "features"):
            facts[kind] = None if facts[kind] is None else [asdict(piece) for piece in facts[kind]]
        facts["text"] = None if self.text is None else asdict(self.text)
        facts["notes"] = asdict(self.notes)
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, "library_version": __version__}
        body = json.dumps(head | facts, indent=1)
        with atomic_file(folder / name) as file:
            file.write(body.encode())

    @classmethod
    def read(cls, folder: Path, name: str = MANIFEST) -> Manifest:
        path = folder / name
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            begun = "the conversion was not finished; give its command again, and it goes on where it was stopped"
            unknown = f"this is no store, it has no {MANIFEST}; make one with rembrandt data convert"
            raise DataError(begun if (folder / PROGRESS).is_file() else unknown, folder) from error
        except (ValueError, OSError) as error:
            raise DataError(
                f"it cannot be read as JSON ({error}); the store is damaged, convert the data again", path
            ) from error
        if not isinstance(facts, dict) or facts.pop("format", None) != FORMAT:
            raise DataError(f"it does not describe a {FORMAT}; check the path", path)
        version, library = facts.pop("format_version", None), facts.pop("library_version", None)
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise DataError(
                f"it has format version {version}, and this library reads up to {FORMAT_VERSION}; install Rembrandt "
                f"{library} or newer, or convert the data again",
                path,
            )
        if version != FORMAT_VERSION:
            raise DataError(
                f"it has format version {version}, which this library no longer reads; convert the data again", path
            )
        shards = tuple(Entry.of(entry, path) for entry in _list(facts.get("shards"), path))
        try:
            manifest = cls(
                **facts
                | {
                    "shards": shards,
                    "labels": tuple(Names(**piece) for piece in facts["labels"]),
                    "features": None if facts["features"] is None else tuple(Names(**p) for p in facts["features"]),
                    "text": None if facts["text"] is None else Names(**facts["text"]),
                    "inputs": tuple(facts["inputs"]),
                    "notes": Notes(**facts["notes"]),
                }
            )
            pieces = [*manifest.labels, *(manifest.features or ()), *([manifest.text] if manifest.text else [])]
            plain = all(Path(piece.file).name == piece.file and piece.count >= 0 for piece in pieces)
            wide = all(entry.d <= manifest.n_features and entry.c <= manifest.n_labels for entry in shards)
            whole = 0 <= manifest.n_features < 1 << 31 and 0 <= manifest.n_labels < 1 << 31
            sound = plain and wide and whole and sum(p.count for p in manifest.labels) == manifest.n_labels
        except (TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"something that every store has is missing from it ({error}); convert again", path
            ) from error
        if not sound:
            raise DataError("its numbers contradict each other; the store is damaged, convert the data again", path)
        return manifest


class Store:
    """A store, opened for reading.

    ``verify=False`` skips the check sums: for a large store on a disk that is trusted.
    """

    def __init__(self, path: str | Path, verify: bool = True) -> None:
        self.path = Path(path)
        self.manifest = Manifest.read(self.path)
        if not self.manifest.shards:
            raise DataError("there are no examples in it; convert data with at least one", self.path)
        self.verify = verify
        self.shards = [MappedShard(self.path / entry.file, entry, verify) for entry in self.manifest.shards]
        missing = next((shard.path for shard in self.shards if not shard.path.is_file()), None)
        if missing is not None:
            raise DataError(
                "the store says there is such a shard, but it is missing; restore it, or convert again", missing
            )

    @property
    def n(self) -> int:
        return sum(entry.n for entry in self.manifest.shards)

    @property
    def d(self) -> int:
        return self.manifest.n_features

    @property
    def c(self) -> int:
        return self.manifest.n_labels

    @property
    def nonzeros(self) -> int:
        """Of X and Y together."""
        return sum(sum(entry.nonzeros) for entry in self.manifest.shards)

    @cached_property
    def label_names(self) -> list[str]:
        return read_names(self.path, self.manifest.labels)

    @cached_property
    def feature_names(self) -> list[str] | None:
        return None if self.manifest.features is None else read_names(self.path, self.manifest.features)

    @cached_property
    def text(self) -> TextFeatures | None:
        """What turned texts into the store's features, to do the same with others."""
        return None if self.manifest.text is None else read_text_features(self.path, self.manifest.text)

    def dataset(self) -> Dataset:
        """The store as a dataset whose rows stay on the disk until they are asked for; its labels are in memory."""
        rows: Any = StoredRows(self)
        return Dataset(
            self.labels(),
            rows,
            None,
            self.label_names,
            self.feature_names,
            self.manifest.task,
            self.manifest.notes,
            self.weights(),
        )

    def labels(self) -> sp.csr_array:
        """All of Y."""
        parts = []
        for shard in self.shards:
            parts.append(shard.rows(self.d, self.c).Y.copy())
            shard.release()
        return sp.csr_array(sp.vstack(parts, format="csr"))

    def weights(self) -> Any:
        if not any(entry.has_weights for entry in self.manifest.shards):
            return None
        found = [shard.rows(self.d, self.c).weights for shard in self.shards]
        return np.concatenate(
            [np.ones(s.entry.n, np.float32) if w is None else w for s, w in zip(self.shards, found, strict=True)]
        )


def is_store(path: str | Path) -> bool:
    """Whether there is a store, or the beginning of one, at this path."""
    return any((Path(path) / name).is_file() for name in (MANIFEST, PROGRESS))


def write_names(folder: Path, file: str, names: Any, count: int) -> Names:
    """A piece of names, or anything else that JSON holds, in a file of its own."""
    body = json.dumps(names, ensure_ascii=True).encode()
    with atomic_file(folder / file) as out:
        out.write(body)
    return Names(file, count, hashlib.sha256(body).hexdigest())


def read_names(folder: Path, pieces: tuple[Names, ...]) -> list[str]:
    names: list[str] = []
    for piece in pieces:
        found = _json(folder, piece)
        if not isinstance(found, list) or len(found) != piece.count or not {*map(type, found)} <= {str}:
            raise DataError(f"it does not hold {piece.count:,} names; {_REMEDY}", folder / piece.file)
        names += found
    if len(set(names)) != len(names):
        raise DataError(f"names of labels or features occur twice in it; {_REMEDY}", folder)
    return names


def read_text_features(folder: Path, piece: Names) -> TextFeatures:
    from rembrandt.features.text import TextFeatures
    from rembrandt.storage.arrays import pack_strings

    facts = _json(folder, piece)
    try:
        arrays = pack_strings("terms", facts["terms"]) | {"idf": np.array(facts["idf"], np.float32)}
        return TextFeatures.from_arrays(arrays, facts["config"])
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise DataError(
            f"it does not say how texts become features ({error}); {_REMEDY}", folder / piece.file
        ) from error


def write_text_features(folder: Path, text: TextFeatures) -> Names:
    hashed = text.weighting == "hashed"
    terms = [] if hashed else text.get_feature_names_out().tolist()
    facts = {"config": text.to_config(), "terms": terms, "idf": [] if hashed else text.idf_.tolist()}
    return write_names(folder, "text.json", facts, len(terms))


def _json(folder: Path, piece: Names) -> Any:
    path = folder / piece.file
    try:
        body = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"the store says there is such a file, but it cannot be read ({error}); {_REMEDY}", path
        ) from error
    if hashlib.sha256(body).hexdigest() != piece.sha256:
        raise DataError(f"its contents do not match their checksum; {_REMEDY}", path)
    return json.loads(body)


_REMEDY = "restore the file, or convert the data again"


def _list(value: Any, path: Path) -> list[Any]:
    if not isinstance(value, list):
        raise DataError("it lists no shards; the store is damaged, convert the data again", path)
    return value


def added(first: Notes, second: Notes) -> Notes:
    """The counts of both."""
    return replace(first, **{f.name: getattr(first, f.name) + getattr(second, f.name) for f in fields(Notes)})
